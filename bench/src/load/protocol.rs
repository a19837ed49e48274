//! Where an answer ends, and whether it is an error.

use memchr::{memchr, memmem};

use super::grpc::Grpc;
use crate::Result;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    Http,
    /// The Redis protocol.
    Resp,
    /// etcd's puts, over gRPC. One is in flight on each connection.
    Etcd,
    /// etcd's linearizable reads, in the same way.
    EtcdRead,
}

impl Protocol {
    /// Its name on a command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Resp => "resp",
            Protocol::Etcd => "etcd",
            Protocol::EtcdRead => "etcd-read",
        }
    }
}

/// The state of reading answers on one connection.
pub(super) enum Reader {
    Http,
    Resp,
    Grpc(Grpc),
}

/// The answers at the start of some bytes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// How many answers are complete.
    pub(super) count: u64,
    /// How many bytes they take.
    pub(super) length: usize,
    /// How many of them are errors.
    pub(super) errors: u64,
    /// The first error.
    pub(super) first_error: Option<String>,
}

impl Answers {
    /// Counts an answer that is an error.
    pub(super) fn error(&mut self, answer: &[u8]) {
        self.errors += 1;
        let shown = || String::from_utf8_lossy(&answer[..answer.len().min(500)]).into_owned();
        self.first_error.get_or_insert_with(shown);
    }
}

impl Reader {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http => Reader::Http,
            Protocol::Resp => Reader::Resp,
            Protocol::Etcd | Protocol::EtcdRead => Reader::Grpc(Grpc::default()),
        }
    }

    /// Reads the complete answers at the start of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not answers of this protocol.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Answers> {
        match self {
            Reader::Http => http(bytes),
            Reader::Resp => Ok(resp(bytes)),
            Reader::Grpc(grpc) => grpc.read(bytes),
        }
    }
}

fn http(bytes: &[u8]) -> Result<Answers> {
    let mut answers = Answers::default();
    while let Some(head) = memmem::find(&bytes[answers.length..], b"\r\n\r\n") {
        let start = answers.length;
        let head = &bytes[start..start + head];
        let Some(body) = content_length(head) else {
            return Err(format!("no length: {}", String::from_utf8_lossy(head)).into());
        };
        let end = start + head.len() + 4 + body;
        if end > bytes.len() {
            break;
        }
        // `HTTP/1.1 200 OK`
        if head.get(9) != Some(&b'2') {
            answers.error(&bytes[start..end]);
        }
        answers.count += 1;
        answers.length = end;
    }
    Ok(answers)
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut rest = head;
    while let Some(end) = memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        if rest.len() > NAME.len() && rest[..NAME.len()].eq_ignore_ascii_case(NAME) {
            let digits = rest[NAME.len()..].iter().skip_while(|byte| **byte == b' ');
            let digits = digits.take_while(|byte| byte.is_ascii_digit());
            return Some(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')));
        }
    }
    None
}

/// Integers, simple strings and errors: one line each.
fn resp(bytes: &[u8]) -> Answers {
    let mut answers = Answers::default();
    while let Some(line) = memchr(b'\n', &bytes[answers.length..]) {
        let end = answers.length + line + 1;
        if bytes[answers.length] == b'-' {
            answers.error(&bytes[answers.length..end]);
        }
        answers.count += 1;
        answers.length = end;
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_answers_end_where_their_length_says() {
        let two = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length:  3\r\n\r\n123\
            HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno";
        let answers = http(two).unwrap();
        assert_eq!((answers.count, answers.length, answers.errors), (2, two.len(), 1));
        assert!(answers.first_error.unwrap().ends_with("no"));
        assert_eq!(http(&two[..two.len() - 1]).unwrap().count, 1);
        assert_eq!(http(&two[..10]).unwrap().count, 0);
        assert!(http(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn resp_answers_are_lines() {
        let answers = resp(b":17\r\n-ERR no\r\n:1");
        assert_eq!((answers.count, answers.length, answers.errors), (2, 14, 1));
    }
}
