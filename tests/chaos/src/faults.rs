//! The faults, and how they are drawn at random.

use std::fmt;

use mintleaf_faultfs::Cut;

use crate::links::{NodeId, Weather};
use crate::random::Random;

/// An action of the nemesis. Healing ends all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Bad weather on some links.
    Links(Routes, Weather),
    /// Bad weather that comes and goes on some links.
    Flapping(Routes, Weather),
    /// All connections between nodes are reset, again and again.
    Resets,
    /// SIGKILL. The supervisor starts the node again at once, or only when all is healed.
    Kill { victim: Victim, stays_down: bool },
    /// SIGKILL for all nodes at once.
    KillAll { stay_down: bool },
    /// SIGSTOP until all is healed.
    Pause(Victim),
    /// SIGSTOP and SIGCONT in turn.
    Stutter(Victim),
    /// A wall clock jumps by this many milliseconds.
    ClockJump(Victim, i64),
    /// A wall clock jumps back and forth.
    ClockStrobe(Victim, i64),
    /// The wall clocks of a majority jump together.
    ClocksOfMost(i64),
    /// The disk of the data directory is full: no file can grow.
    DiskFull(Victim),
    /// The power of these nodes is cut and comes back.
    PowerCut { of: Vec<NodeId>, draw: (Cut, u64) },
    /// Every sync of the disk fails.
    FailingSyncs(Victim),
    /// Every sync of the disk takes this many milliseconds.
    SlowSyncs(Victim, u64),
    /// No file or connection can be opened.
    NoFiles(Victim),
    /// Hardly any memory can be allocated.
    NoMemory(Victim),
    /// SIGTERM and a restart.
    Restart(Victim),
    /// SIGTERM and a restart for each node in turn.
    RollingRestart,
    /// Each node in turn is stopped, and started from the other binary.
    Upgrade,
    /// A node is removed, its data wiped, and it joins again.
    Rejoin(Victim),
    /// The whole cluster is lost except one directory, and is restored from it.
    Restore,
    /// Leadership is handed over, again and again.
    Transfers,
}

/// The node that a fault hits. The leader is determined when the round begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Victim {
    Node(NodeId),
    Leader,
}

/// The links that a fault affects; each leads from one node to another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Routes {
    All,
    /// The links between these nodes and the others, both ways.
    Between(Vec<NodeId>),
    /// The links between one node and the others, both ways.
    Around(Victim),
    /// The links from one node to the others.
    From(Victim),
    /// The links from the others to one node.
    To(Victim),
    /// All links except those from each node to the next in this order.
    AllButRing(Vec<NodeId>),
    /// The links between the nodes before and the nodes after the middle of this order.
    AroundBridge(Vec<NodeId>),
}

/// A kind of fault.
pub(crate) struct Kind {
    /// Its name in the summary and in `--only`.
    pub(crate) name: &'static str,
    /// What it requires of the machine.
    pub(crate) needs: Need,
    /// It is inflicted alone, because it needs all other nodes intact.
    pub(crate) alone: bool,
    draw: fn(&mut Draw<'_>) -> Fault,
}

/// What a kind of fault requires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    Nothing,
    /// libfaketime.
    Clocks,
    /// Links that carry streams of bytes: delay and corruption.
    Streams,
    /// Links that carry packets: loss.
    Packets,
    /// Disks whose failures are simulated.
    Disks,
    /// A previous binary.
    Previous,
    /// No previous binary, because it might not be able to read what a restore made.
    OneBuild,
}

/// Draws the details of a kind: victims, amounts, durations.
pub(crate) struct Draw<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) nodes: &'a [NodeId],
}

