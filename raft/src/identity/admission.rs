//! Whose messages a node accepts.
//!
//! Raft trusts a member to keep what it acknowledged. A data directory that was wiped, copied or restored from an old
//! image breaks that trust and leaves no trace in Raft's own messages. So every message names the cluster, the
//! **store** (the identity of one data directory) on both ends, and the sender's incarnation. A node refuses a
//! message that does not fit, and stops when it learns that its own store is in doubt.
//!
//! A node accepts that only from members: a refusal stops it only if the store that the membership names gave it, in
//! answer to a message within one cluster. A process that listens at the address because of a mix-up or a typo can
//! refuse as the wrong node, but cannot stop this one.

use super::authority::Speaker;
use crate::message::{Header, Incarnation, Origin, Prepared, Refusal};
use crate::types::RaftMembership;

/// What a node knows when it judges a message.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionView<'a> {
    pub(crate) me: Origin,
    pub(crate) cluster: Option<u128>,
    /// What the node is prepared for, while it belongs to no cluster.
    pub(crate) prepared: Option<&'a Prepared>,
    /// While the node belongs to no cluster: the cluster of the nodes that its options name.
    pub(crate) invited: Option<u128>,
    pub(crate) members: &'a RaftMembership,
    /// The latest incarnation seen of the sender's store.
    pub(crate) seen: Option<Incarnation>,
}

/// Judges a message: whether it is meant for this node, and whether its sender may make the request.
pub(crate) fn admit(
    view: &AdmissionView<'_>,
    header: &Header,
    speaker: Speaker,
) -> Result<(), Refusal> {
    // The cluster is checked first: how another cluster names its nodes and directories means nothing here.
    if !speaker.is_of_no_cluster() {
        check_cluster(view, header.cluster)?;
    }
    if header.to.node_id != view.me.node_id {
        return Err(Refusal::WrongNode { ours: view.me.node_id });
    }
    if header.to.store != view.me.store {
        return Err(Refusal::WrongStore);
    }
    speaker.check(view.members, &header.from)?;
    check_incarnation(view.seen, &header.from)
}

/// Refuses messages of any cluster except this node's own. A node that belongs to none enters the one that it is
/// prepared for, or else the one that its operator pointed it to, and no other. Otherwise any cluster that knows its
/// store could take it away from the nodes that it was started with.
fn check_cluster(view: &AdmissionView<'_>, cluster: u128) -> Result<(), Refusal> {
    match (view.cluster, view.prepared, view.invited) {
        (Some(ours), ..) if ours != cluster => Err(Refusal::WrongCluster { ours }),
        (Some(_), ..) => Ok(()),
        (None, Some(prepared), _) if prepared.cluster != cluster => Err(prepared.refusal()),
        (None, None, invited) if invited != Some(cluster) => {
            let why = "it belongs to no cluster yet, and no node in its --peers or --join has named \
                       this one";
            Err(Refusal::Failed(why.to_owned()))
        }
        (None, ..) => Ok(()),
    }
}

