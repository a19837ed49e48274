//! Cases, as `cases.json` has them. `README.md` describes each field.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::request::Kind;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// The cases, in the order that a client should run them.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique, in snake case.
    pub name: String,
    /// The line of the README's table of cases that this is a part of.
    pub of: String,
    /// What it shows.
    pub about: String,
    /// How the client is built.
    #[serde(default)]
    pub client: Settings,
    /// How many endpoints there are.
    pub endpoints: usize,
    /// What the endpoints do.
    #[serde(default)]
    pub script: Vec<Rule>,
    /// The phases during which no endpoint listens.
    #[serde(default)]
    pub away: Vec<String>,
    /// What the client's test does.
    pub steps: Vec<Value>,
    /// Which requests must have arrived.
    #[serde(default)]
    pub requests: Requests,
}

/// The settings of the client.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The attempt's deadline.
    pub attempt_ms: Option<u64>,
    /// The connection's deadline.
    pub connect_ms: Option<u64>,
    /// The call's deadline.
    pub call_ms: Option<u64>,
    /// The most ids of a lease.
    pub lease_max: Option<u64>,
    /// The client's zone.
    pub zone: Option<String>,
    /// The client's token.
    pub token: Option<String>,
}

/// What to do with requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Requests of this kind; by default all but `cluster`.
    pub on: Option<Kind>,
    /// Requests for this tag or pool.
    pub tag: Option<String>,
    /// Requests that arrive here.
    pub endpoint: Option<Place>,
    /// Requests on a connection that has carried one before, or on a new one.
    pub kept: Option<bool>,
    /// Requests for more ids than this.
    pub over: Option<u64>,
    /// Requests in this phase.
    pub phase: Option<String>,
    /// For how many requests it holds; by default all.
    pub times: Option<u64>,
    /// What is done.
    pub act: Act,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// By its index.
    Index(usize),
    /// By the order of arrival.
    Named(Named),
}

/// An endpoint, by the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// The one that the case's first request arrived at.
    First,
    /// Any but that.
    Others,
    /// The one that the request before arrived at.
    Same,
    /// Any but that.
    Another,
}

/// What an endpoint does with one request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// How long it waits first.
    #[serde(default)]
    pub late_ms: u64,
    /// It never answers.
    #[serde(default)]
    pub silence: bool,
    /// It ends the connection and stops listening until the next phase.
    #[serde(default)]
    pub refuse: bool,
    /// It ends the connection early.
    pub cut: Option<Cut>,
    /// The least id of the answer, and of later ones.
    #[serde(default)]
    pub from: u64,
    /// The status; by default that of a node.
    pub status: Option<u16>,
    /// More headers. `{other}` is the address of another endpoint.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body; a string is sent as it is, as plain text. By default that of a node.
    pub body: Option<Value>,
    /// Fields that replace those of a node's body.
    pub merge: Option<Map<String, Value>>,
    /// What is wrong with the body.
    pub malformed: Option<Malformed>,
}

/// Where a connection ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Cut {
    /// After this many bytes of the body.
    Body(usize),
    /// Before the first byte of the answer.
    Head(Head),
}

/// The only text that `cut` takes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// Before the first byte of the answer.
    Head,
}

/// How an answer breaks the rules.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// The second half begins with the last id of the first.
    Overlap,
    /// The second half comes first.
    Fall,
    /// There is a range without an id.
    Empty,
    /// A range ends before it begins.
    Backwards,
    /// One id more.
    TooMany,
    /// One id less.
    TooFew,
    /// The ids begin at 0.
    Zero,
    /// The last id is 2^63.
    Above,
    /// The last id is the first one.
    Twice,
    /// A page of HTML.
    NoJson,
    /// JSON without ids.
    NoIds,
    /// More than 1 MiB of white space before the ids.
    TooLong,
    /// A plus sign before the first id.
    Plus,
}

/// Which requests must have arrived.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// These, in this order, and no others. `cluster` is not among them.
    pub list: Option<Vec<Expected>>,
    /// Others may follow the list.
    #[serde(default)]
    pub more: bool,
    /// How many of a kind.
    #[serde(default)]
    pub totals: BTreeMap<Kind, Bounds>,
    /// What holds for every one, `cluster` apart.
    pub each: Option<Expected>,
}

/// One expected request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Its kind.
    pub on: Option<Kind>,
    /// Its tag or pool.
    pub tag: Option<String>,
    /// Path and query, as they are sent.
    pub path: Option<String>,
    /// How many ids it asks for.
    pub count: Option<Bounds>,
    /// Where it arrived.
    pub endpoint: Option<Place>,
    /// Whether on a connection that has carried a request before.
    pub kept: Option<bool>,
    /// Milliseconds since the request before.
    pub gap_ms: Option<Bounds>,
    /// Fields that its body has.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// How often it comes in a row; by default once.
    pub times: Option<Bounds>,
}

/// A number, or the least and the most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Bounds {
    /// Exactly this.
    Exactly(u64),
    /// From the first to the second.
    Between(u64, u64),
}

impl Bounds {
    /// The least and the most.
    pub fn both(self) -> (u64, u64) {
        match self {
            Self::Exactly(number) => (number, number),
            Self::Between(least, most) => (least, most),
        }
    }

    /// Whether the number lies within.
    pub fn hold(self, number: u64) -> bool {
        let (least, most) = self.both();
        (least..=most).contains(&number)
    }
}
