//! The bytes on one connection between two nodes.
//!
//! The connecting end sends frames, `[length u32 LE][frame]`. The accepting end answers each frame before it reads
//! the next, with `[verdict u8][length u32 LE][bytes]`: an answer, or the reason for its absence as text. The layer
//! above defines what precedes the first frame.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::unconstrained;

use super::interface::FRAME_BYTES_MAX;

const ANSWERED: u8 = 0;
const REFUSED: u8 = 1;
/// An answer after which the accepting end hangs up.
const ANSWERED_LAST: u8 = 2;
/// Size of the length field of a frame, in bytes.
const LENGTH_BYTES: usize = 4;
/// Capacity that one read reserves, in bytes: an ordinary message fits. A longer message takes memory as it arrives,
/// not by the length that it announces.
const READ_BYTES: usize = 8 << 10;

/// One end of a connection, over any byte stream.
pub(super) struct Channel<S> {
    stream: S,
    /// Bytes that were read but not used yet.
    ahead: BytesMut,
}

/// An answer, and whether the connection ends with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) bytes: Bytes,
    pub(super) is_last: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, ahead: BytesMut::new() }
    }

    pub(super) async fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = length(frame)?;
        self.send(&length.to_le_bytes(), frame).await
    }

    /// Receives a frame. A caller may give up waiting and wait again later: nothing that was read is lost.
    pub(super) async fn receive_frame(&mut self) -> io::Result<Bytes> {
        self.fill(LENGTH_BYTES).await?;
        let length = checked_length((&self.ahead[..LENGTH_BYTES]).get_u32_le())?;
        self.fill(LENGTH_BYTES + length).await?;
        self.ahead.advance(LENGTH_BYTES);
        Ok(self.ahead.split_to(length).freeze())
    }

    /// Sends the answer to a frame, or the reason why there is none.
    pub(super) async fn send_answer(&mut self, answer: Result<&[u8], &str>) -> io::Result<()> {
        match answer {
            Ok(answer) => self.send_verdict(ANSWERED, answer).await,
            Err(why) => self.send_verdict(REFUSED, why.as_bytes()).await,
        }
    }

    /// Sends the last answer on this connection, and closes this direction of it.
    pub(super) async fn send_last_answer(&mut self, answer: &[u8]) -> io::Result<()> {
        self.send_verdict(ANSWERED_LAST, answer).await?;
        self.stream.shutdown().await
    }

    async fn send_verdict(&mut self, verdict: u8, bytes: &[u8]) -> io::Result<()> {
        let mut head = [verdict; 1 + LENGTH_BYTES];
        head[1..].copy_from_slice(&length(bytes)?.to_le_bytes());
        self.send(&head, bytes).await
    }

    pub(super) async fn receive_answer(&mut self) -> io::Result<Result<Answered, String>> {
        let mut head = self.take(1 + LENGTH_BYTES).await?;
        let (verdict, length) = (head.get_u8(), head.get_u32_le());
        if ![ANSWERED, REFUSED, ANSWERED_LAST].contains(&verdict) {
            let why = "no node of this protocol listens there";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let bytes = self.take(checked_length(length)?).await?;
        if verdict == REFUSED {
            return Ok(Err(String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(Ok(Answered { bytes, is_last: verdict == ANSWERED_LAST }))
    }

    /// Resolves when the other end hangs up or sends bytes out of turn.
    pub(super) async fn interrupted(&mut self) {
        if self.ahead.is_empty() {
            self.ahead.reserve(1);
            let _ = self.stream.read_buf(&mut self.ahead).await;
        }
    }

    /// Whether the other end has neither hung up nor sent bytes out of turn, as far as this end knows: a read would
    /// have to wait. A channel that is not silent is no longer usable.
    pub(super) fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        // tokio would make a task that has used up its budget wait, even if there are bytes to read.
        let read = pin!(unconstrained(self.stream.read(&mut byte)));
        self.ahead.is_empty() && read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Closes this direction of the connection.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Reads and drops what still arrives. The operating system resets a connection that is closed with unread bytes,
    /// and the other end might then lose the text that was sent to it.
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

/// The length of the bytes that follow, unless it is out of bounds.
fn checked_length(length: u32) -> io::Result<usize> {
    let length = length as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that is too long"));
    }
    Ok(length)
}
