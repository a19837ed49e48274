//! What a node does with requests from its peers.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::Membership;
use openraft::entry::RaftPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, VoteRequest,
};
use tokio::time::Instant;

use crate::error::{ProposeError, Retry};
use crate::guard::{self, Header, Identity, Kind, Refusal};
use crate::node::Inner;
use crate::transport::{Inbox, Request, Response, Unproposed};
use crate::types::{Member, RaftEntry, RaftLogId, RaftVote, Types};

/// Longest wait that a peer may ask for.
const WITHIN_MAX: Duration = Duration::from_secs(10);

impl Inbox for Inner {
    fn identity(&self) -> Identity {
        self.local.identity()
    }

    fn clock_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    async fn handle(
        self: Arc<Self>,
        header: Option<Header>,
        request: Request,
    ) -> Result<Response, Refusal> {
        if let Some(header) = &header {
            self.local.admit(header, kind(&request)).await?;
            if relies_on_memory(&request) {
                self.local.check_vouched(&header.from)?;
            }
            if self.local.knows(header.from.node_id, header.from.store) {
                self.client.reach().heard(header.from.node_id);
                self.local.clocks().read(header.from.node_id, header.clock_ms);
            }
            if let Some(median_ms) = header.median_ms {
                self.local.clocks().read_median(median_ms);
            }
        }
        let sender = header.as_ref().map(|header| header.from.node_id);
        match request {
            Request::Append(rpc) => self.append_from(sender, rpc).await,
            Request::Vote { rpc, handed_over_by } => {
                self.vote_for(sender, rpc, handed_over_by).await
            }
            Request::PreVote { last } => Ok(self.pre_vote(last)),
            Request::Snapshot(rpc) => self.install_from(sender, rpc).await,
            Request::Propose { commands, within_ms } => {
                self.check_proposer(header.as_ref())?;
                Ok(Response::Proposed(self.propose_for_peer(commands, within_ms).await))
            }
            Request::ReadIndex => Ok(Response::ReadIndex(self.read_index_as_leader().await)),
            Request::Hello(hello) => self.introduce(&hello).map(Response::Hello),
            Request::Change(change) => {
                // Who tells its new addresses takes itself for a member, and may have been removed.
                if let (Some(header), true) = (&header, change.is_from_member()) {
                    guard::check_member(&self.local.members(), &header.from)?;
                }
                self.change_for_peer(change).await
            }
            Request::Supports => Ok(Response::Supports(self.state.supports())),
            Request::TakeOver { from } => {
                self.take_over(sender, from).await.map(|()| Response::Done)
            }
            Request::Farewell { members_index } => {
                // One that comes late, after the node was taken in again, is history.
                if self.local.identity().members_index < Some(members_index) {
                    self.local.stop_as_removed(members_index).await;
                }
                Ok(Response::Done)
            }
            Request::Return { vote, last_log_index } => {
                let Some(header) = header else { return Err(failed("nobody returns")) };
                self.welcome_back(&header.from, &vote, last_log_index)?;
                Ok(Response::Done)
            }
            Request::Ping => Ok(Response::Done),
            Request::Vouch { seen } => {
                let Some(header) = header else { return Err(failed("nobody vouches")) };
                self.local.note(Some(seen), &header.from).await?;
                Ok(Response::Done)
            }
            Request::Bind(offer) => self.bind_for_coordinator(header.as_ref(), offer).await,
            Request::Release { cluster } => {
                let Some(header) = header else { return Err(failed("nobody releases")) };
                self.local.release(cluster, header.from.store).await?;
                Ok(Response::Done)
            }
        }
    }
}

impl Inner {
    async fn append_from(
        &self,
        sender: Option<u64>,
        rpc: AppendEntriesRequest<Types>,
    ) -> Result<Response, Refusal> {
        let (prev, entries) = (rpc.prev_log_id, &rpc.entries);
        let last = entries.last().map(|entry| entry.log_id).max(prev);
        check_leads(sender, &rpc.vote, last)?;
        check_order(prev, entries)?;
        entries.iter().filter_map(RaftPayload::get_membership).try_for_each(check_members)?;
        check_history(rpc.leader_commit, prev, entries)?;
        self.check_against_committed(&rpc.vote, rpc.leader_commit.min(last), prev, entries)?;
        self.hear_leader(&rpc.vote);
        let answered = self.raft.append_entries(rpc).await.map_err(failed)?;
        // It may have taken as long as a sync takes, and the leader waited for it.
        if !matches!(answered, AppendEntriesResponse::HigherVote(_)) {
            self.local.contact().heard_leader(Instant::now());
        }
        Ok(Response::Append(answered))
    }

