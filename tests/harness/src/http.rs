//! The HTTP client: [`Client`] for async code, and [`Api`], which waits for each answer.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Longer than a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(12);
/// Long enough for the first packet to be lost once.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// The limit for an answer. A page of a thousand tags is far smaller, and so is the largest batch of ids.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Carries the connections of all callers that are not async.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    });
    &RUNTIME
}

/// Encodes `text` as one segment of a path.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// What a node answered.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// Whether it is a success.
    pub fn is_ok(&self) -> bool {
        StatusCode::from_u16(self.status).is_ok_and(|status| status.is_success())
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.try_json().unwrap_or_else(|| panic!("no JSON: {self:?}"))
    }

    /// The body as JSON, if it is JSON.
    pub fn try_json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// A header's value; empty when the header is missing.
    ///
    /// # Panics
    /// When it is not text.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body of an answer that must be a success; null when it is empty.
    ///
    /// # Panics
    /// When it is a refusal.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!(self.is_ok(), "refused: {self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The status and `code` of an answer that must be a problem.
    ///
    /// # Panics
    /// When it is a success, or not a problem document (RFC 9457).
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }

    /// The ids of `{"ids": […]}`, which must be decimal strings.
    ///
    /// # Panics
    /// When there are none.
    #[track_caller]
    pub fn ids(&self) -> Vec<u64> {
        listed(&self.ok()).unwrap_or_else(|| panic!("no list of ids: {self:?}"))
    }

    /// The ids that were handed out, as half-open intervals in the order of the answer. The body has one of
    /// three shapes: one bare number, `{"ids": […]}` or `{"ranges": […]}`.
    pub fn intervals(&self) -> Option<Vec<(u64, u64)>> {
        if let Ok(id) = std::str::from_utf8(&self.body).ok()?.parse() {
            return Some(joined(&[id]));
        }
        let body = self.try_json()?;
        match body["ranges"].as_array() {
            Some(ranges) => ranges
                .iter()
                .map(|range| Some((number(&range["start"])?, number(&range["end"])?)))
                .collect(),
            None => Some(joined(&listed(&body)?)),
        }
    }
}

fn listed(body: &Value) -> Option<Vec<u64>> {
    body["ids"].as_array()?.iter().map(number).collect()
}

/// An id in JSON is a text, because many programs read numbers as floats.
fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

/// Joins consecutive ids into intervals.
fn joined(ids: &[u64]) -> Vec<(u64, u64)> {
    let mut intervals: Vec<(u64, u64)> = Vec::new();
    for &id in ids {
        match intervals.last_mut() {
            Some((_, end)) if *end == id => *end += 1,
            _ => intervals.push((id, id + 1)),
        }
    }
    intervals
}

