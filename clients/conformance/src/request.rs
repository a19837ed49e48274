//! Requests, as they arrive on a connection.

use std::io::{BufRead, Read};

use serde::Deserialize;
use serde_json::Value;

/// The most bytes of a request's head, and of its body.
const BYTES_MAX: u64 = 64 * 1024;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ids of a tag, as a list.
    Ids,
    /// A lease of a tag's ids.
    Ranges,
    /// Snowflakes.
    Snowflakes,
    /// The next number of a key.
    Sequence,
    /// The number of a key for ever.
    Register,
    /// A lease of a worker id.
    Lease,
    /// More time of such a lease.
    Renewal,
    /// The end of such a lease.
    GiveBack,
    /// The members of the cluster.
    Cluster,
    /// Anything else. No client may ask for it.
    Unknown,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query, as they arrived.
    pub target: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// What it is for.
    pub kind: Kind,
    /// The tag or pool, without escapes.
    pub tag: String,
    /// The key, or the lease, without escapes.
    pub key: String,
    /// How many ids are asked for.
    pub count: u64,
}

impl Request {
    /// Reads the next request; `None` at the end of the connection.
    pub fn read(from: &mut impl BufRead) -> Option<Self> {
        let mut head = String::new();
        let mut lines = from.take(BYTES_MAX);
        while !head.ends_with("\r\n\r\n") {
            if lines.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let (first, rest) = head.split_once("\r\n")?;
        let mut first = first.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers: Vec<_> = rest
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut request = Self {
            method,
            target,
            headers,
            body: String::new(),
            kind: Kind::Unknown,
            tag: String::new(),
            key: String::new(),
            count: 0,
        };
        let length = request.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; usize::try_from(length.unwrap_or(0).min(BYTES_MAX)).ok()?];
        from.read_exact(&mut body).ok()?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        request.classify();
        Some(request)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A field of the body.
    pub fn field(&self, name: &str) -> Option<Value> {
        serde_json::from_str::<Value>(&self.body).ok()?.get(name).cloned()
    }

    fn classify(&mut self) {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let parameter = |wanted: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        let as_ranges = parameter("format") == Some("ranges");
        let count = parameter("count").and_then(|count| count.parse().ok());
        let parts: Vec<_> = path.split('/').skip(1).collect();
        let (kind, tag, key) = match (self.method.as_str(), parts.as_slice()) {
            ("GET", ["v1", "segment", tag]) if as_ranges => (Kind::Ranges, *tag, ""),
            ("GET", ["v1", "segment", tag]) => (Kind::Ids, *tag, ""),
            ("GET", ["v1", "snowflake"]) if as_ranges => (Kind::Snowflakes, "", ""),
            ("GET", ["v1", "sequence", tag, key]) => (Kind::Sequence, *tag, *key),
            ("GET", ["v1", "cluster"]) => (Kind::Cluster, "", ""),
            ("POST", ["v1", "register", tag, key]) => (Kind::Register, *tag, *key),
            ("POST", ["v1", "pools", pool, "leases"]) => (Kind::Lease, *pool, ""),
            ("POST", ["v1", "pools", pool, "leases", lease]) => (Kind::Renewal, *pool, *lease),
            ("DELETE", ["v1", "pools", pool, "leases", lease]) => (Kind::GiveBack, *pool, *lease),
            _ => (Kind::Unknown, "", ""),
        };
        let (tag, key) = (unescaped(tag), unescaped(key));
        (self.kind, self.tag, self.key, self.count) = (kind, tag, key, count.unwrap_or(0));
    }
}

fn unescaped(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| first == b'%');
        let escaped = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &tail[2..]).1,
            None => (bytes.push(first), rest = tail).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
