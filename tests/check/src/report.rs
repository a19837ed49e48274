//! The findings, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::evidence::Line;

/// How many violations of one invariant are kept in full; the rest are counted.
const KEPT_MAX: usize = 10;

/// A promise that histories are checked against.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Invariant {
    /// No id is handed out twice, and every id is a positive number of 63 bits.
    I1,
    /// Granted ranges of a tag are disjoint; every id lies in one of its issuer's.
    I2,
    /// A tag's `max_id` never falls, and lies above every id that was handed out.
    I3,
    /// Windows of a worker id are disjoint; every snowflake id lies in one of its issuer's.
    I4,
    /// Ids rise: per node and tag, snowflake ids per process.
    I5,
    /// Operations on tags are linearizable, and no acknowledged tag is lost.
    I6,
    /// After healing every node serves again in time.
    I8,
}

impl Invariant {
    /// All promises that are checked.
    pub const ALL: [Self; 7] =
        [Self::I1, Self::I2, Self::I3, Self::I4, Self::I5, Self::I6, Self::I8];

    fn promise(self) -> &'static str {
        match self {
            Self::I1 => "no id twice",
            Self::I2 => "ids lie in grants of their issuer, which are disjoint",
            Self::I3 => "max_id never falls and stays above the ids",
            Self::I4 => "snowflake ids lie in windows of their issuer, which are disjoint",
            Self::I5 => "ids rise per node and tag, snowflake ids per process",
            Self::I6 => "operations on tags are linearizable, no tag is lost",
            Self::I8 => "after healing every node serves again in time",
        }
    }
}

impl std::str::FromStr for Invariant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |invariant: &Self| format!("{invariant:?}").eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| "one of I1 to I6, I8".to_owned())
    }
}

/// A broken promise and the lines that show it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Violation {
    /// The promise.
    pub invariant: Invariant,
    /// A description.
    pub what: String,
    /// Usually two: a fact, and another one that contradicts it.
    pub lines: Vec<Cited>,
}

/// A line of the input.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Cited {
    /// The file's name as it was given.
    pub file: String,
    /// The line's number in the file, from 1.
    pub line: u64,
    /// The line itself.
    pub text: String,
}

/// The outcome of one check.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// How many violations were found.
    pub violations: u64,
    /// Why all or part of it was not checked.
    pub unchecked: Vec<String>,
}

/// How one node answered one kind of request.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Service {
    /// The node.
    pub node: u64,
    /// The kind of request.
    pub op: &'static str,
    /// The longest time without a success between the first request and the last, in milliseconds.
    pub longest_gap_ms: u64,
    /// When that began, in milliseconds since the first operation of the history.
    pub longest_gap_at_ms: u64,
    /// The slowest recovery after a healing, in milliseconds; `None` when there was none to judge.
    pub slowest_recovery_ms: Option<u64>,
}

