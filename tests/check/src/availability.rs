//! I8: when each node served, and how soon after a healing.

use std::time::Duration;

use crate::evidence::{Evidence, Served, to_ms};
use crate::report::{Findings, Invariant, Service};

/// Returns how each node served each kind of request. A recovery that took longer than `recovery` is a violation.
pub(crate) fn check(
    evidence: &mut Evidence,
    recovery: Duration,
    findings: &mut Findings,
) -> Vec<Service> {
    evidence.faults_ms.sort_unstable();
    evidence.heals.sort_unstable();
    for served in evidence.served.values_mut() {
        served.well_ms.sort_unstable();
    }
    if evidence.heals.is_empty() {
        findings.unchecked(Invariant::I8, "the history has no healing");
    }
    let start_ms = to_ms(evidence.totals.first_ns.unwrap_or(0));
    let recovery_ms = u64::try_from(recovery.as_millis()).unwrap_or(u64::MAX);
    let mut services = Vec::new();
    for (&(node, kind), served) in &evidence.served {
        let (longest_gap_ms, gap_from_ms) = longest_gap(served);
        let mut slowest_recovery_ms = None;
        for &(healed_at, healed) in &evidence.heals {
            let healed_ms = to_ms(healed_at);
            let due_ms = healed_ms.saturating_add(recovery_ms);
            match recovered(evidence, served, healed_ms, due_ms) {
                Recovery::In(ms) => slowest_recovery_ms = slowest_recovery_ms.max(Some(ms)),
                Recovery::Unknown => {}
                Recovery::Late(line) => {
                    let op = kind.name();
                    let what =
                        format!("node {node}: no {op} succeeded within {recovery:?} of healing");
                    findings.violation(Invariant::I8, what, [healed, line]);
                }
            }
        }
        services.push(Service {
            node,
            op: kind.name(),
            longest_gap_ms,
            longest_gap_at_ms: gap_from_ms.saturating_sub(start_ms),
            slowest_recovery_ms,
        });
    }
    services
}

enum Recovery {
    In(u64),
    /// It had not recovered by the time of this request.
    Late(u32),
    /// No client asked, or the history ended or the next fault came before recovery was due.
    Unknown,
}

fn recovered(evidence: &Evidence, served: &Served, healed_ms: u64, due_ms: u64) -> Recovery {
    let next = served.well_ms.partition_point(|&ms| ms < healed_ms);
    let first_ms = served.well_ms.get(next).copied();
    let fault = evidence.faults_ms.partition_point(|&ms| ms <= healed_ms);
    let fault_ms = evidence.faults_ms.get(fault).copied().unwrap_or(u64::MAX);
    if let Some(ms) = first_ms.filter(|&ms| ms <= due_ms.min(fault_ms)) {
        return Recovery::In(ms - healed_ms);
    }
    if due_ms > fault_ms.min(to_ms(evidence.totals.last_ns)) {
        return Recovery::Unknown;
    }
    let asked = |&&(began_ms, _): &&(u64, u32)| (healed_ms..due_ms).contains(&began_ms);
    let asked = served.badly_ms.iter().filter(asked).min();
    asked.map_or(Recovery::Unknown, |&(_, line)| Recovery::Late(line))
}

/// The longest time without a success, and when it began.
fn longest_gap(served: &Served) -> (u64, u64) {
    let first_ms = served.first_ms.unwrap_or(0);
    let ends = served.well_ms.iter().copied().chain([served.last_ms]);
    let begins = std::iter::once(first_ms).chain(served.well_ms.iter().copied());
    let gaps = begins.zip(ends).map(|(begin, end)| (end.saturating_sub(begin), begin));
    gaps.max_by_key(|&(gap, begin)| (gap, std::cmp::Reverse(begin))).unwrap_or((0, first_ms))
}
