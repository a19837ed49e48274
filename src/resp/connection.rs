//! One connection: it reads, carries out the commands that have come in, and sends their answers together, unless they
//! fill the buffer or one has to be waited for.
//!
//! The memory that a client can make a node hold is bounded: one command, the input that was read with it, and the
//! answers that the client has not taken yet. While the client does not take them, nothing is read or carried out, and
//! the watchdog ends the connection if that goes on.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::call::{Call, CommandOutcome, Served};
use super::commands;
use super::gathered::Gathered;
use super::later::LaterReply;
use super::parser::Parser;
use super::pending::PendingIds;
use super::reply::Reply;
use super::session::Session;
use super::transaction::Transaction;
use crate::access::Tokens;
use crate::connection::buffers::{ConnectionBuffers, ConnectionWatch, poll_once};
use crate::connection::drain::{Drain, DrainPhase};
use crate::connection::tls::{self, ClientStream};
use crate::connection::watchdog::{CloseReason, IdlePolicy, Progress};
use crate::limits::{
    COMMAND_BYTES_MAX, DRAIN_MAX, LINGER_MAX, REQUEST_MAX, RESP_IDLE_SECONDS_MAX, UNSENT_BYTES_MAX,
};
use crate::metrics::{Burst, MODES, Metrics, Mode, Protocol};
use crate::service::{Error, Services};

/// The answer to a connection above the limit, in the words of Redis.
pub(crate) const TURNED_AWAY: &[u8] = b"-ERR max number of clients reached\r\n";

/// The answer to a client that uses no TLS where TLS is required.
pub(crate) const WITHOUT_TLS: &[u8] = b"-ERR this port speaks TLS: connect with TLS, rediss://\r\n";

/// A connection that never brought a command counts as idle, too.
const PATIENCE: IdlePolicy =
    IdlePolicy { idle_seconds_max: RESP_IDLE_SECONDS_MAX, unused_is_idle: true };

/// Serves a connection until it ends, its watchdog ends it, or the node stops. Returns the watchdog's verdict, if there
/// is one.
pub(crate) async fn serve(
    mut stream: impl ClientStream,
    services: &Services,
    tokens: Option<&Tokens>,
    progress: Arc<Progress>,
    drain: Drain,
) -> Option<CloseReason> {
    let answers = services.answers.of(stream.peer());
    let (read, write) = stream.halves();
    let served = Served { services, answers: &answers, tokens };
    let verdict = serve_stream(read, write, served, &progress, drain).await;
    if verdict.is_none() {
        tls::close_gracefully(&mut stream, b"").await;
    }
    verdict
}

/// Serves a connection on any transport, as [`serve`] does, but without the farewell.
pub(super) async fn serve_stream<R, W>(
    read: R,
    write: W,
    served: Served<'_>,
    progress: &Progress,
    drain: Drain,
) -> Option<CloseReason>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let unsent = AtomicBool::new(false);
    let watch = ConnectionWatch {
        unsent: &unsent,
        progress,
        answers: served.answers,
        drain: drain.clone(),
    };
    let buffers = ConnectionBuffers::new(read, write, COMMAND_BYTES_MAX, watch);
    let connection = RespConnection::new(buffers, served);
    let mut running = pin!(connection.run());
    let mut must_end = pin!(progress.must_end(PATIENCE, || unsent.load(Relaxed)));
    // The connection sees each phase too, once it is polled.
    for phase in [DrainPhase::RestingEnd, DrainPhase::Ended] {
        tokio::select! {
            biased;
            // A connection that breaks has no client left to answer.
            _ = running.as_mut() => return None,
            verdict = must_end.as_mut() => return Some(verdict),
            () = drain.reached(phase) => {}
        }
    }
    let _ = timeout(DRAIN_MAX, running).await;
    None
}

