//! What an answer means. Ids come from a complete and well-formed answer, or not at all.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Refusal;
use crate::registration::Registration;
use crate::request::Request;

/// The first number past all ids.
const ID_END: u64 = 1 << 63;
/// The first number past all worker ids.
const WORKER_END: u32 = 1 << 16;
/// The longest `Retry-After` of a node that the client obeys: no call waits longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// The most characters of an answer that an error shows.
const SAID_CHARS_MAX: usize = 200;

/// An answer that has arrived completely.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The header of this name, unparsed.
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Bytes,
}

/// What an answer means for the request that it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Ids that may be kept.
    Lease(Vec<Range<u64>>),
    /// Ids for the call that asked, as the node wrote them, and whether other ids of the tag may be kept.
    Listed { ids: Vec<String>, may_be_kept: bool },
    /// The number of a key.
    Registered(Registration),
    /// A lease of a worker id, or more of it.
    Granted(Grant),
    /// The node did what it was asked for.
    Done,
    /// Ranges that say `"lease": false`. They are thrown away.
    NotForKeeping,
    /// The endpoint failed; another may do better. `rest` is the wait that the endpoint itself asked for.
    Failed { why: String, rest: Option<Duration> },
    /// The tag's rate limit is used up on this endpoint.
    RateLimited { refusal: Refusal, wait: Duration },
    /// The lease was for more ids than the tag's rate limit allows in one request, which is `count_max`.
    TooMany { count_max: u64 },
    /// A refusal that every node would repeat.
    Refused(Refusal),
}

/// A lease of a worker id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) worker_id: u32,
    /// Its name.
    pub(crate) lease: String,
    /// Its milliseconds, the end not among them.
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
}

/// Reads the answer to a request.
pub(crate) fn read(request: &Request, answer: &Answer) -> Meaning {
    let body = &answer.body;
    let meaning = match (request, answer.status) {
        (Request::Register { .. }, 200 | 201) => read_registration(body),
        (Request::Lease { .. } | Request::Renewal { .. }, 200 | 201) => read_grant(body),
        (Request::GiveBack { .. }, 200 | 204) => Ok(Meaning::Done),
        (_, 200) if request.count() > 0 => read_ids(request, body),
        (_, status) => Ok(read_refusal(request, status, answer)),
    };
    meaning.unwrap_or_else(|fault| Meaning::Failed { why: fault.to_owned(), rest: None })
}

const NOT_UNDERSTOOD: &str = "the answer is not understood";

fn read_registration(body: &[u8]) -> Result<Meaning, &'static str> {
    #[derive(Deserialize)]
    struct Body {
        id: String,
        text: Option<String>,
        period: Option<String>,
        new: bool,
    }
    let body: Body = serde_json::from_slice(body).map_err(|_| NOT_UNDERSTOOD)?;
    let id = number(&body.id).ok_or("the answer has an id that is no number from 1 to 2^63-1")?;
    let text = body.text.unwrap_or(body.id);
    Ok(Meaning::Registered(Registration { id, text, period: body.period, is_new: body.new }))
}

fn read_grant(body: &[u8]) -> Result<Meaning, &'static str> {
    #[derive(Deserialize)]
    struct Body {
        worker_id: u32,
        lease: String,
        from_ms: String,
        until_ms: String,
    }
    let body: Body = serde_json::from_slice(body).map_err(|_| NOT_UNDERSTOOD)?;
    let (from_ms, until_ms) = (number(&body.from_ms), number(&body.until_ms));
    match (from_ms, until_ms) {
        (Some(from_ms), Some(until_ms))
            if from_ms < until_ms && body.worker_id < WORKER_END && !body.lease.is_empty() =>
        {
            let (worker_id, lease) = (body.worker_id, body.lease);
            Ok(Meaning::Granted(Grant { worker_id, lease, from_ms, until_ms }))
        }
        _ => Err("the answer has a lease that is none"),
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    ids: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    ranges: Option<Vec<RangeText<'a>>>,
    lease: Option<bool>,
}

#[derive(Deserialize)]
struct RangeText<'a> {
    #[serde(borrow)]
    start: Cow<'a, str>,
    #[serde(borrow)]
    end: Cow<'a, str>,
}

