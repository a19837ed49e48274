//! Both halves of a client's connection with their buffers. A protocol's loop reads, answers everything
//! that has come in, and sends the answers: together, unless they fill the buffer or one has to be waited
//! for.
//!
//! Buffers grow with use and shrink while nothing comes in, because most connections are idle.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::connection::answer_budget::OriginBudget;
use crate::connection::drain::{Drain, DrainPhase};
use crate::connection::outbox::Outbox;
use crate::connection::watchdog::Progress;

/// How many bytes a read takes at most at first; the capacity doubles while reads use it up.
const READ_BYTES_MIN: usize = 4 * 1024;
/// A larger buffer shrinks to this while nothing comes in.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// The content of buffers that something else takes over.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    /// Input that is not answered yet.
    pub(crate) unread: Vec<u8>,
    /// Answers, to the input before it, that are not sent yet.
    pub(crate) unsent: Vec<u8>,
}

/// The state that a connection's buffers share with its watchdog and its node.
pub(crate) struct ConnectionWatch<'a> {
    /// Whether the client has yet to take some of the answers.
    pub(crate) unsent: &'a AtomicBool,
    /// How far the connection has come.
    pub(crate) progress: &'a Progress,
    /// Bounds the answers that clients have not read.
    pub(crate) answers: &'a OriginBudget,
    /// How far the end of the node has come.
    pub(crate) drain: Drain,
}

/// A connection's transport and buffers.
pub(crate) struct ConnectionBuffers<'a, R, W> {
    read: R,
    write: W,
    input: Vec<u8>,
    /// How many bytes of the input are answered.
    done: usize,
    /// Bytes that the next read may take.
    read_capacity: usize,
    /// Bytes that any read may take.
    read_capacity_max: usize,
    /// Answers that are not sent yet.
    pub(crate) outbox: Outbox,
    /// Whether the client has yet to take some of the answers. The watchdog reads it.
    unsent: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
    /// Bounds the answers that clients have not read.
    pub(crate) answers: &'a OriginBudget,
    drain: Drain,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> ConnectionBuffers<'a, R, W> {
    /// Empty buffers, whose reads take `read_capacity_max` bytes at most.
    pub(crate) fn new(
        read: R,
        write: W,
        read_capacity_max: usize,
        watch: ConnectionWatch<'a>,
    ) -> Self {
        let ConnectionWatch { unsent, progress, answers, drain } = watch;
        let (input, outbox) = (Vec::new(), Outbox::default());
        let (done, read_capacity) = (0, READ_BYTES_MIN);
        Self {
            read,
            write,
            input,
            done,
            read_capacity,
            read_capacity_max,
            outbox,
            unsent,
            progress,
            answers,
            drain,
        }
    }

    /// The input that is not answered yet, and the buffer for its answers.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.input[self.done..], &mut self.outbox.bytes)
    }

    /// How many bytes of the input are not answered yet.
    #[inline]
    pub(crate) fn unread(&self) -> usize {
        self.input.len() - self.done
    }

    /// Notes that the next `bytes` of the input are answered.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.done += bytes;
    }

    /// How far the end of the node has come.
    #[inline]
    pub(crate) fn drain_phase(&self) -> DrainPhase {
        self.drain.phase()
    }

    /// Ends the use of the buffers for one that goes on with their content.
    pub(crate) fn into_leftover(mut self) -> Leftover {
        self.input.drain(..self.done);
        Leftover { unread: self.input, unsent: self.outbox.bytes }
    }

    /// Sends the answers. What the client does not take at once is held against the node's budget.
    ///
    /// # Errors
    /// The errors of the transport; and that the budget has no room.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.unsent.store(!self.outbox.bytes.is_empty(), Relaxed);
        let Self { outbox, write, progress, answers, .. } = self;
        poll_fn(|context| outbox.poll_send(context, write, progress, answers)).await?;
        self.unsent.store(false, Relaxed);
        Ok(())
    }

    /// Reads more; 0 when nothing more comes, or nothing has come by the time that the end has come as far as
    /// `phase`.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) async fn fill_until(&mut self, phase: DrainPhase) -> io::Result<usize> {
        self.fill(Some(phase)).await
    }

    /// Reads more, in any phase of the node's end; 0 when nothing more comes. The caller bounds the wait.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) async fn fill_at_the_end(&mut self) -> io::Result<usize> {
        self.fill(None).await
    }

    async fn fill(&mut self, until: Option<DrainPhase>) -> io::Result<usize> {
        self.input.drain(..mem::take(&mut self.done));
        if self.input.capacity() - self.input.len() < self.read_capacity / 2 {
            self.input.reserve(self.read_capacity);
        }
        let large = self.input.capacity().max(self.outbox.bytes.capacity()) > KEPT_BYTES_MAX;
        let immediate =
            if large { poll_once(pin!(self.read.read_buf(&mut self.input))).await } else { None };
        let read = match immediate {
            Some(read) => read?,
            None => {
                if large {
                    self.shrink();
                }
                self.fill_when_ready(until).await?
            }
        };
        if self.input.len() == self.input.capacity() {
            self.read_capacity = self.read_capacity_max.min(2 * self.read_capacity);
        }
        self.progress.received(read);
        Ok(read)
    }

    fn shrink(&mut self) {
        self.read_capacity = READ_BYTES_MIN;
        self.input.shrink_to(KEPT_BYTES_MAX);
        self.outbox.bytes.shrink_to(KEPT_BYTES_MAX);
        if self.input.len() == self.input.capacity() {
            self.input.reserve(self.read_capacity);
        }
    }

    async fn fill_when_ready(&mut self, until: Option<DrainPhase>) -> io::Result<usize> {
        let mut read = pin!(self.read.read_buf(&mut self.input));
        let is_over = || until.is_some_and(|phase| self.drain.phase() >= phase);
        poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Pending if is_over() => Poll::Ready(Ok(0)),
            polled => polled,
        })
        .await
    }
}

/// The output of `future` if one poll brings it; `None` when it has to be waited for.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
