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
/// What a read has room for at first, and at most: it doubles while reads use it up.
const ROOM_BYTES: [usize; 2] = [4 * 1024, COMMAND_BYTES_MAX];
/// A buffer larger than this is cut down while nothing comes: most connections are idle.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// How long a client that is hung up on may take to read why.
const LINGER_MS_MAX: u64 = 500;

/// Serves a connection until it ends, gets nowhere, or the node stops.
pub(crate) async fn serve(
    mut stream: TcpStream,
    service: &IdService,
    stopping: watch::Receiver<()>,
) {
    let (read, write) = stream.split();
    if converse(read, write, service, stopping).await {
        farewell(&mut stream).await;
    }
}

/// The same on any transport, all but the farewell; says whether there shall be one.
pub(super) async fn converse<R, W>(
    read: R,
    write: W,
    service: &IdService,
    mut stopping: watch::Receiver<()>,
) -> bool
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let progress = Progress::default();
    let unsent = AtomicBool::new(false);
    let output = Output { write, bytes: Vec::new(), unsent: &unsent, progress: &progress };
    let connection = Connection::new(read, output, service, stopping.clone());
    let mut running = pin!(connection.run());
    tokio::select! {
        biased;
        // Of a connection that breaks there is nobody to tell.
        _ = running.as_mut() => true,
        () = progress.stalled(PATIENCE, || unsent.load(Relaxed)) => false,
        _ = stopping.changed() => {
            let _ = timeout(Duration::from_millis(DRAIN_MS_MAX), running).await;
            true
        }
    }
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

/// Why carrying out commands paused.
enum Pause {
    /// The next one is not all there.
    Dry,
    /// Enough answers wait to be sent.
    Full,
    /// Ids are to be waited for.
    Wait(Wait),
    /// The connection shall end.
    Close,
}

struct Connection<'a, R, W> {
    read: R,
    input: Vec<u8>,
    /// How many bytes of it are carried out.
    done: usize,
    /// Bytes of room for the next read.
    room: usize,
    parser: Parser,
    output: Output<'a, W>,
    session: Session,
    service: &'a IdService,
    stopping: watch::Receiver<()>,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<'a, R, W> {
    fn new(
        read: R,
        output: Output<'a, W>,
        service: &'a IdService,
        stopping: watch::Receiver<()>,
    ) -> Self {
        Self {
            read,
            input: Vec::new(),
            done: 0,
            room: ROOM_BYTES[0],
            parser: Parser::default(),
            output,
            session: Session::new(),
            service,
            stopping,
        }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            match self.answer() {
                Pause::Wait(wait) => self.answer_later(wait).await?,
                Pause::Full => self.output.send().await?,
                Pause::Close => return self.output.send().await,
                Pause::Dry => {
                    self.output.send().await?;
                    if self.fill().await? == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Carries out what is there, for as long as nothing has to be waited for.
    fn answer(&mut self) -> Pause {
        let (start, mut answered) = (self.done, [0; 3]);
        let taker = self.service.taker();
        let pause = loop {
            if self.output.bytes.len() >= UNSENT_BYTES_MAX {
                break Pause::Full;
            }
            let (args, length) = match self.parser.parse(&self.input[self.done..]) {
                Ok(Some(command)) => command,
                Ok(None) => break Pause::Dry,
                Err(malformed) => {
                    let mut reply = Reply { out: &mut self.output.bytes, resp3: false };
                    reply.error(&format!("ERR Protocol error: {malformed}"));
                    break Pause::Close;
                }
            };
            let (bytes, behind) = self.input[self.done..].split_at(length);
            let (session, out) = (&mut self.session, &mut self.output.bytes);
            let mut call = Call::new(self.service, &taker, session, out, bytes, behind);
            let step = call.run(args);
            answered[call.mode as usize] += 1 + call.copies as u64;
            self.done += length * (1 + call.copies);
            match step {
                Step::Answered => {}
                Step::Wait(wait) => break Pause::Wait(wait),
                Step::Close => break Pause::Close,
            }
        };
        if self.done > start {
            self.output.progress.requests_begun(self.done - start);
            for (mode, count) in Mode::ALL.into_iter().zip(answered).filter(|(_, count)| *count > 0)
            {
                self.service.metrics().commands_answered(mode, count);
            }
        }
        pause
    }

    /// Waits for ids and tells them. What is answered already is not held back meanwhile.
    async fn answer_later(&mut self, wait: Wait) -> io::Result<()> {
        let mut ids = Box::pin(wait.ids(self.service));
        let taken = match once(ids.as_mut()).await {
            Some(taken) => taken,
            None => {
                self.output.send().await?;
                let late = |_| Err(Error::unavailable("no answer could be had in time"));
                timeout(Duration::from_millis(REQUEST_MS_MAX), ids).await.unwrap_or_else(late)
            }
        };
        let mut reply = Reply { out: &mut self.output.bytes, resp3: self.session.resp3 };
        match taken {
            Ok(ids) => wait.tell(&ids, &mut reply),
            Err(error) => {
                let code = wait::refuse(&error, &mut reply);
                self.service.metrics().request_failed(wait.mode(), code);
            }
        }
        Ok(())
    }

    /// Reads more; 0 when nothing more comes, or the node stops.
    async fn fill(&mut self) -> io::Result<usize> {
        self.input.drain(..mem::take(&mut self.done));
        if self.input.capacity() - self.input.len() < self.room / 2 {
            self.input.reserve(self.room);
        }
        let large = self.input.capacity().max(self.output.bytes.capacity()) > KEPT_BYTES_MAX;
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
            self.room = ROOM_BYTES[1].min(2 * self.room);
        }
        self.output.progress.received(read);
        Ok(read)
    }

    fn cut_down(&mut self) {
        self.room = ROOM_BYTES[0];
        self.input.shrink_to(KEPT_BYTES_MAX);
        self.output.bytes.shrink_to(KEPT_BYTES_MAX);
        if self.input.len() == self.input.capacity() {
            self.input.reserve(self.room);
        }
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

/// What `future` comes to without waiting.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