    /// Counts a message of the leader against its silence, unless a later one is known.
    fn hear_leader(&self, leader: &RaftVote) {
        if *leader >= self.raft.metrics().borrow().vote {
            self.local.contact().heard_leader(Instant::now());
        }
    }

    /// Votes, unless a leader is alive that this node follows or is. Its voters asked before they
    /// consented, so this is about a leader that has been heard again since. A leader that hands
    /// over asks for the vote itself.
    async fn vote_for(
        &self,
        sender: Option<u64>,
        rpc: VoteRequest<u64>,
        handed_over_by: Option<RaftVote>,
    ) -> Result<Response, Refusal> {
        if Some(rpc.vote.leader_id.node_id) != sender {
            return Err(failed("the vote asked for is not the sender's"));
        }
        if !self.is_handed_over(handed_over_by) && !self.would_elect_another() {
            return Err(failed("a leader is alive"));
        }
        let answer = self.raft.vote(rpc).await.map_err(failed)?;
        if answer.vote_granted {
            self.local.contact().voted(Instant::now());
        }
        Ok(Response::Vote(answer))
    }

    async fn install_from(
        &self,
        sender: Option<u64>,
        rpc: InstallSnapshotRequest<Types>,
    ) -> Result<Response, Refusal> {
        let reach = rpc.meta.last_log_id;
        check_leads(sender, &rpc.vote, reach)?;
        if reach.is_some() {
            check_members(rpc.meta.last_membership.membership())?;
        }
        self.check_against_committed(&rpc.vote, reach, reach, &[])?;
        self.hear_leader(&rpc.vote);
        self.raft.install_snapshot(rpc).await.map(Response::Snapshot).map_err(failed)
    }

    /// Refuses a log that differs from what this node holds for committed, and notes what the sender
    /// says is. openraft itself knows later: it commits when the entries are in its log.
    fn check_against_committed(
        &self,
        vote: &RaftVote,
        committed: Option<RaftLogId>,
        prev: Option<RaftLogId>,
        entries: &[RaftEntry],
    ) -> Result<(), Refusal> {
        let (applied, own_vote) = {
            let metrics = self.raft.metrics();
            let now = metrics.borrow();
            (now.last_applied, now.vote)
        };
        let mut known = self.known_committed.lock();
        // A leader that was deposed may well hold what is committed nowhere: openraft tells it so. This
        // node's own vote is seen late, while openraft takes in what the next leader said first.
        if *vote < own_vote || *vote < known.told_by {
            return Ok(());
        }
        known.log_id = applied.max(known.log_id);
        check_history(known.log_id, prev, entries)?;
        known.told_by = *vote;
        known.log_id = committed.max(known.log_id);
        Ok(())
    }

    async fn propose_for_peer(
        &self,
        commands: Vec<Vec<u8>>,
        within_ms: u64,
    ) -> Result<Vec<Vec<u8>>, Unproposed> {
        if self.leader() != Some(self.local.node_id()) {
            return Err(Unproposed::NotAppended);
        }
        let deadline = Instant::now() + Duration::from_millis(within_ms).min(WITHIN_MAX);
        let commands = self.let_in(commands, deadline).await?;
        let proposed = self.propose(commands, Retry::Never, deadline, true).await;
        proposed.map_err(|error| match error {
            ProposeError::Unavailable(_) | ProposeError::Rejected(_) => Unproposed::NotAppended,
            ProposeError::Unknown(_) => Unproposed::Unknown,
            ProposeError::Overloaded => Unproposed::Overloaded,
        })
    }

