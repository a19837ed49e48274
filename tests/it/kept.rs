//! An HTTP connection that stays open, over any stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::harness::secs;

/// An HTTP connection that stays open.
pub(crate) struct Kept<S = TcpStream>(pub(crate) BufReader<S>);

impl Kept {
    pub(crate) fn open(node: SocketAddr) -> Self {
        let stream = TcpStream::connect(node).unwrap();
        stream.set_read_timeout(Some(secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    /// GET with these header lines. Returns the status and the body.
    pub(crate) fn get(&mut self, path: &str, headers: &str) -> (u16, String) {
        self.get_with(path, headers)
    }
}

impl<S: Read + Write> Kept<S> {
    /// GET with these header lines. Returns the status and the body.
    pub(crate) fn get_with(&mut self, path: &str, headers: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"));
        self.answer()
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
        self.0.get_mut().flush().unwrap();
    }

    /// The next answer: its status and its body.
    pub(crate) fn answer(&mut self) -> (u16, String) {
        let (status, body, _) = self.whole_answer();
        (status, body)
    }

    /// GET. Returns the status, the body, and whether the answer says that it is the last one.
    pub(crate) fn get_last(&mut self, path: &str) -> (u16, String, bool) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
        self.whole_answer()
    }

    /// The next answer: its status, its body, and whether it says that it is the last one.
    pub(crate) fn whole_answer(&mut self) -> (u16, String, bool) {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let start = head.len();
            assert!(self.0.read_line(&mut head).unwrap() > 0, "closed after {head:?}");
            let line = &head[start..];
            if let Some(given) = line.strip_prefix("content-length: ") {
                length = given.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        let is_last = head.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
        (head[9..12].parse().unwrap(), String::from_utf8(body).unwrap(), is_last)
    }
}
