//! Compares what was observed in a climate with what is promised there, and shows it as one line of a table.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::climate::{Climate, HAND_OVER_MAX, PAUSE_MAX};
use crate::links::NodeId;

/// The percentage of changes under load that may be refused: those with a packet that was lost again and again.
const REFUSED_PERCENT_MAX: usize = 1;
/// How many refusals are printed for each climate.
const REFUSALS_SHOWN: usize = 3;

/// The kind of a request.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    /// A tag is made.
    Create,
    /// A tag is changed.
    Patch,
    /// The first id of a tag that does not exist yet.
    FirstUse,
    /// An id in strict order.
    Strict,
    /// An id from what a node holds.
    Plain,
}

/// Everything that was observed in one climate.
pub(crate) struct Report {
    pub(crate) climate: Climate,
    pub(crate) nodes: Vec<NodeId>,
    /// The node that led while requests were measured.
    pub(crate) leader: NodeId,
    /// Time from the first start until all nodes were ready.
    pub(crate) formed: Option<Duration>,
    /// Time until a node led that may lead; the inner `None` means never.
    pub(crate) hand_over: Option<Option<Duration>>,
    /// Changes of the leader since then.
    pub(crate) changes: usize,
    /// What the nodes reported at the end.
    pub(crate) state: Vec<String>,
    pub(crate) broken: Vec<String>,
    quiet: BTreeMap<(Kind, NodeId), Vec<Duration>>,
    answered: BTreeMap<(Kind, NodeId), usize>,
    refusals: Vec<String>,
    plain_refused: usize,
    pause: Duration,
}

impl Report {
    pub(crate) fn new(climate: Climate) -> Self {
        Self {
            climate,
            nodes: Vec::new(),
            leader: 0,
            formed: None,
            hand_over: None,
            changes: 0,
            state: Vec::new(),
            broken: Vec::new(),
            quiet: BTreeMap::new(),
            answered: BTreeMap::new(),
            refusals: Vec::new(),
            plain_refused: 0,
            pause: Duration::ZERO,
        }
    }

    /// Prints the progress.
    pub(crate) fn said(&self, what: &str) {
        eprintln!("{:>14}  {what}", self.climate.name);
    }

    /// Notes how long a request took that had the cluster to itself.
    pub(crate) fn sample(&mut self, kind: Kind, node: NodeId, took: Result<Duration, String>) {
        match took {
            Ok(took) => self.quiet.entry((kind, node)).or_default().push(took),
            Err(why) => self.refusals.push(why),
        }
    }

    /// Notes the outcome of a request under load.
    pub(crate) fn pressed(&mut self, kind: Kind, node: NodeId, took: Result<Duration, String>) {
        match took {
            Ok(took) => {
                *self.answered.entry((kind, node)).or_default() += 1;
                if kind == Kind::Plain {
                    self.pause = self.pause.max(took);
                }
            }
            Err(why) => {
                self.plain_refused += usize::from(kind == Kind::Plain);
                self.refusals.push(why);
            }
        }
    }

    fn median(&self, kind: Kind, node: NodeId) -> Option<Duration> {
        let mut samples = self.quiet.get(&(kind, node))?.clone();
        samples.sort_unstable();
        samples.get(samples.len() / 2).copied()
    }

    fn followers(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().copied().filter(|&node| node != self.leader)
    }

    /// The worst median of the followers.
    fn follower_median(&self, kind: Kind) -> Option<Duration> {
        self.followers().filter_map(|node| self.median(kind, node)).max()
    }

    /// All promises that were broken.
    fn judge(&self) -> Vec<String> {
        let climate = self.climate;
        let mut broken = self.broken.clone();
        match self.formed {
            None => broken.push(format!("never formed: {}", self.state.join("; "))),
            Some(took) if took > climate.forming_max() => {
                broken
                    .push(format!("formed after {took:?}, not within {:?}", climate.forming_max()));
            }
            Some(_) => {}
        }
        match self.hand_over {
            Some(None) => {
                broken.push("a leader that is worse than the others keeps the lead".into());
            }
            Some(Some(took)) if took > HAND_OVER_MAX => {
                broken.push(format!("handed over after {took:?}, not within {HAND_OVER_MAX:?}"));
            }
            _ => {}
        }
        if self.changes > 0 {
            broken.push(format!("{} changes of leaders", self.changes));
        }
        if self.plain_refused > 0 {
            broken.push(format!("{} plain ids were refused", self.plain_refused));
        }
        if self.pause > PAUSE_MAX {
            broken.push(format!("plain ids paused for {:?}", self.pause));
        }
        for &node in &self.nodes {
            self.judge_costs(node, &mut broken);
        }
        let answered: usize = self.answered.values().sum();
        let total = answered + self.refusals.len();
        if self.refusals.len() * 100 > total * REFUSED_PERCENT_MAX {
            broken.push(format!("{} of {total} requests refused", self.refusals.len()));
        }
        broken
    }

