//! Who may speak with whom.
//!
//! Raft trusts that a member keeps what it acknowledged. A data directory that was wiped, copied
//! or restored from an old image breaks that trust without a trace in Raft's own messages, so
//! every message names the cluster, the **store** (one data directory's identity) on both ends,
//! and how often that store was started. A message that does not fit is refused, and a node that
//! learns that its own store is in doubt stops.
//!
//! It learns that from members only: a refusal ends a node when it comes from the store that the
//! membership names, in answer to a message of one cluster. Whoever else listens at an address, by a
//! mix-up or a typo, is told that it is the wrong one and ends nobody.

use std::collections::BTreeMap;
use std::fmt;

use mintleaf_storage::planted;
use serde::{Deserialize, Serialize};

use crate::bond::Bond;
use crate::starts::Start;
use crate::types::RaftMembership;

/// One end of a message, as it describes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) node_id: u64,
    pub(crate) store: u128,
    /// This start of the store.
    pub(crate) start: Start,
    /// Log index of the membership it knows, if that holds this store.
    pub(crate) members_index: Option<u64>,
}

/// Who a message is for, as the sender's membership describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) node_id: u64,
    pub(crate) store: u128,
    /// The latest start of that store the sender has seen.
    pub(crate) start_seen: Option<Start>,
}

/// The head of every message but the hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) cluster: u128,
    pub(crate) from: Identity,
    pub(crate) to: Target,
    /// What the sender's clock shows.
    pub(crate) clock_ms: u64,
    /// The median of the voters' clocks, from the leader only.
    pub(crate) median_ms: Option<u64>,
}

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The receiver belongs to another cluster.
    WrongCluster { ours: u128 },
    /// Another node listens at this address.
    WrongNode { ours: u64 },
    /// The receiver's data directory is not the one that was admitted as a member.
    WrongStore,
    /// A newer membership does not hold the sender.
    Removed { members_index: u64 },
    /// A newer membership holds the sender's id with another data directory.
    Replaced { members_index: u64 },
    /// The sender's store was already seen with a later start.
    StaleStart { seen: u64 },
    /// The receiver's log is shorter than what it acknowledged to the leader.
    LostLog { acknowledged: u64 },
    /// The receiver is not ready for this, or failed at it; says why.
    Failed(String),
    /// Another process was seen on the sender's store. It is heard once it vouches for that start.
    Restarted { seen: Start },
    /// The receiver's data directory is promised to a cluster that is still to be formed.
    Bound { cluster: u128, coordinator: u64, store: u128 },
}

impl Refusal {
    /// Whether the refused node must stop: its own data can not be trusted, or it is no member. Only when
    /// a member says so, in answer to a message with a header.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Removed { .. }
                | Self::Replaced { .. }
                | Self::StaleStart { .. }
                | Self::LostLog { .. }
        )
    }

    /// Whether it says that the refused node's data directory cannot be trusted, ever again.
    pub(crate) fn is_about_data(&self) -> bool {
        matches!(self, Self::StaleStart { .. } | Self::LostLog { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REJOIN: &str =
            "remove the node from the cluster, wipe this directory, and join it again";
        match self {
            Self::WrongCluster { ours } => {
                write!(f, "it belongs to another cluster ({ours:032x}); check --peers and --join")
            }
            Self::WrongNode { ours } => {
                write!(f, "node {ours} listens at this address; check --peers and --raft")
            }
            Self::WrongStore => write!(
                f,
                "its data directory is not the one that joined the cluster; check --data there; if \
                 that one is lost, remove the node from the cluster, and join it again"
            ),
            Self::Removed { .. } => write!(
                f,
                "this node was removed from the cluster; to bring it back, wipe its data \
                 directory and start it with --join"
            ),
            Self::Replaced { .. } => f.write_str(KNOWN_OTHERWISE),
            Self::StaleStart { seen } => write!(
                f,
                "this data directory was restored from an old copy, or a copy of it is in use as well \
                 (it was seen at start {seen}); look for another process of this node first, which \
                 a removal would end; if there is none, {REJOIN}"
            ),
            Self::LostLog { acknowledged } => write!(
                f,
                "this data directory has lost log entries it acknowledged (up to {acknowledged}); \
                 {REJOIN}"
            ),
            Self::Failed(why) => f.write_str(why),
            Self::Restarted { seen } => {
                write!(f, "its data directory was last seen at start {}", seen.number)
            }
            Self::Bound { cluster, coordinator, store } => write!(
                f,
                "it is bound to cluster {cluster:032x}, which node {coordinator} (store \
                 {store:032x}) has not finished forming. It holds no entry and no vote: if that \
                 node's data directory is lost for good, its own may be deleted"
            ),
        }
    }
}

/// What to do where an id and a data directory do not go together. One of the two may be a mistake, so
/// nothing may be deleted for it.
pub(crate) const KNOWN_OTHERWISE: &str = "the cluster knows this node id with another data directory; \
    check --node-id and --data; if that directory is lost, remove the node from the cluster, and join it \
    again with a new one";

/// What a message asks for, as far as the guard cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A candidate asks for a vote.
    Vote,
    /// A coordinator forms a cluster, which nobody belongs to yet.
    Forming,
    /// Anything else between members.
    Other,
}

