//! One connection: reads, carries out what is there, and answers with one write.
//!
//! What a client may make a node hold is bounded: a command, what was read beside it, and the
//! answers that it has not taken yet. While it does not take them nothing is read or carried out,
//! and the watchdog ends the connection when that goes on.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::commands::{Call, Step};
use super::parser::{COMMAND_BYTES_MAX, Parser};
use super::reply::Reply;
use super::session::Session;
use super::wait::{self, Wait};
use crate::listener::{DRAIN_MS_MAX, REQUEST_MS_MAX};
use crate::metrics::Mode;
use crate::service::{Error, IdService};
use crate::watchdog::{Patience, Progress};

/// What a connection above the limit is told, in Redis' words.
pub(crate) const TURNED_AWAY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Clients keep pools of connections, some unused for long, and do not expect to be cut off.
const PATIENCE: Patience = Patience { idle_seconds_max: 600, unused_is_idle: true };
/// Answers that may wait before they are sent; above it nothing more is carried out.
const UNSENT_BYTES_MAX: usize = 64 * 1024;
/// Room for a first read.
const READ_BYTES_MIN: usize = 2 * 1024;
/// A buffer larger than this is given back once it is empty: most connections are idle.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// How long a client that is hung up on may take to read why.
const LINGER_MS_MAX: u64 = 500;

/// Serves a connection until it ends, gets nowhere, or the node stops.
pub(crate) async fn serve(
    mut stream: TcpStream,
    service: &IdService,
    mut stopping: watch::Receiver<()>,
) {
    let progress = Progress::default();
    let unsent = AtomicBool::new(false);
    {
        let (read, write) = stream.split();
        let output = Output { write, bytes: Vec::new(), unsent: &unsent, progress: &progress };
        let connection = Connection::new(read, output, service, stopping.clone());
        let mut running = pin!(connection.run());
        tokio::select! {
            biased;
            // Of a connection that breaks there is nobody to tell.
            _ = running.as_mut() => {}
            () = progress.stalled(PATIENCE, || unsent.load(Relaxed)) => return,
            _ = stopping.changed() => {
                let _ = timeout(Duration::from_millis(DRAIN_MS_MAX), running).await;
            }
        }
    }
    farewell(&mut stream).await;
}

/// Closing on unread input would reset the connection, last answers and all.
async fn farewell(stream: &mut TcpStream) {
    let read_off = async {
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(Duration::from_millis(LINGER_MS_MAX), read_off).await;
}

/// Answers on their way.
struct Output<'a, W> {
    write: W,
    bytes: Vec<u8>,
    /// Told to the watchdog: the client has yet to take some of them.
    unsent: &'a AtomicBool,
    progress: &'a Progress,
}

impl<W: AsyncWrite + Unpin> Output<'_, W> {
    async fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        self.unsent.store(!self.bytes.is_empty(), Relaxed);
        while sent < self.bytes.len() {
            match self.write.write(&self.bytes[sent..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => {
                    sent += taken;
                    self.progress.sent(taken);
                }
            }
        }
        self.unsent.store(false, Relaxed);
        self.bytes.clear();
        Ok(())
    }
}