fn read_ids(request: &Request, body: &[u8]) -> Result<Meaning, &'static str> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_UNDERSTOOD)?;
    let may_be_kept = body.lease != Some(false);
    if request.as_ranges() {
        if !may_be_kept {
            return Ok(Meaning::NotForKeeping);
        }
        let ranges = body.ranges.ok_or("the answer has no ranges")?;
        let ranges: Option<Vec<_>> = ranges.iter().map(range).collect();
        let ranges = ranges.ok_or("the answer has a range that is none")?;
        return checked(ranges, request.count()).map(Meaning::Lease);
    }
    let ids = body.ids.ok_or("the answer has no ids")?;
    if ids.len() as u64 != request.count() {
        return Err("the answer has more or fewer ids than were asked for");
    }
    if may_be_kept {
        // A tag whose ids may be leased has numbers as ids, and answers list them in rising order.
        let ids: Option<Vec<_>> = ids.iter().map(|id| number(id)).collect();
        let ids = ids.ok_or("the answer has an id that is no number from 1 to 2^63-1")?;
        checked(joined(&ids), request.count())?;
    } else if ids.iter().collect::<HashSet<_>>().len() < ids.len() {
        return Err("the answer has an id twice");
    }
    let ids = ids.into_iter().map(Cow::into_owned).collect();
    Ok(Meaning::Listed { ids, may_be_kept })
}

/// Checks that the ranges rise, do not overlap, and hold exactly `count` ids.
fn checked(ranges: Vec<Range<u64>>, count: u64) -> Result<Vec<Range<u64>>, &'static str> {
    if ranges.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err("the answer has ids that do not rise");
    }
    let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    if total == count {
        Ok(ranges)
    } else {
        Err("the answer has more or fewer ids than were asked for")
    }
}

fn range(text: &RangeText<'_>) -> Option<Range<u64>> {
    let range = digits(&text.start)?..digits(&text.end)?;
    (1 <= range.start && range.start < range.end && range.end <= ID_END).then_some(range)
}

/// A decimal number as nodes write it. `parse` alone would accept a plus sign too.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The id that the text holds, if it holds one.
pub(crate) fn number(text: &str) -> Option<u64> {
    digits(text).filter(|id| (1..ID_END).contains(id))
}

/// Joins consecutive ids into ranges.
pub(crate) fn joined(ids: &[u64]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some(last) if last.end == id => last.end += 1,
            _ => ranges.push(id..id + 1),
        }
    }
    ranges
}

fn read_refusal(request: &Request, status: u16, answer: &Answer) -> Meaning {
    let problem: Option<Map<String, Value>> = serde_json::from_slice(&answer.body).ok();
    let field = |name: &str| problem.as_ref().and_then(|problem| problem.get(name));
    let text = |name| field(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (code, detail) = (text("code"), text("detail"));
    let seconds = answer.retry_after.as_deref().and_then(|text| digits(text.trim()));
    let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    let count_max = field("count_max").and_then(Value::as_u64);
    let fewer = count_max.filter(|count_max| (1..request.count()).contains(count_max));
    match (status, fewer) {
        (422, Some(count_max)) if code == "count_over_rate_limit" && request.as_ranges() => {
            Meaning::TooMany { count_max }
        }
        (429, _) if code == "rate_limited" => {
            let wait = wait.unwrap_or(Duration::from_secs(1));
            Meaning::RateLimited { refusal: Refusal { status, code, detail }, wait }
        }
        (400..500, _) if !matches!(status, 408 | 429) && !code.is_empty() => {
            Meaning::Refused(Refusal { status, code, detail })
        }
        // Also a refusal without a code: every refusal of a node has one, so this comes from something else.
        _ => {
            let said = match &problem {
                Some(_) => first_line(&detail),
                None => first_line(&String::from_utf8_lossy(&answer.body)),
            };
            let colon = if said.is_empty() { "" } else { ": " };
            Meaning::Failed { why: format!("answered {status}{colon}{said}"), rest: wait }
        }
    }
}

/// The first line of a text from the network, short enough for an error, and without control characters.
fn first_line(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let line = line.chars().take(SAID_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c });
    line.collect::<String>().trim().to_owned()
}

/// Whether the node that answered `GET /v1/cluster` is in a zone; `None` when the answer is not about that node.
pub(crate) fn is_in_zone(answer: &Answer, zone: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Cluster {
        node_id: u64,
        nodes: Vec<Node>,
    }
    #[derive(Deserialize)]
    struct Node {
        id: u64,
        zone: Option<String>,
    }
    if answer.status != 200 {
        return None;
    }
    let cluster: Cluster = serde_json::from_slice(&answer.body).ok()?;
    let own = cluster.nodes.into_iter().find(|node| node.id == cluster.node_id)?;
    Some(own.zone.as_deref() == Some(zone))
}

#[cfg(test)]
mod tests;
