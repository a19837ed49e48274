//! As much of HTTP as asking a server takes: one request on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than a node takes over an answer, when it answers.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const CONNECT_MAX: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON; null when it is something else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether it is a success.
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

pub(crate) fn get(server: SocketAddr, path: &str) -> io::Result<Answer> {
    send(server, "GET", path, "")
}

pub(crate) fn post(server: SocketAddr, path: &str, body: &Value) -> io::Result<Answer> {
    send(server, "POST", path, &body.to_string())
}

fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, CONNECT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("the answer is none"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}
