//! A client of any node, over keep-alive connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use crate::links::NodeId;

/// The largest batch of ids is far below this.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks nodes.
#[derive(Clone)]
pub(crate) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
    nodes: BTreeMap<NodeId, SocketAddr>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer.
    Answer(Answer),
    /// Nobody was reached, so nothing was done.
    Unreached,
    /// Nobody knows whether it was done.
    Lost,
}

/// A node's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; null when it is something else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Client {
    pub(crate) fn new(nodes: BTreeMap<NodeId, SocketAddr>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // A request that was sent once more would be two in the history of the node, and one here.
        let pool =
            Pool::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector);
        Self { pool, nodes }
    }

    /// Sends one request, once.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.nodes[&node]))
            .header(ACCEPT, "*/*")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.map_or_else(String::new, Value::to_string)))
            .expect("paths are made here");
        timeout(within, self.exchange(request)).await.unwrap_or(Reply::Lost)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Reply {
        let response = match self.pool.request(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Reply::Unreached,
            Err(_) => return Reply::Lost,
        };
        let status = response.status().as_u16();
        match Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await {
            Ok(body) => Reply::Answer(Answer { status, body: body.to_bytes() }),
            Err(_) => Reply::Lost,
        }
    }

    /// A GET whose answer is no part of the history.
    pub(crate) async fn get(&self, node: NodeId, path: &str) -> Option<Answer> {
        const WITHIN: Duration = Duration::from_secs(2);
        match self.ask(node, Method::GET, path, None, WITHIN).await {
            Reply::Answer(answer) if answer.status == 200 => Some(answer),
            _ => None,
        }
    }
}
