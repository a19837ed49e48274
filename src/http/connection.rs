//! One HTTP connection: the lane on a socket, then hyper, its bounds, and its end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::front::FrontDoor;
use super::lane::{self, Lane, Rest};
use super::outbox::Outbox;
use crate::listener::DRAIN_MS_MAX;
use crate::watchdog::{Patience, Progress};
use crate::wire::Wire;

pub(super) const HEADERS_MAX: usize = 64;
/// Longest head of a request; a longer one is answered 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// A kept-alive connection is kept for longer than load balancers keep theirs, so that they close
/// first; one that never brought a request is not kept.
const PATIENCE: Patience = Patience { idle_seconds_max: 75, unused_is_idle: false };

/// What a connection above the limit is told.
pub(crate) const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 131\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"code\":\"unavailable\",\"detail\":\"too many connections to this node\"}";

/// Serves a connection until it ends, gets nowhere, or the node stops.
pub(crate) async fn serve(mut stream: TcpStream, front: FrontDoor, stopping: watch::Receiver<()>) {
    let (read, write) = stream.split();
    converse(read, write, front, stopping).await;
}

/// The same on any transport.
pub(super) async fn converse<R, W>(
    mut read: R,
    mut write: W,
    front: FrontDoor,
    mut stopping: watch::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let outbox = Outbox::default();
    if let Some(rest) =
        in_lane(&mut read, &mut write, &front, outbox.progress(), &mut stopping).await
    {
        with_hyper(rest, read, &mut write, front, &outbox, stopping).await;
    }
    let farewell = async {
        outbox.send(&mut write).await?;
        write.shutdown().await
    };
    // A client that does not read its last answers, or is gone, does without them.
    let _ = tokio::time::timeout(Duration::from_millis(DRAIN_MS_MAX), farewell).await;
}

/// Serves plain requests for ids, until something else comes.
async fn in_lane<R, W>(
    read: R,
    write: W,
    front: &FrontDoor,
    progress: &Progress,
    stopping: &mut watch::Receiver<()>,
) -> Option<Rest>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let unsent = AtomicBool::new(false);
    let room_max = lane::ROOM_BYTES_MAX;
    let wire = Wire::new(read, write, room_max, &unsent, progress, stopping.clone());
    let mut running = pin!(Lane::new(wire, front).run());
    let ended = tokio::select! {
        biased;
        ended = running.as_mut() => ended,
        () = progress.stalled(PATIENCE, || unsent.load(Relaxed)) => return None,
        // The lane sees it too, and comes to an end.
        _ = stopping.changed() => running.await,
    };
    // Of a connection that breaks there is nobody to tell.
    ended.unwrap_or(None)
}

/// Serves anything.
async fn with_hyper<R, W>(
    rest: Rest,
    read: R,
    write: &mut W,
    front: FrontDoor,
    outbox: &Outbox,
    mut stopping: watch::Receiver<()>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let progress = outbox.progress();
    let watched = Watched { inner: front, progress: Arc::clone(progress) };
    let transport = outbox.attach(read, rest);
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
        () = outbox.drive(connection.as_mut(), write) => {}
        () = progress.stalled(PATIENCE, || outbox.has_unsent()) => {}
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            outbox.drive(connection.as_mut(), write).await;
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
