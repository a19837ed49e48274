//! I3: compares each `max_id` in an answer with the ids, grants and marks that were known before the request.

use crate::evidence::{AdminOp, Evidence, Kind, Line, Span, TagLine, Told};
use crate::report::{Findings, Invariant};

/// A `max_id` in an answer.
struct Answer {
    inv: u64,
    ret: u64,
    max_id: u64,
    line: Line,
}

/// A lower bound of the mark from a certain time on, and the line that shows it.
#[derive(Clone, Copy)]
struct Bound {
    from: u64,
    max_id: u64,
    line: Line,
}

pub(crate) fn check(evidence: &Evidence, findings: &mut Findings) {
    for (number, line) in evidence.lines.iter().enumerate() {
        let mut answers: Vec<Answer> = line.admin.iter().filter_map(answer).collect();
        answers.sort_unstable_by_key(|answer| (answer.inv, answer.line));
        let highest = highest_before(&answers, line);
        for (answer, bound) in answers.iter().zip(highest) {
            let Some((bound, at)) = bound.filter(|&(bound, _)| bound > answer.max_id) else {
                continue;
            };
            let tag = evidence.tags.name(number as u32);
            let max_id = answer.max_id;
            let what = format!("`{tag}`: max_id {max_id} was answered after it had been {bound}");
            findings.violation(Invariant::I3, what, [at, answer.line]);
        }
    }
}

fn answer(op: &AdminOp) -> Option<Answer> {
    let row = match (op.kind, op.told) {
        (Kind::Read, Told::Done) => op.row,
        (Kind::Create | Kind::Update, Told::Done) => op.seen,
        _ => None,
    };
    let max_id = row?.max_id?;
    Some(Answer { inv: op.inv, ret: op.ret, max_id, line: op.line })
}

/// For each answer, in the order of the requests, the highest mark that was known before.
fn highest_before(answers: &[Answer], line: &TagLine) -> Vec<Option<(u64, Line)>> {
    let mut highest = vec![None; answers.len()];
    let mut note = |bound: Bound| {
        let first = answers.partition_point(|answer| answer.inv <= bound.from);
        if let Some(known) = highest.get_mut(first) {
            *known = (*known).max(Some((bound.max_id, bound.line)));
        }
    };
    if answers.is_empty() {
        return highest;
    }
    let by_span = |span: &Span| Bound { from: span.ret, max_id: span.end, line: span.line };
    line.taken.iter().chain(&line.granted).map(by_span).for_each(&mut note);
    for Answer { ret, max_id, line, .. } in answers {
        note(Bound { from: *ret, max_id: *max_id, line: *line });
    }
    let written = line.admin.iter().filter(|op| op.told == Told::Done && op.kind != Kind::Read);
    for op in written {
        if let Some(max_id) = op.row.and_then(|row| row.max_id) {
            note(Bound { from: op.ret, max_id, line: op.line });
        }
    }
    let mut known = None;
    for slot in &mut highest {
        known = known.max(*slot);
        *slot = known;
    }
    highest
}
