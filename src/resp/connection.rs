//! One connection: reads, carries out what is there, and answers with one write.
//!
//! What a client may make a node hold is bounded: a command, what was read beside it, and the
//! answers that it has not taken yet. While it does not take them nothing is read or carried out,
//! and the watchdog ends the connection when that goes on.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

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
use crate::service::{Error, IdService};
use crate::watchdog::{Patience, Progress};
use crate::wire::{UNSENT_BYTES_MAX, Wire, once};

/// What a connection above the limit is told, in Redis' words.
pub(crate) const TURNED_AWAY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Clients keep pools of connections, some unused for long, and do not expect to be cut off.
const PATIENCE: Patience = Patience { idle_seconds_max: 600, unused_is_idle: true };
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
    let wire = Wire::new(read, write, COMMAND_BYTES_MAX, &unsent, &progress, stopping.clone());
    let connection = Connection::new(wire, service);
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
    wire: Wire<'a, R, W>,
    parser: Parser,
    session: Session,
    service: &'a IdService,
}

impl<'a, R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<'a, R, W> {
    fn new(wire: Wire<'a, R, W>, service: &'a IdService) -> Self {
        Self { wire, parser: Parser::default(), session: Session::new(), service }
    }

    async fn run(mut self) -> io::Result<()> {
        loop {
            match self.answer() {
                Pause::Wait(wait) => self.answer_later(wait).await?,
                Pause::Full => self.wire.send().await?,
                Pause::Close => return self.wire.send().await,
                Pause::Dry => {
                    self.wire.send().await?;
                    if self.wire.fill().await? == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Carries out what is there, for as long as nothing has to be waited for.
    fn answer(&mut self) -> Pause {
        let (mut length_done, mut answered) = (0, [0; 3]);
        let taker = self.service.taker();
        let pause = loop {
            let (input, out) = self.wire.parts();
            if out.len() >= UNSENT_BYTES_MAX {
                break Pause::Full;
            }
            let (args, length) = match self.parser.parse(input) {
                Ok(Some(command)) => command,
                Ok(None) => break Pause::Dry,
                Err(malformed) => {
                    let mut reply = Reply { out, resp3: false };
                    reply.error(&format!("ERR Protocol error: {malformed}"));
                    break Pause::Close;
                }
            };
            let (bytes, behind) = input.split_at(length);
            let mut call = Call::new(self.service, &taker, &mut self.session, out, bytes, behind);
            let step = call.run(args);
            answered[call.mode as usize] += 1 + call.copies as u64;
            let length = length * (1 + call.copies);
            length_done += length;
            self.wire.consume(length);
            match step {
                Step::Answered => {}
                Step::Wait(wait) => break Pause::Wait(wait),
                Step::Close => break Pause::Close,
            }
        };
        if length_done > 0 {
            self.wire.progress.requests_begun(length_done);
            self.service.metrics().commands_answered(answered);
        }
        pause
    }

    /// Waits for ids and tells them. What is answered already is not held back meanwhile.
    async fn answer_later(&mut self, wait: Wait) -> io::Result<()> {
        let mut ids = Box::pin(wait.ids(self.service));
        let taken = match once(ids.as_mut()).await {
            Some(taken) => taken,
            None => {
                self.wire.send().await?;
                let late = |_| Err(Error::unavailable("no answer could be had in time"));
                timeout(Duration::from_millis(REQUEST_MS_MAX), ids).await.unwrap_or_else(late)
            }
        };
        let mut reply = Reply { out: &mut self.wire.output, resp3: self.session.resp3 };
        match taken {
            Ok(ids) => wait.tell(&ids, &mut reply),
            Err(error) => {
                let code = wait::refuse(&error, &mut reply);
                self.service.metrics().request_failed(wait.mode(), code);
            }
        }
        Ok(())
    }
}
