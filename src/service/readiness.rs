//! Whether a node can hand out ids, and what its operator should know about that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mintleaf_raft::{MemberStatus, Status};
use serde::Serialize;

/// Where an operator reads what to do about a lost quorum.
const QUORUM_LOSS_PAGE: &str = "mintleaf help quorum-loss";

/// What a quorum is while the voters change.
const TWO_MAJORITIES: &str =
    "a change of the voters is under way, which needs a majority of those before and after it: ";

/// What goes on without a leader: ready means that there is something to hand out, not that everything is.
const HELD_ONLY: &str =
    "; ids go on until what is held is spent, and tags of which nothing is held get 503";

/// Whether a node can hand out ids.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Readiness {
    /// True when it can, if only the ids that it holds, and clients should come.
    pub ready: bool,
    /// What keeps it from doing so, or will once the ids that it holds are spent: each a code, a colon, a sentence.
    pub reasons: Vec<String>,
}

impl Readiness {
    pub(super) fn of(status: &Status, holds_ids: bool) -> Self {
        let mut reasons = Vec::new();
        let held = if holds_ids { HELD_ONLY } else { "" };
        if status.cluster_id.is_none() {
            let missing = status.waits_for.as_ref();
            let missing = missing.map_or(String::new(), |it| format!("; missing: {it}"));
            reasons.push(format!("not_formed: the cluster has not formed yet{missing}{held}"));
        } else if status.leader_id.is_none() {
            reasons.push(match QuorumLoss::of(status) {
                Some(loss) => format!("no_quorum: {}{held}", loss.with_advice()),
                None => format!("no_leader: this node hears no leader: the voters elect one, or the leader does not reach it{held}"),
            });
        }
        Self { ready: status.leader_id.is_some() || holds_ids, reasons }
    }
}

/// Why there is no quorum: too few voters can be reached.
#[derive(Debug)]
pub(super) struct QuorumLoss {
    /// Whether the voters change, which needs a majority before the change and one after it.
    is_joint: bool,
    /// The majorities that are missing.
    lost: Vec<LostMajority>,
}

#[derive(Debug)]
struct LostMajority {
    /// When it is needed: before the change of the voters that is under way, or after it.
    when: &'static str,
    voters: usize,
    /// The voters that cannot be reached, and how long ago each showed its last sign of life, if it has shown any
    /// since this node started.
    missing: Vec<(u64, Option<Duration>)>,
}

impl QuorumLoss {
    /// The loss, where the node whose status this is belongs to a cluster and knows no leader; `None` while it knows
    /// one, or reaches enough voters to elect one.
    pub(super) fn without_leader(status: &Status) -> Option<Self> {
        let is_leaderless = status.cluster_id.is_some() && status.leader_id.is_none();
        Self::of(status).filter(|_| is_leaderless)
    }

    /// The loss from the view of the node that has this status; `None` while that node reaches enough voters.
    pub(super) fn of(status: &Status) -> Option<Self> {
        let lost =
            status.voters.iter().zip(["before it", "after it"]).filter_map(|(voters, when)| {
                let is_missing =
                    |member: &&MemberStatus| voters.contains(&member.id) && !member.reachable;
                let missing = status.members.iter().filter(is_missing);
                let missing: Vec<_> = missing.map(|member| (member.id, member.silence)).collect();
                let (voters, reached) = (voters.len(), voters.len() - missing.len());
                (voters > 0 && reached <= voters / 2).then_some(LostMajority {
                    when,
                    voters,
                    missing,
                })
            });
        let (is_joint, lost) = (status.voters.len() > 1, lost.collect::<Vec<_>>());
        (!lost.is_empty()).then_some(Self { is_joint, lost })
    }
}

impl QuorumLoss {
    /// The loss in words, and where to read what to do.
    pub(super) fn with_advice(&self) -> String {
        format!("{self}; see {QUORUM_LOSS_PAGE}")
    }
}

impl std::fmt::Display for QuorumLoss {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_joint {
            out.write_str(TWO_MAJORITIES)?;
        }
        for (number, LostMajority { when, voters, missing }) in self.lost.iter().enumerate() {
            let (reached, needed) = (voters - missing.len(), voters / 2 + 1);
            out.write_str(if number > 0 { "; " } else { "" })?;
            if self.is_joint {
                write!(out, "{when}, ")?;
            }
            write!(out, "{reached} of {voters} voters can be reached and {needed} are needed")?;
            for (number, (id, silence)) in missing.iter().enumerate() {
                let before = if number == 0 { "; missing:" } else { "," };
                match silence {
                    Some(silence) => write!(out, "{before} node {id} for {} s", silence.as_secs())?,
                    None => write!(out, "{before} node {id} since this node started")?,
                }
            }
        }
        Ok(())
    }
}

