//! The wire of real nodes: HTTP/1.1 over pooled keep-alive connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::HeaderValue;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::wire::{Door, Pending, Wire, WireError};
use super::{FRAME_BYTES_MAX, Listener, PATH, PROTOCOL, PROTOCOL_HEADER, SECRET_HEADER};
use crate::error::NodeError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before a broken connection is made again.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// A client of peers' listeners and, unless this node is a cluster of one, a listener.
pub(crate) struct HttpWire {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    secret: Option<HeaderValue>,
    listens_on: Option<SocketAddr>,
    /// Until it is served.
    listener: Mutex<Option<Listener>>,
}

impl HttpWire {
    /// Binds the listener. Members prove the secret to each other.
    pub(crate) async fn bind(
        address: Option<SocketAddr>,
        secret: Option<&[u8]>,
    ) -> Result<Self, NodeError> {
        let secret = header_value(secret)?;
        let listener = match address {
            None => None,
            Some(address) => {
                let bound = Listener::bind(address).await;
                Some(bound.map_err(|source| NodeError::Listen { address, source })?)
            }
        };
        let listens_on = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { http, secret, listens_on, listener: Mutex::new(listener) })
    }

    fn request(
        &self,
        address: &str,
        frame: Vec<u8>,
    ) -> Result<hyper::Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = hyper::Request::post(format!("http://{address}{PATH}"))
            .header(PROTOCOL_HEADER, HeaderValue::from(u16::from(PROTOCOL)));
        if let Some(secret) = &self.secret {
            request = request.header(SECRET_HEADER, secret);
        }
        request.body(Full::from(frame))
    }

    async fn post(&self, address: &str, frame: Vec<u8>) -> Result<Bytes, WireError> {
        let request = self.request(address, frame);
        let request = request.map_err(|error| WireError::Unreachable(error.to_string()))?;
        let response = self.http.request(request).await.map_err(|error| {
            let reason = root_cause(&error);
            if error.is_connect() {
                WireError::Unreachable(reason)
            } else {
                WireError::Lost(reason)
            }
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), FRAME_BYTES_MAX).collect().await;
        let body = body.map_err(|error| WireError::Lost(error.to_string()))?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let why = String::from_utf8_lossy(&body);
        Err(WireError::Refused(format!("{status}: {}", why.trim())))
    }
}

impl Wire for HttpWire {
    fn exchange<'a>(
        &'a self,
        address: &'a str,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Bytes, WireError>> {
        Box::pin(self.post(address, frame))
    }

    fn gone<'a>(&'a self, address: &'a str) -> Pending<'a, ()> {
        Box::pin(until_refused(address))
    }

    fn serve(self: Arc<Self>, door: Arc<dyn Door>) -> Pending<'static, ()> {
        let listener = self.listener.lock().take();
        Box::pin(async move {
            if let Some(listener) = listener {
                listener.serve(door, self.secret.clone()).await;
            }
        })
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        self.listens_on
    }
}

/// Keeps a connection that nothing is sent on; once it breaks, tries to make another. Only a machine that
/// is up refuses one, and only when no process listens there.
async fn until_refused(address: &str) {
    loop {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(mut stream)) => drop(stream.read(&mut [0]).await),
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(Err(_)) | Err(_) => {}
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}

fn header_value(secret: Option<&[u8]>) -> Result<Option<HeaderValue>, NodeError> {
    let value = secret.map(HeaderValue::from_bytes).transpose();
    let mut value =
        value.map_err(|_| NodeError::Options("the cluster secret must be printable".to_owned()))?;
    if let Some(value) = &mut value {
        value.set_sensitive(true);
    }
    Ok(value)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
