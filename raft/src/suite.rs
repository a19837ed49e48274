//! openraft's own storage suite, over the sled engine.

use std::io::{Read, Write};
use std::sync::Arc;

use mintleaf_storage::{DataDir, SledEngine, Snapshots};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{LeaderId, StorageError};
use tempfile::TempDir;

use crate::coverage::{Coverage, CoverageReader};
use crate::local::Local;
use crate::machine::Machine;
use crate::store::LogStore;
use crate::tests::{ELECTION_MAX, StoppedClock, first_release};
use crate::types::{RaftLogId, Types};
use crate::{FrozenState, Newer, Rejected, Release, RestoreError, StateMachine};

/// A state that is nothing; the suite writes none.
struct Nothing;

impl StateMachine for Nothing {
    fn check(&self, _command: &[u8]) -> Result<(), Rejected> {
        Ok(())
    }

    fn supports(&self) -> Release {
        first_release()
    }

    fn needs(&self) -> Release {
        first_release()
    }

    fn raising(&self, to: u32) -> Vec<u8> {
        unreachable!("nobody supports level {to}")
    }

    fn apply(&self, _now_ms: u64, command: &[u8]) -> Result<Vec<u8>, Newer> {
        Ok(command.to_vec())
    }

    fn freeze(&self) -> FrozenState {
        Box::new(|out: &mut dyn Write| out.write_all(b"nothing"))
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut state = String::new();
        from.read_to_string(&mut state)?;
        assert_eq!(state, "nothing");
        Ok(())
    }
}

/// The suite purges what no snapshot holds.
pub(crate) fn everything_covered() -> CoverageReader {
    let coverage = Coverage::default();
    coverage.begin_at(Some(RaftLogId::new(LeaderId::new(u64::MAX, u64::MAX), u64::MAX)));
    coverage.reader()
}

pub(crate) struct Builder;

impl StoreBuilder<Types, LogStore, Machine, (TempDir, DataDir)> for Builder {
    async fn build(&self) -> Result<((TempDir, DataDir), LogStore, Machine), StorageError<u64>> {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let engine = Arc::new(SledEngine::open(&dir).unwrap());
        let log = LogStore::start(engine, everything_covered()).unwrap();
        let snapshots = Arc::new(Snapshots::open(&dir).unwrap());
        let local =
            Local::load(1, 7, 1, log.clone(), Arc::new(StoppedClock), ELECTION_MAX).unwrap();
        let machine =
            Machine::open(Arc::new(Nothing), snapshots, Coverage::default(), Arc::new(local));
        Ok(((temp, dir), log, machine.unwrap()))
    }
}

#[test]
fn openraft_accepts_the_storage() {
    Suite::test_all(Builder).unwrap();
}