/// The whole report about a history.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Lines read.
    pub lines: u64,
    /// The time from the first operation to the last, in milliseconds.
    pub duration_ms: u64,
    /// Operations by kind and outcome.
    pub operations: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Tags that appear in the history.
    pub tags: u64,
    /// Ids of tags handed out.
    pub ids: u64,
    /// Snowflake ids handed out.
    pub flakes: u64,
    /// Grants recorded.
    pub grants: u64,
    /// Windows recorded.
    pub windows: u64,
    /// Faults recorded.
    pub faults: u64,
    /// How each node served.
    pub service: Vec<Service>,
    /// The outcome of each check.
    pub verdicts: BTreeMap<Invariant, Verdict>,
    /// Broken promises, the first of each kind.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether no promise was seen broken.
    pub fn is_clean(&self) -> bool {
        self.verdicts.values().all(|verdict| verdict.violations == 0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines, tags, ids, flakes, grants, windows, faults, .. } = self;
        let seconds = self.duration_ms as f64 / 1000.0;
        writeln!(
            f,
            "{lines} lines over {seconds:.1} s: {ids} ids of {tags} tags, {flakes} snowflake ids, {grants} grants, {windows} windows, {faults} faults"
        )?;
        for (op, outcomes) in &self.operations {
            let outcomes: Vec<_> = outcomes.iter().map(|(out, n)| format!("{n} {out}")).collect();
            writeln!(f, "  {op:<7} {}", outcomes.join(", "))?;
        }
        if !self.service.is_empty() {
            writeln!(f, "longest time without a success, and slowest recovery after healing:")?;
        }
        for service in &self.service {
            writeln!(f, "  {service}")?;
        }
        for violation in &self.violations {
            write!(f, "{violation}")?;
        }
        for (invariant, verdict) in &self.verdicts {
            writeln!(f, "{invariant:?} {:<68} {verdict}", invariant.promise())?;
        }
        writeln!(f, "{}", if self.is_clean() { "no violation" } else { "VIOLATED" })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, op, longest_gap_ms, longest_gap_at_ms, slowest_recovery_ms } = self;
        write!(f, "node {node} {op:<7} {longest_gap_ms} ms from {longest_gap_at_ms} ms on")?;
        slowest_recovery_ms.map_or(Ok(()), |ms| write!(f, "; recovered in {ms} ms"))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violations {
            0 if self.unchecked.is_empty() => write!(f, "holds")?,
            0 => {}
            1 => write!(f, "VIOLATED once")?,
            times => write!(f, "VIOLATED {times} times")?,
        }
        if !self.unchecked.is_empty() {
            let also = if self.violations > 0 { "; " } else { "" };
            write!(f, "{also}NOT CHECKED: {}", self.unchecked.join("; "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} VIOLATED: {}", self.invariant, self.what)?;
        for Cited { file, line, text } in &self.lines {
            writeln!(f, "  {file}:{line}: {text}")?;
        }
        Ok(())
    }
}

/// Collects the findings of the checks.
#[derive(Default)]
pub(crate) struct Findings {
    skipped: BTreeSet<Invariant>,
    verdicts: BTreeMap<Invariant, Verdict>,
    kept: Vec<Found>,
}

pub(crate) struct Found {
    pub(crate) invariant: Invariant,
    pub(crate) what: String,
    pub(crate) lines: Vec<Line>,
}

impl Found {
    pub(crate) fn with(self, cited: &BTreeMap<Line, Cited>) -> Violation {
        let lines = self.lines.iter().map(|line| cited[line].clone()).collect();
        Violation { invariant: self.invariant, what: self.what, lines }
    }
}

impl Findings {
    pub(crate) fn new(skipped: &[Invariant]) -> Self {
        let mut findings = Self::default();
        for invariant in Invariant::ALL {
            findings.verdicts.insert(invariant, Verdict::default());
        }
        for &invariant in skipped {
            findings.unchecked(invariant, "skipped as asked");
            findings.skipped.insert(invariant);
        }
        findings
    }

    /// Whether a check is to be made at all.
    pub(crate) fn wants(&self, invariant: Invariant) -> bool {
        !self.skipped.contains(&invariant)
    }

    pub(crate) fn violation(
        &mut self,
        invariant: Invariant,
        what: impl Into<String>,
        lines: impl Into<Vec<Line>>,
    ) {
        if !self.wants(invariant) {
            return;
        }
        let verdict = self.verdicts.entry(invariant).or_default();
        verdict.violations += 1;
        if verdict.violations <= KEPT_MAX as u64 {
            self.kept.push(Found { invariant, what: what.into(), lines: lines.into() });
        }
    }

    pub(crate) fn unchecked(&mut self, invariant: Invariant, why: impl Into<String>) {
        if self.wants(invariant) {
            self.verdicts.entry(invariant).or_default().unchecked.push(why.into());
        }
    }

    pub(crate) fn into_parts(mut self) -> (BTreeMap<Invariant, Verdict>, Vec<Found>) {
        self.kept.sort_by_key(|found| found.invariant);
        (self.verdicts, self.kept)
    }
}
