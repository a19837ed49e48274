//! Who makes a connection: the first frame on it says so.
//!
//! All nodes dial the one address that a peer advertises, and on loopback all come from 127.0.0.1.
//! What tells them apart is the head of a frame, which names its sender; nothing else of it is
//! looked at. (The kernel's table of sockets would tell as well, and takes a second to read on a
//! machine that is busy.)

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::links::NodeId;

/// The frames whose head is known here.
const PROTOCOL: &str = "x-mintleaf-protocol: 1\r\n";
const HEAD_END: &[u8] = b"\r\n\r\n";
/// The format and the checksum of a frame stand before its fields.
const CHECKSUM_BYTES: usize = 5;
/// The fields up to the sender's id are no longer than that.
const FIELDS_BYTES_MAX: usize = 64;
/// A head and the fields that matter are far shorter.
const START_BYTES_MAX: usize = 8 << 10;

/// Reads from a new connection until it is known who made it, and answers what was read as well.
///
/// # Errors
/// When it ends before, or is not one between nodes.
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
    Err(unknown("its head does not end"))
}

/// The sender named by the start of a request; `None` when more of it is needed.
fn sender(start: &[u8]) -> io::Result<Option<NodeId>> {
    let Some(at) = start.windows(HEAD_END.len()).position(|part| part == HEAD_END) else {
        return Ok(None);
    };
    let (head, body) = start.split_at(at + HEAD_END.len());
    if !String::from_utf8_lossy(head).to_ascii_lowercase().contains(PROTOCOL) {
        return Err(unknown("it speaks another protocol"));
    }
    match body.get(CHECKSUM_BYTES..).and_then(node_id) {
        None if body.len() > FIELDS_BYTES_MAX => Err(unknown("no sender is named")),
        found => Ok(found),
    }
}

/// A frame is an optional header and a request. A header begins with the cluster and its sender; a
/// frame without one is a hello, which begins with its sender.
fn node_id(fields: &[u8]) -> Option<NodeId> {
    let (_, fields) = match fields.split_first()? {
        (0, request) => number(request)?,
        (_, header) => number(header)?,
    };
    number(fields).map(|(id, _)| id)
}

/// An integer of variable length and what follows it; of one that is too long for this, no more
/// than the end.
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

    const HEAD: &[u8] = b"POST /rpc HTTP/1.1\r\nhost: a\r\nX-Mintleaf-Protocol: 1\r\n\r\n";

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
        let stranger = b"GET / HTTP/1.1\r\nx-mintleaf-protocol: 2\r\n\r\n";
        assert_eq!(of(&mut &stranger[..]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
