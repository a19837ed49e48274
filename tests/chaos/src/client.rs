//! The nodes by their ids, for the HTTP client that all tests share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use mintleaf_harness::{Answer, NoAnswer};
use serde_json::Value;

use crate::links::NodeId;

/// Asks nodes.
#[derive(Clone)]
pub(crate) struct Client {
    client: mintleaf_harness::Client,
    nodes: BTreeMap<NodeId, SocketAddr>,
}

impl Client {
    pub(crate) fn new(nodes: BTreeMap<NodeId, SocketAddr>) -> Self {
        Self { client: mintleaf_harness::Client::default(), nodes }
    }

    /// Sends one request, once.
    ///
    /// # Errors
    /// When there is no answer within that time.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        self.client.ask(self.nodes[&node], method, path, body, within).await
    }

    /// A GET whose answer is no part of the history.
    pub(crate) async fn get(&self, node: NodeId, path: &str) -> Option<Answer> {
        const WITHIN: Duration = Duration::from_secs(2);
        let answer = self.ask(node, Method::GET, path, None, WITHIN).await;
        answer.ok().filter(|answer| answer.status == 200)
    }
}
