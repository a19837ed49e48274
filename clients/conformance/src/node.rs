//! What a node would answer: ids that count up from 1, numbers of keys, and leases of worker ids.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::case::{Act, Malformed};
use crate::request::{Kind, Request};

/// The first millisecond of the first lease.
const FROM_MS: u64 = 1_800_000_000_000;
/// How much later the next lease begins.
const APART_MS: u64 = 1_000_000;
/// More than any client accepts.
const LONG: usize = 1 << 20;

/// All nodes of a case: they share their numbers.
#[derive(Debug, Default)]
pub struct Node {
    /// Ids given so far, by kind, tag and key.
    given: HashMap<(Kind, String, String), u64>,
    /// Leases of worker ids: when each was granted.
    leases: HashMap<String, (u64, Instant)>,
}

/// An answer, before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Node {
    /// Answers as a node, changed as the act says. Ids count as given even when the client never gets them, but not
    /// when the act has a status or body of its own.
    pub fn answer(&mut self, request: &Request, act: &Act) -> Answer {
        let (status, usual) = match request.kind {
            _ if act.status.is_some() || act.body.is_some() => {
                (200, json!({"code": "", "detail": ""}))
            }
            Kind::Ids | Kind::Ranges | Kind::Snowflakes => (200, self.ids(request, act)),
            Kind::Sequence => (200, self.sequence(request)),
            Kind::Register => self.register(request),
            Kind::Lease => (201, self.lease(request)),
            Kind::Renewal => (200, self.renewal(request)),
            Kind::GiveBack => (204, Value::Null),
            Kind::Cluster => (503, json!({"code": "unavailable"})),
            Kind::Unknown => (404, json!({"code": "not_found"})),
        };
        let mut body = act.body.clone().unwrap_or(usual);
        if let (Some(fields), Some(body)) = (&act.merge, body.as_object_mut()) {
            body.extend(fields.clone());
        }
        let mut text = match &body {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        match act.malformed {
            Some(Malformed::NoJson) => text = "<html>It works!</html>".to_owned(),
            Some(Malformed::TooLong) => text.insert_str(0, &" ".repeat(LONG)),
            _ => {}
        }
        Answer { status: act.status.unwrap_or(status), body: text }
    }

    /// The first of `count` new numbers, `from` at least.
    fn take(&mut self, request: &Request, from: u64, count: u64) -> u64 {
        let kind = if request.kind == Kind::Ranges { Kind::Ids } else { request.kind };
        let line = (kind, request.tag.clone(), request.key.clone());
        let given = self.given.entry(line).or_default();
        *given = from.saturating_sub(1).max(*given) + count;
        *given - count + 1
    }

    fn ids(&mut self, request: &Request, act: &Act) -> Value {
        let malformed = act.malformed;
        let start = self.take(request, act.from, request.count);
        let mut body = Map::new();
        if request.kind != Kind::Snowflakes {
            body.insert("tag".into(), json!(request.tag));
        }
        let as_ranges = request.target.contains("format=ranges");
        let (name, value) = if as_ranges {
            ("ranges", ranges(start, request.count, malformed))
        } else {
            ("ids", listed(start, request.count, malformed))
        };
        if !matches!(malformed, Some(Malformed::NoIds)) {
            body.insert(name.into(), value);
        }
        Value::Object(body)
    }

    fn sequence(&mut self, request: &Request) -> Value {
        let number = self.take(request, 0, 1).to_string();
        json!({"tag": request.tag, "key": request.key, "ids": [number], "lease": false})
    }

    fn register(&mut self, request: &Request) -> (u16, Value) {
        let line = (Kind::Register, request.tag.clone(), request.key.clone());
        let numbers = self.given.keys().filter(|(kind, tag, _)| (*kind, tag) == (line.0, &line.1));
        let next = numbers.count() as u64 + 1;
        let is_new = !self.given.contains_key(&line);
        let number = *self.given.entry(line).or_insert(next);
        let body = json!({
            "tag": request.tag, "key": request.key, "id": number.to_string(),
            "text": format!("INV-{number:06}"), "new": is_new,
        });
        (if is_new { 201 } else { 200 }, body)
    }

    fn lease(&mut self, request: &Request) -> Value {
        let worker_id = self.take(request, 0, 1);
        let from_ms = FROM_MS + (worker_id - 1) * APART_MS;
        let lease = format!("{worker_id}-5f0c1a9e7b3d4c2f8a6e5d4c3b2a1908");
        self.leases.insert(lease.clone(), (from_ms, Instant::now()));
        json!({
            "pool": request.tag, "worker_id": worker_id, "lease": lease,
            "from_ms": from_ms.to_string(), "until_ms": (from_ms + milliseconds(request)).to_string(),
        })
    }

    /// The lease lasts as long as was asked for, from now on.
    fn renewal(&self, request: &Request) -> Value {
        let granted = self.leases.get(&request.key).copied();
        let (from_ms, since) = granted.unwrap_or((FROM_MS, Instant::now()));
        let passed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let worker_id = request.key.split_once('-').and_then(|(id, _)| id.parse::<u64>().ok());
        json!({
            "pool": request.tag, "worker_id": worker_id, "lease": request.key,
            "from_ms": from_ms.to_string(),
            "until_ms": (from_ms + passed + milliseconds(request)).to_string(),
        })
    }
}

fn milliseconds(request: &Request) -> u64 {
    request.field("seconds").and_then(|seconds| seconds.as_u64()).unwrap_or(60) * 1_000
}

fn listed(start: u64, count: u64, malformed: Option<Malformed>) -> Value {
    let mut ids: Vec<String> = (start..start + count).map(|id| id.to_string()).collect();
    match malformed {
        Some(Malformed::TooMany) => ids.push((start + count).to_string()),
        Some(Malformed::TooFew | Malformed::Empty) => drop(ids.pop()),
        Some(Malformed::Fall | Malformed::Backwards) => ids.reverse(),
        Some(Malformed::Zero) => ids[0] = "0".to_owned(),
        Some(Malformed::Above) => ids[count as usize - 1] = (1_u64 << 63).to_string(),
        Some(Malformed::Twice | Malformed::Overlap) => ids[count as usize - 1] = ids[0].clone(),
        Some(Malformed::Plus) => ids[0].insert(0, '+'),
        _ => {}
    }
    json!(ids)
}

fn ranges(start: u64, count: u64, malformed: Option<Malformed>) -> Value {
    let (middle, end) = (start + count / 2, start + count);
    let range = |start: u64, end: u64| json!({"start": start.to_string(), "end": end.to_string()});
    match malformed {
        Some(Malformed::Overlap) => json!([range(start, middle), range(middle - 1, end - 1)]),
        Some(Malformed::Twice) => json!([range(start, start + 1), range(start, end - 1)]),
        Some(Malformed::Fall) => json!([range(middle, end), range(start, middle)]),
        Some(Malformed::Empty) => json!([range(start, start), range(start, end)]),
        Some(Malformed::Backwards) => json!([range(end, start)]),
        Some(Malformed::TooMany) => json!([range(start, end + 1)]),
        Some(Malformed::TooFew) => json!([range(start, end - 1)]),
        Some(Malformed::Zero) => json!([range(0, count)]),
        Some(Malformed::Above) => {
            let end = (1_u64 << 63) + 1;
            json!([range(end - count, end)])
        }
        Some(Malformed::Plus) => json!([{"start": format!("+{start}"), "end": end.to_string()}]),
        _ => json!([range(start, end)]),
    }
}
