//! The fast path: requests for ids, answered straight from the bytes of their connection.
//!
//! Every connection begins here. As long as it carries plain requests for ids, the fast path answers all that have come
//! in and then sends the answers: with one write, unless they fill the buffer or the fast path has to wait for one of
//! them. Equal requests in a row cost one look-up. A request whose ids are not buffered, or that may fail, is left to
//! the dispatch, which gets it as the fast path has read it. The first request of any other kind goes to hyper, with
//! all input that is not answered yet, and the connection stays with hyper.
//!
//! **The fast path and hyper never differ.** They agree on where a request ends: hyper's own parser
//! judges heads, and hyper answers every request that may have a body. And they agree on the answer, byte for
//! byte.

mod answers;
mod date;
mod permit;
mod request;

#[cfg(feature = "fuzzing")]
pub(super) use request::ends;

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::slice;

use axum::body::Bytes;
use http_body_util::{BodyExt, Empty};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use self::answers::AnswerTemplate;
use self::permit::Permit;
use self::request::{PlainRequest, ReadOutcome};
use super::dispatch::Dispatch;
use super::id_request::IdDemand;
use super::ids;
use crate::connection::buffers::{ConnectionBuffers, Leftover, poll_once};
use crate::connection::drain::DrainPhase;
use crate::limits::{RANGED_IDS_MAX, UNSENT_BYTES_MAX};
use crate::metrics::{Burst, MODES, Mode, Protocol};
use crate::service::HeldIds;

/// Maximum number of bytes that one read takes.
pub(super) const READ_BYTES_MAX: usize = 16 * 1024;

/// Why a run of answers ended. A run is a series of answers without a send between them.
enum AnswersEnd {
    /// The next request has not arrived completely.
    NeedMoreInput,
    /// Enough answers wait to be sent.
    OutputFull,
    /// The next request is for the dispatch.
    ForDispatch,
    /// This many equal requests ask for ids in strict order, which cost a round to the quorum.
    InStrictOrder(u64),
    /// The next request is for hyper.
    ForHyper,
}

