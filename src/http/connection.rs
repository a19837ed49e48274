//! One HTTP connection: the fast path, then hyper; its bounds, and its end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::dispatch::Dispatch;
use super::fast_path::{FastPath, READ_BYTES_MAX};
use super::write_buffer::{AttachedTransport, WriteBuffer};
use crate::connection_buffers::{ConnectionBuffers, ConnectionWatch, Leftover};
use crate::limits::{DRAIN_MAX, HEAD_BYTES_MAX, HEADERS_MAX, HTTP_IDLE_SECONDS_MAX};
use crate::watchdog::{Patience, Progress, Verdict};

/// A connection that never brought a request does not count as idle, and is not kept.
const PATIENCE: Patience =
    Patience { idle_seconds_max: HTTP_IDLE_SECONDS_MAX, unused_is_idle: false };

/// The answer to a connection above the limit.
pub(crate) const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 131\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"code\":\"unavailable\",\"detail\":\"too many connections to this node\"}";

/// Serves a connection until it ends, its watchdog ends it, or the node stops; answers the watchdog's
/// verdict, if it came to one.
pub(crate) async fn serve(
    mut stream: TcpStream,
    dispatch: Dispatch,
    progress: Arc<Progress>,
    stopping: watch::Receiver<()>,
) -> Option<Verdict> {
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
    let dispatch = dispatch.for_connection(is_local);
    let (read, write) = stream.split();
    converse(read, write, dispatch, progress, stopping).await
}

/// Serves a connection on any transport, as [`serve`] does.
pub(super) async fn converse<R, W>(
    mut read: R,
    mut write: W,
    dispatch: Dispatch,
    progress: Arc<Progress>,
    mut stopping: watch::Receiver<()>,
) -> Option<Verdict>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let write_buffer = WriteBuffer::new(progress, Arc::clone(dispatch.answers()));
    let progress = write_buffer.progress();
    let verdict =
        match on_fast_path(&mut read, &mut write, &dispatch, progress, &mut stopping).await {
            FastPathEnd::ForHyper(leftover) => {
                let transport = write_buffer.attach(read, leftover);
                with_hyper(transport, &mut write, dispatch, &write_buffer, stopping).await
            }
            FastPathEnd::Closed => None,
            FastPathEnd::Watchdog(verdict) => Some(verdict),
        };
    let last_answers = async {
        write_buffer.send(&mut write).await?;
        write.shutdown().await
    };
    // A client that is ended for its slowness, does not read its last answers in time, or is gone, does
    // without them.
    if verdict != Some(Verdict::ReadsTooSlowly) {
        let _ = tokio::time::timeout(DRAIN_MAX, last_answers).await;
    }
    verdict
}

/// Why a connection left the fast path.
enum FastPathEnd {
    /// Another kind of request came: hyper goes on with the leftover.
    ForHyper(Leftover),
    /// It is over.
    Closed,
    /// The watchdog ends it.
    Watchdog(Verdict),
}

/// Serves plain requests for ids, until another request comes.
async fn on_fast_path<R, W>(
    read: R,
    write: W,
    dispatch: &Dispatch,
    progress: &Progress,
    stopping: &mut watch::Receiver<()>,
) -> FastPathEnd
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let unsent = AtomicBool::new(false);
    let answers = dispatch.answers();
    let watch = ConnectionWatch { unsent: &unsent, progress, answers, stopping: stopping.clone() };
    let buffers = ConnectionBuffers::new(read, write, READ_BYTES_MAX, watch);
    let mut running = pin!(FastPath::new(buffers, dispatch).run());
    let ended = tokio::select! {
        biased;
        ended = running.as_mut() => ended,
        verdict = progress.must_end(PATIENCE, || unsent.load(Relaxed)) => {
            return FastPathEnd::Watchdog(verdict);
        }
        // The fast path sees the stop too, and comes to an end.
        _ = stopping.changed() => running.await,
    };
    match ended {
        Ok(Some(leftover)) => FastPathEnd::ForHyper(leftover),
        // A connection that breaks leaves nobody to tell.
        Ok(None) | Err(_) => FastPathEnd::Closed,
    }
}

/// Serves every request; answers the watchdog's verdict, if it came to one.
async fn with_hyper<R, W>(
    transport: AttachedTransport<R>,
    write: &mut W,
    dispatch: Dispatch,
    write_buffer: &WriteBuffer,
    mut stopping: watch::Receiver<()>,
) -> Option<Verdict>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let progress = write_buffer.progress();
    let watched = Watched { inner: dispatch, progress: Arc::clone(progress) };
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
        () = write_buffer.drive(connection.as_mut(), write) => None,
        verdict = progress.must_end(PATIENCE, || write_buffer.has_unsent()) => Some(verdict),
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            write_buffer.drive(connection.as_mut(), write).await;
            None
        }
    }
}

/// A service that counts the requests of one connection.
#[derive(Clone, Debug)]
struct Watched<S> {
    inner: S,
    progress: Arc<Progress>,
}

impl<S: Service<R>, R> Service<R> for Watched<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn call(&self, request: R) -> S::Future {
        self.progress.request_begun();
        self.inner.call(request)
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
