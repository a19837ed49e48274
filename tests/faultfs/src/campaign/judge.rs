//! What was promised so far, and whether it was kept.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

/// Everything that nodes acknowledged. A broken promise is noted when it is seen.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    inner: Mutex<Promised>,
}

#[derive(Debug, Default)]
struct Promised {
    /// Ids handed out: by tag, disjoint ranges from start to end, the end not in it.
    ids: BTreeMap<String, BTreeMap<u64, u64>>,
    /// Tags whose creation was acknowledged.
    tags: Vec<String>,
    violations: Vec<String>,
    ids_count: u64,
}

impl Ledger {
    /// Notes that ids were handed out.
    pub(super) fn note_ids(&self, tag: &str, start: u64, end: u64, node: u64) {
        let mut promised = self.inner.lock();
        let promised = &mut *promised;
        let ranges = promised.ids.entry(tag.to_owned()).or_default();
        let before = ranges.range(..end).next_back().map(|(&start, &end)| (start, end));
        if let Some(other) = before.filter(|before| before.1 > start) {
            promised.violations.push(format!(
                "ids of {tag} twice: node {node} gave {start}..{end}, {}..{} were given before",
                other.0, other.1
            ));
            return;
        }
        promised.ids_count += end - start;
        match before.filter(|before| before.1 == start) {
            Some((first, _)) => ranges.insert(first, end),
            None => ranges.insert(start, end),
        };
    }

    /// Notes that a new tag was acknowledged.
    pub(super) fn note_tag(&self, tag: String) {
        self.inner.lock().tags.push(tag);
    }

    pub(super) fn violation(&self, what: String) {
        self.inner.lock().violations.push(what);
    }

    /// What a listing must hold: acknowledged tags, each with the mark that it has at least.
    pub(super) fn expected(&self) -> BTreeMap<String, u64> {
        let promised = self.inner.lock();
        let mark = |tag: &String| {
            let ranges = promised.ids.get(tag)?;
            ranges.last_key_value().map(|(_, &end)| end)
        };
        promised.tags.iter().map(|tag| (tag.clone(), mark(tag).unwrap_or(1))).collect()
    }

    /// Holds what a node lists, tags and their marks, against what was promised before it was
    /// asked.
    pub(super) fn judge(
        &self,
        node: u64,
        expected: &BTreeMap<String, u64>,
        listed: &BTreeMap<String, u64>,
    ) {
        for (tag, least) in expected {
            match listed.get(tag) {
                None => {
                    self.violation(format!("acknowledged tag {tag} is lost, as node {node} says"));
                }
                Some(mark) if mark < least => self.violation(format!(
                    "tag {tag} gave ids up to {least}, and its mark is {mark}, as node {node} says"
                )),
                Some(_) => {}
            }
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
    }

    /// Ids handed out, and tags acknowledged.
    pub(super) fn counts(&self) -> (u64, usize) {
        let promised = self.inner.lock();
        (promised.ids_count, promised.tags.len())
    }
}

/// What a campaign saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Rounds by kind.
    pub rounds: BTreeMap<String, u64>,
    /// What nodes did in answer, by kind.
    pub answers: BTreeMap<String, u64>,
    /// Ids handed out.
    pub ids: u64,
    /// Tags acknowledged.
    pub tags: usize,
    /// Power cuts of a node, by what became of the unsynced changes.
    pub cuts: BTreeMap<String, u64>,
    /// Changes that were unsynced when the power went.
    pub caught: u64,
    /// How long after healing all nodes served, in each round.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(ranges: &[(u64, u64)]) -> Ledger {
        let ledger = Ledger::default();
        ledger.note_tag("t".to_owned());
        for &(start, end) in ranges {
            ledger.note_ids("t", start, end, 1);
        }
        ledger
    }

    #[test]
    fn overlap_of_any_shape_is_an_id_twice() {
        assert!(ledger(&[(1, 5), (10, 15), (5, 10), (15, 16)]).violations().is_empty());
        for again in [(4, 6), (9, 11), (11, 12), (8, 20), (10, 15), (1, 2)] {
            let ledger = ledger(&[(1, 5), (10, 15), again]);
            assert_eq!(ledger.violations().len(), 1, "{again:?}");
        }
    }

    #[test]
    fn lost_tag_and_lowered_mark_are_seen() {
        let ledger = ledger(&[(1, 5)]);
        let expected = ledger.expected();
        assert_eq!(expected, BTreeMap::from([("t".to_owned(), 5)]));
        ledger.judge(1, &expected, &BTreeMap::from([("t".to_owned(), 5)]));
        assert!(ledger.violations().is_empty());
        ledger.judge(1, &expected, &BTreeMap::from([("t".to_owned(), 4)]));
        ledger.judge(1, &expected, &BTreeMap::new());
        assert_eq!(ledger.violations().len(), 2);
    }
}
