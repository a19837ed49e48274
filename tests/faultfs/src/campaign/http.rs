//! As much of HTTP as asking a node takes: one request on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than a node takes over an answer, when it answers.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What a node answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

pub(super) fn get(node: SocketAddr, path: &str) -> io::Result<Answer> {
    send(node, "GET", path, "")
}

pub(super) fn post(node: SocketAddr, path: &str, body: &Value) -> io::Result<Answer> {
    send(node, "POST", path, &body.to_string())
}

pub(super) fn delete(node: SocketAddr, path: &str) -> io::Result<Answer> {
    send(node, "DELETE", path, "")
}

fn send(node: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&node, CONNECT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {node}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {len}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    parse(&answer).ok_or_else(|| io::Error::other("the answer is cut short"))
}

/// Takes an answer apart. One that is shorter than it says is none.
fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let said = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = said.is_none_or(|len| len == body.len());
    whole.then(|| Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answer_that_is_cut_short_is_none() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        let whole = parse(&format!("{head}1234")).unwrap();
        assert_eq!((whole.status, whole.body.as_str()), (200, "1234"));
        assert!(parse(&format!("{head}123")).is_none());
        assert!(parse("HTTP/1.1 204 No Content\r\n\r\n").is_some());
        assert!(parse("HTTP/1.1 200").is_none());
    }
}
