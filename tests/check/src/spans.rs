//! Compares ids with ids, and ids with grants: one sort, then one pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::evidence::{Evidence, Line, Span};
use crate::names::{IssuerId, Issuers};
use crate::report::{Findings, Invariant};

/// I1, I2 and I5 of all tags, and I1 and I5 of snowflake ids.
pub(crate) fn check(evidence: &mut Evidence, findings: &mut Findings) {
    let issuers = &evidence.issuers;
    if evidence.totals.grants == 0 {
        findings.unchecked(Invariant::I2, "the history has no grants");
    }
    let judges_grants = evidence.totals.grants > 0 && findings.wants(Invariant::I2);
    for (number, line) in evidence.lines.iter_mut().enumerate() {
        let of = Subject(Some(evidence.tags.name(number as u32)));
        line.taken.sort_unstable_by_key(|span| (span.start, span.line));
        twice(&line.taken, &of, findings);
        line.granted.sort_unstable_by_key(|grant| (grant.start, grant.line));
        if judges_grants {
            granted_twice(&line.granted, &of, findings);
        }
    }
    if judges_grants {
        for (number, line) in evidence.lines.iter().enumerate() {
            let of = Subject(Some(evidence.tags.name(number as u32)));
            let granted = &evidence.lines[line.drawn_from.unwrap_or(number)].granted;
            // The leader holds the grants of a strict tag, and any node answers with their ids.
            let by_anyone = line.strict || line.drawn_from.is_some();
            never_granted(&line.taken, granted, issuers, by_anyone, &of, findings);
        }
    }
    for (number, line) in evidence.lines.iter_mut().enumerate() {
        let of = Subject(Some(evidence.tags.name(number as u32)));
        let strict = line.strict;
        let node = |issuer| if strict { 0 } else { issuers.node(issuer) };
        rising(&mut line.taken, node, &of, findings);
    }
    let of = Subject(None);
    evidence.flakes.sort_unstable_by_key(|span| (span.start, span.line));
    twice(&evidence.flakes, &of, findings);
    flakes_rising(evidence, &of, findings);
}

/// A tag, or all snowflake ids.
struct Subject<'a>(Option<&'a str>);

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(tag) => write!(f, "`{tag}`"),
            None => write!(f, "snowflake"),
        }
    }
}

/// I1. Takes spans sorted by start: each must begin after the end of all spans before it.
fn twice(spans: &[Span], of: &Subject<'_>, findings: &mut Findings) {
    for (first, second) in overlaps(spans) {
        let id = second.start;
        let what = format!("{of}: id {id} was handed out twice");
        findings.violation(Invariant::I1, what, [first.line, second.line]);
    }
}

/// Each span that begins before the end of an earlier one, with that earlier one.
fn overlaps(by_start: &[Span]) -> impl Iterator<Item = (&Span, &Span)> {
    let mut furthest: Option<&Span> = None;
    by_start.iter().filter_map(move |span| {
        let met = furthest.filter(|before| before.end > span.start);
        if furthest.is_none_or(|before| before.end < span.end) {
            furthest = Some(span);
        }
        met.map(|before| (before, span))
    })
}

/// I2 of the grants under one name, sorted by start.
fn granted_twice(granted: &[Span], of: &Subject<'_>, findings: &mut Findings) {
    for (first, second) in overlaps(granted) {
        let what = format!("{of}: id {} was granted twice", second.start);
        findings.violation(Invariant::I2, what, [first.line, second.line]);
    }
}

/// I2 of one tag; `taken` and `granted` are sorted by start. With `by_anyone`, grants to other processes count too.
fn never_granted(
    taken: &[Span],
    granted: &[Span],
    issuers: &Issuers,
    by_anyone: bool,
    of: &Subject<'_>,
    findings: &mut Findings,
) {
    let mut first = 0;
    for span in taken {
        while granted.get(first).is_some_and(|grant| grant.end <= span.start) {
            first += 1;
        }
        let may_have = |grant: &Span| by_anyone || issuers.may_be_one(grant.issuer, span.issuer);
        if let Err((id, grant)) = covered(span, &granted[first..], may_have) {
            let by = issuers.show(span.issuer);
            match grant {
                None => {
                    let what = format!("{of}: id {id}, handed out by {by}, was never granted");
                    findings.violation(Invariant::I2, what, [span.line]);
                }
                Some(grant) => {
                    let to = issuers.show(grant.issuer);
                    let what = format!("{of}: id {id}, handed out by {by}, was granted to {to}");
                    findings.violation(Invariant::I2, what, [grant.line, span.line]);
                }
            }
        }
    }
}

/// Whether grants that the issuer `may_have` cover a span without a gap. Otherwise returns the first id that is
/// not covered, and a grant to another process that has it. Overlapping grants are reported elsewhere. So here
/// the first grant that has the id counts, unless a later one is the issuer's.
fn covered<'g>(
    span: &Span,
    grants: &'g [Span],
    may_have: impl Fn(&Span) -> bool,
) -> Result<(), (u64, Option<&'g Span>)> {
    let mut id = span.start;
    while id < span.end {
        let reach = grants.iter().take_while(|grant| grant.start <= id);
        let mut having = reach.filter(|grant| grant.end > id);
        let first = having.next();
        let own = first.into_iter().chain(having).find(|grant| may_have(grant));
        id = own.ok_or((id, first))?.end;
    }
    Ok(())
}

fn flakes_rising(evidence: &mut Evidence, of: &Subject<'_>, findings: &mut Findings) {
    let issuers = &evidence.issuers;
    if evidence.totals.flakes_without_boot > 0 {
        let requests = evidence.totals.flakes_without_boot;
        let why = format!("{requests} requests for snowflake ids without `boot`");
        findings.unchecked(Invariant::I5, why);
    }
    // Ids without a known process cannot be checked for rising; they go to the end.
    let process = |issuer| if issuers.knows_boot(issuer) { u64::from(issuer) } else { u64::MAX };
    evidence.flakes.sort_unstable_by_key(|span| process(span.issuer));
    let known = evidence.flakes.partition_point(|span| process(span.issuer) < u64::MAX);
    rising(&mut evidence.flakes[..known], process, of, findings);
}

/// I5. A request that is sent after an answer arrived gets higher ids, from the same `source`.
fn rising(
    spans: &mut [Span],
    source: impl Fn(IssuerId) -> u64,
    of: &Subject<'_>,
    findings: &mut Findings,
) {
    if !findings.wants(Invariant::I5) {
        return;
    }
    spans.sort_unstable_by_key(|span| (source(span.issuer), span.inv, span.line));
    for one_source in spans.chunk_by(|a, b| source(a.issuer) == source(b.issuer)) {
        let mut running = BinaryHeap::new();
        let mut highest: Option<(u64, Line)> = None;
        for span in one_source {
            while let Some(&Reverse((ret, end, line))) = running.peek()
                && ret < span.inv
            {
                highest = highest.max(Some((end, line)));
                running.pop();
            }
            if let Some((end, line)) = highest.filter(|&(end, _)| end > span.start) {
                let what = format!("{of}: ids fell from {} to {}", end - 1, span.start);
                findings.violation(Invariant::I5, what, [line, span.line]);
            }
            running.push(Reverse((span.ret, span.end, span.line)));
        }
    }
}
