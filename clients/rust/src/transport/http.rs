//! Connections over HTTP/1.1, with or without TLS, and the ones that are kept.
//!
//! A request is sent once, with one exception: when a kept connection turns out to be closed, the request is
//! sent once more on a new connection. That second request gets other ids. If the first was answered too, its
//! answer is lost with the closed connection.

use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::address::Address;
use super::tls::{self, Pem};
use super::{Attempt, Transport};
use crate::answer::Answer;
use crate::error::Error;
use crate::request::Request;

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest time to connect, TLS included.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// A connection that was idle longer is not used again. Nodes close idle connections after 75 s.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The largest number of kept connections to one endpoint.
const KEPT_MAX: usize = 64;
const NAME: &str = concat!("mintleaf-client-rust/", env!("CARGO_PKG_VERSION"));

/// All endpoints, and the connections to them.
pub(crate) struct Http {
    endpoints: Vec<Endpoint>,
    tls: Option<TlsConnector>,
    token: Option<HeaderValue>,
}

struct Endpoint {
    address: Address,
    /// Idle connections, each with the time since when it is idle. The last one has been idle for the shortest time.
    kept: Mutex<Vec<(Connection, Instant)>>,
}

/// A connection. Dropping it also ends the task that drives it, so an answer under way is lost.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Http {
    pub(crate) fn new(
        addresses: Vec<Address>,
        pem: &Pem,
        token: Option<&str>,
    ) -> Result<Self, Error> {
        let wants_tls = addresses.iter().any(|address| address.is_https);
        let tls = if wants_tls { Some(TlsConnector::from(tls::config(pem)?)) } else { None };
        let token = match token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))) {
            None => None,
            Some(Ok(mut value)) => {
                value.set_sensitive(true);
                Some(value)
            }
            Some(Err(_)) => {
                let fault = "token must be visible ASCII characters".to_owned();
                return Err(Error::InvalidArgument(fault));
            }
        };
        let endpoint = |address| Endpoint { address, kept: Mutex::default() };
        Ok(Self { endpoints: addresses.into_iter().map(endpoint).collect(), tls, token })
    }

    async fn send(&self, endpoint: &Endpoint, request: &Request) -> Result<Answer, String> {
        while let Some(mut connection) = endpoint.kept() {
            if connection.sender.ready().await.is_err() {
                continue;
            }
            match connection.sender.send_request(self.head(endpoint, request)?).await {
                Ok(answer) => return endpoint.read(connection, answer).await,
                Err(_) => {
                    endpoint.close_kept();
                    break;
                }
            }
        }
        let mut connection = match timeout(CONNECT_MAX, self.connect(&endpoint.address)).await {
            Ok(connected) => connected.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("no connection within {CONNECT_MAX:?}")),
        };
        let head = self.head(endpoint, request)?;
        let answer = connection.sender.send_request(head).await.map_err(|error| told(&error))?;
        endpoint.read(connection, answer).await
    }

    fn head(
        &self,
        endpoint: &Endpoint,
        request: &Request,
    ) -> Result<hyper::Request<Full<Bytes>>, String> {
        let mut head = hyper::Request::builder()
            .method(request.method())
            .uri(request.path())
            .header(HOST, &endpoint.address.authority)
            .header(ACCEPT, "application/json")
            .header(CACHE_CONTROL, "no-store")
            .header(USER_AGENT, NAME);
        if let Some(token) = &self.token {
            head = head.header(AUTHORIZATION, token);
        }
        let body = request.body();
        if body.is_some() {
            head = head.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::from(body.unwrap_or_default());
        head.body(body).map_err(|error| error.to_string())
    }

    async fn connect(
        &self,
        address: &Address,
    ) -> Result<Connection, Box<dyn StdError + Send + Sync>> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) if address.is_https => {
                let name = ServerName::try_from(address.host.clone())?;
                Ok(drive(TokioIo::new(tls.connect(name, stream).await?)).await?)
            }
            _ => Ok(drive(TokioIo::new(stream)).await?),
        }
    }
}

async fn drive<I>(io: I) -> hyper::Result<Connection>
where
    I: Read + Write + Unpin + Send + 'static,
{
    let (sender, driver) = http1::handshake(io).await?;
    Ok(Connection { sender, driver: tokio::spawn(driver).abort_handle() })
}

impl Endpoint {
    /// The complete answer. Its head has arrived already.
    async fn read(
        &self,
        connection: Connection,
        answer: hyper::Response<Incoming>,
    ) -> Result<Answer, String> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
        self.keep(connection);
        let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        Ok(Answer { status: head.status.as_u16(), retry_after, body })
    }

    /// A connection that is not known to be closed.
    fn kept(&self) -> Option<Connection> {
        let mut kept = self.lock();
        let now = Instant::now();
        kept.retain(|(open, since)| now - *since < IDLE_MAX && !open.sender.is_closed());
        kept.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.lock();
        if kept.len() < KEPT_MAX {
            kept.push((connection, Instant::now()));
        }
    }

    fn close_kept(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Connection, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of an error and of its causes. hyper's own text leaves the causes out.
fn told(error: &dyn StdError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", told(cause)),
        None => error.to_string(),
    }
}

impl Transport for Http {
    fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    fn address(&self, endpoint: usize) -> String {
        let authority = self.endpoints.get(endpoint).map(|endpoint| &endpoint.address.authority);
        authority.and_then(|authority| authority.to_str().ok()).unwrap_or_default().to_owned()
    }

    fn ask<'a>(&'a self, endpoint: usize, request: &'a Request) -> Attempt<'a> {
        Box::pin(async move {
            match self.endpoints.get(endpoint) {
                Some(endpoint) => self.send(endpoint, request).await,
                None => Err("there is no such endpoint".to_owned()),
            }
        })
    }
}

/// The settings hold a token, so the output shows none of them.
impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.endpoints.iter().map(|endpoint| &endpoint.address.authority);
        f.debug_list().entries(at).finish()
    }
}

/// The addresses of a client's endpoints, as users write them.
pub(crate) fn addresses(endpoints: &[String]) -> Result<Vec<Address>, Error> {
    if endpoints.is_empty() {
        return Err(Error::InvalidArgument("endpoints must name one node or more".to_owned()));
    }
    endpoints.iter().map(|endpoint| Address::parse(endpoint)).collect()
}
