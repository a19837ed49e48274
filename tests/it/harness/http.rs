//! A client of one node.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Longer than a node may take over any answer.
const ANSWER_MAX: Duration = Duration::from_secs(12);

/// Carries every connection of the tests.
pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    });
    &RUNTIME
}

/// What a node answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value, empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The body of an answer that must be a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert!(StatusCode::from_u16(self.status).unwrap().is_success(), "refused: {self:?}");
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The status and `code` of an answer that must be a problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }

    /// The ids of `{"ids": […]}`, which must be decimal strings.
    #[track_caller]
    pub(crate) fn ids(&self) -> Vec<u64> {
        let ids = self.ok();
        let ids = ids["ids"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().parse().unwrap()).collect()
    }
}

/// `text` as one segment of a path.
pub(crate) fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A node's client address, and what can be asked there. Every call opens a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api(pub(crate) SocketAddr);

impl Api {
    #[track_caller]
    pub(crate) fn get(self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|error| panic!("GET {path} of {}: {error}", self.0))
    }

    /// An answer, or why there was none.
    pub(crate) fn try_get(self, path: &str) -> Result<Answer, String> {
        self.try_send(&Method::GET, path, &[], "")
    }

    #[track_caller]
    pub(crate) fn get_as(self, path: &str, accept: &str) -> Answer {
        self.try_send(&Method::GET, path, &[("accept", accept)], "").unwrap()
    }

    #[track_caller]
    pub(crate) fn post(self, path: &str, body: &Value) -> Answer {
        self.send_json(&Method::POST, path, body)
    }

    #[track_caller]
    pub(crate) fn patch(self, path: &str, body: &Value) -> Answer {
        self.send_json(&Method::PATCH, path, body)
    }

    #[track_caller]
    pub(crate) fn delete(self, path: &str) -> Answer {
        self.send(&Method::DELETE, path, &[], "")
    }

    #[track_caller]
    fn send_json(self, method: &Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[(CONTENT_TYPE.as_str(), "application/json")], &body.to_string())
    }

    #[track_caller]
    pub(crate) fn send(
        self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let answer = self.try_send(method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path} of {}: {error}", self.0))
    }

    fn try_send(
        self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, String> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        runtime().block_on(async { Connection::new(self.0).send(request).await })
    }
}

/// One kept-alive connection, opened when it is needed and again after it broke.
pub(super) struct Connection {
    node: SocketAddr,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(super) fn new(node: SocketAddr) -> Self {
        Self { node, open: None }
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send(Request::get(path).body(Full::default()).unwrap()).await
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Result<Answer, String> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        self.send(request.body(Full::from(body.to_string())).unwrap()).await
    }

    async fn send(&mut self, mut request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let host = self.node.to_string().parse().unwrap();
        request.headers_mut().insert(HOST, host);
        let exchange = async {
            let mut connection = match self.open.take() {
                Some(open) if !open.is_closed() => open,
                _ => connect(self.node).await?,
            };
            connection.ready().await?;
            let (head, body) = connection.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            self.open = Some(connection);
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        match timeout(ANSWER_MAX, exchange).await {
            Ok(outcome) => outcome.map_err(|error: Box<dyn std::error::Error>| error.to_string()),
            Err(_) => Err(format!("no answer within {ANSWER_MAX:?}")),
        }
    }
}

async fn connect(node: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Box<dyn std::error::Error>> {
    let stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(connection)
}
