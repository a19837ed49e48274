//! Both halves of a client's connection with their buffers: for loops that read, answer all that is
//! there, and send the answers with one write.
//!
//! Buffers grow with use and are cut down while nothing comes, because most connections are idle.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::watchdog::Progress;

/// Answers that may wait before they are sent; above it nothing more is to be answered.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 * 1024;
/// What a read has room for at first; it doubles while reads use it up.
const ROOM_BYTES_MIN: usize = 4 * 1024;
/// A buffer larger than this is cut down while nothing comes.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// A connection's transport and buffers.
pub(crate) struct Wire<'a, R, W> {
    read: R,
    write: W,
    input: Vec<u8>,
    /// How many bytes of it are done with.
    done: usize,
    /// Bytes of room for the next read, and for any.
    room: usize,
    room_max: usize,
    /// Answers that are not sent yet.
    pub(crate) output: Vec<u8>,
    /// Told to the watchdog: the client has yet to take some of them.
    unsent: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
    stopping: watch::Receiver<()>,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wire<'a, R, W> {
    pub(crate) fn new(
        read: R,
        write: W,
        room_max: usize,
        unsent: &'a AtomicBool,
        progress: &'a Progress,
        stopping: watch::Receiver<()>,
    ) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        let (done, room) = (0, ROOM_BYTES_MIN);
        Self { read, write, input, done, room, room_max, output, unsent, progress, stopping }
    }

    /// What came in and is not done with, and where its answers go.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.input[self.done..], &mut self.output)
    }

    /// How many bytes came in and are not done with.
    #[inline]
    pub(crate) fn unread(&self) -> usize {
        self.input.len() - self.done
    }

    /// Notes that the next `bytes` of what came in are done with.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.done += bytes;
    }

    /// Whether the node stops.
    pub(crate) fn is_stopping(&self) -> bool {
        // The sender only ever goes away.
        self.stopping.has_changed().is_err()
    }

    /// What came in and is not done with, and the answers that are not sent.
    pub(crate) fn into_rest(mut self) -> (Vec<u8>, Vec<u8>) {
        self.input.drain(..self.done);
        (self.input, self.output)
    }

    /// Sends the answers.
    ///
    /// # Errors
    /// Those of the transport.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        self.unsent.store(!self.output.is_empty(), Relaxed);
        while sent < self.output.len() {
            match self.write.write(&self.output[sent..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => {
                    sent += taken;
                    self.progress.sent(taken);
                }
            }
        }
        self.unsent.store(false, Relaxed);
        self.output.clear();
        Ok(())
    }

    /// Reads more; 0 when nothing more comes, or the node stops.
    ///
    /// # Errors
    /// Those of the transport.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.input.drain(..mem::take(&mut self.done));
        if self.input.capacity() - self.input.len() < self.room / 2 {
            self.input.reserve(self.room);
        }
        let large = self.input.capacity().max(self.output.capacity()) > KEPT_BYTES_MAX;
        let at_once =
            if large { once(pin!(self.read.read_buf(&mut self.input))).await } else { None };
        let read = match at_once {
            Some(read) => read?,
            None => {
                if large {
                    self.cut_down();
                }
                self.fill_later().await?
            }
        };
        if self.input.len() == self.input.capacity() {
            self.room = self.room_max.min(2 * self.room);
        }
        self.progress.received(read);
        Ok(read)
    }

    fn cut_down(&mut self) {
        self.room = ROOM_BYTES_MIN;
        self.input.shrink_to(KEPT_BYTES_MAX);
        self.output.shrink_to(KEPT_BYTES_MAX);
        if self.input.len() == self.input.capacity() {
            self.input.reserve(self.room);
        }
    }

    async fn fill_later(&mut self) -> io::Result<usize> {
        let mut read = pin!(self.read.read_buf(&mut self.input));
        let stopping = &self.stopping;
        poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Pending if stopping.has_changed().is_err() => Poll::Ready(Ok(0)),
            polled => polled,
        })
        .await
    }
}

/// What `future` comes to without waiting.
pub(crate) async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
