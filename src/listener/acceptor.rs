//! One address that accepts clients.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener};
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use super::places::{Claim, ConnectionLimits, ConnectionPermit};
use crate::connection::drain::{Drain, DrainPhase};
use crate::http;
use crate::metrics::Protocol;
use crate::resp;
use crate::service::Services;

/// Pause after the kernel could not provide a connection, most likely because descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The longest that a newcomer waits for a connection that was asked to leave. One that does leave only needs to be
/// polled once more.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(1);

/// A connection, and the place that it holds until it closes.
pub(super) struct Accepted {
    pub(super) protocol: Protocol,
    pub(super) stream: std::net::TcpStream,
    pub(super) place: ConnectionPermit,
}

pub(super) struct Acceptor {
    protocol: Protocol,
    workers: Vec<mpsc::Sender<Accepted>>,
    next: usize,
    places: ConnectionLimits,
    services: Services,
}

impl Acceptor {
    pub(super) fn new(
        protocol: Protocol,
        workers: Vec<mpsc::Sender<Accepted>>,
        places: ConnectionLimits,
        services: Services,
    ) -> Self {
        Self { protocol, workers, next: 0, places, services }
    }

    /// Accepts until the node stops.
    pub(super) async fn run(mut self, listener: TcpListener, drain: Drain) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return warn!(%error, "cannot listen for clients"),
        };
        let mut ended = pin!(drain.reached(DrainPhase::Ended));
        // A streak of failures is logged once.
        let mut failing = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.places.await_freed() => continue,
                () = ended.as_mut() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    failing = false;
                    self.deal(stream, address.ip()).await;
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if !failing {
                        warn!(%error, "cannot accept client connections for now");
                    }
                    failing = true;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Hands a connection to the next worker in turn, or turns it away.
    async fn deal(&mut self, stream: TcpStream, address: IpAddr) {
        let Ok(stream) = stream.into_std() else { return };
        let Some(place) = self.place_for(address).await else {
            self.services.ids.metrics().connection_refused(self.protocol);
            return turn_away(self.protocol, &stream);
        };
        self.next = (self.next + 1) % self.workers.len();
        // A worker is gone only when the node stops, and then this thread is about to stop too.
        let accepted = Accepted { protocol: self.protocol, stream, place };
        let _ = self.workers[self.next].send(accepted).await;
    }

    /// A place for a newcomer, if there is one soon.
    async fn place_for(&mut self, address: IpAddr) -> Option<ConnectionPermit> {
        let began = Instant::now();
        loop {
            let now = Instant::now();
            match self.places.claim(address, now) {
                Claim::Granted(place) => return Some(place),
                Claim::Refused => return None,
                Claim::Awaited => {
                    let left = PLACE_WAIT_MAX.checked_sub(now - began)?;
                    let _ = timeout(left, self.places.await_freed()).await;
                }
            }
        }
    }
}

/// Sends the client the reason and closes the connection, without waiting: the socket does not block, its send buffer
/// is empty, and a client that is gone already needs no answer.
fn turn_away(protocol: Protocol, mut stream: &std::net::TcpStream) {
    let reason = match protocol {
        Protocol::Http => http::TURNED_AWAY,
        Protocol::Resp => resp::TURNED_AWAY,
    };
    let _ = stream.write(reason);
    let _ = stream.shutdown(Shutdown::Write);
    // Closing on unread input would reset the connection, answer and all.
    let _ = stream.read(&mut [0; 4096]);
}

/// Whether the error belongs to one connection, which its peer gave up before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
