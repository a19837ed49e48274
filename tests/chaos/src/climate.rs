//! Climates: round trips and syncs that last for a whole run, and what is promised under each.

use std::io;
use std::time::Duration;

use mintleaf_harness::SlowSyncs;

use crate::links::{Links, NodeId, Weather};
use crate::random::Random;

/// Extra time that a caller may wait, because the machine is busy with other work.
const MACHINE_SHARE: Duration = Duration::from_millis(50);
/// A cluster forms within this time if only its links are slow.
const FORMING_MAX: Duration = Duration::from_secs(10);
/// The largest number of syncs in a row while a cluster forms, from the first start until every node is ready.
/// Some twenty of them open an empty directory with both checkpoints. The others are for the founders'
/// agreement in two steps, the vote, the first entries and the first windows. 65 were measured.
const FORMING_SYNCS: u32 = 80;
/// A leader whose own disk or link is bad hands over within this time.
pub(crate) const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// Plain ids come from what a node holds. So a slow disk or link elsewhere may not pause them for longer than a
/// busy machine stutters.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The longest that a leader may be silent in a bad climate before other nodes stand for election. Two split
/// elections make it three times as long.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const SILENCES: u32 = 3;
/// The number of round trips and syncs in a row from the end of all faults until every node serves: a node
/// opens an empty or damaged directory, a leader is elected, the log or a snapshot is sent, and the first ids
/// are granted.
const HEALING_STEPS: u32 = 60;
/// This many seeds of a hundred draw a bad climate, one in which a cluster forms soon.
const BAD_PERCENT: u32 = 25;
const DRAWN_FORMING_MAX: Duration = Duration::from_secs(60);

/// The nodes that have the bad part of a climate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Where {
    Nowhere,
    Everywhere,
    At(NodeId),
    /// The node that leads when the cluster has formed. The climate is mild until then.
    AtTheLeader,
}

/// Round trips and syncs that last for a whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climate {
    /// Its name in `--climate`, `--only` and reports.
    pub(crate) name: &'static str,
    /// The nodes whose links to all others are long.
    far: Where,
    /// The round trip on a long link. A fifth of it is jitter, and one packet in a hundred is lost.
    round_trip_ms: u64,
    /// The nodes whose disks are slow.
    slow: Where,
    /// How long a sync on a slow disk takes.
    sync_ms: u64,
}

/// All climates. The first is the mild one.
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
    /// The climate of this name: one of [`CLIMATES`], or all round trips (`rtt-80`) or all syncs (`sync-50`) of
    /// this many milliseconds.
    ///
    /// # Errors
    /// When there is no such climate; the error lists all names.
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

    /// Whether all links and disks are fast.
    pub(crate) fn is_mild(self) -> bool {
        !self.has_long_links() && !self.has_slow_disks()
    }

    /// Whether it has long links.
    pub(crate) fn has_long_links(self) -> bool {
        self.far != Where::Nowhere
    }

    /// Applies it from now on.
    ///
    /// # Errors
    /// When the file that slows a disk cannot be written.
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

    /// Extends a bound for what a cluster does after faults from a mild climate to this one.
    pub(crate) fn stretch(self, mild: Duration) -> Duration {
        if self.is_mild() {
            return mild;
        }
        let step = Duration::from_millis(self.round_trip_ms + self.sync_ms);
        mild + SILENCE_MAX * SILENCES + step * HEALING_STEPS
    }

    /// Whether it turns bad only once the cluster has formed.
    pub(crate) fn waits(self) -> bool {
        [self.far, self.slow].contains(&Where::AtTheLeader)
    }

    /// Whether it has slow disks.
    pub(crate) fn has_slow_disks(self) -> bool {
        self.slow != Where::Nowhere
    }

    /// The same climate once the cluster has formed under this leader.
    pub(crate) fn under(self, leader: NodeId) -> Self {
        let resolved = |place| match place {
            Where::AtTheLeader => Where::At(leader),
            other => other,
        };
        Self { far: resolved(self.far), slow: resolved(self.slow), ..self }
    }

    /// The round trip between two nodes, half of it in each direction, give or take a tenth of it.
    pub(crate) fn round_trip(self, one: NodeId, other: NodeId) -> Duration {
        let far = self.is_at(self.far, one) || self.is_at(self.far, other);
        Duration::from_millis(if far && one != other { self.round_trip_ms } else { 0 })
    }

    /// The weather of one direction of the link between two nodes.
    pub(crate) fn weather(self, from: NodeId, to: NodeId) -> Weather {
        let round_trip_ms = self.round_trip(from, to).as_millis() as u64;
        Weather {
            delay_ms: round_trip_ms * 2 / 5,
            jitter_ms: round_trip_ms / 5,
            loss_percent: u8::from(round_trip_ms > 0),
            ..Weather::default()
        }
    }

    /// The time that a sync of this node takes in addition to that of the machine's own disk.
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

    /// Whether a node may lead for long. A node that alone is far or slow hands over.
    pub(crate) fn may_lead(self, node: NodeId) -> bool {
        [self.far, self.slow].iter().all(|place| *place != Where::At(node))
    }

    /// The longest time to form. The agreement of the founders, an election and the first changes take several
    /// round trips and syncs, one after another.
    pub(crate) fn forming_max(self) -> Duration {
        let slowest = if self.waits() { 0 } else { self.sync_ms };
        FORMING_MAX + FORMING_SYNCS * Duration::from_millis(slowest)
    }

    /// The largest median time of a change at the leader: a round trip to the nearest follower, with three
    /// tenths added for jitter and loss, the leader's sync, the follower's sync, and the rest of a sync that
    /// was under way.
    pub(crate) fn change_at_leader_max(self, leader: NodeId, nodes: &[NodeId]) -> Duration {
        let others = nodes.iter().filter(|&&node| node != leader);
        let through = others.map(|&follower| self.commit(leader, follower));
        through.min().unwrap_or_default() + MACHINE_SHARE
    }

    /// The largest median time of a change at a follower: a round trip to the leader, and a commit that
    /// includes this follower, because it answers only when it knows of the change itself.
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

    /// The largest median time of a strict id at the leader: one round trip to the nearest follower, and no sync.
    pub(crate) fn strict_at_leader_max(self, leader: NodeId, nodes: &[NodeId]) -> Duration {
        let others = nodes.iter().filter(|&&node| node != leader);
        let nearest = others.map(|&other| self.round_trip(leader, other)).min();
        nearest.unwrap_or_default() * 13 / 10 + MACHINE_SHARE
    }

    /// The largest median time of a strict id at a follower: one more round trip, to the leader.
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