/// What the node's own process says about its readiness.
#[derive(Debug, Default)]
pub(super) struct OwnReadiness {
    draining: AtomicBool,
    warming: AtomicBool,
}

impl OwnReadiness {
    /// Takes the node out of rotation for good.
    pub(super) fn begin_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether the node was asked to stop.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Keeps the node out of rotation while it grabs what was hot, or no longer.
    pub(super) fn set_warming(&self, warming: bool) {
        self.warming.store(warming, Relaxed);
    }

    pub(super) fn add_to(&self, readiness: &mut Readiness) {
        if self.draining.load(Relaxed) {
            let reason = "draining: this node was asked to stop and is about to end";
            readiness.reasons.push(reason.to_owned());
        }
        if self.warming.load(Relaxed) {
            let reason =
                "warming: ids of the tags that were hot before the last stop are on their way";
            readiness.reasons.push(reason.to_owned());
        }
        readiness.ready &= !self.draining.load(Relaxed) && !self.warming.load(Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mintleaf_raft::Role;

    use super::*;

    fn status(leader_id: Option<u64>, silences: [Option<u64>; 3]) -> Status {
        let member = |(id, silence): (u64, Option<u64>)| MemberStatus {
            id,
            raft: String::new(),
            http: String::new(),
            role: Role::Voter,
            matched_index: None,
            reachable: silence == Some(0),
            silence: silence.map(Duration::from_secs),
            round_trip: None,
            sync: None,
            declines: false,
            release: None,
            zone: None,
        };
        Status {
            cluster_id: Some(7),
            waits_for: None,
            node_id: 1,
            leader_id,
            leader_changes: 0,
            term: 3,
            last_log_index: None,
            last_applied_index: None,
            snapshot_index: None,
            purged_index: None,
            members: (1..).zip(silences).map(member).collect(),
            voters: vec![BTreeSet::from([1, 2, 3])],
            keys: Vec::new(),
        }
    }

    #[test]
    fn the_last_node_says_who_is_missing_since_when_and_what_to_read() {
        let status = status(None, [Some(0), Some(34), None]);
        let Readiness { ready, reasons } = Readiness::of(&status, true);
        assert!(ready, "ids that are held are handed out");
        let expected = "no_quorum: 1 of 3 voters can be reached and 2 are needed; missing: node 2 for 34 s, \
                        node 3 since this node started; see mintleaf help quorum-loss; ids go on until \
                        what is held is spent, and tags of which nothing is held get 503";
        assert_eq!(reasons, [expected]);
        assert!(!Readiness::of(&status, false).ready);
    }

    #[test]
    fn each_half_of_a_change_of_the_voters_needs_a_majority() {
        let mut status = status(None, [Some(0), Some(0), Some(12)]);
        assert!(QuorumLoss::of(&status).is_none(), "two of three");
        status.voters.push(BTreeSet::from([1, 3]));
        let expected = "a change of the voters is under way, which needs a majority of those before and after it: \
                        after it, 1 of 2 voters can be reached and 2 are needed; missing: node 3 for 12 s";
        assert_eq!(QuorumLoss::of(&status).expect("a loss").to_string(), expected);
        let both = super::tests::status(None, [Some(0), None, Some(12)]);
        let both = Status { voters: status.voters.clone(), ..both };
        let loss = QuorumLoss::of(&both).expect("a loss").to_string();
        assert!(
            loss.contains("before it, 1 of 3 ") && loss.contains("; after it, 1 of 2 "),
            "{loss}"
        );
        status.voters.push(BTreeSet::from([1, 2]));
        status.voters.remove(1);
        assert!(QuorumLoss::of(&status).is_none(), "two of three, and two of two");
    }

    #[test]
    fn voters_that_can_all_be_reached_are_about_to_elect() {
        let Readiness { ready, reasons } =
            Readiness::of(&status(None, [Some(0), Some(0), Some(9)]), false);
        assert!(!ready && reasons[0].starts_with("no_leader: "), "{reasons:?}");
        assert_eq!(
            Readiness::of(&status(Some(2), [Some(0), Some(0), Some(9)]), false).reasons.len(),
            0
        );
    }

    #[test]
    fn a_node_that_drains_is_not_ready_whatever_it_holds() {
        let own = OwnReadiness::default();
        let readiness = || {
            let mut readiness = Readiness { ready: true, reasons: Vec::new() };
            own.add_to(&mut readiness);
            readiness
        };
        own.set_warming(true);
        assert!(!readiness().ready);
        own.set_warming(false);
        assert!(readiness().ready);
        own.begin_draining();
        assert!(!readiness().ready && readiness().reasons[0].starts_with("draining: "));
    }
}
