//! Endpoints without a network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::answer::Answer;
use crate::client::Client;
use crate::request::Request;
use crate::settings::Settings;
use crate::transport::{Attempt, Transport};

/// How an endpoint behaves towards one request.
pub(super) enum Act {
    /// It answers with this status and body.
    Answer(u16, String),
    /// As above, with `Retry-After`.
    RetryAfter(u16, String, u64),
    /// It acts after this delay.
    Late(Duration, Box<Act>),
    /// It cannot be reached, or the connection breaks.
    Break,
    /// It never answers.
    Silence,
}

/// One request, as the endpoint saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Milliseconds since the script began.
    pub(super) at_ms: u128,
    pub(super) endpoint: usize,
    pub(super) path: String,
}

type Acts = dyn FnMut(usize, &Request) -> Act + Send;

/// What all endpoints do, and the requests that they saw.
#[derive(Clone)]
pub(super) struct Script {
    endpoints: usize,
    acts: Arc<Mutex<Box<Acts>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    began: Instant,
}

impl Script {
    /// `endpoints` endpoints that behave as `act` says.
    pub(super) fn new(
        endpoints: usize,
        act: impl FnMut(usize, &Request) -> Act + Send + 'static,
    ) -> Self {
        let acts: Box<Acts> = Box::new(act);
        let acts = Arc::new(Mutex::new(acts));
        Self { endpoints, acts, seen: Arc::default(), began: Instant::now() }
    }

    /// Makes the endpoints behave differently from now on.
    pub(super) fn act(&self, act: impl FnMut(usize, &Request) -> Act + Send + 'static) {
        *self.acts.lock().unwrap() = Box::new(act);
    }

    /// A client of these endpoints.
    pub(super) fn client(&self) -> Client {
        self.client_with(Settings::default())
    }

    pub(super) fn client_with(&self, settings: Settings) -> Client {
        Client::over(Box::new(self.clone()), settings, Handle::current())
    }

    /// The requests since the previous call.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Their paths.
    pub(super) fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.path).collect()
    }

    /// Their endpoints.
    pub(super) fn asked(&self) -> Vec<usize> {
        self.seen().into_iter().map(|seen| seen.endpoint).collect()
    }

    /// Milliseconds since the script began.
    pub(super) fn now_ms(&self) -> u128 {
        self.began.elapsed().as_millis()
    }
}

impl Transport for Script {
    fn endpoints(&self) -> usize {
        self.endpoints
    }

    fn address(&self, endpoint: usize) -> String {
        format!("n{endpoint}:80")
    }

    fn ask<'a>(&'a self, endpoint: usize, request: &'a Request) -> Attempt<'a> {
        let (at_ms, path) = (self.now_ms(), request.path());
        self.seen.lock().unwrap().push(Seen { at_ms, endpoint, path });
        let act = self.acts.lock().unwrap()(endpoint, request);
        Box::pin(perform(act))
    }
}

async fn perform(mut act: Act) -> Result<Answer, String> {
    loop {
        let (status, body, retry_after) = match act {
            Act::Answer(status, body) => (status, body, None),
            Act::RetryAfter(status, body, after) => (status, body, Some(after.to_string())),
            Act::Late(after, later) => {
                sleep(after).await;
                act = *later;
                continue;
            }
            Act::Break => return Err("connection refused".to_owned()),
            Act::Silence => std::future::pending().await,
        };
        return Ok(Answer { status, retry_after, body: Bytes::from(body) });
    }
}

/// A tag's line as a node keeps it: it gives each id once.
pub(super) struct Line(pub(super) u64);

impl Line {
    /// The answer to a request for ids.
    pub(super) fn answer(&mut self, request: &Request) -> Act {
        let start = self.0;
        self.0 += request.count();
        let body = if request.as_ranges() {
            json!({"ranges": [{"start": start.to_string(), "end": self.0.to_string()}]})
        } else {
            let ids: Vec<_> = (start..self.0).map(|id| id.to_string()).collect();
            json!({"ids": ids})
        };
        Act::Answer(200, body.to_string())
    }
}

/// A refusal in the format of a node.
pub(super) fn problem(status: u16, code: &str) -> Act {
    Act::Answer(status, json!({"code": code, "detail": "why"}).to_string())
}

/// Waits until every task has done all that it can without the passing of time.
pub(super) async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Takes `count` ids, one by one.
pub(super) async fn take(client: &Client, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(client.next_id("orders").await.unwrap());
    }
    ids
}
