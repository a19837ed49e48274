//! Checks of what a leader sends, before openraft sees it: `TRUST.md`, "Checks of a leader's messages".

use std::cmp::Ordering;
use std::collections::BTreeSet;

use openraft::Membership;

use crate::message::Refusal;
use crate::runtime::SparseLines;
use crate::types::{Member, RaftEntry, RaftLogId, RaftVote};

/// Log lines about logs that differ. A node that is still joining accepts messages from members and strangers alike.
static DIFFERENT_LOGS: SparseLines = SparseLines::each_second();

/// What is committed, as far as this node knows.
#[derive(Default)]
pub(super) struct KnownCommitted {
    /// The vote of the latest leader whose log agreed with it.
    told_by: RaftVote,
    /// The last entry that was applied, or that a leader has reported as committed.
    log_id: Option<RaftLogId>,
}

impl KnownCommitted {
    /// Refuses a log that differs from what this node knows to be committed, and records what the sender reports as
    /// committed. openraft itself knows that only later: it commits when the entries are in its log.
    pub(super) fn check(
        &mut self,
        (applied, own_vote): (Option<RaftLogId>, RaftVote),
        vote: &RaftVote,
        committed: Option<RaftLogId>,
        prev: Option<RaftLogId>,
        entries: &[RaftEntry],
    ) -> Result<(), Refusal> {
        // A leader that was deposed may hold entries that are committed nowhere, and openraft answers it with the
        // higher vote. This node's own vote is behind while openraft processes the next leader's first message.
        if *vote < own_vote || *vote < self.told_by {
            return Ok(());
        }
        self.log_id = applied.max(self.log_id);
        check_history(self.log_id, prev, entries)?;
        self.told_by = *vote;
        self.log_id = committed.max(self.log_id);
        Ok(())
    }
}

/// Refuses messages that only a leader sends if no quorum has elected the sender, or if its log is of a later term
/// than its own.
pub(super) fn check_leads(
    sender: u64,
    vote: &RaftVote,
    last: Option<RaftLogId>,
) -> Result<(), Refusal> {
    let elected = vote.is_committed() && vote.leader_id.node_id == sender;
    let wrote = last.is_none_or(|last| last.leader_id <= vote.leader_id);
    if elected && wrote { Ok(()) } else { Err(failed("the sender does not lead")) }
}

/// Refuses entries that no log holds in this order: openraft relies on the order, and panics otherwise.
pub(super) fn check_order(prev: Option<RaftLogId>, entries: &[RaftEntry]) -> Result<(), Refusal> {
    let mut last = prev;
    for entry in entries {
        let follows = last.map_or(entry.log_id.index == 0, |last| {
            last.index.checked_add(1) == Some(entry.log_id.index)
                && last.leader_id <= entry.log_id.leader_id
        });
        if !follows {
            return Err(failed("the entries are not in order"));
        }
        last = Some(entry.log_id);
    }
    Ok(())
}

/// Refuses a membership that no leader creates: one without voters, or with a voter that is not a member. openraft
/// panics on such a membership, at every start.
pub(super) fn check_members(members: &Membership<u64, Member>) -> Result<(), Refusal> {
    let configs = members.get_joint_config();
    let is_known = |id: &u64| members.get_node(id).is_some();
    let fits = |voters: &BTreeSet<u64>| !voters.is_empty() && voters.iter().all(is_known);
    let is_whole = !configs.is_empty() && configs.iter().all(fits);
    if is_whole { Ok(()) } else { Err(failed("the membership has voters that are no members")) }
}

