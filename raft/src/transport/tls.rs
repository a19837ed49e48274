//! The layer of TLS 1.3: both ends prove themselves before a frame travels.
//!
//! There is no resumption and no early data: every connection is proven anew, and nothing can be replayed. The
//! version of the frames is negotiated by ALPN (RFC 7301).

mod explain;
#[cfg(test)]
mod tests;
mod verifier;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{DnsName, ServerName, UnixTime};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::credentials::{
    CertifiedNode, Credentials, CredentialsError, NodeKey, certified_node, node_name,
};
use super::interface::{PROTOCOL, Peer, Target};
use super::layer::{Layer, Opened, Proof};
use super::pace::Handshakes;
use super::plain::{Greeting, receive_greeting, refuse_node, refuse_stranger};
use explain::{explained, refusal_of_proof};
use verifier::{ANY_NODE, NodeVerifier};

/// The first byte of every TLS handshake: a record of that content type (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// TLS 1.3 with this node's credentials.
pub(crate) struct Tls {
    node_id: u64,
    store: u128,
    credentials: watch::Receiver<Arc<Credentials>>,
    clock: UnixClock,
    /// Built from the credentials of the time.
    made: Mutex<Made>,
    handshakes: Mutex<Handshakes>,
}

/// The wall clock, in Unix milliseconds.
pub(crate) type UnixClock = Arc<dyn Fn() -> u64 + Send + Sync>;

struct Made {
    of: Arc<Credentials>,
    ends: Arc<Ends>,
}

/// The two ends of a connection, with one set of credentials.
struct Ends {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    verifier: Arc<NodeVerifier>,
    remedy: &'static str,
}

impl Tls {
    /// # Errors
    /// When no certificate can be made from the credentials.
    pub(crate) fn new(
        (node_id, store): (u64, u128),
        credentials: watch::Receiver<Arc<Credentials>>,
        clock: UnixClock,
    ) -> Result<Self, CredentialsError> {
        let of = Arc::clone(&*credentials.borrow());
        let ends = ends(&of, (node_id, store), &clock)?;
        let made = Mutex::new(Made { of, ends: Arc::new(ends) });
        Ok(Self { node_id, store, credentials, clock, made, handshakes: Mutex::default() })
    }

    /// Both ends with the current credentials.
    fn ends(&self) -> Arc<Ends> {
        let mut made = self.made.lock();
        let now = Arc::clone(&*self.credentials.borrow());
        if !Arc::ptr_eq(&made.of, &now) {
            match ends(&now, (self.node_id, self.store), &self.clock) {
                Ok(ends) => *made = Made { of: now, ends: Arc::new(ends) },
                Err(error) => tracing::error!(%error, "new credentials cannot be used"),
            }
        }
        Arc::clone(&made.ends)
    }

    /// Watches the credentials from now on, for a connection that is about to be opened.
    fn watched(&self) -> watch::Receiver<Arc<Credentials>> {
        let mut credentials = self.credentials.clone();
        credentials.mark_unchanged();
        credentials
    }

    /// Makes the process at the other end of a stream prove itself.
    pub(super) async fn accept_tls<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<Opened<TlsStream<S>>> {
        let (credentials, ends) = (self.watched(), self.ends());
        let stream = ends.acceptor.accept(stream).await;
        let stream = stream.map_err(|error| explained(error, ends.remedy))?;
        opened(stream.into(), credentials)
    }

    /// Proves this node to the node at the other end of a stream, and makes that node do the same.
    pub(super) async fn connect_tls<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        target: Target<'_>,
        stream: S,
    ) -> io::Result<Opened<TlsStream<S>>> {
        let (credentials, ends) = (self.watched(), self.ends());
        let connected = ends.connector.connect(wanted(target), stream).await;
        let stream = connected.map_err(|error| explained(error, ends.remedy))?;
        opened(stream.into(), credentials)
    }
}

/// Has the process at the other end of a connection prove that it is the target, as a node with these credentials
/// would, and ends the connection before any frame.
///
/// # Errors
/// When it does not, with what an operator should check.
pub async fn have_it_prove(
    target: Target<'_>,
    tcp: TcpStream,
    own: (u64, u128),
    credentials: Credentials,
    now_ms: u64,
) -> io::Result<Peer> {
    let (_sender, credentials) = watch::channel(Arc::new(credentials));
    let layer = Tls::new(own, credentials, Arc::new(move || now_ms)).map_err(io::Error::other)?;
    Ok(layer.connect_tls(target, tcp).await?.proof.peer)
}

impl Layer for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn connect(
        &self,
        target: Target<'_>,
        tcp: TcpStream,
    ) -> io::Result<Opened<TlsStream<TcpStream>>> {
        self.connect_tls(target, tcp).await
    }

    async fn accept(&self, mut tcp: TcpStream) -> io::Result<Opened<TlsStream<TcpStream>>> {
        let mut first = [0];
        if tcp.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
            return match receive_greeting(&mut tcp).await? {
                Greeting::Node { .. } => refuse_node(&mut tcp, WITHOUT_TLS).await,
                Greeting::Stranger => refuse_stranger(&mut tcp).await,
            };
        }
        let from = tcp.peer_addr()?.ip();
        let turn = self.handshakes.lock().turn(from);
        sleep_until(turn).await;
        let opened = self.accept_tls(tcp).await?;
        self.handshakes.lock().proven(from);
        Ok(opened)
    }

    fn trusts(&self, proof: &Proof) -> bool {
        let [own, intermediates @ ..] = &proof.chain[..] else { return false };
        let now = self.credentials.borrow().judged_at(Some(unix_time((self.clock)())));
        now.is_some_and(|now| self.ends().verifier.accepts(own, intermediates, now))
    }

    fn refusal_of_proof(&self, error: &io::Error) -> Option<String> {
        refusal_of_proof(error, self.ends().remedy)
    }
}

