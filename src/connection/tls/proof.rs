//! How a client has proved itself, for as long as its connection lasts.
//!
//! Sessions are not resumed where clients have to show certificates, so the CAs of the moment when a connection began
//! have verified it. They may be replaced while it lasts. If none of today's CAs has signed its certificate, the
//! connection comes to its end as it would with the node: at the next pause, with all requests answered.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::credentials::ClientTls;
use super::time::JudgedBy;
use crate::connection::drain::{Drain, DrainPhase, DrainSender, drain};
use crate::machine::clock::SystemClock;

/// How long a connection of HTTP may rest once its certificate is not trusted any more. One of the Redis protocol ends
/// at once, and so does an active one, with its next answer.
const REST_MAX: Duration = Duration::from_secs(5);

/// The connections of a node look again within this time, spread out so that thousands do not look at once.
const LOOKS_SPREAD_MS: u64 = 1_000;

/// The certificate that a client has shown, and the CAs that verified it.
pub(crate) struct ClientCertificate {
    /// The certificate, with those between it and the CA.
    chain: Vec<CertificateDer<'static>>,
    shown_at: UnixTime,
    judged_by: Arc<ClientTls>,
    tls: watch::Receiver<Arc<ClientTls>>,
    /// How long this connection waits with a look.
    recheck_delay: Duration,
}

impl ClientCertificate {
    /// What the client of a new connection has shown to `judged_by`; `None` if it did not have to show a certificate.
    pub(super) fn of(
        stream: &TlsStream<TcpStream>,
        judged_by: Arc<ClientTls>,
        tls: watch::Receiver<Arc<ClientTls>>,
    ) -> Option<Self> {
        let (socket, session) = stream.get_ref();
        let chain = session.peer_certificates()?.to_vec();
        let shown_at = JudgedBy(SystemClock::default()).current_time()?;
        let port = socket.peer_addr().map_or(0, |peer| peer.port());
        let recheck_delay = Duration::from_millis(u64::from(port) % LOOKS_SPREAD_MS);
        Some(Self { chain, shown_at, judged_by, tls, recheck_delay })
    }

    /// Serves the connection with `serve`. For that, the connection's end begins with the node's, or once its
    /// certificate is not trusted any more.
    pub(crate) async fn guard<T>(self, node: Drain, serve: impl AsyncFnOnce(Drain) -> T) -> T {
        let (sender, own) = drain();
        tokio::select! {
            biased;
            served = serve(own) => served,
            never = self.end_in_time(&node, &sender) => match never {},
        }
    }

    async fn end_in_time(self, node: &Drain, own: &DrainSender) -> Infallible {
        tokio::select! {
            () = follow(node, own) => {}
            () = self.disbelieved() => {
                own.enter(DrainPhase::RestingEnd);
                let _ = timeout(REST_MAX, node.reached(DrainPhase::Ended)).await;
                own.enter(DrainPhase::Ended);
            }
        }
        pending().await
    }

    /// Resolves once no CA of the node has signed the certificate. It does not matter whether the certificate has
    /// expired in the course of the connection, nor whether the clock is wrong by now.
    async fn disbelieved(mut self) {
        loop {
            let current = Arc::clone(&self.tls.borrow_and_update());
            if !current.has_the_client_ca_of(&self.judged_by) {
                sleep(self.recheck_delay).await;
                if !current.believes(&self.chain, self.shown_at) {
                    return;
                }
            }
            self.judged_by = current;
            if self.tls.changed().await.is_err() {
                // The files are not replaced any more: the node ends.
                return pending().await;
            }
        }
    }
}

/// Goes through the phases of the node's end, up to the last.
async fn follow(node: &Drain, own: &DrainSender) {
    for phase in [DrainPhase::LastAnswers, DrainPhase::RestingEnd, DrainPhase::Ended] {
        node.reached(phase).await;
        own.enter(phase);
    }
}