struct Connection<'a, R, W> {
    read: R,
    input: Vec<u8>,
    parser: Parser,
    output: Output<'a, W>,
    session: Session,
    service: &'a IdService,
    /// Commands that were answered and not yet counted, by mode.
    answered: [u64; 3],
    stopping: watch::Receiver<()>,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<'a, R, W> {
    fn new(
        read: R,
        output: Output<'a, W>,
        service: &'a IdService,
        stopping: watch::Receiver<()>,
    ) -> Self {
        let (input, parser, session) = (Vec::new(), Parser::default(), Session::new());
        Self { read, input, parser, output, session, service, answered: [0; 3], stopping }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            let goes_on = self.answer_all().await?;
            self.output.send().await?;
            if !goes_on || self.fill().await? == 0 {
                return Ok(());
            }
        }
    }

    /// Carries out every command that is there; false when the connection shall end.
    async fn answer_all(&mut self) -> io::Result<bool> {
        let (mut at, mut begun, mut goes_on) = (0, 0, true);
        while goes_on {
            let (args, length) = match self.parser.parse(&self.input[at..]) {
                Ok(Some(command)) => command,
                Ok(None) => break,
                Err(malformed) => {
                    let mut reply = Reply { out: &mut self.output.bytes, resp3: false };
                    reply.error(&format!("ERR Protocol error: {malformed}"));
                    goes_on = false;
                    break;
                }
            };
            let (start, end) = (at, at + length);
            at = end;
            if args.len() == 0 {
                continue;
            }
            let mut call = Call {
                service: self.service,
                session: &mut self.session,
                out: &mut self.output.bytes,
                mode: Mode::Admin,
                bytes: &self.input[start..end],
                behind: &self.input[end..],
                copies: 0,
            };
            let step = call.run(args);
            self.answered[call.mode as usize] += 1 + call.copies as u64;
            at += call.copies * length;
            match step {
                Step::Answered => {}
                Step::Close => goes_on = false,
                Step::Wait(wait) => {
                    self.output.progress.requests_begun(at - begun);
                    begun = at;
                    answer_later(wait, self.service, self.session.resp3, &mut self.output).await?;
                }
            }
            if self.output.bytes.len() >= UNSENT_BYTES_MAX {
                self.output.send().await?;
            }
        }
        self.input.drain(..at);
        if at > begun {
            self.output.progress.requests_begun(at - begun);
        }
        self.count();
        Ok(goes_on)
    }

    fn count(&mut self) {
        for mode in Mode::ALL {
            match mem::take(&mut self.answered[mode as usize]) {
                0 => {}
                count => self.service.metrics().commands_answered(mode, count),
            }
        }
    }

    /// Reads more; 0 when nothing more comes, or the node stops.
    async fn fill(&mut self) -> io::Result<usize> {
        let capacity = self.input.capacity();
        let filled = self.input.len() == capacity;
        let room = if filled { capacity.clamp(READ_BYTES_MIN, COMMAND_BYTES_MAX) } else { 1 };
        self.input.reserve(room);
        let mut read = None;
        if self.input.capacity().max(self.output.bytes.capacity()) > KEPT_BYTES_MAX {
            read = once(pin!(self.read.read_buf(&mut self.input))).await;
            if read.is_none() {
                self.input.shrink_to(KEPT_BYTES_MAX);
                self.output.bytes.shrink_to(KEPT_BYTES_MAX);
                self.input.reserve(1);
            }
        }
        let read = match read {
            Some(read) => read?,
            None => self.fill_later().await?,
        };
        self.output.progress.received(read);
        Ok(read)
    }

    async fn fill_later(&mut self) -> io::Result<usize> {
        let mut read = pin!(self.read.read_buf(&mut self.input));
        poll_fn(|context| match read.as_mut().poll(context) {
            // The sender only ever goes away.
            Poll::Pending if self.stopping.has_changed().is_err() => Poll::Ready(Ok(0)),
            polled => polled,
        })
        .await
    }
}

/// Waits for ids and tells them. What is answered already is not held back meanwhile.
async fn answer_later<W: AsyncWrite + Unpin>(
    wait: Wait<'_>,
    service: &IdService,
    resp3: bool,
    output: &mut Output<'_, W>,
) -> io::Result<()> {
    let mut ids = Box::pin(wait.ids(service));
    let taken = match once(ids.as_mut()).await {
        Some(taken) => taken,
        None => {
            output.send().await?;
            let late = |_| Err(Error::unavailable("no answer could be had in time"));
            timeout(Duration::from_millis(REQUEST_MS_MAX), ids).await.unwrap_or_else(late)
        }
    };
    let mut reply = Reply { out: &mut output.bytes, resp3 };
    match taken {
        Ok(ids) => wait.tell(&ids, &mut reply),
        Err(error) => {
            let code = wait::refuse(&error, &mut reply);
            service.metrics().request_failed(wait.mode(), code);
        }
    }
    Ok(())
}

/// What `future` comes to without waiting.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
