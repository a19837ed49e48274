//! The beginning of a connection where there is TLS: from a socket to a stream, within bounds.
//!
//! A handshake has 10 s, as long as a half-sent request that makes no progress. Until a request comes the connection
//! counts as unused, so it makes room for others after a second: silent strangers do not keep others out. It takes
//! place on the worker that the connection was dealt to, holds one place, and from its first byte on is one of a
//! bounded number there.

use std::io;
use std::sync::Arc;

use rustls::ServerConnection;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::client_stream::{ClientStream, close_gracefully};
use super::credentials::ClientTls;
use super::crowd::Handshakes;
use super::proof::ClientCertificate;
use crate::connection::drain::{Drain, DrainPhase};
use crate::connection::origin::ClientSubnet;
use crate::connection::watchdog::{CloseReason, IdlePolicy, Progress};
use crate::metrics::Protocol;

/// The first byte of every handshake: a record of that content type (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// Bytes that the session accepts while the socket does not. The watchdog measures readers by what the session accepts,
/// in lumps of at most this size.
const SESSION_BYTES_MAX: usize = 32 * 1024;

/// A connection without a request counts as half sent, and so is ended after 10 s.
const PATIENCE: IdlePolicy = IdlePolicy { idle_seconds_max: 0, unused_is_idle: false };

/// The outcome of a handshake.
pub(crate) enum Handshake {
    /// The client may begin, and has proved itself where it had to.
    Done(Box<TlsStream<TcpStream>>, Option<ClientCertificate>),
    /// The client does not speak TLS, does not accept the node, or is not accepted.
    Failed,
    /// The watchdog ends the connection.
    Watchdog(CloseReason),
    /// The client has gone before it sent anything, or the node stops.
    Gone,
}

/// The terms that connections begin on.
pub(crate) struct Terms<'a> {
    /// The node's credentials.
    pub(crate) tls: &'a watch::Receiver<Arc<ClientTls>>,
    /// The handshakes of this worker.
    pub(crate) handshakes: &'a Handshakes,
    /// The protocol within TLS.
    pub(crate) protocol: Protocol,
    /// The answer to a client that begins without TLS.
    pub(crate) without_tls: &'a [u8],
}

/// Has the two ends shake hands, with the credentials of this moment.
pub(crate) async fn begin(
    stream: TcpStream,
    terms: Terms<'_>,
    progress: &Progress,
    drain: Drain,
) -> Handshake {
    tokio::select! {
        biased;
        outcome = accept(stream, &terms) => outcome,
        verdict = progress.must_end(PATIENCE, || false) => Handshake::Watchdog(verdict),
        () = drain.reached(DrainPhase::Ended) => Handshake::Gone,
    }
}

async fn accept(mut stream: TcpStream, terms: &Terms<'_>) -> Handshake {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0] == TLS_HANDSHAKE => {}
        Ok(1) => {
            close_gracefully(&mut stream, terms.without_tls).await;
            return Handshake::Failed;
        }
        _ => return Handshake::Gone,
    }
    let bounded =
        |session: &mut ServerConnection| session.set_buffer_limit(Some(SESSION_BYTES_MAX));
    let origin = stream.peer().map_or(ClientSubnet::UNKNOWN, ClientSubnet::from);
    let handshake = async {
        // It uses the credentials of the moment when its turn has come.
        let tls = Arc::clone(&terms.tls.borrow());
        let config = Arc::clone(tls.of(terms.protocol));
        let stream = TlsAcceptor::from(config).accept_with(stream, bounded).await?;
        io::Result::Ok((ClientCertificate::of(&stream, tls, terms.tls.clone()), stream))
    };
    match terms.handshakes.in_turn(origin, handshake).await {
        Some(Ok((proof, stream))) => Handshake::Done(Box::new(stream), proof),
        Some(Err(error)) => {
            tracing::debug!(%error, "a client's handshake failed");
            Handshake::Failed
        }
        None => {
            tracing::debug!("a client's handshake went on while others waited");
            Handshake::Failed
        }
    }
}