/// What a node knows when it judges a message.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) me: Identity,
    pub(crate) cluster: Option<u128>,
    /// What it is bound to, while it belongs to no cluster.
    pub(crate) bond: Option<&'a Bond>,
    /// The cluster that those whom it was told to ask belong to, while it belongs to none.
    pub(crate) invited: Option<u128>,
    pub(crate) members: &'a RaftMembership,
    /// Latest start seen, by store.
    pub(crate) starts: &'a BTreeMap<u128, Start>,
}

/// Judges a message from another member.
///
/// Membership is asked of candidates only: a leader may be newer than what we know, or be committing
/// its own removal, and Raft's terms already judge it.
pub(crate) fn admit(view: &View<'_>, header: &Header, kind: Kind) -> Result<(), Refusal> {
    // First: what another cluster calls its nodes and their directories says nothing here.
    if kind != Kind::Forming {
        check_cluster(view, header.cluster)?;
    }
    if header.to.node_id != view.me.node_id {
        return Err(Refusal::WrongNode { ours: view.me.node_id });
    }
    if header.to.store != view.me.store && !planted("wiped-voter-accepted") {
        return Err(Refusal::WrongStore);
    }
    if kind == Kind::Vote {
        check_member(view.members, &header.from)?;
    }
    check_start(view.starts, &header.from)
}

/// Refuses messages of another cluster than this node's own. A node that belongs to none enters the
/// one that it is bound to, or else the one that its operator has led it to, and no other: whoever
/// knows its store could otherwise take it away from those it was started for.
fn check_cluster(view: &View<'_>, cluster: u128) -> Result<(), Refusal> {
    match (view.cluster, view.bond, view.invited) {
        (Some(ours), ..) if ours != cluster => Err(Refusal::WrongCluster { ours }),
        (Some(_), ..) => Ok(()),
        _ if planted("any-cluster-entered") => Ok(()),
        (None, Some(bond), _) if bond.cluster != cluster => Err(bond.refusal()),
        (None, None, invited) if invited != Some(cluster) => {
            let why = "it belongs to no cluster yet, and nobody in its --peers or --join has told \
                       it of this one";
            Err(Refusal::Failed(why.to_owned()))
        }
        (None, ..) => Ok(()),
    }
}

/// Refuses a sender that our membership does not hold, unless it is held by a newer one: then it has
/// joined meanwhile.
pub(crate) fn check_member(members: &RaftMembership, from: &Identity) -> Result<(), Refusal> {
    let Some(members_index) = members.log_id().map(|id| id.index) else { return Ok(()) };
    match (members.membership().get_node(&from.node_id), from.members_index) {
        (Some(member), _) if member.store == from.store => Ok(()),
        (_, Some(index)) if index > members_index => Ok(()),
        (Some(_), _) => Err(Refusal::Replaced { members_index }),
        (None, Some(_)) => Err(Refusal::Removed { members_index }),
        // Never a member as far as it knows: it may be joining, and we behind.
        (None, None) => Ok(()),
    }
}

