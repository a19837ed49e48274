//! The bytes on one connection between two nodes.
//!
//! The connecting end begins with a greeting, `["MLRP"][protocol u8][secret length u16 LE][secret]`, and
//! sends frames behind it, `[length u32 LE][frame]`. The accepting end answers each frame before it reads
//! the next, with `[verdict u8][length u32 LE][bytes]`: an answer, or a text that says why there is none.
//! It answers the greeting only to refuse it, so the greeting costs no round trip.

use std::future::Future;
use std::io;
use std::mem;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::unconstrained;

use super::interface::{FRAME_BYTES_MAX, PROTOCOL};

/// The first bytes of every greeting.
const MAGIC: [u8; 4] = *b"MLRP";
const ANSWERED: u8 = 0;
const REFUSED: u8 = 1;
/// Bytes of capacity that one read reserves: an ordinary message fits. A longer message takes memory as
/// it arrives, not by the length that it announces.
const READ_BYTES: usize = 8 << 10;

/// The greeting that a connection began with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Node {
        protocol: u8,
        secret: Bytes,
    },
    /// The other end is no node, or a node from before this protocol.
    Stranger,
}

/// Encodes the greeting that opens a connection.
pub(super) fn greeting(secret: &[u8]) -> Vec<u8> {
    let secret_len = u16::try_from(secret.len()).expect("secrets are short");
    [&MAGIC[..], &[PROTOCOL], &secret_len.to_le_bytes(), secret].concat()
}

/// One end of a connection, over any byte stream.
pub(super) struct Channel<S> {
    stream: S,
    /// Bytes that were read and not used yet.
    ahead: BytesMut,
    /// The greeting of the connecting end until it is sent, and nothing otherwise.
    unsent: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    /// The accepting end.
    pub(super) fn accepted(stream: S) -> Self {
        Self::opened(stream, Vec::new())
    }

    /// The connecting end. It sends its greeting together with its first frame.
    pub(super) fn opened(stream: S, greeting: Vec<u8>) -> Self {
        Self { stream, ahead: BytesMut::new(), unsent: greeting }
    }

    /// Sends the greeting of a connection on which no frame is to follow for now.
    pub(super) async fn greet(&mut self) -> io::Result<()> {
        let greeting = mem::take(&mut self.unsent);
        self.send(&greeting, &[]).await
    }

    pub(super) async fn receive_greeting(&mut self) -> io::Result<Greeting> {
        let mut matched = 0;
        while matched < MAGIC.len() {
            self.fill(matched + 1).await?;
            if self.ahead[matched] != MAGIC[matched] {
                return Ok(Greeting::Stranger);
            }
            matched += 1;
        }
        self.take(MAGIC.len()).await?;
        let mut rest = self.take(3).await?;
        let (protocol, secret_len) = (rest.get_u8(), rest.get_u16_le());
        // The greeting of a later protocol may differ behind its version.
        if protocol != PROTOCOL {
            return Ok(Greeting::Node { protocol, secret: Bytes::new() });
        }
        Ok(Greeting::Node { protocol, secret: self.take(usize::from(secret_len)).await? })
    }

    pub(super) async fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = length(frame)?;
        let mut head = mem::take(&mut self.unsent);
        head.put_u32_le(length);
        self.send(&head, frame).await
    }

    pub(super) async fn receive_frame(&mut self) -> io::Result<Bytes> {
        let length = self.take(4).await?.get_u32_le();
        self.take_body(length).await
    }

    /// Sends the answer to a frame, or the reason why there is none.
    pub(super) async fn send_answer(&mut self, answer: Result<&[u8], &str>) -> io::Result<()> {
        let (verdict, bytes) = match answer {
            Ok(answer) => (ANSWERED, answer),
            Err(why) => (REFUSED, why.as_bytes()),
        };
        let mut head = [verdict; 5];
        head[1..].copy_from_slice(&length(bytes)?.to_le_bytes());
        self.send(&head, bytes).await
    }

    pub(super) async fn receive_answer(&mut self) -> io::Result<Result<Bytes, String>> {
        let mut head = self.take(5).await?;
        let (verdict, length) = (head.get_u8(), head.get_u32_le());
        if verdict != ANSWERED && verdict != REFUSED {
            let why = "no node of this protocol listens there";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let bytes = self.take_body(length).await?;
        let as_text = || String::from_utf8_lossy(&bytes).into_owned();
        Ok(if verdict == REFUSED { Err(as_text()) } else { Ok(bytes) })
    }

    /// Resolves when the other end hangs up or sends bytes out of turn.
    pub(super) async fn interrupted(&mut self) {
        if self.ahead.is_empty() {
            self.ahead.reserve(1);
            let _ = self.stream.read_buf(&mut self.ahead).await;
        }
    }

    /// Whether the other end has neither hung up nor sent bytes out of turn, as far as this end knows: a read
    /// would have to wait. A channel that is not silent is of no use any more.
    pub(super) fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        // tokio would have a task that used up its budget wait, whatever there is to read.
        let read = pin!(unconstrained(self.stream.read(&mut byte)));
        self.ahead.is_empty() && read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Sends a last text, which need not be a frame, and closes this direction of the connection.
    pub(super) async fn say_last(&mut self, text: &[u8]) -> io::Result<()> {
        self.stream.write_all(text).await?;
        self.stream.shutdown().await
    }

    /// Reads and drops what still arrives. The operating system resets a connection that is closed with
    /// unread bytes, and the other end might then lose the text that it was sent.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        let mut left = FRAME_BYTES_MAX;
        while left > 0 {
            self.ahead.clear();
            self.ahead.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.ahead).await? {
                0 => return Ok(()),
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    }

    async fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.stream.write_all_buf(&mut Buf::chain(head, body)).await?;
        // TCP needs no flush; a stream that encrypts may hold bytes back without one.
        self.stream.flush().await
    }

    async fn take_body(&mut self, length: u32) -> io::Result<Bytes> {
        let length = length as usize;
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that is too long"));
        }
        self.take(length).await
    }

    async fn take(&mut self, length: usize) -> io::Result<Bytes> {
        self.fill(length).await?;
        Ok(self.ahead.split_to(length).freeze())
    }

    async fn fill(&mut self, length: usize) -> io::Result<()> {
        while self.ahead.len() < length {
            self.ahead.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.ahead).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a frame that is too long");
    let length = u32::try_from(bytes.len()).map_err(|_| too_long())?;
    if bytes.len() > FRAME_BYTES_MAX { Err(too_long()) } else { Ok(length) }
}
