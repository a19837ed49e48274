//! Which members' claims end this node as removed.
//!
//! A member that lies, or whose disk lost the membership, must not end another. One member's claim suffices only if
//! it is the leader that this node follows: the leader commits removals. Otherwise a majority of the other voters in
//! this node's membership has to make the same claim.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::types::RaftMembership;

/// How far a node that follows its leader can be behind the leader's log: a day of 50,000 entries a second. A removal
/// further ahead than that is not in this cluster's log.
const BEHIND_MAX: u64 = 1 << 32;

/// The members that claim that this node was removed.
#[derive(Default)]
pub(super) struct RemovalClaims(Mutex<Claims>);

#[derive(Default)]
struct Claims {
    /// The log index of the membership that the claims contradict.
    members_index: Option<u64>,
    by: BTreeSet<u64>,
}

/// What a node checks a removal claim against.
pub(super) struct Own<'a> {
    pub(super) node_id: u64,
    pub(super) members: &'a RaftMembership,
    /// The leader that this node follows.
    pub(super) leader: Option<u64>,
    pub(super) last_log_index: Option<u64>,
}

impl RemovalClaims {
    /// Records the claim of member `by` that the membership at `claimed_index` removed this node, and returns whether
    /// the claims now suffice.
    pub(super) fn count(&self, own: &Own<'_>, by: u64, claimed_index: u64) -> bool {
        if own.leader == Some(by) {
            let furthest = own.last_log_index.unwrap_or(0).saturating_add(BEHIND_MAX);
            return claimed_index <= furthest;
        }
        let members_index = own.members.log_id().map(|id| id.index);
        let mut claims = self.0.lock();
        if claims.members_index != members_index {
            *claims = Claims { members_index, by: BTreeSet::new() };
        }
        let is_new = claims.by.insert(by);
        let configs = own.members.membership().get_joint_config();
        let counts = configs.iter().all(|voters| {
            let others: BTreeSet<u64> =
                voters.iter().copied().filter(|id| *id != own.node_id).collect();
            2 * others.intersection(&claims.by).count() > others.len()
        });
        if is_new && !counts {
            tracing::warn!(
                peer = by,
                "a member says that this node was removed: its leader, or most of the other voters, would have to"
            );
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use openraft::{LeaderId, Membership};

    use super::*;
    use crate::types::{Member, RaftLogId};

    /// A membership at index 8 with these voter configurations.
    fn members(configs: &[&[u64]]) -> RaftMembership {
        let configs: Vec<BTreeSet<u64>> =
            configs.iter().map(|ids| ids.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, Member> =
            (1..=5).map(|id| (id, Member { store: u128::from(id), ..Member::default() })).collect();
        let log_id = RaftLogId::new(LeaderId::new(1, 1), 8);
        RaftMembership::new(Some(log_id), Membership::new(configs, nodes))
    }

    fn own(members: &RaftMembership, leader: Option<u64>) -> Own<'_> {
        Own { node_id: 3, members, leader, last_log_index: Some(20) }
    }

    #[test]
    fn the_leader_is_believed_at_an_index_that_its_log_can_have() {
        let (members, claims) = (members(&[&[1, 2, 3]]), RemovalClaims::default());
        assert!(claims.count(&own(&members, Some(2)), 2, 21));
        assert!(!claims.count(&own(&members, Some(2)), 2, 1 << 40));
    }

    #[test]
    fn other_members_are_believed_once_most_of_the_voters_say_so() {
        let (three, five) = (members(&[&[1, 2, 3]]), members(&[&[1, 2, 3, 4, 5]]));
        let claims = RemovalClaims::default();
        for leader in [Some(1), None] {
            assert!(!claims.count(&own(&three, leader), 2, 9), "one of two, twice over");
        }
        assert!(claims.count(&own(&three, None), 1, 9));
        let claims = RemovalClaims::default();
        assert!(!claims.count(&own(&five, None), 1, 9) && !claims.count(&own(&five, None), 2, 9));
        assert!(claims.count(&own(&five, None), 4, 9), "three of four");
    }

    #[test]
    fn each_half_of_a_change_of_the_voters_has_to_say_so() {
        let (joint, claims) = (members(&[&[1, 2, 3], &[1, 3, 4]]), RemovalClaims::default());
        assert!(!claims.count(&own(&joint, None), 1, 9) && !claims.count(&own(&joint, None), 2, 9));
        assert!(claims.count(&own(&joint, None), 4, 9));
    }

    #[test]
    fn a_lone_other_voter_is_most_of_the_others() {
        let (two, claims) = (members(&[&[2, 3]]), RemovalClaims::default());
        assert!(claims.count(&own(&two, None), 2, 9));
        assert!(!RemovalClaims::default().count(&own(&two, None), 1, 9), "no voter");
    }
}