/// The text that refuses a node without TLS.
const WITHOUT_TLS: &str = "this node speaks TLS, and the peer does not: give every node the same \
    --cluster-secret-file, or --raft-cert, --raft-key and --raft-ca";

/// The name that the other end has to prove.
fn wanted(target: Target<'_>) -> ServerName<'static> {
    let name = target.node_id.map_or_else(|| ANY_NODE.to_owned(), node_name);
    ServerName::DnsName(DnsName::try_from(name).expect("it is a name"))
}

/// The proof from a successful handshake.
fn opened<S>(
    stream: TlsStream<S>,
    credentials: watch::Receiver<Arc<Credentials>>,
) -> io::Result<Opened<TlsStream<S>>> {
    let (_, session) = stream.get_ref();
    let unfit = |why: &str| io::Error::new(ErrorKind::PermissionDenied, why.to_owned());
    if session.alpn_protocol() != Some(&protocol_name()) {
        return Err(unfit("the other end has named no protocol that this node speaks"));
    }
    let chain = session.peer_certificates().unwrap_or_default().to_vec();
    let own = chain.first().ok_or_else(|| unfit("the other end has no certificate"))?;
    // The verifier has read and judged the same name in the handshake.
    let CertifiedNode { node_id, store } =
        certified_node(own).map_err(|error| unfit(&error.to_string()))?;
    let proof =
        Proof { peer: Peer::Proven { node_id, store }, chain, credentials: Some(credentials) };
    Ok(Opened { stream, proof })
}

/// The version of the frames, as named in ALPN.
fn protocol_name() -> Vec<u8> {
    format!("mintleaf/{PROTOCOL}").into_bytes()
}

fn ends(
    credentials: &Arc<Credentials>,
    (node_id, store): (u64, u128),
    clock: &UnixClock,
) -> Result<Ends, CredentialsError> {
    let failed = |error: rustls::Error| CredentialsError::Certificate(error.to_string());
    let provider = Arc::new(default_provider());
    let verifier = NodeVerifier::new(credentials.roots(), &provider)
        .map_err(|error| CredentialsError::Certificate(error.to_string()))?;
    let verifier = Arc::new(verifier);
    let keys = Arc::new(Keys(credentials.certify(node_id, store)?));
    let time =
        Arc::new(JudgedAt { credentials: Arc::clone(credentials), clock: Arc::clone(clock) });
    let server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&time) as _);
    let mut server = server
        .with_protocol_versions(&[&TLS13])
        .map_err(failed)?
        .with_client_cert_verifier(Arc::clone(&verifier) as _)
        .with_cert_resolver(Arc::clone(&keys) as _);
    server.alpn_protocols = vec![protocol_name()];
    server.send_tls13_tickets = 0;
    server.session_storage = Arc::new(NoServerSessionStorage {});
    let mut client = ClientConfig::builder_with_details(provider, time)
        .with_protocol_versions(&[&TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
        .with_client_cert_resolver(keys);
    client.alpn_protocols = vec![protocol_name()];
    client.resumption = Resumption::disabled();
    // The name would travel in clear, and the other end does not need it.
    client.enable_sni = false;
    Ok(Ends {
        connector: Arc::new(client).into(),
        acceptor: Arc::new(server).into(),
        verifier,
        remedy: credentials.remedy(),
    })
}

/// The keys that may prove this node's identity, the preferred one first.
#[derive(Debug)]
struct Keys(Vec<NodeKey>);

impl Keys {
    /// The first key whose CA the other end accepts, or else the preferred key: the other end's refusal then explains
    /// what is wrong.
    fn choose(&self, accepted: impl Fn(&[u8]) -> bool) -> Option<Arc<CertifiedKey>> {
        let fits =
            |key: &&NodeKey| key.issuer.as_ref().is_some_and(|issuer| accepted(issuer.as_ref()));
        let chosen = self.0.iter().find(fits).or(self.0.first())?;
        Some(Arc::clone(&chosen.key))
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let accepted = hello.certificate_authorities().unwrap_or_default();
        self.choose(|issuer| accepted.iter().any(|name| name.as_ref() == issuer))
    }
}

impl ResolvesClientCert for Keys {
    fn resolve(&self, accepted: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.choose(|issuer| accepted.contains(&issuer))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The time that certificates are checked at.
struct JudgedAt {
    credentials: Arc<Credentials>,
    clock: UnixClock,
}

impl std::fmt::Debug for JudgedAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JudgedAt")
    }
}

impl TimeProvider for JudgedAt {
    fn current_time(&self) -> Option<UnixTime> {
        self.credentials.judged_at(Some(unix_time((self.clock)())))
    }
}

fn unix_time(ms: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(ms))
}
