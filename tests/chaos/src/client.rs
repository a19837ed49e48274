//! Addresses nodes by their ids, with the HTTP client that all tests share.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hyper::Method;
use mintleaf_harness::{Answer, NoAnswer, command};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::links::{Addresses, NodeId};

/// Sends requests to nodes.
#[derive(Clone)]
pub(crate) struct Client {
    client: mintleaf_harness::Client,
    nodes: BTreeMap<NodeId, Addresses>,
}

impl Client {
    pub(crate) fn new(nodes: BTreeMap<NodeId, Addresses>) -> Self {
        Self { client: mintleaf_harness::Client::default(), nodes }
    }

    /// Where a node listens.
    pub(crate) fn url(&self, node: NodeId) -> String {
        format!("http://{}", self.nodes[&node].http)
    }

    /// Sends one request, once.
    ///
    /// # Errors
    /// When no answer arrives within `within`.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        self.client.ask(self.nodes[&node].http, method, path, body, within).await
    }

    /// A GET whose answer is not part of the history.
    pub(crate) async fn get(&self, node: NodeId, path: &str) -> Option<Answer> {
        const WITHIN: Duration = Duration::from_secs(2);
        let answer = self.ask(node, Method::GET, path, None, WITHIN).await;
        answer.ok().filter(|answer| answer.status == 200)
    }

    /// Sends one command of the Redis protocol, once, over a new connection. Returns the first line of the answer.
    ///
    /// # Errors
    /// When no answer arrives within `within`.
    pub(crate) async fn command(
        &self,
        node: NodeId,
        words: &str,
        within: Duration,
    ) -> Result<String, NoAnswer> {
        let connect = TcpStream::connect(self.nodes[&node].resp);
        let unreached = |why: String| NoAnswer::Unreached(why);
        let connected =
            timeout(within, connect).await.map_err(|late| unreached(late.to_string()))?;
        let stream = connected.map_err(|error| unreached(error.to_string()))?;
        let asked = timeout(within, first_line(stream, words)).await;
        let lost = |why: String| NoAnswer::Lost(why);
        asked.map_err(|late| lost(late.to_string()))?.map_err(|error| lost(error.to_string()))
    }
}

async fn first_line(mut stream: TcpStream, words: &str) -> io::Result<String> {
    stream.write_all(&command(words)).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    match line.strip_suffix("\r\n") {
        Some(whole) => Ok(whole.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
