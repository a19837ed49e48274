//! Which messages that only announce a commit are held back.

use openraft::raft::AppendEntriesRequest;

use crate::types::{RaftLogId, Types};

/// What a member knows of the commit index, through one connection.
///
/// openraft sends every follower a separate message whenever an entry is committed. These are half of all messages,
/// and no task waits for them: the leader answers the proposer, a linearizable read asks the leader, and both the
/// next entries and the next heartbeat carry the index. So such a message is held back once. If openraft sends it
/// again, it goes out.
#[derive(Default)]
pub(super) struct CommitNotice {
    /// The newest commit index that arrived; `None` before the first message arrives.
    told: Option<Option<RaftLogId>>,
    held_back: Option<RaftLogId>,
}

impl CommitNotice {
    /// Whether a message only announces that more is committed, and is the first one to do so.
    pub(super) fn can_wait(&mut self, message: &AppendEntriesRequest<Types>) -> bool {
        let committed = message.leader_commit;
        let is_notice = self.told.is_some_and(|told| told < committed);
        let can_wait = message.entries.is_empty() && is_notice && self.held_back != committed;
        if can_wait {
            self.held_back = committed;
        }
        can_wait
    }

    /// Records that a message with this commit index arrived.
    pub(super) fn arrived(&mut self, committed: Option<RaftLogId>) {
        self.told = Some(committed);
    }
}

/// The error that openraft gets for a message that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("held back: the next message says so, too")]
pub(super) struct HeldBack;

#[cfg(test)]
mod tests {
    use openraft::{Entry, EntryPayload, LeaderId, Vote};

    use super::*;

    fn log_id(index: u64) -> RaftLogId {
        RaftLogId::new(LeaderId::new(1, 1), index)
    }

    fn message(committed: u64, entries: u64) -> AppendEntriesRequest<Types> {
        let blank = |index| Entry { log_id: log_id(index), payload: EntryPayload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: Some(log_id(committed)),
            entries: (1..=entries).map(|after| blank(committed + after)).collect(),
            leader_commit: Some(log_id(committed)),
        }
    }

    #[test]
    fn a_notice_of_a_commit_waits_for_the_next_message_and_then_goes_out() {
        let mut notice = CommitNotice { told: Some(Some(log_id(5))), held_back: None };
        assert!(notice.can_wait(&message(6, 0)));
        assert!(!notice.can_wait(&message(6, 0)), "the heartbeat after it");
        assert!(notice.can_wait(&message(7, 0)));
        assert!(!notice.can_wait(&message(7, 1)), "entries");
    }

    #[test]
    fn heartbeats_without_a_new_commit_and_first_messages_never_wait() {
        let mut notice = CommitNotice { told: Some(Some(log_id(5))), held_back: None };
        assert!(!notice.can_wait(&message(5, 0)));
        let first = CommitNotice::default().can_wait(&message(5, 0));
        assert!(!first, "a read asks on a connection of its own");
    }
}
