//! One HTTP connection: the fast path, then hyper; its bounds, and its end.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::dispatch::{Dispatch, DispatchResponse, ResponseFuture};
use super::fast_path::{FastPath, READ_BYTES_MAX};
use super::write_buffer::{AttachedTransport, WriteBuffer};
use crate::access::Caller;
use crate::connection_buffers::{ConnectionBuffers, ConnectionWatch, Leftover};
use crate::limits::{DRAIN_MAX, HEAD_BYTES_MAX, HEADERS_MAX, HTTP_IDLE_SECONDS_MAX};
use crate::watchdog::{Patience, Progress};

/// A connection that never brought a request does not count as idle, and is not kept.
const PATIENCE: Patience =
    Patience { idle_seconds_max: HTTP_IDLE_SECONDS_MAX, unused_is_idle: false };

/// The answer to a connection above the limit.
pub(crate) const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 131\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"code\":\"unavailable\",\"detail\":\"too many connections to this node\"}";

/// Serves a connection until it ends, makes no progress for too long, or the node stops.
pub(crate) async fn serve(
    mut stream: TcpStream,
    dispatch: Dispatch,
    stopping: watch::Receiver<()>,
) {
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    let dispatch = dispatch.for_connection(is_local);
    let (read, write) = stream.split();
    converse(read, write, dispatch, stopping).await;
}

/// Serves a connection on any transport, as [`serve`] does.
pub(super) async fn converse<R, W>(
    mut read: R,
    mut write: W,
    dispatch: Dispatch,
    mut stopping: watch::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let write_buffer = WriteBuffer::default();
    if let Some(leftover) =
        on_fast_path(&mut read, &mut write, &dispatch, write_buffer.progress(), &mut stopping).await
    {
        let transport = write_buffer.attach(read, leftover);
        with_hyper(transport, &mut write, dispatch, &write_buffer, stopping).await;
    }
    let last_answers = async {
        write_buffer.send(&mut write).await?;
        write.shutdown().await
    };
    // A client that does not read its last answers in time, or is gone, does without them.
    let _ = tokio::time::timeout(DRAIN_MAX, last_answers).await;
}

/// Serves plain requests for ids, until another request comes; answers the leftover that hyper takes
/// over then.
async fn on_fast_path<R, W>(
    read: R,
    write: W,
    dispatch: &Dispatch,
    progress: &Progress,
    stopping: &mut watch::Receiver<()>,
) -> Option<Leftover>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let unsent = AtomicBool::new(false);
    let watch = ConnectionWatch { unsent: &unsent, progress, stopping: stopping.clone() };
    let buffers = ConnectionBuffers::new(read, write, READ_BYTES_MAX, watch);
    let mut running = pin!(FastPath::new(buffers, dispatch).run());
    let ended = tokio::select! {
        biased;
        ended = running.as_mut() => ended,
        () = progress.stalled(PATIENCE, || unsent.load(Relaxed)) => return None,
        // The fast path sees the stop too, and comes to an end.
        _ = stopping.changed() => running.await,
    };
    // A connection that breaks leaves nobody to tell.
    ended.unwrap_or(None)
}

/// Serves every request.
async fn with_hyper<R, W>(
    transport: AttachedTransport<R>,
    write: &mut W,
    dispatch: Dispatch,
    write_buffer: &WriteBuffer,
    mut stopping: watch::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let progress = write_buffer.progress();
    let watched = Watched { dispatch, caller: RefCell::default(), progress: Arc::clone(progress) };
    let mut connection = pin!(
        http1::Builder::new()
            // The watchdog bounds heads and idle time, each by its own measure.
            .header_read_timeout(None)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(transport), watched)
    );
    tokio::select! {
        biased;
        () = write_buffer.drive(connection.as_mut(), write) => {}
        () = progress.stalled(PATIENCE, || write_buffer.has_unsent()) => {}
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            write_buffer.drive(connection.as_mut(), write).await;
        }
    }
}

/// Answers the requests of one connection, counts them, and remembers whom they come from.
struct Watched {
    dispatch: Dispatch,
    caller: RefCell<Caller>,
    progress: Arc<Progress>,
}

impl Service<Request<Incoming>> for Watched {
    type Response = DispatchResponse;
    type Error = Infallible;
    type Future = ResponseFuture<DispatchResponse>;

    #[inline]
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.progress.request_begun();
        self.dispatch.call(&mut self.caller.borrow_mut(), request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_away_answer_has_its_own_length() {
        let text = std::str::from_utf8(TURNED_AWAY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