/// Why a request had no answer.
#[derive(Clone, Debug)]
pub enum NoAnswer {
    /// No node was reached, so the request had no effect.
    Unreached(String),
    /// It is unknown whether the request had an effect.
    Lost(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreached(why) | Self::Lost(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for NoAnswer {}

/// Sends requests to nodes over connections that it keeps. It never repeats a request, because that would be
/// two requests to the node, but one in a history.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Idle connections, by node.
    idle: Arc<Mutex<HashMap<SocketAddr, Vec<Connection>>>>,
}

type Connection = SendRequest<Full<Bytes>>;

impl Client {
    /// Sends one request, with or without a JSON body.
    ///
    /// # Errors
    /// When no answer arrives within that time.
    pub async fn ask(
        &self,
        node: SocketAddr,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(String::new, Value::to_string);
        self.send(node, request.body(Full::from(body)).unwrap(), within).await
    }

    /// Sends one request.
    ///
    /// # Errors
    /// When no answer arrives within that time.
    pub async fn send(
        &self,
        node: SocketAddr,
        mut request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        let host = HeaderValue::from_str(&node.to_string()).unwrap();
        request.headers_mut().insert(HOST, host);
        match timeout(within, self.call(node, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NoAnswer::Lost(format!("no answer within {within:?}"))),
        }
    }

    async fn call(
        &self,
        node: SocketAddr,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, NoAnswer> {
        let lost = |error: hyper::Error| NoAnswer::Lost(error.to_string());
        let mut connection = loop {
            match self.open(node) {
                Some(mut open) => {
                    // A connection that has ended since its last use has not carried the request.
                    if open.ready().await.is_ok() {
                        break open;
                    }
                }
                None => {
                    let unreached = |error: Box<dyn std::error::Error + Send + Sync>| {
                        NoAnswer::Unreached(error.to_string())
                    };
                    break connect(node).await.map_err(unreached)?;
                }
            }
        };
        connection.ready().await.map_err(lost)?;
        let (head, body) = connection.send_request(request).await.map_err(lost)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| NoAnswer::Lost(error.to_string()))?.to_bytes();
        self.idle.lock().entry(node).or_default().push(connection);
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// An idle connection that is not known to be closed.
    fn open(&self, node: SocketAddr) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let idle = idle.get_mut(&node)?;
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}

type Connected = Result<Connection, Box<dyn std::error::Error + Send + Sync>>;

async fn connect(node: SocketAddr) -> Connected {
    let stream = timeout(CONNECT_MAX, TcpStream::connect(node)).await??;
    stream.set_nodelay(true)?;
    let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}

/// A node's address for clients, and the requests to it. Every call opens a connection, waits for the answer,
/// and panics if none comes. Calls whose names begin with `try` return an error instead.
#[derive(Clone, Copy, Debug)]
pub struct Api(pub SocketAddr);

impl Api {
    /// GET.
    #[track_caller]
    pub fn get(self, path: &str) -> Answer {
        self.send(&Method::GET, path, &[], "")
    }

    /// GET with these media types in `accept`.
    #[track_caller]
    pub fn get_as(self, path: &str, accept: &str) -> Answer {
        self.send(&Method::GET, path, &[("accept", accept)], "")
    }

    /// POST of JSON.
    #[track_caller]
    pub fn post(self, path: &str, body: &Value) -> Answer {
        self.send_json(&Method::POST, path, body)
    }

    /// PATCH with JSON.
    #[track_caller]
    pub fn patch(self, path: &str, body: &Value) -> Answer {
        self.send_json(&Method::PATCH, path, body)
    }

    /// DELETE.
    #[track_caller]
    pub fn delete(self, path: &str) -> Answer {
        self.send(&Method::DELETE, path, &[], "")
    }

    #[track_caller]
    fn send_json(self, method: &Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[(CONTENT_TYPE.as_str(), "application/json")], &body.to_string())
    }

    /// Any request.
    ///
    /// # Panics
    /// When there is no answer.
    #[track_caller]
    pub fn send(self, method: &Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = self.try_send(method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path} of {}: {error}", self.0))
    }

    /// GET.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn try_get(self, path: &str) -> Result<Answer, NoAnswer> {
        self.try_send(&Method::GET, path, &[], "")
    }

    /// POST of JSON.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn try_post(self, path: &str, body: &Value) -> Result<Answer, NoAnswer> {
        let json = [(CONTENT_TYPE.as_str(), "application/json")];
        self.try_send(&Method::POST, path, &json, &body.to_string())
    }

    /// DELETE.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn try_delete(self, path: &str) -> Result<Answer, NoAnswer> {
        self.try_send(&Method::DELETE, path, &[], "")
    }

    /// Any request.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn try_send(
        self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, NoAnswer> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        runtime().block_on(Client::default().send(self.0, request, ANSWER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static str) -> Answer {
        Answer { status: 200, headers: HeaderMap::new(), body: body.into() }
    }

    #[test]
    fn ids_of_every_shape_are_read() {
        assert_eq!(answer("17").intervals(), Some(vec![(17, 18)]));
        let ids = answer(r#"{"tag":"a","ids":["4","5","9"]}"#);
        assert_eq!(ids.intervals(), Some(vec![(4, 6), (9, 10)]));
        let ranges = answer(r#"{"ranges":[{"start":"4","end":"8"}]}"#);
        assert_eq!(ranges.intervals(), Some(vec![(4, 8)]));
        for nothing in ["<html>", "{}", r#"{"ids":[4]}"#] {
            assert_eq!(answer(nothing).intervals(), None, "{nothing}");
        }
    }
}