    /// Refuses proposals of who is no member. The leader's membership is the newest there is, and nobody
    /// learns who leads before that membership holds him.
    fn check_proposer(&self, header: Option<&Header>) -> Result<(), Refusal> {
        let is_member = |from: &Identity| {
            self.member(from.node_id).is_some_and(|member| member.store == from.store)
        };
        match header {
            Some(header) if is_member(&header.from) => Ok(()),
            _ => Err(failed("only a member's proposals are let in")),
        }
    }

    // A newcomer asks whom it knows; only that first request may be sent on.
    async fn change_for_peer(
        self: &Arc<Self>,
        change: crate::members::Change,
    ) -> Result<Response, Refusal> {
        let leads = self.leader() == Some(self.local.node_id());
        let outcome = if leads || !change.is_from_newcomer() {
            self.change_as_leader(change).await
        } else {
            self.change_now(change).await
        };
        Ok(Response::Changed(outcome))
    }
}

fn kind(request: &Request) -> Kind {
    match request {
        Request::Vote { .. } | Request::PreVote { .. } => Kind::Vote,
        Request::Bind(_) | Request::Release { .. } => Kind::Forming,
        _ => Kind::Other,
    }
}

/// What is committed, as far as this node has heard.
#[derive(Default)]
pub(crate) struct Committed {
    /// The latest leader that agreed with it.
    told_by: RaftVote,
    /// The last entry that a leader has said is committed, or that was applied.
    log_id: Option<RaftLogId>,
}

/// Whether a request counts on its sender's remembering what it acknowledged.
fn relies_on_memory(request: &Request) -> bool {
    matches!(
        request,
        Request::Append(_) | Request::Vote { .. } | Request::PreVote { .. } | Request::Snapshot(_)
    )
}

/// Refuses what only a leader sends from one whom no quorum has elected, or whose log is of a later term
/// than its own: as `check_order`.
fn check_leads(
    sender: Option<u64>,
    vote: &RaftVote,
    last: Option<RaftLogId>,
) -> Result<(), Refusal> {
    let elected = vote.is_committed() && Some(vote.leader_id.node_id) == sender;
    let wrote = last.is_none_or(|last| last.leader_id <= vote.leader_id);
    if elected && wrote { Ok(()) } else { Err(failed("the sender does not lead")) }
}

/// Refuses entries that no log holds in this order: openraft relies on it, and panics otherwise.
fn check_order(prev: Option<RaftLogId>, entries: &[RaftEntry]) -> Result<(), Refusal> {
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

/// Refuses a membership that no leader makes, with a voter nobody knows or without voters: as `check_order`.
fn check_members(members: &Membership<u64, Member>) -> Result<(), Refusal> {
    let configs = members.get_joint_config();
    let is_known = |id: &u64| members.get_node(id).is_some();
    let fits = |voters: &BTreeSet<u64>| !voters.is_empty() && voters.iter().all(is_known);
    let is_whole = !configs.is_empty() && configs.iter().all(fits);
    if is_whole { Ok(()) } else { Err(failed("the membership has voters that are no members")) }
}

/// Refuses a log that differs from what is committed, here or by its sender's own word: a leader has all
/// that ever was, and openraft takes whatever lies below the commit index for equal.
fn check_history(
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
            tracing::error!(%committed, sent = %id, "a leader's log differs from what is committed");
            Err(failed("the log differs from what is committed"))
        }
    }
}

fn failed(error: impl ToString) -> Refusal {
    Refusal::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mintleaf_storage::codec;
    use openraft::{EntryPayload, LeaderId};

    use super::*;

    fn entry(term: u64, index: u64) -> RaftEntry {
        let log_id = RaftLogId::new(LeaderId::new(term, 1), index);
        RaftEntry { log_id, payload: EntryPayload::Blank }
    }

    #[test]
    fn only_who_was_elected_leads() {
        let (elected, last) = (RaftVote::new_committed(3, 1), Some(entry(3, 7).log_id));
        assert_eq!(check_leads(Some(1), &elected, last), Ok(()));
        assert_eq!(check_leads(Some(1), &elected, None), Ok(()));
        assert!(check_leads(Some(1), &RaftVote::new(3, 1), last).is_err());
        assert!(check_leads(Some(2), &elected, last).is_err());
        assert!(check_leads(Some(1), &elected, Some(entry(4, 7).log_id)).is_err());
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
        // As one comes from a peer; openraft itself makes none that is not whole.
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
