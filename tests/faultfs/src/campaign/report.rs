//! The report of a campaign, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The results of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Rounds by kind.
    pub rounds: BTreeMap<String, u64>,
    /// The reactions of nodes, by kind.
    pub answers: BTreeMap<String, u64>,
    /// Ids handed out.
    pub ids: u64,
    /// Tags acknowledged.
    pub tags: usize,
    /// Power cuts of a node, by what happened to the unsynced changes.
    pub cuts: BTreeMap<String, u64>,
    /// Changes that were unsynced at a power cut.
    pub caught: u64,
    /// How long after the healing all nodes served, in each round.
    pub recoveries: Vec<Duration>,
    /// Broken promises.
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds: u64 = self.rounds.values().sum();
        writeln!(f, "seed {}: {rounds} rounds, {} ids, {} tags", self.seed, self.ids, self.tags)?;
        let cuts: u64 = self.cuts.values().sum();
        writeln!(f, "power cuts of a node: {cuts} {:?}", self.cuts)?;
        writeln!(f, "unsynced changes hit by power cuts: {}", self.caught)?;
        for (kind, count) in &self.rounds {
            writeln!(f, "  {count:4} x {kind}")?;
        }
        writeln!(f, "what the nodes did:")?;
        for (answer, count) in &self.answers {
            writeln!(f, "  {count:4} x {answer}")?;
        }
        let mut recoveries = self.recoveries.clone();
        recoveries.sort();
        if let (Some(median), Some(longest)) =
            (recoveries.get(recoveries.len() / 2), recoveries.last())
        {
            writeln!(
                f,
                "all nodes served after healing within {longest:.1?} (median {median:.1?})"
            )?;
        }
        writeln!(f, "violations: {}", self.violations.len())?;
        self.violations.iter().take(20).try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}
