//! Judges the requests of a case.

use serde_json::{Value, json};

use crate::case::{Case, Expected};
use crate::request::{Kind, Request};
use crate::stage::{Seen, is_at};

/// What is wrong with the requests; empty when nothing is.
pub fn faults(case: &Case, seen: &[Seen]) -> Vec<String> {
    let mut faults: Vec<String> =
        seen.iter().flat_map(|seen| always(case, &seen.request)).collect();
    let asked: Vec<Seen> =
        seen.iter().filter(|seen| seen.request.kind != Kind::Cluster).cloned().collect();
    if let Some(each) = &case.requests.each {
        faults.extend((1..=asked.len()).filter_map(|end| fault(each, &asked[..end])));
    }
    for (kind, bounds) in &case.requests.totals {
        let total = seen.iter().filter(|seen| seen.request.kind == *kind).count() as u64;
        if !bounds.hold(total) {
            faults.push(format!("{total} requests of the kind {kind:?}, not {bounds:?}"));
        }
    }
    if let Some(list) = &case.requests.list {
        faults.extend(listed(list, case.requests.more, &asked));
    }
    faults
}

/// The first request that the list does not allow.
fn listed(list: &[Expected], has_more: bool, asked: &[Seen]) -> Option<String> {
    let mut end = 0;
    for (place, expected) in list.iter().enumerate() {
        let (least, most) = expected.times.map_or((1, 1), |times| times.both());
        let mut times = 0;
        while times < most {
            let fault = match asked.get(..=end) {
                Some(until) => fault(expected, until),
                None => Some(format!("only {end} requests arrived")),
            };
            match fault {
                None => (times, end) = (times + 1, end + 1),
                Some(_) if times >= least => break,
                Some(fault) => return Some(format!("entry {place} of the list: {fault}")),
            }
        }
    }
    let rest = asked.get(end).filter(|_| !has_more)?;
    Some(format!("request {end}, {}, is not in the list", rest.request.target))
}

/// Why the last request is not the expected one.
fn fault(expected: &Expected, asked: &[Seen]) -> Option<String> {
    let (last, before) = asked.split_last()?;
    let request = &last.request;
    let gap = before.last().map(|before| (last.at - before.at).as_millis() as u64);
    let is_other = |name: &str, value: &Value| request.field(name).as_ref() != Some(value);
    let faults = [
        expected.on.filter(|on| *on != request.kind).map(|on| format!("should be {on:?}")),
        expected
            .tag
            .as_ref()
            .filter(|tag| **tag != request.tag)
            .map(|tag| format!("should be for {tag}")),
        expected
            .path
            .as_ref()
            .filter(|path| **path != request.target)
            .map(|path| format!("should be {path}")),
        expected
            .count
            .filter(|count| !count.hold(request.count))
            .map(|count| format!("should ask for {count:?}")),
        expected
            .endpoint
            .as_ref()
            .filter(|place| !is_at(place, asked))
            .map(|place| format!("should be at {place:?}")),
        expected
            .kept
            .filter(|kept| *kept != last.is_kept)
            .map(|kept| format!("kept connection should be {kept}")),
        expected
            .gap_ms
            .filter(|bounds| !gap.is_some_and(|gap| bounds.hold(gap)))
            .map(|bounds| format!("came {gap:?} ms after the one before, not {bounds:?}")),
        expected
            .body
            .iter()
            .find(|(name, value)| is_other(name, value))
            .map(|(name, value)| format!("{name} of its body should be {value}")),
    ];
    let fault = faults.into_iter().flatten().next()?;
    Some(format!(
        "request {}, {} {} at {}: {fault}",
        before.len(),
        request.method,
        request.target,
        last.endpoint
    ))
}

/// What holds for each request of each case.
fn always(case: &Case, request: &Request) -> Vec<String> {
    let token = case.client.token.as_ref().map(|token| format!("Bearer {token}"));
    let has_body = matches!(request.kind, Kind::Lease | Kind::Renewal | Kind::GiveBack);
    let json = Some("application/json");
    let content = request.header("content-type").and_then(|value| value.split(';').next());
    let rules = [
        (request.kind != Kind::Unknown, "no client asks for this"),
        (request.header("accept") == json, "accept should be application/json"),
        (request.header("cache-control") == Some("no-store"), "cache-control should be no-store"),
        (request.header("authorization") == token.as_deref(), "authorization should be the case's"),
        (!has_body || content == json, "content-type should be application/json"),
        (has_body || request.body.is_empty(), "it should have no body"),
    ];
    let broken = rules.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, rule)| format!("{} {}: {rule}", request.method, request.target)).collect()
}

/// The requests, for people.
pub fn shown(seen: &[Seen]) -> Vec<Value> {
    let first = seen.first().map(|seen| seen.at);
    let show = |seen: &Seen| {
        json!({
            "ms": first.map(|first| (seen.at - first).as_millis() as u64),
            "endpoint": seen.endpoint,
            "kept": seen.is_kept,
            "request": format!("{} {}", seen.request.method, seen.request.target),
            "body": seen.request.body,
        })
    };
    seen.iter().map(show).collect()
}