/// Refuses a store that was already seen in a later incarnation: an older copy of it is running.
pub(crate) fn check_incarnation(seen: Option<Incarnation>, from: &Origin) -> Result<(), Refusal> {
    match seen {
        Some(seen) if from.incarnation.is_stale(seen) => {
            Err(Refusal::StaleIncarnation { seen: seen.number })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::{LeaderId, Membership};

    use super::*;
    use crate::message::Destination;
    use crate::types::{Member, RaftLogId};

    const CLUSTER: u128 = 77;

    fn members(index: u64, stores: &[(u64, u128)]) -> RaftMembership {
        let nodes: BTreeMap<u64, Member> =
            stores.iter().map(|&(id, store)| (id, Member { store, ..Member::default() })).collect();
        let voters = BTreeSet::from_iter(nodes.keys().copied());
        let log_id = RaftLogId::new(LeaderId::new(1, 1), index);
        RaftMembership::new(Some(log_id), Membership::new(vec![voters], nodes))
    }

    fn node(node_id: u64, store: u128, members_index: u64) -> Origin {
        Origin { node_id, store, incarnation: INCARNATION, members_index: Some(members_index) }
    }

    fn header(from: Origin, to: Destination) -> Header {
        Header { cluster: CLUSTER, from, to, clock_ms: 0, median_ms: None }
    }

    /// The view of a node that belongs to no cluster.
    fn new(me: Origin, members: &RaftMembership) -> AdmissionView<'_> {
        AdmissionView { me, cluster: None, prepared: None, invited: None, members, seen: None }
    }

    fn judge(members: &RaftMembership, from: Origin, to: Destination) -> Result<(), Refusal> {
        let seen = (from.store == 20).then_some(INCARNATION);
        let me = node(1, 10, 8);
        let view = AdmissionView { cluster: Some(CLUSTER), seen, ..new(me, members) };
        admit(&view, &header(from, to), Speaker::Candidate)
    }

    const INCARNATION: Incarnation = Incarnation { number: 5, nonce: 55 };
    const TO_ME: Destination = Destination { node_id: 1, store: 10, incarnation_seen: None };

    #[test]
    fn a_member_of_this_cluster_is_heard() {
        assert_eq!(judge(&members(8, &[(1, 10), (2, 20)]), node(2, 20, 8), TO_ME), Ok(()));
    }

    #[test]
    fn a_wiped_receiver_refuses_what_was_meant_for_its_former_store() {
        let to = Destination { store: 11, ..TO_ME };
        let refused = judge(&members(8, &[(1, 10), (2, 20)]), node(2, 20, 8), to);
        assert_eq!(refused, Err(Refusal::WrongStore));
    }

    #[test]
    fn a_wiped_sender_is_refused() {
        let fresh = Origin { members_index: None, ..node(2, 21, 0) };
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
        for refused in [Refusal::StaleIncarnation { seen: 3 }, Refusal::LostLog { acknowledged: 3 }]
        {
            let text = refused.to_string();
            let removed_first = text.find("remove the node") < text.find("wipe");
            assert!(text.contains("wipe") && removed_first, "{text}");
        }
    }

    #[test]
    fn a_leader_that_commits_its_own_removal_is_heard() {
        let members = members(8, &[(1, 10)]);
        let me = node(1, 10, 8);
        let view = AdmissionView { cluster: Some(CLUSTER), ..new(me, &members) };
        let header = header(node(2, 20, 8), TO_ME);
        assert_eq!(admit(&view, &header, Speaker::Leader), Ok(()));
        assert!(admit(&view, &header, Speaker::Candidate).is_err());
    }

    #[test]
    fn a_node_without_a_cluster_enters_only_the_one_that_it_is_prepared_for_or_pointed_to() {
        let members = RaftMembership::default();
        let unknown = new(node(1, 10, 8), &members);
        let prepared =
            |cluster| Prepared { cluster, coordinator: 2, store: 20, founders: String::new() };
        let (ours, theirs) = (prepared(CLUSTER), prepared(78));
        let header = header(node(2, 20, 8), TO_ME);
        for speaker in [Speaker::Candidate, Speaker::Leader] {
            let judge = |prepared, invited| {
                admit(&AdmissionView { prepared, invited, ..unknown }, &header, speaker)
            };
            assert_eq!(judge(Some(&ours), None), Ok(()));
            assert_eq!(judge(Some(&theirs), Some(CLUSTER)), Err(theirs.refusal()));
            assert_eq!(judge(None, Some(CLUSTER)), Ok(()));
            for stranger in [None, Some(78)] {
                let refused = judge(None, stranger).unwrap_err();
                assert!(!refused.is_fatal() && refused.to_string().contains("no cluster yet"));
            }
        }
        assert_eq!(
            admit(&unknown, &header, Speaker::Coordinator),
            Ok(()),
            "judged by what it offers"
        );
    }

    #[test]
    fn an_older_incarnation_of_a_store_is_refused() {
        let members = members(8, &[(1, 10), (2, 20)]);
        for stale in [Incarnation { number: 4, nonce: 44 }, Incarnation { number: 5, nonce: 56 }] {
            let restored = Origin { incarnation: stale, ..node(2, 20, 8) };
            assert_eq!(
                judge(&members, restored, TO_ME),
                Err(Refusal::StaleIncarnation { seen: 5 })
            );
        }
        let next = Origin { incarnation: Incarnation { number: 6, nonce: 66 }, ..node(2, 20, 8) };
        assert_eq!(judge(&members, next, TO_ME), Ok(()));
    }

    #[test]
    fn another_cluster_and_another_node_are_refused() {
        let members = members(8, &[(1, 10), (2, 20)]);
        let view = AdmissionView { cluster: Some(78), ..new(node(1, 10, 8), &members) };
        let header = header(node(2, 20, 8), TO_ME);
        // No matter how it names its nodes and their directories.
        for to in [TO_ME, Destination { node_id: 3, ..TO_ME }, Destination { store: 11, ..TO_ME }] {
            let refused = admit(&view, &Header { to, ..header }, Speaker::Leader);
            assert_eq!(refused, Err(Refusal::WrongCluster { ours: 78 }));
        }
        let to = Destination { node_id: 3, ..TO_ME };
        assert_eq!(judge(&members, node(2, 20, 8), to), Err(Refusal::WrongNode { ours: 1 }));
    }
}
