//! The part of gRPC that a put into etcd and a read from it need: one stream at a time on each connection.
//!
//! etcd's JSON gateway would cost etcd more than the call itself, so the bench speaks the protocol of etcd's
//! own clients.

use std::net::SocketAddr;

use super::protocol::Answers;
use crate::Result;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The size of a frame's head: length, kind, flags, stream.
const HEAD: usize = 9;

/// One connection's state.
#[derive(Default)]
pub(super) struct Grpc {
    /// How many streams were started.
    begun: u32,
    /// Whether the stream in flight has carried a message. A stream without one is an error.
    message: bool,
    /// Frames that must still be sent to the server.
    owed: Vec<u8>,
}

/// The bytes of a put of one byte under `key`. The stream number is missing.
pub(super) fn put(key: &str, target: SocketAddr) -> Vec<u8> {
    call("/etcdserverpb.KV/Put", &[&field(1, key.as_bytes())[..], &field(2, b"1")].concat(), target)
}

/// The bytes of a read of `key`. The stream number is missing. The read is linearizable, as etcd's reads are by
/// default.
pub(super) fn read(key: &str, target: SocketAddr) -> Vec<u8> {
    call("/etcdserverpb.KV/Range", &field(1, key.as_bytes()), target)
}

/// A field of bytes in protobuf's encoding.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    const BYTES: u8 = 2;
    [&[number << 3 | BYTES, bytes.len() as u8], bytes].concat()
}

fn call(path: &str, message: &[u8], target: SocketAddr) -> Vec<u8> {
    // Both are entries of HPACK's static table: POST, http.
    let mut block = vec![0x83, 0x86];
    for (name, value) in [
        (":path", path),
        (":authority", &target.to_string()),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // A literal that is not added to a table.
        block.extend([0, name.len() as u8]);
        block.extend(name.bytes());
        block.push(value.len() as u8);
        block.extend(value.bytes());
    }
    let mut data = vec![0, 0, 0, 0, message.len() as u8];
    data.extend(message);
    [frame(HEADERS, END_HEADERS, &block), frame(DATA, END_STREAM, &data)].concat()
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, high, mid, low] = (payload.len() as u32).to_be_bytes();
    [&[high, mid, low, kind, flags, 0, 0, 0, 0], payload].concat()
}

impl Grpc {
    /// The first bytes of a connection. They allow the server to send any number of answers.
    pub(super) fn greeting() -> Vec<u8> {
        let more = (i32::MAX as u32 - 65_535).to_be_bytes();
        let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        [&greeting[..], &frame(SETTINGS, 0, &[]), &frame(WINDOW_UPDATE, 0, &more)].concat()
    }

    /// The bytes of one request: the frames still to be sent, and the request on a new stream.
    pub(super) fn address(&mut self, request: &[u8]) -> Vec<u8> {
        let stream = (2 * self.begun + 1).to_be_bytes();
        self.begun += 1;
        self.message = false;
        let mut bytes = std::mem::take(&mut self.owed);
        let mut rest = request;
        while let Some((head, _)) = rest.split_at_checked(HEAD) {
            let (whole, after) = rest.split_at(HEAD + length(head));
            bytes.extend_from_slice(&whole[..HEAD - 4]);
            bytes.extend(stream);
            bytes.extend_from_slice(&whole[HEAD..]);
            rest = after;
        }
        bytes
    }

    /// Reads the complete frames at the start of `bytes`, as answers.
    ///
    /// # Errors
    /// When the server gives up the stream or the connection.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Answers> {
        let mut answers = Answers::default();
        while let Some((head, rest)) = bytes[answers.length..].split_at_checked(HEAD) {
            let Some(payload) = rest.get(..length(head)) else { break };
            answers.length += HEAD + payload.len();
            let (kind, flags) = (head[3], head[4]);
            match kind {
                DATA => self.message |= !payload.is_empty(),
                SETTINGS if flags & ACK == 0 => self.owed.extend(frame(SETTINGS, ACK, &[])),
                PING if flags & ACK == 0 => self.owed.extend(frame(PING, ACK, payload)),
                RESET | GOAWAY => {
                    return Err(format!("etcd gave up: {}", payload.escape_ascii()).into());
                }
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                answers.count += 1;
                if !self.message {
                    answers.error(payload.escape_ascii().to_string().as_bytes());
                }
            }
        }
        Ok(answers)
    }
}

fn length(head: &[u8]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_a_stream_of_its_own() {
        let request = put("key", "127.0.0.1:1".parse().unwrap());
        let mut grpc = Grpc::default();
        let streams = [grpc.address(&request), grpc.address(&request)].map(|bytes| bytes[8]);
        assert_eq!(streams, [1, 3]);
        assert_eq!(grpc.address(&request).len(), request.len());
    }

    #[test]
    fn an_end_without_a_message_is_an_error() {
        let ok = [frame(DATA, 0, b"x"), frame(HEADERS, END_STREAM, b"t")].concat();
        let mut grpc = Grpc::default();
        let answers = grpc.read(&ok).unwrap();
        assert_eq!((answers.count, answers.errors, answers.length), (1, 0, ok.len()));
        grpc.address(&[]);
        let answers = grpc.read(&frame(HEADERS, END_STREAM, b"grpc-status 14")).unwrap();
        assert_eq!((answers.count, answers.errors), (1, 1));
        assert!(grpc.read(&frame(GOAWAY, 0, b"bye")).is_err());
    }

    #[test]
    fn what_is_owed_goes_with_the_next_request() {
        let mut grpc = Grpc::default();
        assert_eq!(grpc.read(&frame(PING, 0, b"12345678")).unwrap().count, 0);
        assert_eq!(grpc.address(&[]), frame(PING, ACK, b"12345678"));
    }
}
