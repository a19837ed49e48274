//! Counts of one run or of many, and the text that carries them from a run's process to the campaign.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::scenario::Verdict;

/// Counts of one run, or of many.
#[derive(Default)]
pub(crate) struct Tally {
    /// The hash of the trace; 0 for many runs.
    pub(crate) hash: u64,
    /// The climate of one run, in words.
    pub(crate) climate: String,
    counts: BTreeMap<String, u64>,
    pub(crate) violations: Vec<String>,
}

impl Tally {
    pub(crate) fn of(verdict: &Verdict) -> Self {
        let (hash, lines) = verdict.trace.digest();
        let mut counts = BTreeMap::from([
            ("ids".to_owned(), verdict.ids),
            ("commits".to_owned(), verdict.commits),
            ("steps".to_owned(), verdict.steps),
            ("messages".to_owned(), verdict.messages),
            ("unjudged".to_owned(), verdict.unjudged),
            ("simulated ms".to_owned(), verdict.simulated_ms),
            ("lines".to_owned(), lines),
            ("bad climates".to_owned(), u64::from(!verdict.climate.is_mild())),
        ]);
        for (kind, count) in verdict.trace.faults() {
            counts.insert(format!("fault {kind}"), count);
        }
        Self { hash, climate: verdict.climate.to_string(), counts, violations: Vec::new() }
    }

    /// The text that [`Tally::parse`] reads.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("trace\t{:016x}\nclimate\t{}\n", self.hash, self.climate);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "count\t{name}\t{count}");
        }
        text
    }

    /// Reads the output of a run's process.
    pub(crate) fn parse(text: &str) -> Self {
        let mut tally = Self::default();
        for line in text.lines() {
            let mut fields = line.split('\t');
            match (fields.next(), fields.next(), fields.next()) {
                (Some("trace"), Some(hash), _) => {
                    tally.hash = u64::from_str_radix(hash, 16).unwrap_or(0);
                }
                (Some("count"), Some(name), Some(count)) => {
                    tally.counts.insert(name.to_owned(), count.parse().unwrap_or(0));
                }
                (Some("climate"), Some(climate), _) => climate.clone_into(&mut tally.climate),
                (Some("violation"), Some(what), _) => tally.violations.push(what.to_owned()),
                _ => {}
            }
        }
        tally
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name.clone()).or_default() += count;
        }
    }

    /// The count of this name.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// How often each kind of fault was injected.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&str, u64)> {
        let faults = self.counts.iter();
        faults.filter_map(|(name, count)| Some((name.strip_prefix("fault ")?, *count)))
    }
}