/// All kinds.
pub(crate) const KINDS: &[Kind] = &[
    kind("partition", |draw| Fault::Links(Routes::Between(draw.minority()), Weather::CUT)),
    kind("isolated leader", |_| Fault::Links(Routes::Around(Victim::Leader), Weather::CUT)),
    kind("deaf", |draw| Fault::Links(Routes::To(draw.victim()), Weather::CUT)),
    kind("mute", |draw| Fault::Links(Routes::From(draw.victim()), Weather::CUT)),
    kind("ring", |draw| Fault::Links(Routes::AllButRing(draw.order()), Weather::CUT)),
    kind("bridge", |draw| Fault::Links(Routes::AroundBridge(draw.order()), Weather::CUT)),
    kind("no network", |_| Fault::Links(Routes::All, Weather::CUT)),
    kind("flapping", |draw| Fault::Flapping(draw.routes(), Weather::CUT)),
    streams("delay", |draw| {
        let delay_ms = draw.random.within(20..=400);
        Fault::Links(draw.routes(), Weather { delay_ms, ..Weather::default() })
    }),
    streams("jitter", |draw| {
        let jitter_ms = draw.random.within(50..=800);
        Fault::Links(draw.routes(), Weather { jitter_ms, ..Weather::default() })
    }),
    kind("slow", |draw| {
        let bytes_per_s = Some(draw.random.within(2_000..=50_000));
        Fault::Links(draw.routes(), Weather { bytes_per_s, ..Weather::default() })
    }),
    streams("corruption", |draw| {
        let corrupt_percent = *draw.random.pick(&[1, 10, 50]);
        Fault::Links(draw.routes(), Weather { corrupt_percent, ..Weather::default() })
    }),
    kind("resets", |_| Fault::Resets),
    kind("kill", |draw| Fault::Kill { victim: draw.victim(), stays_down: true }),
    kind("kill and restart", |draw| Fault::Kill { victim: draw.victim(), stays_down: false }),
    kind("kill leader", |draw| Fault::Kill {
        victim: Victim::Leader,
        stays_down: draw.random.chance(50),
    }),
    kind("kill all", |draw| Fault::KillAll { stay_down: draw.random.chance(50) }),
    kind("pause", |draw| Fault::Pause(draw.victim())),
    kind("pause leader", |_| Fault::Pause(Victim::Leader)),
    kind("stutter", |draw| Fault::Stutter(draw.victim())),
    clock("clock jump", |draw| Fault::ClockJump(draw.victim(), draw.jump_ms())),
    clock("clock strobe", |draw| Fault::ClockStrobe(draw.victim(), draw.jump_ms())),
    clock("clocks of most", |draw| Fault::ClocksOfMost(draw.jump_ms())),
    kind("disk full", |draw| Fault::DiskFull(draw.victim())),
    disks("power cut", |draw| Fault::PowerCut {
        of: vec![*draw.random.pick(draw.nodes)],
        draw: draw.cut(),
    }),
    disks("power cut of all", |draw| Fault::PowerCut { of: draw.order(), draw: draw.cut() }),
    disks("failing syncs", |draw| Fault::FailingSyncs(draw.victim())),
    disks("slow syncs", |draw| Fault::SlowSyncs(draw.victim(), draw.random.within(20..=800))),
    Kind {
        needs: Need::Packets,
        ..kind("loss", |draw| {
            let loss_percent = *draw.random.pick(&[5, 20, 50]);
            Fault::Links(draw.routes(), Weather { loss_percent, ..Weather::default() })
        })
    },
    kind("no files", |draw| Fault::NoFiles(draw.victim())),
    kind("no memory", |draw| Fault::NoMemory(draw.victim())),
    kind("transfers", |_| Fault::Transfers),
    kind("restart", |draw| Fault::Restart(draw.victim())),
    alone("rolling restart", Need::Nothing, |_| Fault::RollingRestart),
    alone("rolling upgrade", Need::Previous, |_| Fault::Upgrade),
    alone("rejoin", Need::Nothing, |draw| Fault::Rejoin(draw.victim())),
    alone("restore", Need::OneBuild, |_| Fault::Restore),
];

