//! I6: is there an order of a tag's operations, within their times, that explains all answers?

use std::collections::HashSet;
use std::time::Duration;

use porcupine_rs::{CheckResult, Operation, check_operations_timeout};

use crate::evidence::{AdminOp, Evidence, Kind, Line, PackedRow, TagLine, Told};
use crate::register::{Register, Step};
use crate::report::{Findings, Invariant};

/// The search of one tag is given up after this long. It bounds memory too.
const SEARCH_MAX: Duration = Duration::from_secs(5);
/// How many operations before an impossible one are tried as what it contradicts.
const SUSPECTS_MAX: usize = 32;

pub(crate) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut undecided = 0_u64;
    for (number, line) in evidence.lines.iter().enumerate() {
        let tag = evidence.tags.name(number as u32);
        lost(tag, line, findings);
        let steps = steps(&line.admin);
        match judge(&steps) {
            CheckResult::Ok => {}
            CheckResult::Unknown => undecided += 1,
            CheckResult::Illegal => explain(tag, steps, findings),
        }
    }
    if undecided > 0 {
        let why = format!("the search was given up for {undecided} tags: too much was uncertain");
        findings.unchecked(Invariant::I6, why);
    }
}

/// One operation of the search.
#[derive(Clone, Copy)]
struct Timed {
    step: Step,
    inv: u64,
    ret: u64,
    line: Line,
}

impl Timed {
    /// The operation as it was known at `now`; nothing when it had not begun.
    fn at(self, now: u64) -> Option<Self> {
        match self.ret <= now {
            true => Some(self),
            false if self.inv > now => None,
            false => Some(Self { step: self.step.doubted()?, ret: u64::MAX, ..self }),
        }
    }
}

/// What is to be put in order. An update of unknown outcome whose values nobody ever saw explains
/// nothing; without it the search has far fewer orders to try.
fn steps(admin: &[AdminOp]) -> Vec<Timed> {
    let told = admin.iter().filter(|op| op.told == Told::Done && op.kind == Kind::Read);
    let rows = told.filter_map(|op| op.row).chain(admin.iter().filter_map(|op| op.seen));
    let seen: HashSet<(Option<u32>, Option<u32>)> =
        rows.flat_map(|row| [(row.step, None), (None, row.description)]).collect();
    let unseen = |step: Step| match step {
        Step::MayUpdate(PackedRow { step, description, .. }) => {
            (step.is_none() || !seen.contains(&(step, None)))
                && (description.is_none() || !seen.contains(&(None, description)))
        }
        _ => false,
    };
    let timed = admin.iter().filter_map(|op| {
        let step = Step::of(op).filter(|&step| !unseen(step))?;
        Some(Timed { step, inv: op.inv, ret: op.ret, line: op.line })
    });
    timed.collect()
}

fn judge(steps: &[Timed]) -> CheckResult {
    if steps.len() < 2 {
        return CheckResult::Ok;
    }
    let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let operation = |timed: &Timed| Operation::<Register> {
        client_id: None,
        call_time: time(timed.inv),
        return_time: time(timed.ret),
        op: timed.step,
        metadata: None,
    };
    let operations: Vec<_> = steps.iter().map(operation).collect();
    check_operations_timeout(&operations, SEARCH_MAX)
}

/// Names the first answer after which there was no order any more, and what it contradicts.
fn explain(tag: &str, mut steps: Vec<Timed>, findings: &mut Findings) {
    steps.sort_unstable_by_key(|timed| (timed.ret, timed.line));
    let ends: Vec<u64> = steps.iter().map(|timed| timed.ret).collect();
    let until = |now| -> Vec<Timed> { steps.iter().filter_map(|timed| timed.at(now)).collect() };
    let legal = |&end: &u64| judge(&until(end)) != CheckResult::Illegal;
    let last = ends.partition_point(legal).min(steps.len() - 1);
    let impossible = steps[last];
    let known = until(ends[last]);
    let explained = |suspect: &&Timed| {
        let rest = known.iter().filter(|timed| timed.line != suspect.line);
        judge(&rest.copied().collect::<Vec<_>>()) == CheckResult::Ok
    };
    let suspects = steps[..last].iter().rev().take(SUSPECTS_MAX);
    let against = suspects.clone().find(explained).or_else(|| suspects.clone().next());
    let lines: Vec<Line> = against.into_iter().chain([&impossible]).map(|t| t.line).collect();
    let what = format!("`{tag}`: no order of its operations explains the last of these");
    findings.violation(Invariant::I6, what, lines);
}

/// Ids were refused because there is no such tag, although it had been created and nobody had
/// asked to delete it.
fn lost(tag: &str, line: &TagLine, findings: &mut Findings) {
    for &(inv, ret, refused) in &line.unknown {
        let created = line.admin.iter().filter(|op| op.told == Told::Done);
        let created = created.filter(|op| op.kind == Kind::Create && op.ret < inv);
        let Some(last) = created.max_by_key(|op| op.ret) else { continue };
        let deletes = line.admin.iter().filter(|op| op.kind == Kind::Delete);
        let may_be_gone = deletes
            .filter(|op| matches!(op.told, Told::Done | Told::Unknown))
            .any(|op| op.inv <= ret && op.ret >= last.inv);
        if !may_be_gone {
            let what = format!("`{tag}`: an acknowledged tag is unknown");
            findings.violation(Invariant::I6, what, [last.line, refused]);
        }
    }
}
