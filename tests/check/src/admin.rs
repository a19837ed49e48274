//! I6: operations on tags are linearizable, and an acknowledged tag is not lost.

use std::collections::HashSet;

use crate::evidence::{AdminOp, Evidence, Kind, Line, PackedRow, TagLine, Told};
use crate::register::Step;
use crate::report::{Findings, Invariant};
use crate::search::{Timed, Verdict, search};

/// How many operations before an impossible one are tried, to find the one that it contradicts.
const SUSPECTS_MAX: usize = 8;

pub(crate) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut undecided = 0_u64;
    for (number, line) in evidence.lines.iter().enumerate() {
        let tag = evidence.tags.name(number as u32);
        lost(tag, line, findings);
        let operations = operations(&line.admin);
        match search(&operations) {
            Verdict::Explained => {}
            Verdict::GivenUp => undecided += 1,
            Verdict::Impossible(at) => explain(tag, &operations, at, findings),
        }
    }
    if undecided > 0 {
        let why = format!("the search was given up for {undecided} tags: too much was uncertain");
        findings.unchecked(Invariant::I6, why);
    }
}

/// The operations to put in order. All values that appear in no answer count as one value. The search cannot
/// distinguish operations that differ only in such values. An update with an unknown outcome that writes only
/// such values explains no answer, and is left out.
fn operations(admin: &[AdminOp]) -> Vec<Timed> {
    let told = admin.iter().filter(|op| op.told == Told::Done && op.kind == Kind::Read);
    let rows = told.filter_map(|op| op.row).chain(admin.iter().filter_map(|op| op.seen));
    let (steps, texts): (HashSet<_>, HashSet<_>) =
        rows.map(|row| (row.step, row.description)).unzip();
    let row = |row: PackedRow| PackedRow {
        step: row.step.map(|step| if steps.contains(&Some(step)) { step } else { UNSEEN }),
        description: row.description.map(|text| match texts.contains(&Some(text)) {
            true => text,
            false => UNSEEN,
        }),
        max_id: None,
    };
    let explains = |step: &Step| match step {
        Step::MayUpdate(row) => [row.step, row.description].into_iter().flatten().any(is_seen),
        _ => true,
    };
    let timed = admin.iter().filter_map(|op| {
        let op = AdminOp { row: op.row.map(row), seen: op.seen.map(row), ..*op };
        let step = Step::of(&op).filter(explains)?;
        Some(Timed { step, inv: op.inv, ret: op.ret, line: op.line })
    });
    timed.collect()
}

/// Stands for every step or description that appears in no answer. No step is as high, and there are not as
/// many descriptions.
const UNSEEN: u32 = u32::MAX;

fn is_seen(value: u32) -> bool {
    value != UNSEEN
}

/// Names the first answer that no order explains, and the latest operation before it without which an order would.
fn explain(tag: &str, operations: &[Timed], at: usize, findings: &mut Findings) {
    let impossible = operations[at];
    let mut suspects: Vec<Timed> =
        operations.iter().copied().filter(|timed| timed.ret < impossible.ret).collect();
    suspects.sort_unstable_by_key(|timed| std::cmp::Reverse((timed.ret, timed.line)));
    suspects.truncate(SUSPECTS_MAX);
    let contradicted = |suspect: &&Timed| {
        let rest = operations.iter().copied().filter(|timed| timed.line != suspect.line);
        let rest: Vec<Timed> = rest.collect();
        match search(&rest) {
            Verdict::Explained => true,
            Verdict::Impossible(at) => rest[at].ret > impossible.ret,
            Verdict::GivenUp => false,
        }
    };
    let against = suspects.iter().find(contradicted).or(suspects.first());
    let lines: Vec<Line> = against.into_iter().chain([&impossible]).map(|t| t.line).collect();
    let what = format!("`{tag}`: no order of its operations explains the last of these");
    findings.violation(Invariant::I6, what, lines);
}

/// Finds requests for ids that were refused with an unknown tag, although the tag had been created and no
/// client had asked to delete it.
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