/// Whether a membership names this very store under this id.
pub(crate) fn names(members: &RaftMembership, node_id: u64, store: u128) -> bool {
    members.membership().get_node(&node_id).is_some_and(|member| member.store == store)
}

/// Refuses a store that was already seen with a later start: an older copy of it is running.
pub(crate) fn check_start(starts: &BTreeMap<u128, Start>, from: &Identity) -> Result<(), Refusal> {
    match starts.get(&from.store) {
        Some(&seen) if from.start.is_stale(seen) => Err(Refusal::StaleStart { seen: seen.number }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openraft::{LeaderId, Membership};

    use super::*;
    use crate::types::{Member, RaftLogId};

    const CLUSTER: u128 = 77;

    fn members(index: u64, stores: &[(u64, u128)]) -> RaftMembership {
        let nodes: BTreeMap<u64, Member> =
            stores.iter().map(|&(id, store)| (id, Member { store, ..Member::default() })).collect();
        let voters = BTreeSet::from_iter(nodes.keys().copied());
        let log_id = RaftLogId::new(LeaderId::new(1, 1), index);
        RaftMembership::new(Some(log_id), Membership::new(vec![voters], nodes))
    }

    fn node(node_id: u64, store: u128, members_index: u64) -> Identity {
        Identity { node_id, store, start: START, members_index: Some(members_index) }
    }

    fn header(from: Identity, to: Target) -> Header {
        Header { cluster: CLUSTER, from, to, clock_ms: 0, median_ms: None }
    }

    /// The view of a node that belongs to no cluster.
    fn new<'a>(
        me: Identity,
        members: &'a RaftMembership,
        starts: &'a BTreeMap<u128, Start>,
    ) -> View<'a> {
        View { me, cluster: None, bond: None, invited: None, members, starts }
    }

    fn judge(members: &RaftMembership, from: Identity, to: Target) -> Result<(), Refusal> {
        let starts = BTreeMap::from([(20, START)]);
        let me = node(1, 10, 8);
        let view = View { cluster: Some(CLUSTER), ..new(me, members, &starts) };
        admit(&view, &header(from, to), Kind::Vote)
    }

    const START: Start = Start { number: 5, nonce: 55 };
    const TO_ME: Target = Target { node_id: 1, store: 10, start_seen: None };

    #[test]
    fn a_member_of_this_cluster_is_heard() {
        assert_eq!(judge(&members(8, &[(1, 10), (2, 20)]), node(2, 20, 8), TO_ME), Ok(()));
    }

    #[test]
    fn a_wiped_receiver_refuses_what_was_meant_for_its_former_store() {
        let to = Target { store: 11, ..TO_ME };
        let refused = judge(&members(8, &[(1, 10), (2, 20)]), node(2, 20, 8), to);
        assert_eq!(refused, Err(Refusal::WrongStore));
    }

    #[test]
    fn a_wiped_sender_is_refused() {
        let fresh = Identity { members_index: None, ..node(2, 21, 0) };
        let refused = judge(&members(8, &[(1, 10), (2, 20)]), fresh, TO_ME);
        assert_eq!(refused, Err(Refusal::Replaced { members_index: 8 }));
        assert!(refused.unwrap_err().is_fatal());
    }

    #[test]
    fn a_removed_sender_is_refused_unless_it_knows_better() {
        let members = members(8, &[(1, 10)]);
        assert_eq!(
            judge(&members, node(2, 20, 7), TO_ME),
            Err(Refusal::Removed { members_index: 8 })
        );
        assert_eq!(judge(&members, node(2, 20, 9), TO_ME), Ok(()));
    }

    #[test]
    fn a_joiner_that_a_lagging_peer_does_not_know_yet_is_not_told_it_was_removed() {
        let joiner = Identity { members_index: None, ..node(4, 40, 0) };
        assert_eq!(check_member(&members(8, &[(1, 10), (2, 20)]), &joiner), Ok(()));
    }

    #[test]
    fn only_a_directory_that_was_refused_itself_is_told_to_be_wiped_and_to_be_removed_first() {
        let members_index = 8;
        for mixed_up in [
            Refusal::WrongCluster { ours: 7 },
            Refusal::WrongNode { ours: 7 },
            Refusal::WrongStore,
            Refusal::Replaced { members_index },
        ] {
            assert!(!mixed_up.to_string().contains("wipe"), "{mixed_up}");
        }
        for refused in [Refusal::StaleStart { seen: 3 }, Refusal::LostLog { acknowledged: 3 }] {
            let text = refused.to_string();
            let removed_first = text.find("remove the node") < text.find("wipe");
            assert!(text.contains("wipe") && removed_first, "{text}");
        }
    }

    #[test]
    fn a_leader_that_commits_its_own_removal_is_heard() {
        let members = members(8, &[(1, 10)]);
        let starts = BTreeMap::new();
        let me = node(1, 10, 8);
        let view = View { cluster: Some(CLUSTER), ..new(me, &members, &starts) };
        let header = header(node(2, 20, 8), TO_ME);
        assert_eq!(admit(&view, &header, Kind::Other), Ok(()));
        assert!(admit(&view, &header, Kind::Vote).is_err());
    }

    #[test]
    fn a_node_without_a_cluster_enters_only_the_one_that_it_is_bound_or_led_to() {
        let (members, starts) = (RaftMembership::default(), BTreeMap::new());
        let unknown = new(node(1, 10, 8), &members, &starts);
        let bond = |cluster| Bond { cluster, coordinator: 2, store: 20, founders: String::new() };
        let (ours, theirs) = (bond(CLUSTER), bond(78));
        let header = header(node(2, 20, 8), TO_ME);
        for kind in [Kind::Vote, Kind::Other] {
            let judge = |bond, invited| admit(&View { bond, invited, ..unknown }, &header, kind);
            assert_eq!(judge(Some(&ours), None), Ok(()));
            assert_eq!(judge(Some(&theirs), Some(CLUSTER)), Err(theirs.refusal()));
            assert_eq!(judge(None, Some(CLUSTER)), Ok(()));
            for stranger in [None, Some(78)] {
                let refused = judge(None, stranger).unwrap_err();
                assert!(!refused.is_fatal() && refused.to_string().contains("no cluster yet"));
            }
        }
        assert_eq!(admit(&unknown, &header, Kind::Forming), Ok(()), "judged by what it offers");
    }

    #[test]
    fn an_older_start_of_a_store_is_refused() {
        let members = members(8, &[(1, 10), (2, 20)]);
        for stale in [Start { number: 4, nonce: 44 }, Start { number: 5, nonce: 56 }] {
            let restored = Identity { start: stale, ..node(2, 20, 8) };
            assert_eq!(judge(&members, restored, TO_ME), Err(Refusal::StaleStart { seen: 5 }));
        }
        let next = Identity { start: Start { number: 6, nonce: 66 }, ..node(2, 20, 8) };
        assert_eq!(judge(&members, next, TO_ME), Ok(()));
    }

    #[test]
    fn another_cluster_and_another_node_are_refused() {
        let members = members(8, &[(1, 10), (2, 20)]);
        let starts = BTreeMap::new();
        let view = View { cluster: Some(78), ..new(node(1, 10, 8), &members, &starts) };
        let header = header(node(2, 20, 8), TO_ME);
        // Whatever it calls its nodes and their directories.
        for to in [TO_ME, Target { node_id: 3, ..TO_ME }, Target { store: 11, ..TO_ME }] {
            let refused = admit(&view, &Header { to, ..header }, Kind::Other);
            assert_eq!(refused, Err(Refusal::WrongCluster { ours: 78 }));
        }
        let to = Target { node_id: 3, ..TO_ME };
        assert_eq!(judge(&members, node(2, 20, 8), to), Err(Refusal::WrongNode { ours: 1 }));
    }
}
