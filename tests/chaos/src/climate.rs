//! Climates: round trips and syncs that last for a whole run, and what is promised under each.

use std::io;
use std::time::Duration;

use mintleaf_harness::SlowSyncs;

use crate::links::{Links, NodeId, Weather};
use crate::random::Random;

/// What a caller may wait besides: the machine is busy with other things.
const MACHINE_SHARE: Duration = Duration::from_millis(50);
/// A cluster forms within this where only its links are slow.
const FORMING_MAX: Duration = Duration::from_secs(10);
/// Syncs that forming may take one after another, from the first start to the moment when every node is ready: some
/// twenty to open an empty directory with both checkpoints, and the others for the founders' agreement in two steps, the
/// vote, the first entries and the first windows. Measured are 65.
const FORMING_SYNCS: u32 = 80;
/// A leader whose own disk or link is bad hands over within this.
pub(crate) const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// Plain ids come from what a node holds, so nothing that is slow elsewhere may be felt for longer than a busy machine
/// stutters.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A leader may be silent for so long in a bad climate before others stand, at the most; two split elections make it
/// three times.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const SILENCES: u32 = 3;
/// Round trips and syncs that follow each other from the end of all faults until every node serves: an empty or a
/// damaged directory is opened, a leader elected, the log or a snapshot sent, and the first ids are granted.
const HEALING_STEPS: u32 = 60;
/// Of a hundred seeds so many draw a bad climate, one that a cluster forms in soon.
const BAD_PERCENT: u32 = 25;
const DRAWN_FORMING_MAX: Duration = Duration::from_secs(60);

/// Which nodes have the bad part of a climate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Where {
    Nowhere,
    Everywhere,
    At(NodeId),
    /// At the node that leads when the cluster has formed; it is mild until then.
    AtTheLeader,
}

/// Round trips and syncs that last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climate {
    /// What `--climate`, `--only` and reports call it.
    pub(crate) name: &'static str,
    /// The nodes whose links to all others are long.
    far: Where,
    /// What a round trip on a long link takes, with a fifth of it as jitter and one packet in a hundred lost.
    round_trip_ms: u64,
    /// The nodes whose disks are slow.
    slow: Where,
    /// What a sync of a slow disk takes.
    sync_ms: u64,
}

/// Every climate there is. The first is the mild one.
pub(crate) const CLIMATES: &[Climate] = &[
    links("mild", Where::Nowhere, 0),
    links("rtt-120", Where::Everywhere, 120),
    links("rtt-300", Where::Everywhere, 300),
    links("rtt-500", Where::Everywhere, 500),
    links("one-far", Where::At(3), 300),
    disks("sync-500", Where::Everywhere, 500),
    disks("sync-2000", Where::Everywhere, 2_000),
    disks("one-slow-disk", Where::At(3), 2_000),
    disks("leaders-disk", Where::AtTheLeader, 2_000),
    links("leaders-link", Where::AtTheLeader, 300),
];

const fn links(name: &'static str, far: Where, round_trip_ms: u64) -> Climate {
    Climate { name, far, round_trip_ms, slow: Where::Nowhere, sync_ms: 0 }
}

const fn disks(name: &'static str, slow: Where, sync_ms: u64) -> Climate {
    Climate { name, far: Where::Nowhere, round_trip_ms: 0, slow, sync_ms }
}

