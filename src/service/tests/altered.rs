//! A state machine that applies commands differently from the product's own, and otherwise behaves the same.

use std::io::{self, Read};
use std::sync::Arc;

use mintleaf_raft::{FrozenState, Newer, Rejected, Release, RestoreError, Stamp, StateMachine};

use crate::replica::StateReplica;

/// The product's state machine, except that `apply` applies the commands.
pub(super) struct Altered<F> {
    inner: Arc<StateReplica>,
    apply: F,
}

impl<F> Altered<F>
where
    F: Fn(&StateReplica, Stamp, &[u8]) -> Result<Vec<u8>, Newer> + Send + Sync + 'static,
{
    pub(super) fn over(inner: Arc<StateReplica>, apply: F) -> Arc<dyn StateMachine> {
        Arc::new(Self { inner, apply })
    }
}

impl<F> StateMachine for Altered<F>
where
    F: Fn(&StateReplica, Stamp, &[u8]) -> Result<Vec<u8>, Newer> + Send + Sync + 'static,
{
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        self.inner.check(command)
    }

    fn supports(&self) -> Release {
        self.inner.supports()
    }

    fn needs(&self) -> Release {
        self.inner.needs()
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        self.inner.raising(to)
    }

    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        (self.apply)(&self.inner, stamp, command)
    }

    fn freeze(&self) -> FrozenState {
        self.inner.freeze()
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        self.inner.restore(from)
    }
}
