//! Which node opened a connection, according to the first frame on it.
//!
//! All nodes dial the one address that a peer advertises, and on loopback all of them come from 127.0.0.1. The
//! head of a frame names its sender; the proxy reads nothing else of it. (The kernel's table of sockets would
//! show the caller too, but takes a second to read on a busy machine.)

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::links::NodeId;

/// The first bytes of a connection: the magic of nodes, and the version of the protocol that this file can parse.
const GREETING: &[u8] = b"MLRP\x03";
/// The size of the length field before each frame.
const FRAME_LENGTH_BYTES: usize = 4;
/// The size of the format and the checksum, which precede the fields of a frame.
const CHECKSUM_BYTES: usize = 5;
/// The most bytes that the fields up to the sender's id take.
const FIELDS_BYTES_MAX: usize = 64;
/// The most that is read of a connection. A greeting and the fields that matter are far shorter.
const START_BYTES_MAX: usize = 8 << 10;

/// Reads from a new connection until the caller is known. Returns the caller, and the bytes that were read.
///
/// # Errors
/// When the connection ends before that, or is not one between nodes.
pub(crate) async fn of(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(NodeId, Vec<u8>)> {
    let mut start = Vec::new();
    while start.len() < START_BYTES_MAX {
        if from.read_buf(&mut start).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(node) = sender(&start)? {
            return Ok((node, start));
        }
    }
    Err(unknown("its greeting does not end"))
}

/// The sender according to the start of a connection; `None` when more bytes are needed.
fn sender(start: &[u8]) -> io::Result<Option<NodeId>> {
    let known = start.len().min(GREETING.len());
    if start[..known] != GREETING[..known] {
        return Err(unknown("it speaks another protocol"));
    }
    match first_frame(start).and_then(|frame| frame.get(CHECKSUM_BYTES..)) {
        None => Ok(None),
        Some(fields) => match node_id(fields) {
            None if fields.len() > FIELDS_BYTES_MAX => Err(unknown("no sender is named")),
            found => Ok(found),
        },
    }
}

/// The part of the first frame that has arrived.
fn first_frame(start: &[u8]) -> Option<&[u8]> {
    start.get(GREETING.len() + FRAME_LENGTH_BYTES..)
}

/// A frame is an optional header and a request. A header begins with the cluster and the sender. A frame
/// without a header is a handshake, which begins with its sender.
fn node_id(fields: &[u8]) -> Option<NodeId> {
    let (_, fields) = match fields.split_first()? {
        (0, request) => number(request)?,
        (_, header) => number(header)?,
    };
    number(fields).map(|(id, _)| id)
}

/// A variable-length integer, and the bytes after it. An integer wider than 64 bits is read to its end, but its
/// value is not kept.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let long = |length: usize| {
        let (number, rest) = (rest.get(..length)?, rest.get(length..)?);
        let value =
            number.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        Some((value, rest))
    };
    match first {
        251 => long(2),
        252 => long(4),
        253 => long(8),
        254 => long(16),
        short => Some((u64::from(short), rest)),
    }
}

fn unknown(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a connection that is no node's: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length in it is ignored.
    const HEAD: &[u8] = b"MLRP\x03\xff\0\0\0";

    fn request(fields: &[u8]) -> Vec<u8> {
        [HEAD, &[1, 9, 9, 9, 9], fields].concat()
    }

    #[tokio::test]
    async fn the_sender_of_a_message_and_of_a_hello_is_found() {
        let message = request(&[&[1, 254], &[7; 16][..], &[3, 0, 0]].concat());
        let hello = request(&[0, 7, 2, 254]);
        let far = request(&[0, 7, 251, 1, 2, 0]);
        for (bytes, id) in [(message, 3), (hello, 2), (far, 0x201)] {
            assert_eq!(of(&mut &bytes[..]).await.unwrap(), (id, bytes));
        }
    }

    #[tokio::test]
    async fn what_ends_early_or_is_no_nodes_is_refused() {
        let cut = request(&[1, 254, 7, 7]);
        assert_eq!(of(&mut &cut[..]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for stranger in [&b"GET / HTTP/1.1\r\n"[..], b"MLRP\x04"] {
            assert_eq!(of(&mut &*stranger).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