/// Why a run of commands ended.
enum CommandsEnd {
    /// The next command has not come in whole.
    NeedMoreInput,
    /// Enough answers wait to be sent.
    OutputFull,
    /// The ids of a command have to be waited for.
    Wait(PendingIds),
    /// The numbers of some commands have to be waited for.
    Gathered(Gathered),
    /// The reply to a command has to be waited for.
    Later(LaterReply),
    /// The connection shall end.
    Close,
}

struct RespConnection<'a, R, W> {
    buffers: ConnectionBuffers<'a, R, W>,
    parser: Parser,
    session: Session,
    /// The queued commands that are carried out before the rest of the input.
    executing: Option<Box<Transaction>>,
    served: Served<'a>,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> RespConnection<'a, R, W> {
    fn new(buffers: ConnectionBuffers<'a, R, W>, served: Served<'a>) -> Self {
        let (parser, session) = (Parser::default(), Session::new());
        Self { buffers, parser, session, executing: None, served }
    }

    async fn run(mut self) -> io::Result<()> {
        let (mut last, mut burst) = (false, None);
        loop {
            match self.answer() {
                CommandsEnd::Wait(pending) => self.answer_later(&pending).await?,
                CommandsEnd::Gathered(gathered) => {
                    let (mode, ids) = (gathered.mode(), &self.served.services.ids);
                    self.reply_later(mode, gathered.answered(ids, self.session.resp3)).await?;
                }
                CommandsEnd::Later(later) => {
                    let (mode, services) = (later.mode(), self.served.services);
                    self.reply_later(mode, later.written(services, self.session.resp3)).await?;
                }
                CommandsEnd::OutputFull => self.buffers.send().await?,
                CommandsEnd::Close => return self.buffers.send().await,
                CommandsEnd::NeedMoreInput => {
                    self.buffers.send().await?;
                    if let Some(burst) = burst.take() {
                        self.metrics().burst_answered(Protocol::Resp, &burst);
                    }
                    // Commands that came in together are answered together, and the connection ends between
                    // two commands.
                    let in_between = self.buffers.unread() == 0;
                    if last && in_between {
                        return Ok(());
                    }
                    if self.read(in_between).await? == 0 {
                        return Ok(());
                    }
                    burst = Burst::begin();
                    last = self.buffers.drain_phase() >= DrainPhase::LastAnswers;
                }
            }
        }
    }

    fn metrics(&self) -> &Metrics {
        self.served.services.ids.metrics()
    }

    /// Reads more. If the node ends while a client is within a command, the client may still send the rest of it, if it
    /// hurries.
    async fn read(&mut self, in_between: bool) -> io::Result<usize> {
        if in_between {
            return self.buffers.fill_until(DrainPhase::RestingEnd).await;
        }
        match self.buffers.fill_until(DrainPhase::Ended).await? {
            0 => timeout(LINGER_MAX, self.buffers.fill_at_the_end()).await.unwrap_or(Ok(0)),
            read => Ok(read),
        }
    }

    /// Carries out the commands that have come in, until one has to wait.
    fn answer(&mut self) -> CommandsEnd {
        let (mut carried_out, mut length_done, mut answered) = (false, 0, [0; MODES]);
        let held = self.served.services.ids.held_ids();
        let mut gathered = Gathered::default();
        let end = loop {
            let (input, out) = self.buffers.parts();
            let input = self.executing.as_ref().map_or(input, |queued| queued.rest());
            if out.len() >= UNSENT_BYTES_MAX && gathered.is_empty() {
                break CommandsEnd::OutputFull;
            }
            let (args, length) = match self.parser.parse(input) {
                // A command that cannot be gathered stays in the input until the gathered ones are answered.
                Ok(Some((args, _))) if !gathered.admits(args) => {
                    break CommandsEnd::Gathered(gathered);
                }
                Ok(None) | Err(_) if !gathered.is_empty() => {
                    break CommandsEnd::Gathered(gathered);
                }
                Ok(Some(command)) => command,
                Ok(None) if self.executing.is_some() => {
                    self.executing = None;
                    continue;
                }
                Ok(None) => break CommandsEnd::NeedMoreInput,
                Err(malformed) => {
                    let mut reply = Reply { out, resp3: false };
                    reply.error(&format!("ERR Protocol error: {malformed}"));
                    break CommandsEnd::Close;
                }
            };
            let split = input.split_at(length);
            let answers = out.len();
            let mut call = Call::new(self.served, &held, &mut self.session, out, split);
            let outcome = commands::run(&mut call, args);
            answered[call.mode as usize] += 1 + call.copies as u64;
            let length = length * (1 + call.copies);
            if !gathered.is_empty() && matches!(outcome, CommandOutcome::Answered) {
                gathered.add_reply(call.out.split_off(answers));
            }
            carried_out = true;
            match &mut self.executing {
                Some(queued) => queued.consume(length),
                None => {
                    length_done += length;
                    self.buffers.consume(length);
                }
            }
            match outcome {
                CommandOutcome::Answered => {}
                CommandOutcome::Wait(pending) => break CommandsEnd::Wait(pending),
                CommandOutcome::Gather(request) => gathered.add(request),
                CommandOutcome::Later(later) => break CommandsEnd::Later(later),
                CommandOutcome::Execute(queued) => self.executing = Some(queued),
                CommandOutcome::Close => break CommandsEnd::Close,
            }
        };
        if carried_out {
            self.buffers.progress.requests_begun(length_done);
            match (self.served.tokens, &self.session.caller) {
                (Some(_), caller) if caller.token().is_some() => self.buffers.progress.prove(),
                (Some(_), caller) if caller.is_stranger() => {
                    self.buffers.progress.request_of_stranger();
                }
                _ => {}
            }
            self.served.services.ids.metrics().commands_answered(answered);
        }
        end
    }

    /// Waits for replies and puts them behind the earlier ones, which are sent before the wait.
    /// Commands that share a wait are measured once.
    async fn reply_later(
        &mut self,
        mode: Mode,
        replies: impl Future<Output = Vec<u8>>,
    ) -> io::Result<()> {
        let began = Instant::now();
        let mut replies = Box::pin(replies);
        let replies = match poll_once(replies.as_mut()).await {
            Some(replies) => replies,
            None => {
                self.buffers.send().await?;
                replies.await
            }
        };
        self.metrics().request_took(Protocol::Resp, mode, began.elapsed());
        self.buffers.outbox.bytes.extend_from_slice(&replies);
        Ok(())
    }

    /// Waits for ids and answers with them, unless too many answers wait to be read already. Answers that are there
    /// already are sent before the wait.
    async fn answer_later(&mut self, pending: &PendingIds) -> io::Result<()> {
        let began = Instant::now();
        // The memory comes first: if ids were taken for a reply that has no memory, they would be lost. It is given
        // back once the reply is in the buffer; what the socket does not take of the buffer is held against the budget
        // itself.
        let reserved = pending
            .long_bytes_max(&self.served.services.ids)
            .map(|bytes| self.buffers.answers.reserve(bytes));
        let turned_away = matches!(reserved, Some(None));
        let ids = async {
            match turned_away {
                true => Err(Error::Overloaded),
                false => pending.take(&self.served.services.ids).await,
            }
        };
        let mut ids = Box::pin(ids);
        let taken = match poll_once(ids.as_mut()).await {
            Some(taken) => taken,
            None => {
                self.buffers.send().await?;
                let late = |_| Err(Error::unavailable("no answer could be had in time"));
                timeout(REQUEST_MAX, ids).await.unwrap_or_else(late)
            }
        };
        self.metrics().request_took(Protocol::Resp, pending.mode(), began.elapsed());
        let mut reply = Reply { out: &mut self.buffers.outbox.bytes, resp3: self.session.resp3 };
        if let Some((code, commands)) = pending.write_all(taken, &mut reply) {
            (0..commands).for_each(|_| self.metrics().request_failed(pending.mode(), code));
        }
        Ok(())
    }
}
