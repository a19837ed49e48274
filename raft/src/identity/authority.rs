//! Who may say what: which node each request must come from.
//!
//! The transport proves which node sends a message. This table defines what that node has to be, and `TRUST.md`
//! ("Who may say what") gives the reasons.

use crate::message::{Change, Origin, Refusal, Request};
use crate::types::{Member, RaftMembership};

/// The kind of node that may make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// Any node that the transport lets in: the request asks who this node is, or says who the sender is.
    Anybody,
    /// A node that asks to be added, on its own behalf; or a member that passes its request on.
    Newcomer { node_id: u64, store: u128 },
    /// A member that announces its own addresses; or a member that passes them on.
    Moved { node_id: u64, store: u128 },
    /// A store that was a member and asks whether it still is. If it is not, the refusal ends it.
    Returning,
    /// A member of this node's membership, or of a newer one. A refusal ends a former member.
    Candidate,
    /// The leader of its term, which need not be a member. This node's membership may be older than the leader's, or
    /// may be one that was never committed and that the leader is about to replace. A leader that commits its own
    /// removal must also be able to finish (Raft paper, 6). The vote in the request decides whether the sender leads
    /// (`rpc_handler`, `check_leads`).
    Leader,
    /// The coordinator of a cluster that has no members yet. The contents of its offer decide whether the sender
    /// coordinates (`two_phase_commit`).
    Coordinator,
    /// A store that this node's membership names.
    Member,
}

impl Speaker {
    /// The kind of node that may make this request.
    pub(crate) fn of(request: &Request) -> Self {
        match request {
            Request::Handshake(_)
            | Request::Ping
            | Request::Heartbeat { lead: None }
            | Request::Supports
            | Request::Describe
            | Request::ConfirmIncarnation { .. } => Self::Anybody,
            Request::Append(_) | Request::Heartbeat { lead: Some(_) } | Request::Snapshot(_) => {
                Self::Leader
            }
            Request::Vote { .. } | Request::PreVote { .. } => Self::Candidate,
            Request::Return { .. } => Self::Returning,
            Request::Prepare(_) | Request::Abort { .. } => Self::Coordinator,
            Request::Propose { .. }
            | Request::ReadIndex
            | Request::Ask { .. }
            | Request::TimeoutNow { .. }
            | Request::Removed { .. }
            | Request::ForceChange(_) => Self::Member,
            Request::Change(change) => Self::of_change(change),
        }
    }

    fn of_change(change: &Change) -> Self {
        match *change {
            Change::Add { id: node_id, store: Some(store), voter: false, ref release, .. } => {
                match release {
                    Some(_) => Self::Newcomer { node_id, store },
                    None => Self::Moved { node_id, store },
                }
            }
            Change::Add { .. }
            | Change::Remove { .. }
            | Change::Transfer { .. }
            | Change::RaiseLevel => Self::Member,
        }
    }

    /// Whether the sender may belong to no cluster that this node knows, because the cluster is still to be formed.
    pub(crate) fn is_of_no_cluster(self) -> bool {
        self == Self::Coordinator
    }

    /// Whether this node relies on what the sender remembers. The sender's incarnation must then be known even if
    /// this node's membership does not name the sender.
    pub(crate) fn is_relied_on(self) -> bool {
        matches!(self, Self::Leader | Self::Candidate | Self::Coordinator)
    }

    /// Refuses a sender that must not make the request, as far as the membership shows.
    pub(crate) fn check(self, members: &RaftMembership, from: &Origin) -> Result<(), Refusal> {
        check_store(members, from)?;
        let is_member = names(members, from.node_id, from.store);
        let is_itself = |node_id, store| (node_id, store) == (from.node_id, from.store);
        match self {
            _ if is_member => Ok(()),
            Self::Anybody | Self::Leader | Self::Coordinator => Ok(()),
            Self::Newcomer { node_id, store } if is_itself(node_id, store) => Ok(()),
            Self::Moved { node_id, store } if is_itself(node_id, store) => {
                check_member(members, from)
            }
            Self::Returning => check_member(members, from),
            Self::Candidate => {
                check_member(members, from)?;
                // A newcomer takes no part in elections.
                if knows_newer(members, from) { Ok(()) } else { Err(only_members()) }
            }
            Self::Newcomer { .. } | Self::Moved { .. } => {
                let why = "a node that is no member asks for itself only";
                Err(Refusal::Failed(why.to_owned()))
            }
            Self::Member => Err(only_members()),
        }
    }
}

/// Refuses a store that the membership names for another node: a data directory keeps its node id for good. A
/// certificate need not name a store, and what is recorded about a store must not come from another node.
fn check_store(members: &RaftMembership, from: &Origin) -> Result<(), Refusal> {
    let of_another =
        |(id, member): (&u64, &Member)| member.store == from.store && *id != from.node_id;
    if members.nodes().any(of_another) {
        return Err(Refusal::Failed("that data directory is another node's".to_owned()));
    }
    Ok(())
}

