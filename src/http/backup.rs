//! `GET /v1/backup`: the whole replicated state, as a file.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, Uri};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;

use super::access::Sender;
use super::problem::Problem;
use super::query::Query;
use crate::service::{BackupPieces, BackupService};

const TYPE: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/octet-stream")];

pub(super) async fn take(
    State(service): State<Arc<BackupService>>,
    sender: Sender,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::parse(uri.query())?.finish()?;
    let pieces = service.take(&sender.actor()).await?;
    Ok((TYPE, Body::new(Streamed(pieces).boxed_unsync())).into_response())
}

/// The head of the answer with a backup, without taking a backup.
pub(super) async fn head(uri: Uri) -> Result<Response, Problem> {
    Query::parse(uri.query())?.finish()?;
    Ok((TYPE, Body::new(LengthUnknown)).into_response())
}

/// An empty body for an answer of unknown length.
struct LengthUnknown;

impl HttpBody for LengthUnknown {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(None)
    }
}

/// A backup as a body of unknown length. One that breaks off breaks its connection off, too.
struct Streamed(BackupPieces);

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
