//! The internal listener.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::wire::Door;
use super::{
    BODY_TIMEOUT, FRAME_BYTES_MAX, PATH, PROTOCOL, PROTOCOL_HEADER, Request, Response,
    SECRET_HEADER,
};
use crate::guard::{Header, Identity, Refusal};

/// Peers are few and each keeps a handful of connections.
const CONNECTIONS_MAX: usize = 1024;
/// A connection that sends no request for this long is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a failed accept, as when file descriptors ran out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What a node does with a request that arrived.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// Who answers.
    fn identity(&self) -> Identity;

    /// What its clock shows.
    fn clock_ms(&self) -> u64;

    /// Judges and answers one request.
    fn handle(
        self: Arc<Self>,
        header: Option<Header>,
        request: Request,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;
}

/// A bound internal listener, not yet answering.
pub(crate) struct Listener(TcpListener);

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self(TcpListener::bind(address).await?))
    }

    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the task is aborted, which also ends its connections.
    pub(crate) async fn serve(self, door: Arc<dyn Door>, secret: Option<HeaderValue>) {
        let guarded = Arc::new(GuardedDoor { door, secret });
        let router = Router::new().route(PATH, post(receive)).with_state(guarded);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let router = router.clone();
                    connections.spawn(async move {
                        serve_connection(stream, router).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection from a peer");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    // Without it, Nagle's algorithm holds back every second small answer.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection from a peer ended");
    }
}

/// A door behind which the secret is known.
struct GuardedDoor {
    door: Arc<dyn Door>,
    secret: Option<HeaderValue>,
}

type Failure = (StatusCode, String);

async fn receive(
    State(guarded): State<Arc<GuardedDoor>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Failure> {
    check_secret(guarded.secret.as_ref().map(HeaderValue::as_bytes), &headers)?;
    check_protocol(&headers)?;
    let frame = read_body(body).await?;
    guarded.door.answer(&frame).await.map_err(|why| (StatusCode::BAD_REQUEST, why))
}

fn check_secret(secret: Option<&[u8]>, headers: &HeaderMap) -> Result<(), Failure> {
    let sent = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes);
    let same = match (secret, sent) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.ct_eq(theirs).into(),
        _ => false,
    };
    let why = "the cluster secret does not match: give every node the same --cluster-secret-file";
    if same { Ok(()) } else { Err((StatusCode::UNAUTHORIZED, why.to_owned())) }
}

fn check_protocol(headers: &HeaderMap) -> Result<(), Failure> {
    let sent = headers.get(PROTOCOL_HEADER).and_then(|value| value.to_str().ok());
    if sent.and_then(|version| version.parse().ok()) == Some(PROTOCOL) {
        return Ok(());
    }
    let sent = sent.unwrap_or("none");
    let why = format!("this node speaks protocol {PROTOCOL}, the peer {sent}: upgrade the older");
    Err((StatusCode::UPGRADE_REQUIRED, why))
}

async fn read_body(body: Body) -> Result<Bytes, Failure> {
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, FRAME_BYTES_MAX).collect());
    let body = body
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the frame did not arrive in time".to_owned()))?
        .map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
    Ok(body.to_bytes())
}
