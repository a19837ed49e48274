//! I4: compares snowflake ids with the windows that allow their times.

use std::collections::BTreeMap;

use crate::evidence::{Evidence, Line, Span, WindowChange, WindowEvent};
use crate::history::Layout;
use crate::names::{IssuerId, Issuers};
use crate::report::{Findings, Invariant};

/// Milliseconds of one worker id that one process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    floor_ms: u64,
    fence_ms: u64,
    issuer: IssuerId,
    line: Line,
}

/// All windows of the history: by worker id, sorted by floor.
struct Windows(BTreeMap<u16, Vec<Held>>);

pub(crate) fn check(evidence: &Evidence, findings: &mut Findings) {
    if evidence.totals.windows == 0 {
        findings.unchecked(Invariant::I4, "the history has no windows");
        return;
    }
    let windows = Windows::new(&evidence.windows);
    windows.disjoint(&evidence.issuers, findings);
    let Some((layout, _)) = evidence.layout else {
        findings.unchecked(Invariant::I4, "ids against windows: the history has no layout");
        return;
    };
    for span in &evidence.flakes {
        windows.hold(span, layout, &evidence.issuers, findings);
    }
}

impl Windows {
    fn new(events: &BTreeMap<u16, Vec<WindowEvent>>) -> Self {
        let held = events.iter().map(|(&worker, events)| {
            let mut held = held(events);
            held.sort_unstable_by_key(|held| (held.floor_ms, held.line));
            (worker, held)
        });
        Self(held.collect())
    }

    fn disjoint(&self, issuers: &Issuers, findings: &mut Findings) {
        for (worker, held) in &self.0 {
            let mut furthest: Option<&Held> = None;
            for window in held {
                if let Some(before) = furthest.filter(|before| before.fence_ms > window.floor_ms) {
                    let (one, other) = (issuers.show(before.issuer), issuers.show(window.issuer));
                    let ms = window.floor_ms;
                    let what = format!("worker id {worker}: {one} and {other} both hold {ms} ms");
                    findings.violation(Invariant::I4, what, [before.line, window.line]);
                }
                if furthest.is_none_or(|before| before.fence_ms < window.fence_ms) {
                    furthest = Some(window);
                }
            }
        }
    }

    /// Checks that every id of a span shows a worker id and a time that its issuer held.
    fn hold(&self, span: &Span, layout: Layout, issuers: &Issuers, findings: &mut Findings) {
        // One run covers one millisecond of one worker id.
        let runs = span.start >> layout.sequence_bits..=(span.end - 1) >> layout.sequence_bits;
        for run in runs {
            let worker = (run & ((1 << layout.worker_bits) - 1)) as u16;
            let time_ms = layout.epoch_ms.saturating_add(run >> layout.worker_bits);
            let Err(other) = self.holder(worker, time_ms, span.issuer, issuers) else { continue };
            let id = span.start.max(run << layout.sequence_bits);
            let by = issuers.show(span.issuer);
            let shows =
                format!("snowflake id {id} of {by} shows {time_ms} ms of worker id {worker}");
            match other {
                None => {
                    let what = format!("{shows}, which nobody holds");
                    findings.violation(Invariant::I4, what, [span.line]);
                }
                Some(other) => {
                    let holder = issuers.show(other.issuer);
                    let what = format!("{shows}, which {holder} holds");
                    findings.violation(Invariant::I4, what, [other.line, span.line]);
                }
            }
            return;
        }
    }

    /// `Ok` when `issuer` holds the millisecond; `Err` with another holder, if there is one, when it does not.
    fn holder(
        &self,
        worker: u16,
        time_ms: u64,
        issuer: IssuerId,
        issuers: &Issuers,
    ) -> Result<(), Option<&Held>> {
        let held = self.0.get(&worker).map_or(&[][..], Vec::as_slice);
        let up_to = held.partition_point(|window| window.floor_ms <= time_ms);
        let mut other = None;
        // The first candidate is the only one, unless windows overlap.
        for window in held[..up_to].iter().rev().filter(|window| time_ms < window.fence_ms) {
            if issuers.may_be_one(window.issuer, issuer) {
                return Ok(());
            }
            other = Some(window);
        }
        Err(other)
    }
}

/// What each process held of one worker id, with its renewals merged.
fn held(events: &[WindowEvent]) -> Vec<Held> {
    let mut events = events.to_vec();
    events.sort_unstable_by_key(|event| (event.issuer, event.at, event.line));
    let mut all: Vec<Held> = Vec::new();
    for WindowEvent { issuer, line, change, .. } in events {
        let last = all.last_mut().filter(|last| last.issuer == issuer);
        match (change, last) {
            (WindowChange::Given((floor_ms, fence_ms)), Some(last))
                if last.floor_ms <= floor_ms && floor_ms <= last.fence_ms =>
            {
                last.fence_ms = last.fence_ms.max(fence_ms);
            }
            (WindowChange::Given((floor_ms, fence_ms)), _) => {
                all.push(Held { floor_ms, fence_ms, issuer, line });
            }
            (WindowChange::Released(from_ms), Some(last)) => {
                last.fence_ms = from_ms.clamp(last.floor_ms, last.fence_ms);
            }
            (WindowChange::Released(_), None) => {}
        }
    }
    all
}
