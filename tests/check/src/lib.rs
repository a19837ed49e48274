//! Judges the observed behaviour of an id service.
//!
//! A history ([`history`]) is read once, line by line, into packed evidence. Each check then sorts what it
//! needs and makes one pass over it. [`Invariant`] lists the promises; a [`Report`] contains the findings.
//!
//! The judge does not depend on how the service works: it accepts a history of any service.

mod admin;
mod availability;
mod evidence;
pub mod generate;
pub mod history;
mod input;
mod marks;
mod names;
mod parse;
mod register;
mod report;
mod search;
mod spans;
mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use evidence::{Evidence, to_ms};
use report::Findings;

pub use input::{Input, Unreadable};
pub use report::{Cited, Invariant, Report, Service, Verdict, Violation};

/// How a history is judged.
#[derive(Clone, Debug)]
pub struct Options {
    /// Promises that are not checked.
    pub skip: Vec<Invariant>,
    /// How soon after a healing every node must serve again.
    pub recovery: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { skip: Vec::new(), recovery: Duration::from_secs(10) }
    }
}

/// Judges a history.
///
/// # Errors
/// When it cannot be read, or a line does not have the format of a history.
pub fn check(mut input: Input, options: &Options) -> Result<Report, Unreadable> {
    let mut findings = Findings::new(&options.skip);
    let mut evidence = Evidence::default();
    let lines = input.read(&mut evidence, &mut findings)?;
    let mut report = summary(&evidence, lines);
    spans::check(&mut evidence, &mut findings);
    windows::check(&evidence, &mut findings);
    if findings.wants(Invariant::I3) {
        marks::check(&evidence, &mut findings);
    }
    if findings.wants(Invariant::I6) {
        admin::check(&evidence, &mut findings);
    }
    report.service = availability::check(&mut evidence, options.recovery, &mut findings);
    let (verdicts, found) = findings.into_parts();
    let cited = input.cite(found.iter().flat_map(|found| found.lines.iter().copied()))?;
    report.verdicts = verdicts;
    report.violations = found.into_iter().map(|found| found.with(&cited)).collect();
    Ok(report)
}

fn summary(evidence: &Evidence, lines: u64) -> Report {
    let totals = &evidence.totals;
    let mut operations: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (&(kind, outcome), &count) in &totals.outcomes {
        operations.entry(kind.name()).or_default().insert(outcome, count);
    }
    let capped = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
    Report {
        lines,
        duration_ms: to_ms(totals.last_ns.saturating_sub(totals.first_ns.unwrap_or(0))),
        operations,
        tags: evidence.tags.len() as u64,
        ids: capped(totals.ids),
        flakes: capped(totals.flakes),
        grants: totals.grants,
        windows: totals.windows,
        faults: evidence.faults_ms.len() as u64,
        ..Report::default()
    }
}
