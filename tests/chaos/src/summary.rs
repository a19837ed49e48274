//! The figures and the verdict of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use mintleaf_check::Report;

use crate::climate::Climate;
use crate::links::NodeId;
use crate::node::Incidents;
use crate::options::Options;

/// How many ends of processes are printed in full.
const COLLAPSES_SHOWN: usize = 20;

/// Collects the figures of a run.
#[derive(Debug)]
pub(crate) struct Summary {
    seed: u64,
    climate: &'static str,
    length: String,
    nodes: u64,
    /// What the machine, or a binary, lacks.
    pub(crate) skipped: Vec<String>,
    pub(crate) rounds: u64,
    /// Nodes whose data directory had to be wiped.
    pub(crate) spoilt: u64,
    /// Promises that were broken, in addition to those in the history.
    pub(crate) broken: Vec<String>,
    /// How long each node took to serve again, in all rounds.
    recoveries: BTreeMap<NodeId, Vec<Duration>>,
}

impl Summary {
    pub(crate) fn new(
        options: &Options,
        seed: u64,
        climate: Climate,
        skipped: Vec<String>,
    ) -> Self {
        Self {
            seed,
            climate: climate.name,
            length: options.length(),
            nodes: options.nodes,
            skipped,
            rounds: 0,
            spoilt: 0,
            broken: Vec::new(),
            recoveries: BTreeMap::new(),
        }
    }

    /// Notes how long each node took to serve again after a round.
    pub(crate) fn recovered(&mut self, took: &BTreeMap<NodeId, Duration>) {
        for (&node, &took) in took {
            self.recoveries.entry(node).or_default().push(took);
        }
    }

    /// Prints everything. Returns true when no promise was broken.
    pub(crate) fn print(
        &self,
        report: &Report,
        incidents: &Incidents,
        counts: &BTreeMap<&'static str, u64>,
    ) -> bool {
        println!("\n{report}");
        let Self { seed, climate, length, nodes, rounds, .. } = self;
        println!(
            "seed {seed}, climate {climate}, {length}, {nodes} nodes, {rounds} rounds of faults:"
        );
        let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("  {}", counts.join(", "));
        self.print_recoveries();
        self.print_collapses(incidents);
        for what in &self.skipped {
            println!("SKIPPED: {what}");
        }
        let distrusted = incidents.collapses.iter().filter(|end| end.spoilt && !end.excused);
        let distrusted: Vec<_> = distrusted
            .map(|end| format!("a disk that was not touched is given up: {end}"))
            .collect();
        let broken = [&self.broken, &incidents.outcries, &distrusted].into_iter().flatten();
        let broken: Vec<&String> = broken.collect();
        for what in &broken {
            println!("BROKEN: {what}");
        }
        report.is_clean() && broken.is_empty()
    }

    fn print_recoveries(&self) {
        for (node, took) in &self.recoveries {
            let mut took = took.clone();
            took.sort_unstable();
            let ms = |at: usize| took[at].as_millis();
            let (half, last) = (took.len() / 2, took.len() - 1);
            println!(
                "  node {node} served again after {} ms at the median, {} ms at most",
                ms(half),
                ms(last)
            );
        }
    }

    fn print_collapses(&self, incidents: &Incidents) {
        let collapses = &incidents.collapses;
        let excused = collapses.iter().filter(|end| end.excused).count();
        println!(
            "  {} processes ended by themselves, {excused} of them short of a resource; {} data \
             directories were given up",
            collapses.len(),
            self.spoilt
        );
        for end in collapses.iter().filter(|end| !end.excused).take(COLLAPSES_SHOWN) {
            println!("    {end}");
        }
    }
}
