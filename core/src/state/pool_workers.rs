//! What an operator says of a pool: its worker ids, and those that programs use without a lease.

use serde::{Deserialize, Serialize};

use crate::snowflake::WorkerPool;

/// The worker ids of a pool.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(test, derive(Hash))]
pub struct PoolWorkers {
    /// All of them.
    pub workers: WorkerPool,
    /// Those that programs use without a lease, if there are any.
    pub taken: Option<WorkerPool>,
}

impl PoolWorkers {
    pub(super) fn is_taken(&self, worker_id: u16) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.contains(worker_id))
    }

    pub(super) fn may_lease(&self, worker_id: u16) -> bool {
        self.workers.contains(worker_id) && !self.is_taken(worker_id)
    }

    /// Whether the taken ones belong to the pool.
    pub(super) fn is_sound(&self) -> bool {
        self.taken.iter().flat_map(WorkerPool::worker_ids).all(|id| self.workers.contains(id))
    }
}