    fn judge_costs(&self, node: NodeId, broken: &mut Vec<String>) {
        let (climate, leader, nodes) = (self.climate, self.leader, &self.nodes);
        let (create, strict) = match node == leader {
            true => (
                climate.change_at_leader_max(leader, nodes),
                climate.strict_at_leader_max(leader, nodes),
            ),
            false => (
                climate.change_at_follower_max(leader, node, nodes),
                climate.strict_at_follower_max(leader, node, nodes),
            ),
        };
        let role = if node == leader { "leader" } else { "follower" };
        for (what, kind, max) in
            [("a create", Kind::Create, create), ("a strict id", Kind::Strict, strict)]
        {
            match self.median(kind, node) {
                None => broken.push(format!("{what} at node {node}, a {role}: never answered")),
                Some(took) if took > max => broken.push(format!(
                    "{what} at node {node}, a {role}: {took:.0?}, not within {max:.0?}"
                )),
                Some(_) => {}
            }
        }
    }

    /// A time, and the number of round trips that it equals where round trips take any time.
    fn cost(&self, took: Option<Duration>) -> String {
        let Some(took) = took else { return "-".to_owned() };
        let pairs = self.followers().map(|node| self.climate.round_trip(self.leader, node));
        match pairs.max().filter(|round_trip| !round_trip.is_zero()) {
            Some(round_trip) => {
                format!(
                    "{} ({:.2})",
                    took.as_millis(),
                    took.as_secs_f64() / round_trip.as_secs_f64()
                )
            }
            None => took.as_millis().to_string(),
        }
    }

    fn line(&self) -> [String; 13] {
        let seconds = |took: Duration| format!("{:.1}", took.as_secs_f64());
        let under_load = |kind| {
            let all = self.answered.iter().filter(|((of, _), _)| *of == kind);
            all.map(|(_, count)| count).sum::<usize>().to_string()
        };
        let never = || "never".to_owned();
        [
            self.climate.name.to_owned(),
            self.formed.map_or_else(never, seconds),
            self.hand_over.map_or_else(String::new, |took| took.map_or_else(never, seconds)),
            self.changes.to_string(),
            self.cost(self.median(Kind::Create, self.leader)),
            self.cost(self.follower_median(Kind::Create)),
            self.cost(self.median(Kind::FirstUse, self.leader)),
            self.cost(self.follower_median(Kind::FirstUse)),
            self.cost(self.median(Kind::Strict, self.leader)),
            self.cost(self.follower_median(Kind::Strict)),
            self.pause.as_millis().to_string(),
            under_load(Kind::Create),
            self.refusals.len().to_string(),
        ]
    }
}

const HEAD: [&str; 13] = [
    "climate",
    "formed s",
    "hand-over s",
    "changes",
    "create L",
    "create F",
    "first use L",
    "first use F",
    "strict L",
    "strict F",
    "pause",
    "creates",
    "refused",
];

/// Prints the table and all broken promises. Returns true when there are none.
pub(crate) fn print(reports: &[Report]) -> bool {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(reports.iter().map(Report::line));
    let widths: [usize; 13] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    println!(
        "times in ms, in brackets round trips to the leader; L at the leader, F at the slower follower"
    );
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  "));
    }
    let mut kept = true;
    for report in reports {
        for what in report.judge() {
            println!("BROKEN: {}: {what}", report.climate.name);
            kept = false;
        }
        for refusal in report.refusals.iter().take(REFUSALS_SHOWN) {
            println!("refused: {}: {refusal}", report.climate.name);
        }
    }
    kept
}
