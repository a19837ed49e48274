//! One HTTP connection: the fast path, then hyper; its bounds, and its end.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::dispatch::{Dispatch, DispatchResponse, announce_end};
use super::fast_path::{FastPath, READ_BYTES_MAX};
use super::unread_request;
use super::write_buffer::{AttachedTransport, WriteBuffer};
use crate::access::Caller;
use crate::connection::buffers::{ConnectionBuffers, ConnectionWatch, Leftover};
use crate::connection::drain::{Drain, DrainPhase};
use crate::connection::tls::{self, ClientStream};
use crate::connection::watchdog::{CloseReason, IdlePolicy, Progress};
use crate::limits::{DRAIN_MAX, HEAD_BYTES_MAX, HEADERS_MAX, HTTP_IDLE_SECONDS_MAX};

/// A connection that never brought a request does not count as idle, and is not kept.
const PATIENCE: IdlePolicy =
    IdlePolicy { idle_seconds_max: HTTP_IDLE_SECONDS_MAX, unused_is_idle: false };

/// The answer to a connection above the limit.
pub(crate) const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 131\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"code\":\"unavailable\",\"detail\":\"too many connections to this node\"}";

/// The answer to a client that speaks HTTP where there is TLS.
pub(crate) const WITHOUT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/problem+json\r\ncache-control: no-store\r\n\
    connection: close\r\ncontent-length: 135\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\
    \"code\":\"invalid_argument\",\"detail\":\"this port speaks TLS: ask it by https://\"}";

/// Serves a connection until it ends, its watchdog ends it, or the node stops. Returns the watchdog's verdict, if there
/// is one.
pub(crate) async fn serve(
    mut stream: impl ClientStream,
    dispatch: Dispatch,
    progress: Arc<Progress>,
    drain: Drain,
) -> Option<CloseReason> {
    let dispatch = dispatch.for_connection(stream.peer());
    let ending = drain.clone();
    let (read, write) = stream.halves();
    let verdict = serve_stream(read, write, dispatch, progress, drain).await;
    let last_answers = [DrainPhase::LastAnswers, DrainPhase::RestingEnd];
    if verdict.is_none() && last_answers.contains(&ending.phase()) {
        tls::close_gracefully(&mut stream, b"").await;
    }
    verdict
}

/// Serves a connection on any transport, as [`serve`] does.
pub(super) async fn serve_stream(
    mut read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    dispatch: Dispatch,
    progress: Arc<Progress>,
    drain: Drain,
) -> Option<CloseReason> {
    let write_buffer = WriteBuffer::new(progress, dispatch.answers().clone());
    let progress = write_buffer.progress();
    let verdict = match on_fast_path(&mut read, &mut write, &dispatch, progress, &drain).await {
        Ok(Some(leftover)) => {
            let transport = write_buffer.attach(read, leftover);
            with_hyper(transport, &mut write, dispatch, &write_buffer, drain).await
        }
        Ok(None) => None,
        Err(verdict) => Some(verdict),
    };
    let last_answers = async {
        write_buffer.send(&mut write).await?;
        write.shutdown().await
    };
    // The last answers are not sent to a client whose connection ends because it is slow, does not read them in time,
    // or is gone, nor to one without a token whose place is needed.
    let makes_room =
        verdict == Some(CloseReason::MakesRoom) && write_buffer.progress().is_unproven();
    if verdict != Some(CloseReason::ReadsTooSlowly) && !makes_room {
        let _ = tokio::time::timeout(DRAIN_MAX, last_answers).await;
    }
    verdict
}

/// Serves plain requests for ids, until another request comes. Then hyper goes on with what this returns; `None` when
/// the connection is over.
///
/// # Errors
/// The watchdog's verdict, if it ends the connection.
async fn on_fast_path(
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
    dispatch: &Dispatch,
    progress: &Progress,
    drain: &Drain,
) -> Result<Option<Leftover>, CloseReason> {
    let unsent = AtomicBool::new(false);
    let answers = dispatch.answers();
    let watch = ConnectionWatch { unsent: &unsent, progress, answers, drain: drain.clone() };
    let buffers = ConnectionBuffers::new(read, write, READ_BYTES_MAX, watch);
    let mut running = pin!(FastPath::new(buffers, dispatch).run());
    let running = async {
        tokio::select! {
            biased;
            ended = running.as_mut() => ended,
            // The fast path sees that too once it is polled, and comes to an end.
            () = drain.reached(DrainPhase::LastAnswers) => running.await,
        }
    };
    tokio::select! {
        biased;
        // A connection that breaks has no client left to answer.
        ended = running => Ok(ended.unwrap_or(None)),
        verdict = progress.must_end(PATIENCE, || unsent.load(Relaxed)) => Err(verdict),
    }
}

/// Serves every request. Returns the watchdog's verdict, if there is one.
async fn with_hyper(
    transport: AttachedTransport<impl AsyncRead + Unpin>,
    write: &mut (impl AsyncWrite + Unpin),
    dispatch: Dispatch,
    write_buffer: &WriteBuffer,
    drain: Drain,
) -> Option<CloseReason> {
    let progress = write_buffer.progress();
    let service = answering(dispatch, Arc::clone(progress), drain.clone());
    let mut connection = pin!(
        http1::Builder::new()
            // The watchdog bounds heads and idle time, each by its own measure.
            .header_read_timeout(None)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(transport), service)
    );
    tokio::select! {
        biased;
        ended = write_buffer.drive(connection.as_mut(), write) => {
            if ended.is_some_and(|ended| ended.is_err_and(|error| error.is_parse())) {
                write_buffer.change_unsent(unread_request::explain);
            }
            None
        }
        verdict = progress.must_end(PATIENCE, || write_buffer.has_unsent()) => Some(verdict),
        () = drain.reached(DrainPhase::Ended) => {
            connection.as_mut().graceful_shutdown();
            write_buffer.drive(connection.as_mut(), write).await;
            None
        }
    }
}

/// Answers the requests of one connection, counts them, and remembers their sender. The `connection` header of its last
/// answer announces that.
fn answering(
    dispatch: Dispatch,
    progress: Arc<Progress>,
    drain: Drain,
) -> impl Service<Request<Incoming>, Response = DispatchResponse, Error = Infallible, Future: Send>
{
    let caller = RefCell::<Caller>::default();
    service_fn(move |request| {
        progress.request_begun();
        let caller = &mut caller.borrow_mut();
        let answer = dispatch.call(caller, request);
        dispatch.note_sender(caller, &progress);
        let is_last = drain.phase() >= DrainPhase::LastAnswers;
        async move {
            let mut answered = answer.await?;
            if is_last {
                announce_end(&mut answered);
            }
            Ok(answered)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_without_a_request_have_their_own_length() {
        for answer in [TURNED_AWAY, WITHOUT_TLS] {
            let text = std::str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
            serde_json::from_str::<serde_json::Value>(body).unwrap();
        }
    }
}