/// One connection, for as long as it stays on the fast path.
pub(super) struct FastPath<'a, R, W> {
    buffers: ConnectionBuffers<'a, R, W>,
    dispatch: &'a Dispatch,
    /// The last request. Most requests are like the one before.
    request: PlainRequest,
    template: AnswerTemplate,
    permit: Permit,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> FastPath<'a, R, W> {
    pub(super) fn new(buffers: ConnectionBuffers<'a, R, W>, dispatch: &'a Dispatch) -> Self {
        let (request, template) = (PlainRequest::default(), AnswerTemplate::default());
        Self { buffers, dispatch, request, template, permit: Permit::default() }
    }

    /// Serves until the connection ends, the node stops, or hyper has to take over. Only hyper can mark an answer as
    /// the last one of its connection.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(super) async fn run(mut self) -> io::Result<Option<Leftover>> {
        loop {
            let last = match self.buffers.drain_phase() {
                DrainPhase::Serving => false,
                DrainPhase::LastAnswers | DrainPhase::RestingEnd => {
                    return Ok(Some(self.buffers.into_leftover()));
                }
                DrainPhase::Ended => true,
            };
            if self.buffers.fill_until(DrainPhase::LastAnswers).await? == 0 {
                match self.buffers.drain_phase() {
                    DrainPhase::LastAnswers | DrainPhase::RestingEnd => continue,
                    DrainPhase::Serving | DrainPhase::Ended => return Ok(None),
                }
            }
            let burst = Burst::begin();
            loop {
                match self.answer() {
                    AnswersEnd::NeedMoreInput => break,
                    AnswersEnd::OutputFull => self.buffers.send().await?,
                    AnswersEnd::ForDispatch => self.ask_dispatch().await?,
                    AnswersEnd::InStrictOrder(count) => self.ask_in_strict_order(count).await?,
                    AnswersEnd::ForHyper => return Ok(Some(self.buffers.into_leftover())),
                }
            }
            self.buffers.send().await?;
            if let Some(burst) = &burst {
                self.dispatch.ids().metrics().burst_answered(Protocol::Http, burst);
            }
            if last {
                return Ok(None);
            }
        }
    }

    /// Answers the requests that have come in, for as long as ids are buffered and the output has room. All these
    /// answers share one reading of the clock for their `date`; a take of snowflakes reads it too.
    fn answer(&mut self) -> AnswersEnd {
        self.read_clock();
        let ids = self.dispatch.ids();
        let mut answered = [0; MODES];
        let held = ids.held_ids();
        let end = loop {
            let (unread, out) = self.buffers.parts();
            if out.len() >= UNSENT_BYTES_MAX {
                break AnswersEnd::OutputFull;
            }
            let read = self.request.read(unread);
            match read {
                ReadOutcome::Again => {}
                ReadOutcome::New => self.template.fit(self.request.request()),
                ReadOutcome::Partial => break AnswersEnd::NeedMoreInput,
                ReadOutcome::Unsupported => break AnswersEnd::ForHyper,
            }
            if let Some(tokens) = self.dispatch.tokens()
                && !self.permit.covers(tokens, &self.request, read == ReadOutcome::New)
            {
                break AnswersEnd::ForDispatch;
            }
            if self.dispatch.id_answers.guards_numbers(self.request.request().path) {
                break AnswersEnd::ForDispatch;
            }
            if let IdDemand::Segments(tag, wanted) = self.request.request().demand() {
                let is_long = wanted.long_bytes_max(Some(tag), RANGED_IDS_MAX).is_some();
                if is_long && self.dispatch.answers().is_spent() {
                    break AnswersEnd::ForDispatch;
                }
                let Some(ids) = held.take_exactly(tag, wanted.count) else {
                    break AnswersEnd::ForDispatch;
                };
                self.template.write_many(out, wanted, tag, &ids);
                answered[Mode::Segment as usize] += 1;
                self.buffers.consume(self.request.length());
                continue;
            }
            let count_max = self.request.repeats(unread);
            let Some((mode, ids)) = take(&self.request, self.dispatch, &held, count_max) else {
                break match self.request.request().demand() {
                    IdDemand::Segment(tag) if ids.is_in_strict_order(tag) => {
                        AnswersEnd::InStrictOrder(count_max)
                    }
                    _ => AnswersEnd::ForDispatch,
                };
            };
            let count = ids.end - ids.start;
            ids.for_each(|id| self.template.write(out, id));
            answered[mode as usize] += count;
            self.buffers.consume(self.request.length() * count as usize);
        };
        drop(held);
        self.count(answered);
        end
    }

    /// Reads the clock for the `date` header.
    fn read_clock(&mut self) {
        self.template.begin(self.dispatch.ids().now_ms() / 1000);
    }

    fn count(&self, answered: [u64; MODES]) {
        if answered == [0; MODES] {
            return;
        }
        self.buffers.progress.requests_begun_but(self.buffers.unread());
        self.dispatch.note_sender(&self.permit.caller, self.buffers.progress);
        self.dispatch.ids().metrics().requests_answered(answered);
    }

    /// Answers equal requests that came together, with ids in strict order: they share a round to the quorum and one
    /// measurement of time. If that fails, the dispatch answers the first of them.
    async fn ask_in_strict_order(&mut self, count: u64) -> io::Result<()> {
        let ids = self.dispatch.ids();
        let began = Instant::now();
        self.buffers.progress.requests_begun_but(0);
        self.dispatch.note_sender(&self.permit.caller, self.buffers.progress);
        let taken = {
            let IdDemand::Segment(tag) = self.request.request().demand() else { return Ok(()) };
            let mut taking = pin!(ids.take_singles(tag, count));
            match poll_once(taking.as_mut()).await {
                Some(taken) => taken,
                None => {
                    self.buffers.send().await?;
                    taking.await
                }
            }
        };
        let count = taken.count();
        if count == 0 {
            return self.ask_dispatch().await;
        }
        self.template.begin(ids.now_ms() / 1000);
        let request = self.request.request();
        for part in &taken.taken {
            for number in part.numbers.iter().cloned().flatten() {
                let (tag, text) = (Some(&*request.tag), part.text.as_deref());
                let number = ids::only(number);
                let answer = request.form.answer(tag, text, slice::from_ref(&number));
                let Some(response) = answer else {
                    return self.ask_dispatch().await;
                };
                let (head, body) = response.into_parts();
                let date = self.template.date();
                answers::write_response(&mut self.buffers.outbox.bytes, &head, &body, date);
            }
        }
        let mut answered = [0; MODES];
        answered[Mode::Segment as usize] = count;
        ids.metrics().request_took(Protocol::Http, Mode::Segment, began.elapsed());
        ids.metrics().requests_answered(answered);
        // The requests that got no id are tried again, which shows the reason.
        self.buffers.consume(self.request.length() * count as usize);
        Ok(())
    }

    /// Has the dispatch answer the request. If that takes time, sends the answers that are ready first.
    async fn ask_dispatch(&mut self) -> io::Result<()> {
        self.buffers.progress.requests_begun_but(0);
        let (request, head) = self.request.parts();
        let refusal = self.dispatch.refusal(head, &mut self.permit.caller);
        self.dispatch.note_sender(&self.permit.caller, self.buffers.progress);
        let response = match refusal {
            Some(refusal) => refusal,
            None => {
                // The heap holds it, because most connections have none under way.
                let answer = self.dispatch.waited(request, head, Empty::<Bytes>::new());
                let mut answer = Box::pin(answer);
                match poll_once(answer.as_mut()).await {
                    Some(answered) => answered,
                    None => {
                        self.buffers.send().await?;
                        answer.await
                    }
                }
            }
        };
        let (head, body) = response.into_parts();
        self.read_clock();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        answers::write_response(&mut self.buffers.outbox.bytes, &head, &body, self.template.date());
        self.buffers.consume(self.request.length());
        Ok(())
    }
}

/// Up to `count_max` of the ids that a request asks for, without a gap, if they are buffered.
#[inline]
fn take(
    request: &PlainRequest,
    dispatch: &Dispatch,
    held: &HeldIds<'_>,
    count_max: u64,
) -> Option<(Mode, Range<u64>)> {
    match request.request().demand() {
        IdDemand::Segment(tag) => Some((Mode::Segment, held.take(tag, count_max)?)),
        IdDemand::Snowflake => {
            Some((Mode::Snowflake, dispatch.ids().take_snowflakes_now(count_max)?))
        }
        IdDemand::Segments(..) | IdDemand::Snowflakes(_) | IdDemand::Invalid => None,
    }
}