/// Refuses a log that differs from what is committed, according to this node or to the sender itself. A leader has
/// every entry that was ever committed (Raft paper, 5.4.3: Leader Completeness), and openraft assumes that entries
/// below the commit index are equal without checking.
pub(super) fn check_history(
    committed: Option<RaftLogId>,
    prev: Option<RaftLogId>,
    entries: &[RaftEntry],
) -> Result<(), Refusal> {
    let Some(committed) = committed else { return Ok(()) };
    let differs = |id: &RaftLogId| match id.index.cmp(&committed.index) {
        Ordering::Less => id.leader_id > committed.leader_id,
        Ordering::Equal => *id != committed,
        Ordering::Greater => id.leader_id < committed.leader_id,
    };
    match prev.into_iter().chain(entries.iter().map(|entry| entry.log_id)).find(differs) {
        None => Ok(()),
        Some(id) => {
            if let Some(others) = DIFFERENT_LOGS.take() {
                tracing::error!(%committed, sent = %id, others, "a leader's log differs from what is committed");
            }
            Err(failed("the log differs from what is committed"))
        }
    }
}

fn failed(why: &str) -> Refusal {
    Refusal::Failed(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mintleaf_codec as codec;
    use openraft::{EntryPayload, LeaderId};

    use super::*;

    fn entry(term: u64, index: u64) -> RaftEntry {
        let log_id = RaftLogId::new(LeaderId::new(term, 1), index);
        RaftEntry { log_id, payload: EntryPayload::Blank }
    }

    #[test]
    fn only_an_elected_sender_leads() {
        let (elected, last) = (RaftVote::new_committed(3, 1), Some(entry(3, 7).log_id));
        assert_eq!(check_leads(1, &elected, last), Ok(()));
        assert_eq!(check_leads(1, &elected, None), Ok(()));
        assert!(check_leads(1, &RaftVote::new(3, 1), last).is_err());
        assert!(check_leads(2, &elected, last).is_err());
        assert!(check_leads(1, &elected, Some(entry(4, 7).log_id)).is_err());
    }

    #[test]
    fn entries_that_no_log_holds_in_this_order_are_refused() {
        let prev = Some(entry(2, 7).log_id);
        assert_eq!(check_order(prev, &[entry(2, 8), entry(3, 9)]), Ok(()));
        assert_eq!(check_order(None, &[entry(0, 0), entry(1, 1)]), Ok(()));
        for wrong in [entry(2, 9), entry(2, 7), entry(1, 8), entry(0, 0)] {
            assert!(check_order(prev, &[wrong]).is_err());
        }
        assert!(check_order(None, &[entry(1, 1)]).is_err());
    }

    #[test]
    fn a_membership_with_voters_that_are_no_members_is_refused() {
        let members = |ids: &[u64]| -> BTreeMap<u64, Member> {
            ids.iter().map(|&id| (id, Member::default())).collect()
        };
        // Encoded as if it came from a peer; openraft itself creates only complete ones.
        let check = |configs: &[&[u64]], nodes: &[u64]| {
            let frame = codec::encode(1, &(configs, members(nodes)));
            check_members(&codec::decode(&frame).unwrap().1)
        };
        assert_eq!(check(&[&[1, 2], &[2, 3]], &[1, 2, 3, 4]), Ok(()));
        assert!(check(&[&[1, 2]], &[1]).is_err());
        assert!(check(&[&[1], &[]], &[1]).is_err());
        assert!(check(&[], &[1]).is_err());
    }

    #[test]
    fn a_log_that_differs_from_what_is_committed_is_refused() {
        let committed = Some(entry(3, 7).log_id);
        let check = |sent: RaftEntry| check_history(committed, Some(sent.log_id), &[]);
        for right in [entry(3, 7), entry(2, 6), entry(3, 6), entry(3, 8), entry(4, 8)] {
            assert_eq!(check(right), Ok(()));
        }
        for wrong in [entry(2, 7), entry(4, 7), entry(4, 6), entry(2, 8)] {
            assert!(check_history(committed, None, std::slice::from_ref(&wrong)).is_err());
            assert!(check(wrong).is_err());
        }
        assert_eq!(check_history(None, committed, &[]), Ok(()));
    }
}
