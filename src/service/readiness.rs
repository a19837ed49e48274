//! Whether a node can hand out ids, and what its operator should know about that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mintleaf_raft::{MemberStatus, Role, Status};
use serde::Serialize;

/// Where an operator reads what to do about a lost quorum.
const QUORUM_LOSS_PAGE: &str = "docs/operating.md#quorum-loss";

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
            reasons.push(format!("not_formed: the cluster has not formed yet{held}"));
        } else if status.leader_id.is_none() {
            reasons.push(match QuorumLoss::of(status) {
                Some(loss) => format!("no_quorum: {}{held}", loss.with_advice()),
                None => format!("no_leader: the voters are about to elect a leader{held}"),
            });
        }
        Self { ready: status.leader_id.is_some() || holds_ids, reasons }
    }
}

/// Why there is no quorum: too few voters can be reached.
#[derive(Debug)]
pub(super) struct QuorumLoss {
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

    /// The loss, as the node sees it whose status this is; `None` while it reaches enough voters.
    pub(super) fn of(status: &Status) -> Option<Self> {
        let voters = || status.members.iter().filter(|member| member.role != Role::Learner);
        let missing = voters().filter(|voter| !voter.reachable);
        let missing: Vec<_> =
            missing.map(|&MemberStatus { id, silence, .. }| (id, silence)).collect();
        let voters = voters().count();
        let reached = voters - missing.len();
        (voters > 0 && reached <= voters / 2).then_some(Self { voters, missing })
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
        let Self { voters, missing } = self;
        let (reached, needed) = (voters - missing.len(), voters / 2 + 1);
        write!(out, "{reached} of {voters} voters can be reached and {needed} are needed")?;
        for (number, (id, silence)) in missing.iter().enumerate() {
            let before = if number == 0 { "; missing:" } else { "," };
            match silence {
                Some(silence) => write!(out, "{before} node {id} for {} s", silence.as_secs())?,
                None => write!(out, "{before} node {id} since this node started")?,
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
            release: None,
            zone: None,
        };
        Status {
            cluster_id: Some(7),
            node_id: 1,
            leader_id,
            leader_changes: 0,
            term: 3,
            last_log_index: None,
            last_applied_index: None,
            snapshot_index: None,
            purged_index: None,
            members: (1..).zip(silences).map(member).collect(),
        }
    }

    #[test]
    fn the_last_node_says_who_is_missing_since_when_and_what_to_read() {
        let status = status(None, [Some(0), Some(34), None]);
        let Readiness { ready, reasons } = Readiness::of(&status, true);
        assert!(ready, "ids that are held are handed out");
        let expected = "no_quorum: 1 of 3 voters can be reached and 2 are needed; missing: node 2 for 34 s, \
                        node 3 since this node started; see docs/operating.md#quorum-loss; ids go on until what \
                        is held is spent, and tags of which nothing is held get 503";
        assert_eq!(reasons, [expected]);
        assert!(!Readiness::of(&status, false).ready);
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
