//! A replica that reports each step to the judge.

use std::io::{self, Read, Write};
use std::sync::Arc;

use mintleaf::replica::StateReplica;
use mintleaf_raft::{FrozenState, Newer, Rejected, Release, RestoreError, Stamp, StateMachine};
use parking_lot::Mutex;

use super::{Incarnation, Oracle};
use crate::random::fnv;

/// The first bytes of a snapshot that a [`Witness`] wrote. A snapshot from a restore begins with the state.
const WITNESSED: [u8; 8] = *b"witness\n";

/// The number of commands that a replica has applied, and the hash of them all.
type Applied = (usize, u64);

/// Reads the part that a [`Witness`] wrote in front of the state. Also returns the bytes of the state that were read
/// with it. A snapshot without that part is from before the first command.
pub(crate) fn witnessed(from: &mut dyn Read) -> io::Result<(Applied, io::Cursor<Vec<u8>>)> {
    let mut mark = [0; WITNESSED.len()];
    from.read_exact(&mut mark)?;
    if mark != WITNESSED {
        return Ok(((0, 0), io::Cursor::new(mark.to_vec())));
    }
    let (mut position, mut hash) = ([0; 8], [0; 8]);
    from.read_exact(&mut position)?;
    from.read_exact(&mut hash)?;
    let applied = (u64::from_be_bytes(position) as usize, u64::from_be_bytes(hash));
    Ok((applied, io::Cursor::default()))
}

/// A replica that reports each step to the oracle.
pub(crate) struct Witness {
    state: Arc<StateReplica>,
    oracle: Arc<Oracle>,
    incarnation: Incarnation,
    applied: Mutex<Applied>,
}

impl Witness {
    pub(crate) fn new(
        state: Arc<StateReplica>,
        oracle: Arc<Oracle>,
        incarnation: Incarnation,
    ) -> Self {
        Self { state, oracle, incarnation, applied: Mutex::default() }
    }
}

impl StateMachine for Witness {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        self.state.check(command)
    }

    fn supports(&self) -> Release {
        self.state.supports()
    }

    fn needs(&self) -> Release {
        self.state.needs()
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        self.state.raising(to)
    }

    fn apply(&self, stamp: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let reply = self.state.apply(stamp, command)?;
        let now_ms = stamp.now_ms;
        let mut applied = self.applied.lock();
        let (position, hash) = *applied;
        let hash = fnv(fnv(fnv(hash, &now_ms.to_be_bytes()), command), &reply);
        self.oracle.applied(position, hash, now_ms, command, &reply);
        self.oracle.note_frozen(self.incarnation, position, command, &reply);
        *applied = (position + 1, hash);
        Ok(reply)
    }

    fn freeze(&self) -> FrozenState {
        let (position, hash) = *self.applied.lock();
        let state = self.state.freeze();
        Box::new(move |out: &mut dyn Write| {
            out.write_all(&WITNESSED)?;
            out.write_all(&(position as u64).to_be_bytes())?;
            out.write_all(&hash.to_be_bytes())?;
            state(out)
        })
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let (applied, rest) = witnessed(from)?;
        let mut from = rest.chain(from);
        self.oracle.restored(applied.0, applied.1);
        let of_another = |(incarnation, _): &(Incarnation, String), _: &mut usize| {
            *incarnation != self.incarnation
        };
        self.oracle.known.lock().frozen.retain(of_another);
        *self.applied.lock() = applied;
        self.state.restore(&mut from)
    }
}