type Drawn = fn(&mut Draw<'_>) -> Fault;

const fn kind(name: &'static str, draw: Drawn) -> Kind {
    Kind { name, needs: Need::Nothing, alone: false, draw }
}

const fn streams(name: &'static str, draw: Drawn) -> Kind {
    Kind { name, needs: Need::Streams, alone: false, draw }
}

const fn disks(name: &'static str, draw: Drawn) -> Kind {
    Kind { name, needs: Need::Disks, alone: false, draw }
}

const fn clock(name: &'static str, draw: Drawn) -> Kind {
    Kind { name, needs: Need::Clocks, alone: false, draw }
}

const fn alone(name: &'static str, needs: Need, draw: Drawn) -> Kind {
    Kind { name, needs, alone: true, draw }
}

impl Kind {
    pub(crate) fn draw(&self, draw: &mut Draw<'_>) -> Fault {
        (self.draw)(draw)
    }
}

impl Draw<'_> {
    fn victim(&mut self) -> Victim {
        if self.random.chance(30) {
            Victim::Leader
        } else {
            Victim::Node(*self.random.pick(self.nodes))
        }
    }

    fn order(&mut self) -> Vec<NodeId> {
        self.random.shuffled(self.nodes.to_vec())
    }

    /// What a power cut leaves of the data that was not synced, and the seed that decides the rest.
    fn cut(&mut self) -> (Cut, u64) {
        let cut = *self.random.pick(&[Cut::Lose, Cut::Tear, Cut::Scatter]);
        (cut, self.random.within(0..=u64::MAX))
    }

    /// Fewer than half of the nodes.
    fn minority(&mut self) -> Vec<NodeId> {
        let most = (self.nodes.len() - 1) / 2;
        let count = self.random.within(1..=most as u64) as usize;
        let mut some = self.order();
        some.truncate(count);
        some.sort_unstable();
        some
    }

    fn routes(&mut self) -> Routes {
        match self.random.within(0..=3) {
            0 => Routes::All,
            1 => Routes::Around(self.victim()),
            2 => Routes::From(self.victim()),
            _ => Routes::To(self.victim()),
        }
    }

    /// A clock jump: from a millisecond to years, forward or back, often by about the span of time that nodes
    /// have used recently.
    fn jump_ms(&mut self) -> i64 {
        const SPANS: [(u64, u64); 6] = [
            (1, 100),
            (100, 3_000),
            (3_000, 60_000),
            (60_000, 3_600_000),
            (86_400_000, 30 * 86_400_000),
            (365 * 86_400_000, 10 * 365 * 86_400_000),
        ];
        let &(least, most) = self.random.pick(&SPANS);
        let by_ms = self.random.within(least..=most).cast_signed();
        if self.random.chance(50) { by_ms } else { -by_ms }
    }
}

impl Victim {
    pub(crate) fn node(self, leader: NodeId) -> NodeId {
        match self {
            Self::Node(id) => id,
            Self::Leader => leader,
        }
    }
}

impl Routes {
    /// The links between these nodes, each from one node to another.
    pub(crate) fn links(&self, nodes: &[NodeId], leader: NodeId) -> Vec<(NodeId, NodeId)> {
        let pairs = nodes.iter().flat_map(|&from| nodes.iter().map(move |&to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from != to);
        pairs.filter(|&(from, to)| self.holds(from, to, leader)).collect()
    }

    fn holds(&self, from: NodeId, to: NodeId, leader: NodeId) -> bool {
        match self {
            Self::All => true,
            Self::Between(some) => some.contains(&from) != some.contains(&to),
            Self::Around(one) => [from, to].contains(&one.node(leader)),
            Self::From(one) => from == one.node(leader),
            Self::To(one) => to == one.node(leader),
            Self::AllButRing(order) => {
                let after = |id| place(order, id).map(|at| (at + 1) % order.len());
                after(from) != place(order, to)
            }
            Self::AroundBridge(order) => {
                let side = |id| place(order, id).map(|at| at.cmp(&(order.len() / 2)) as i8);
                let (from, to) = (side(from).unwrap_or(0), side(to).unwrap_or(0));
                from * to < 0
            }
        }
    }
}

fn place(order: &[NodeId], id: NodeId) -> Option<usize> {
    order.iter().position(|&at| at == id)
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(id) => write!(f, "node {id}"),
            Self::Leader => f.write_str("the leader"),
        }
    }
}

impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all links"),
            Self::Between(some) => write!(f, "between {some:?} and the others"),
            Self::Around(one) => write!(f, "between {one} and the others"),
            Self::From(one) => write!(f, "from {one} to the others"),
            Self::To(one) => write!(f, "from the others to {one}"),
            Self::AllButRing(order) => write!(f, "all links but the ring {order:?}"),
            Self::AroundBridge(order) => write!(f, "around the bridge in {order:?}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: &i64| *ms as f64 / 1000.0;
        match self {
            Self::Links(routes, weather) => write!(f, "{weather}: {routes}"),
            Self::Flapping(routes, weather) => write!(f, "{weather}, on and off: {routes}"),
            Self::Resets => f.write_str("connections are reset"),
            Self::Kill { victim, stays_down: true } => write!(f, "{victim} killed, stays down"),
            Self::Kill { victim, .. } => write!(f, "{victim} killed"),
            Self::KillAll { stay_down: true } => f.write_str("all killed, stay down"),
            Self::KillAll { .. } => f.write_str("all killed"),
            Self::Pause(victim) => write!(f, "{victim} paused"),
            Self::Stutter(victim) => write!(f, "{victim} stutters"),
            Self::ClockJump(victim, ms) => write!(f, "clock of {victim} {:+} s", seconds(ms)),
            Self::ClockStrobe(victim, ms) => {
                write!(f, "clock of {victim} to and fro by {:+} s", seconds(ms))
            }
            Self::ClocksOfMost(ms) => write!(f, "clocks of a majority {:+} s", seconds(ms)),
            Self::DiskFull(victim) => write!(f, "disk of {victim} full"),
            Self::PowerCut { of, draw: (cut, _) } => write!(f, "power cut of {of:?}: {cut:?}"),
            Self::FailingSyncs(victim) => write!(f, "syncs of {victim} fail"),
            Self::SlowSyncs(victim, ms) => write!(f, "syncs of {victim} take {ms} ms"),
            Self::NoFiles(victim) => write!(f, "{victim} can open no files"),
            Self::NoMemory(victim) => write!(f, "{victim} has hardly any memory left"),
            Self::Restart(victim) => write!(f, "{victim} restarted"),
            Self::RollingRestart => f.write_str("rolling restart"),
            Self::Upgrade => f.write_str("rolling upgrade"),
            Self::Rejoin(victim) => write!(f, "{victim} removed, wiped and joined again"),
            Self::Restore => f.write_str("all lost but one directory, and restored"),
            Self::Transfers => f.write_str("leadership handed over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(routes: &Routes) -> Vec<(NodeId, NodeId)> {
        routes.links(&[1, 2, 3], 2)
    }

    #[test]
    fn routes_name_each_direction_by_itself() {
        assert_eq!(links(&Routes::All).len(), 6);
        assert_eq!(links(&Routes::Between(vec![1])), [(1, 2), (1, 3), (2, 1), (3, 1)]);
        assert_eq!(links(&Routes::From(Victim::Leader)), [(2, 1), (2, 3)]);
        assert_eq!(links(&Routes::To(Victim::Node(3))), [(1, 3), (2, 3)]);
    }

    #[test]
    fn a_ring_leaves_one_way_round_and_a_bridge_the_middle() {
        assert_eq!(links(&Routes::AllButRing(vec![1, 2, 3])), [(1, 3), (2, 1), (3, 2)]);
        assert_eq!(links(&Routes::AroundBridge(vec![3, 1, 2])), [(2, 3), (3, 2)]);
        let five = Routes::AroundBridge(vec![1, 2, 3, 4, 5]).links(&[1, 2, 3, 4, 5], 1);
        assert_eq!(five.len(), 8);
        assert!(five.iter().all(|&(from, to)| from != 3 && to != 3));
    }

    #[test]
    fn a_minority_is_one() {
        let mut random = Random::new(1, "test");
        let nodes = [1, 2, 3, 4, 5];
        for _ in 0..100 {
            let some = Draw { random: &mut random, nodes: &nodes }.minority();
            assert!((1..=2).contains(&some.len()), "{some:?}");
        }
    }
}