/// Refuses a sender that this node's membership does not contain, unless the sender knows a newer membership that
/// contains it: it has joined since.
fn check_member(members: &RaftMembership, from: &Origin) -> Result<(), Refusal> {
    let Some(members_index) = members.log_id().map(|id| id.index) else { return Ok(()) };
    match (members.membership().get_node(&from.node_id), from.members_index) {
        (Some(member), _) if member.store == from.store => Ok(()),
        (_, Some(index)) if index > members_index => Ok(()),
        (Some(_), _) => Err(Refusal::Replaced { members_index }),
        (None, Some(_)) => Err(Refusal::Removed { members_index }),
        // As far as it knows, the sender was never a member. It may be joining, and this node may be behind.
        (None, None) => Ok(()),
    }
}

/// Whether the sender knows a newer membership than this one, which contains it. Every sender passes while this node
/// knows no membership: the first candidate of a cluster sends its vote at the very moment when its own membership
/// takes effect, and its header may not show that yet.
fn knows_newer(members: &RaftMembership, from: &Origin) -> bool {
    members.log_id().is_none_or(|id| from.members_index > Some(id.index))
}

/// Whether a membership names this very store under this id.
pub(super) fn names(members: &RaftMembership, node_id: u64, store: u128) -> bool {
    members.membership().get_node(&node_id).is_some_and(|member| member.store == store)
}