impl Climate {
    /// The climate of this name: one of [`CLIMATES`], or all round trips (`rtt-80`) or all syncs (`sync-50`) of so many
    /// milliseconds.
    ///
    /// # Errors
    /// When there is none; it lists those that there are.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let ms = |prefix| name.strip_prefix(prefix).and_then(|ms: &str| ms.parse().ok());
        let made = || match (ms("rtt-"), ms("sync-")) {
            (Some(ms), _) => Some(links(name.to_owned().leak(), Where::Everywhere, ms)),
            (None, Some(ms)) => Some(disks(name.to_owned().leak(), Where::Everywhere, ms)),
            (None, None) => None,
        };
        let known = CLIMATES.iter().copied().find(|climate| climate.name == name).or_else(made);
        let names: Vec<_> = CLIMATES.iter().map(|climate| climate.name).collect();
        known.ok_or_else(|| format!("no climate {name}: there are {}", names.join(", ")))
    }

    /// The climate that a seed draws.
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed, "climate");
        let soon = |climate: &&Self| climate.forming_max() <= DRAWN_FORMING_MAX;
        let bad: Vec<_> = CLIMATES.iter().skip(1).filter(soon).collect();
        if random.chance(BAD_PERCENT) { **random.pick(&bad) } else { CLIMATES[0] }
    }

    /// Whether nothing lasts.
    pub(crate) fn is_mild(self) -> bool {
        !self.has_long_links() && !self.has_slow_disks()
    }

    /// Whether links are long in it.
    pub(crate) fn has_long_links(self) -> bool {
        self.far != Where::Nowhere
    }

    /// Lets it be from now on.
    ///
    /// # Errors
    /// When a disk's file cannot be written.
    pub(crate) fn settle(
        self,
        nodes: &[NodeId],
        links: &dyn Links,
        syncs: Option<&SlowSyncs>,
    ) -> io::Result<()> {
        for &from in nodes {
            for &to in nodes {
                links.settle(from, to, self.weather(from, to));
            }
            if let Some(syncs) = syncs {
                syncs.set(from, self.sync(from).as_millis() as u64)?;
            }
        }
        Ok(())
    }

    /// A bound of a mild climate for what a cluster does after faults, in this one.
    pub(crate) fn stretch(self, mild: Duration) -> Duration {
        if self.is_mild() {
            return mild;
        }
        let step = Duration::from_millis(self.round_trip_ms + self.sync_ms);
        mild + SILENCE_MAX * SILENCES + step * HEALING_STEPS
    }

    /// Whether it turns bad only when the cluster has formed.
    pub(crate) fn waits(self) -> bool {
        [self.far, self.slow].contains(&Where::AtTheLeader)
    }

    /// Whether disks are slow in it.
    pub(crate) fn has_slow_disks(self) -> bool {
        self.slow != Where::Nowhere
    }

    /// The same once the cluster has formed under this leader.
    pub(crate) fn under(self, leader: NodeId) -> Self {
        let resolved = |place| match place {
            Where::AtTheLeader => Where::At(leader),
            other => other,
        };
        Self { far: resolved(self.far), slow: resolved(self.slow), ..self }
    }

    /// What a round trip between two nodes takes, half of it in each direction, give or take a tenth of it.
    pub(crate) fn round_trip(self, one: NodeId, other: NodeId) -> Duration {
        let far = self.is_at(self.far, one) || self.is_at(self.far, other);
        Duration::from_millis(if far && one != other { self.round_trip_ms } else { 0 })
    }

    /// One direction of the link between two nodes.
    pub(crate) fn weather(self, from: NodeId, to: NodeId) -> Weather {
        let round_trip_ms = self.round_trip(from, to).as_millis() as u64;
        Weather {
            delay_ms: round_trip_ms * 2 / 5,
            jitter_ms: round_trip_ms / 5,
            loss_percent: u8::from(round_trip_ms > 0),
            ..Weather::default()
        }
    }

    /// What a sync of a node takes longer than the machine's own disk.
    pub(crate) fn sync(self, node: NodeId) -> Duration {
        Duration::from_millis(if self.is_at(self.slow, node) { self.sync_ms } else { 0 })
    }

    fn is_at(self, place: Where, node: NodeId) -> bool {
        match place {
            Where::Everywhere => true,
            Where::At(at) => at == node,
            Where::Nowhere | Where::AtTheLeader => false,
        }
    }

    /// The nodes that may lead for long: one that alone is far or slow hands over.
    pub(crate) fn may_lead(self, node: NodeId) -> bool {
        [self.far, self.slow].iter().all(|place| *place != Where::At(node))
    }

    /// The longest time to form: the agreement of the founders, an election and the first changes take some round
    /// trips and some syncs, one after another.
    pub(crate) fn forming_max(self) -> Duration {
        let slowest = if self.waits() { 0 } else { self.sync_ms };
        FORMING_MAX + FORMING_SYNCS * Duration::from_millis(slowest)
    }

    /// The longest median of a change at the leader: a round trip to the nearest follower, with three tenths for jitter
    /// and loss; the leader's sync and the follower's, and the rest of a sync that was under way.
    pub(crate) fn change_at_leader_max(self, leader: NodeId, nodes: &[NodeId]) -> Duration {
        let others = nodes.iter().filter(|&&node| node != leader);
        let through = others.map(|&follower| self.commit(leader, follower));
        through.min().unwrap_or_default() + MACHINE_SHARE
    }

    /// The longest median of a change at a follower: a round trip to the leader and, as it answers when it knows of
    /// the change itself, a commit in which it has a part.
    pub(crate) fn change_at_follower_max(
        self,
        leader: NodeId,
        follower: NodeId,
        nodes: &[NodeId],
    ) -> Duration {
        let own = self.commit(leader, follower) + MACHINE_SHARE;
        let there = self.round_trip(leader, follower) * 11 / 10;
        there + own.max(self.change_at_leader_max(leader, nodes))
    }

    fn commit(self, leader: NodeId, follower: NodeId) -> Duration {
        let slower = self.sync(leader).max(self.sync(follower));
        self.round_trip(leader, follower) * 13 / 10 + slower * 3
    }

    /// The longest median of a strict id at the leader: one round trip to the nearest follower, and no sync.
    pub(crate) fn strict_at_leader_max(self, leader: NodeId, nodes: &[NodeId]) -> Duration {
        let others = nodes.iter().filter(|&&node| node != leader);
        let nearest = others.map(|&other| self.round_trip(leader, other)).min();
        nearest.unwrap_or_default() * 13 / 10 + MACHINE_SHARE
    }

    /// The longest median of a strict id at a follower: one more round trip, to the leader.
    pub(crate) fn strict_at_follower_max(
        self,
        leader: NodeId,
        follower: NodeId,
        nodes: &[NodeId],
    ) -> Duration {
        let there = self.round_trip(leader, follower) * 11 / 10;
        there + self.strict_at_leader_max(leader, nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 3] = [1, 2, 3];

    fn named(name: &str) -> Climate {
        Climate::named(name).unwrap()
    }

    #[test]
    fn a_change_costs_1_3_round_trips_at_the_leader_and_2_4_at_a_follower() {
        let climate = named("rtt-500");
        let ms = Duration::from_millis;
        assert_eq!(climate.change_at_leader_max(1, &NODES), ms(650) + MACHINE_SHARE);
        assert_eq!(climate.change_at_follower_max(1, 2, &NODES), ms(1_200) + MACHINE_SHARE);
        assert_eq!(climate.forming_max(), FORMING_MAX);
        assert_eq!(named("rtt-80").round_trip(1, 2), ms(80));
        assert!(Climate::named("rtt-fast").is_err());
    }

    #[test]
    fn a_node_that_alone_is_bad_neither_leads_nor_counts() {
        let climate = named("leaders-disk");
        assert!(climate.may_lead(2) && climate.sync(2).is_zero());
        let climate = climate.under(2);
        assert!(!climate.may_lead(2) && !climate.sync(2).is_zero());
        assert_eq!(climate.change_at_leader_max(1, &NODES), MACHINE_SHARE);
        assert!(NODES.iter().all(|&node| named("sync-500").may_lead(node)));
    }
}
