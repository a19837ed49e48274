//! The fast lane: requests for ids, answered straight from the bytes of their connection.
//!
//! Every connection begins here. While what it sends are plain requests for ids, the lane answers
//! all that are there and sends the answers with one write; equal requests right behind each other
//! cost one look-up. Ids that are not at hand, and everything about them that can go wrong, are left
//! to the front door, which is called as hyper would call it. The first request that is anything
//! else goes to hyper, with all that is unread, and the connection stays there.
//!
//! **Lane and hyper never differ.** Not in where a request ends: heads are judged by hyper's own
//! parser, and what is not certainly a request without a body is hyper's. Not in what is answered:
//! the bytes are the same.

mod answer;
mod date;
mod request;

#[cfg(feature = "fuzzing")]
pub(super) use request::ends;

use std::io;
use std::ops::Range;
use std::pin::pin;

use http_body_util::BodyExt;
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite};

use self::answer::Answer;
use self::request::{Asked, Read, Request};
use super::front::FrontDoor;
use crate::metrics::Mode;
use crate::service::Taker;
use crate::wire::{UNSENT_BYTES_MAX, Wire, once};

/// What a read has room for at most.
pub(super) const ROOM_BYTES_MAX: usize = 16 * 1024;
/// Most equal requests that are answered together.
const TOGETHER_MAX: usize = 256;

/// What hyper takes over.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// What came in and nobody has read.
    pub(super) unread: Vec<u8>,
    /// Answers to what came before it.
    pub(super) unsent: Vec<u8>,
}

/// Why answering paused.
enum Pause {
    /// The next request is not all there.
    Dry,
    /// Enough answers wait to be sent.
    Full,
    /// The next request is for the front door.
    Front,
    /// The next request is for hyper.
    Hyper,
}

/// One connection, for as long as it stays in the lane.
pub(super) struct Lane<'a, R, W> {
    wire: Wire<'a, R, W>,
    front: &'a FrontDoor,
    /// The last request. Most are like the one before.
    request: Request,
    answer: Answer,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Lane<'a, R, W> {
    pub(super) fn new(wire: Wire<'a, R, W>, front: &'a FrontDoor) -> Self {
        Self { wire, front, request: Request::default(), answer: Answer::default() }
    }

    /// Serves until the connection ends, the node stops, or hyper has to take over.
    ///
    /// # Errors
    /// Those of the transport.
    pub(super) async fn run(mut self) -> io::Result<Option<Rest>> {
        loop {
            let last = self.wire.is_stopping();
            if self.wire.fill().await? == 0 {
                return Ok(None);
            }
            loop {
                match self.answer() {
                    Pause::Dry => break,
                    Pause::Full => self.wire.send().await?,
                    Pause::Front => self.ask_front().await?,
                    Pause::Hyper => {
                        let (unread, unsent) = self.wire.into_rest();
                        return Ok(Some(Rest { unread, unsent }));
                    }
                }
            }
            self.wire.send().await?;
            if last {
                return Ok(None);
            }
        }
    }

    /// Answers what is there, for as long as ids are at hand.
    fn answer(&mut self) -> Pause {
        self.tell_time();
        let service = self.front.service();
        let mut answered = [0; 3];
        let taker = service.taker();
        let pause = loop {
            let (unread, out) = self.wire.parts();
            if out.len() >= UNSENT_BYTES_MAX {
                break Pause::Full;
            }
            match self.request.read(unread) {
                Read::Again => {}
                Read::New => self.answer.shape(&self.request),
                Read::Partial => break Pause::Dry,
                Read::Foreign => break Pause::Hyper,
            }
            if let Asked::Batch(tag, wanted) = self.request.asked() {
                let Some(ids) = taker.take_exactly(tag, wanted.count) else { break Pause::Front };
                self.answer.write_batch(out, wanted, tag, &ids);
                answered[Mode::Segment as usize] += 1;
                self.wire.consume(self.request.length());
                continue;
            }
            let Some((mode, ids)) =
                take(&self.request, self.front, &taker, self.request.equals(unread))
            else {
                break Pause::Front;
            };
            let count = ids.end - ids.start;
            ids.for_each(|id| self.answer.write(out, id));
            answered[mode as usize] += count;
            self.wire.consume(self.request.length() * count as usize);
        };
        drop(taker);
        self.count(answered);
        pause
    }

    /// Reads the clock, for what `date` says.
    fn tell_time(&mut self) {
        self.answer.begin(self.front.service().now_ms() / 1000);
    }

    fn count(&self, answered: [u64; 3]) {
        if answered == [0; 3] {
            return;
        }
        self.wire.progress.requests_begun_but(self.wire.unread());
        self.front.service().metrics().requests_answered(answered);
    }

    /// Has the front door answer, which may take its time. What is answered already is not held back
    /// meanwhile.
    async fn ask_front(&mut self) -> io::Result<()> {
        self.wire.progress.requests_begun_but(0);
        let mut answer = pin!(self.front.call(self.request.to_http()));
        let answered = match once(answer.as_mut()).await {
            Some(answered) => answered,
            None => {
                self.wire.send().await?;
                answer.await
            }
        };
        let Ok(response) = answered;
        let (head, body) = response.into_parts();
        self.tell_time();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        answer::write_response(&mut self.wire.output, &head, &body, self.answer.date());
        self.wire.consume(self.request.length());
        Ok(())
    }
}

/// Up to `count_max` ids, of what a request asks for, if they are at hand.
#[inline]
fn take(
    request: &Request,
    front: &FrontDoor,
    taker: &Taker<'_>,
    count_max: u64,
) -> Option<(Mode, Range<u64>)> {
    match request.asked() {
        Asked::Segment(tag) => Some((Mode::Segment, taker.take(tag, count_max)?)),
        Asked::Snowflake => {
            Some((Mode::Snowflake, front.service().take_snowflakes_now(count_max)?))
        }
        Asked::Batch(..) | Asked::Other => None,
    }
}
