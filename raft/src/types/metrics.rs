//! How openraft's metrics are read.

use std::cell::Cell;

use openraft::ServerState;
use openraft::metrics::RaftServerMetrics;
use tokio::sync::watch;

use super::raft_types::Member;

/// The metrics that openraft publishes.
pub(crate) type RaftMetrics = openraft::RaftMetrics<u64, Member>;

/// Metrics that name a leader.
pub(crate) trait NamesLeader {
    /// The leader as far as the node knows. openraft names the node that the last committed vote is for. A leader
    /// that was removed from the voters is named and does not lead.
    fn leader(&self) -> Option<u64>;
}

impl NamesLeader for RaftMetrics {
    fn leader(&self) -> Option<u64> {
        unless_mistaken(self.current_leader, self.id, self.state)
    }
}

impl NamesLeader for RaftServerMetrics<u64, Member> {
    fn leader(&self) -> Option<u64> {
        unless_mistaken(self.current_leader, self.id, self.state)
    }
}

fn unless_mistaken(named: Option<u64>, me: u64, state: ServerState) -> Option<u64> {
    named.filter(|&leader| leader != me || state != ServerState::Learner)
}

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Reads the latest metrics under their lock. `read` must neither wait nor read metrics again. The lock lets no
/// reader pass a waiting writer, so a nested read and openraft's core, which writes, would wait for each other for
/// ever. A debug build panics on a nested read.
pub(crate) fn read_metrics<R>(
    metrics: &watch::Receiver<RaftMetrics>,
    read: impl FnOnce(&RaftMetrics) -> R,
) -> R {
    let _reading = Reading::begin();
    read(&metrics.borrow())
}

/// Marks this thread as reading metrics until it is dropped.
struct Reading;

impl Reading {
    fn begin() -> Self {
        if cfg!(debug_assertions) {
            assert!(!READING.replace(true), "metrics are read within a read of metrics");
        }
        Self
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_restarts_with_its_own_vote_leads_only_as_a_voter() {
        let mut metrics = RaftMetrics::new_initial(1);
        metrics.current_leader = Some(1);
        metrics.state = ServerState::Learner;
        assert_eq!(metrics.leader(), None);
        // After openraft has ended, only one of the two kinds of metrics shows it. They must not contradict each other.
        for state in [ServerState::Leader, ServerState::Shutdown] {
            metrics.state = state;
            assert_eq!(metrics.leader(), Some(1));
        }
        (metrics.current_leader, metrics.state) = (Some(2), ServerState::Follower);
        assert_eq!(metrics.leader(), Some(2));
    }

    #[test]
    #[should_panic(expected = "within a read")]
    fn a_read_within_a_read_is_found_though_no_writer_waits() {
        let (_sender, metrics) = watch::channel(RaftMetrics::new_initial(1));
        read_metrics(&metrics, |_| read_metrics(&metrics, |now| now.current_term));
    }
}
