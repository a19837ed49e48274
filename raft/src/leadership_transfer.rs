//! The state of a leadership transfer (Raft thesis, 3.10), on the leader that transfers and on the node that
//! takes over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::types::RaftVote;

/// For this long after a node gave leadership away, no leader hands it back just because the node would lead better.
const LEFT_FOR: Duration = Duration::from_secs(60);

/// What the tasks of a node need to know about a transfer of leadership, away from this node or to it.
#[derive(Default)]
pub(crate) struct LeadershipTransfer {
    /// Held while a batch is appended and applied, and while leadership is transferred.
    appends: tokio::sync::Mutex<()>,
    /// Set towards the end of a transfer: no heartbeats are sent, so that the leader lease runs out at the followers.
    heartbeats_paused: AtomicBool,
    /// The vote of the leader that asked this node to take over.
    transferred_by: Mutex<Option<RaftVote>>,
    /// When this node last asked another to take over.
    left: Mutex<Option<Instant>>,
    /// Whether this node is about to stop.
    declined: AtomicBool,
}

impl LeadershipTransfer {
    /// Waits until no transfer and no append is under way, and keeps others from beginning.
    pub(crate) async fn lock_appends(&self) -> MutexGuard<'_, ()> {
        self.appends.lock().await
    }

    /// Keeps transfers from beginning while a batch is appended. Returns `None` while one is under way.
    pub(crate) fn try_lock_appends(&self) -> Option<MutexGuard<'_, ()>> {
        self.appends.try_lock().ok()
    }

    /// Keeps this leader from sending heartbeats until the guard is dropped.
    pub(crate) fn pause_heartbeats(&self) -> HeartbeatPause<'_> {
        self.heartbeats_paused.store(true, Ordering::Relaxed);
        HeartbeatPause(self)
    }

    /// Whether this leader sends no heartbeats at the moment.
    pub(crate) fn heartbeats_are_paused(&self) -> bool {
        self.heartbeats_paused.load(Ordering::Relaxed)
    }

    /// Records that this node asks another to take over.
    pub(crate) fn leave(&self) {
        *self.left.lock() = Some(Instant::now());
    }

    /// Records that this node is about to stop.
    pub(crate) fn decline(&self) {
        self.declined.store(true, Ordering::Relaxed);
    }

    /// Whether this node is about to stop.
    pub(crate) fn has_declined(&self) -> bool {
        self.declined.load(Ordering::Relaxed)
    }

    /// Whether this node gave leadership away lately.
    pub(crate) fn has_left_lately(&self) -> bool {
        self.left.lock().is_some_and(|at| at.elapsed() < LEFT_FOR)
    }

    /// Records the leader that asked this node to take over.
    pub(crate) fn take_over_from(&self, leader: RaftVote) {
        *self.transferred_by.lock() = Some(leader);
    }

    /// The vote of the leader that asked this node to take over, if `term` is the one right after the leader's.
    pub(crate) fn transferred_by(&self, term: u64) -> Option<RaftVote> {
        let by = *self.transferred_by.lock();
        by.filter(|by| by.leader_id.term.checked_add(1) == Some(term))
    }
}

/// Lets heartbeats flow again when dropped, no matter how the transfer ends.
pub(crate) struct HeartbeatPause<'a>(&'a LeadershipTransfer);

impl Drop for HeartbeatPause<'_> {
    fn drop(&mut self) {
        self.0.heartbeats_paused.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_holds_for_the_next_term_only() {
        let transfer = LeadershipTransfer::default();
        let leader = RaftVote::new_committed(6, 2);
        transfer.take_over_from(leader);
        assert_eq!(transfer.transferred_by(7), Some(leader));
        assert_eq!(transfer.transferred_by(8), None);
    }

    #[test]
    fn heartbeats_flow_again_when_a_transfer_ends() {
        let transfer = LeadershipTransfer::default();
        let pause = transfer.pause_heartbeats();
        assert!(transfer.heartbeats_are_paused());
        drop(pause);
        assert!(!transfer.heartbeats_are_paused());
    }
}