fn only_members() -> Refusal {
    Refusal::Failed("only a member of the cluster may ask this".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mintleaf_codec::Blob;
    use openraft::raft::{AppendEntriesRequest, InstallSnapshotRequest, VoteRequest};
    use openraft::{LeaderId, Membership, SnapshotMeta, Vote};

    use super::*;
    use crate::message::{Handshake, Incarnation, Prepare, Prepared, Purpose};
    use crate::tests::first_release;
    use crate::types::RaftLogId;

    const INCARNATION: Incarnation = Incarnation { number: 5, nonce: 55 };
    /// The index of the membership, which names node 2 with store 20.
    const INDEX: u64 = 8;
    const MEMBER: Origin = origin(2, 20, Some(INDEX));
    /// A node that knows of no membership that contains it.
    const STRANGER: Origin = origin(3, 30, None);
    /// A node that claims to have joined by a membership that this node does not know yet.
    const JOINED_SINCE: Origin = origin(3, 30, Some(INDEX + 1));
    /// A store that was a member once.
    const FORMER: Origin = origin(3, 30, Some(INDEX - 1));

    const fn origin(node_id: u64, store: u128, members_index: Option<u64>) -> Origin {
        Origin { node_id, store, incarnation: INCARNATION, members_index }
    }

    fn members() -> RaftMembership {
        let member = |store| Member { store, ..Member::default() };
        let nodes = BTreeMap::from([(1, member(10)), (2, member(20))]);
        let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
        RaftMembership::new(Some(RaftLogId::new(LeaderId::new(1, 1), INDEX)), membership)
    }

    fn add(id: u64, store: Option<u128>, is_new: bool, voter: bool) -> Request {
        let release = is_new.then(first_release);
        let (raft, http) = Default::default();
        Request::Change(Change::Add { id, raft, http, voter, store, release })
    }

    fn append() -> Request {
        let vote = Vote::new_committed(1, 3);
        let (prev_log_id, leader_commit, entries) = Default::default();
        Request::Append(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
    }

    fn snapshot() -> Request {
        let vote = Vote::new_committed(1, 3);
        let meta = SnapshotMeta::default();
        let rpc = InstallSnapshotRequest { vote, meta, offset: 0, data: vec![], done: true };
        Request::Snapshot(rpc)
    }

    fn vote() -> Request {
        let rpc = VoteRequest::new(Vote::new(1, 3), None);
        Request::Vote { rpc, transferred_by: None }
    }

    fn prepare() -> Request {
        let (cluster, store, founders) = (7, 30, String::new());
        let prepared = Prepared { cluster, coordinator: 3, store, founders };
        Request::Prepare(Prepare { prepared, ticket: 1 })
    }

    /// The verdicts on the four senders, in the order of the columns below.
    fn verdicts(request: &Request) -> [bool; 4] {
        let speaker = Speaker::of(request);
        let judge = |from| speaker.check(&members(), &from).is_ok();
        [judge(MEMBER), judge(JOINED_SINCE), judge(STRANGER), judge(FORMER)]
    }

    /// The place of a request's kind in the table. A new kind does not compile until it has one.
    fn kind(request: &Request) -> usize {
        match request {
            Request::Append(_) => 0,
            Request::Vote { .. } => 1,
            Request::PreVote { .. } => 2,
            Request::Snapshot(_) => 3,
            Request::Propose { .. } => 4,
            Request::ReadIndex => 5,
            Request::Handshake(_) => 6,
            Request::Change(_) => 7,
            Request::TimeoutNow { .. } => 8,
            Request::Removed { .. } => 9,
            Request::ConfirmIncarnation { .. } => 10,
            Request::Prepare(_) => 11,
            Request::Abort { .. } => 12,
            Request::Ping => 13,
            Request::Return { .. } => 14,
            Request::Supports => 15,
            Request::Describe => 16,
            Request::Ask { .. } => 17,
            Request::ForceChange(_) => 18,
            Request::Heartbeat { .. } => 19,
        }
    }

    #[test]
    fn every_request_is_heard_from_those_who_may_make_it_and_from_nobody_else() {
        let handshake = Handshake { from: STRANGER, cluster: None, purpose: Purpose::Join };
        let change = Request::Change;
        let (vote_of_leader, last_log_index) = (Vote::new_committed(1, 2), None);
        let returning = Request::Return { vote: Vote::new(1, 3), last_log_index };
        let seen = INCARNATION;
        #[rustfmt::skip]
        let table = [
            //                                                      member joined since stranger former
            (append(),                                                [true, true,  true,  true]),
            (snapshot(),                                              [true, true,  true,  true]),
            (vote(),                                                  [true, true,  false, false]),
            (Request::PreVote { last: None },                         [true, true,  false, false]),
            (Request::Propose { commands: vec![], within_ms: 1 },     [true, false, false, false]),
            (Request::ReadIndex,                                      [true, false, false, false]),
            (Request::Ask { request: Blob::default(), within_ms: 1 }, [true, false, false, false]),
            (Request::TimeoutNow { from: vote_of_leader },            [true, false, false, false]),
            (Request::Removed { members_index: 9 },                   [true, false, false, false]),
            (change(Change::RaiseLevel),                              [true, false, false, false]),
            (change(Change::Transfer { id: 3 }),                      [true, false, false, false]),
            (change(Change::Remove { id: 3, store: 30 }),             [true, false, false, false]),
            (Request::ForceChange(Change::Remove { id: 3, store: 30 }), [true, false, false, false]),
            (add(3, None, false, false),                              [true, false, false, false]),
            (add(4, Some(40), true, false),                           [true, false, false, false]),
            (add(3, Some(31), true, false),                           [true, false, false, false]),
            (add(2, Some(20), false, false),                          [true, false, false, false]),
            (add(3, Some(30), true, true),                            [true, false, false, false]),
            (add(3, Some(30), true, false),                           [true, true,  true,  true]),
            (add(3, Some(30), false, false),                          [true, true,  true,  false]),
            (returning,                                               [true, true,  true,  false]),
            (Request::Handshake(handshake),                           [true, true,  true,  true]),
            (Request::Ping,                                           [true, true,  true,  true]),
            (Request::Heartbeat { lead: None },                       [true, true,  true,  true]),
            (Request::Supports,                                       [true, true,  true,  true]),
            (Request::Describe,                                       [true, true,  true,  true]),
            (Request::ConfirmIncarnation { seen },                    [true, true,  true,  true]),
            (prepare(),                                               [true, true,  true,  true]),
            (Request::Abort { cluster: 7 },                           [true, true,  true,  true]),
        ];
        for (request, expected) in &table {
            assert_eq!(verdicts(request), *expected, "{request:?}");
        }
        let kinds: BTreeSet<usize> = table.iter().map(|(request, _)| kind(request)).collect();
        assert!(kinds.iter().copied().eq(0..20), "a kind is missing: {kinds:?}");
    }

    #[test]
    fn a_refusal_ends_only_a_store_that_was_a_member_and_asks_as_one() {
        let fatal = |request: &Request, from| {
            let judged = Speaker::of(request).check(&members(), &from);
            judged.is_err_and(|refusal| refusal.is_fatal())
        };
        assert!(fatal(&vote(), FORMER) && fatal(&add(3, Some(30), false, false), FORMER));
        assert!(!fatal(&vote(), STRANGER));
        for request in [Request::ReadIndex, Request::Removed { members_index: 9 }] {
            assert!(!fatal(&request, FORMER) && !fatal(&request, STRANGER));
        }
    }

    #[test]
    fn nobody_speaks_with_the_store_of_another_node() {
        let thief = Origin { node_id: 3, ..MEMBER };
        for speaker in [Speaker::Anybody, Speaker::Leader, Speaker::Candidate, Speaker::Member] {
            assert_eq!(speaker.check(&members(), &MEMBER), Ok(()));
            assert!(speaker.check(&members(), &thief).is_err_and(|refusal| !refusal.is_fatal()));
        }
    }

    #[test]
    fn a_node_that_knows_no_membership_yet_hears_the_first_candidate_and_obeys_nobody() {
        let judge = |request: &Request| {
            Speaker::of(request).check(&RaftMembership::default(), &JOINED_SINCE)
        };
        assert_eq!(judge(&vote()), Ok(()));
        assert_eq!(judge(&append()), Ok(()));
        assert!(judge(&Request::Removed { members_index: 9 }).is_err());
    }
}
