//! Sends a leader's new entries to its followers while its own disk is still writing them (Raft thesis, 10.2.1).
//!
//! openraft replicates entries only once they are on the leader's disk, so a commit would take two syncs in a row: the
//! leader's, and then a follower's. This module sends a follower openraft's next message one sync earlier. When
//! openraft gets to that message, the answer has arrived or is on its way, and this node sends nothing twice.
//!
//! openraft still counts this node towards a quorum only after this node's own sync, and a follower only once it gets
//! the follower's answer. But a follower may hold entries that the leader loses in a power cut. Two entries must not
//! have the same term and index, so a leader that restarts never leads again in the same term: see
//! `LogStore::without_leadership`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use parking_lot::Mutex;

use super::follower::{Follower, Reached};
use crate::raft_storage::LogObserver;
use crate::runtime::Spawner;
use crate::types::{RaftEntry, RaftLogId, RaftVote};

/// The followers of this node, and the end of this node's log.
pub(crate) struct EarlyAppends {
    node_id: u64,
    followers: Mutex<BTreeMap<u64, Weak<Follower>>>,
    log: Mutex<LogEnd>,
    vote: Mutex<RaftVote>,
}

#[derive(Clone, Copy, Default)]
struct LogEnd {
    last: Option<RaftLogId>,
    committed: Option<RaftLogId>,
}

impl EarlyAppends {
    pub(crate) fn new(node_id: u64) -> Self {
        let (followers, log, vote) = Default::default();
        Self { node_id, followers, log, vote }
    }

    /// Whether this node has given no other vote since it stood for election with this one, so that what it has read
    /// from its log is the log of that leadership.
    pub(super) fn is_latest(&self, vote: RaftVote) -> bool {
        self.vote.lock().leader_id == vote.leader_id
    }

    /// Adds a follower that has accepted entries, in place of an earlier one with the same id.
    pub(super) fn add(&self, id: u64, follower: &Arc<Follower>) {
        let mut followers = self.followers.lock();
        followers.retain(|_, follower| follower.strong_count() > 0);
        followers.insert(id, Arc::downgrade(follower));
    }

    /// How far a follower's log equals this leader's, according to answers that openraft may not have got yet.
    pub(crate) fn reached(&self, id: u64, vote: RaftVote) -> Option<RaftLogId> {
        let follower = self.followers.lock().get(&id).and_then(Weak::upgrade);
        follower.and_then(|follower| follower.reached().under(vote))
    }

    /// Sends the entries after `prev` to each follower whose log ends with `prev`, unless other entries are on their way
    /// to it.
    fn send(&self, prev: RaftLogId, entries: &[RaftEntry], committed: Option<RaftLogId>) {
        let vote = RaftVote { leader_id: prev.leader_id, committed: true };
        for follower in self.followers.lock().values().filter_map(Weak::upgrade) {
            let Ok(turn) = Arc::clone(&follower.turn).try_lock_owned() else { continue };
            if follower.reached().under(vote) != Some(prev) {
                continue;
            }
            let message = AppendEntriesRequest {
                vote,
                prev_log_id: Some(prev),
                leader_commit: committed,
                entries: entries.to_vec(),
            };
            Spawner::current().spawn(async move {
                let then = Reached::by(&message);
                // After any other answer, openraft sends the message again and deals with its answer.
                if let Ok(AppendEntriesResponse::Success) = follower.append(message).await {
                    follower.has_reached(then);
                }
                drop(turn);
            });
        }
    }
}

impl LogObserver for EarlyAppends {
    fn voted(&self, vote: RaftVote) {
        *self.vote.lock() = vote;
    }

    fn appended(&self, entries: &[RaftEntry]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let LogEnd { last: prev, committed } = {
            let mut log = self.log.lock();
            let before = *log;
            log.last = Some(last.log_id);
            before
        };
        // Only an entry that this node wrote in the same term is certain to precede the first.
        let follows = |prev: &RaftLogId| {
            prev.leader_id == first.log_id.leader_id
                && prev.leader_id.node_id == self.node_id
                && prev.index + 1 == first.log_id.index
        };
        if let Some(prev) = prev.filter(follows) {
            self.send(prev, entries, committed);
        }
    }

    fn committed(&self, log_id: RaftLogId) {
        self.log.lock().committed = Some(log_id);
    }
}
