//! The first and last code that sees a request, but for those that the fast path answers.
//!
//! A request for buffered ids of a tag, or for one snowflake id, is answered here, at once, on whatever
//! connection it comes: no router, no future on the heap, no clock but a snowflake's, no log line. This
//! is a short cut and nothing more, because the [router] answers the same request in the same words.
//! Every other request goes to the router under a deadline; on the way out problems get their bodies
//! and everything is counted. A request whose `Host` is at fault, or whose sender may not make it, gets no
//! further than here.
//!
//! [router]: super::router

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, Either, Full};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::access::{Access, Sender};
use super::paths::{LEAF_SEGMENT, LEAF_SNOWFLAKE, V1_SEGMENT, V1_SNOWFLAKE};
use super::problem::{FailedWith, Problem};
use super::router::router;
use super::{host, ids, legacy};
use crate::access::{Caller, Doors, Tokens};
use crate::answer_budget::{HeldBytes, OriginBudget};
use crate::limits::{ORDINARY_ANSWER_BYTES, RANGED_IDS_MAX, REQUEST_MAX};
use crate::metrics::{Mode, Protocol};
use crate::path_segment;
use crate::service::{IdService, Services};

/// Ids of a tag come in as few runs as there are segments to take them from: a handful.
const RUNS_OF_SEGMENTS: u64 = RANGED_IDS_MAX;

/// An answer, whose body is there already or comes from the router.
pub(super) type DispatchResponse = Response<Either<Full<Bytes>, Body>>;

/// Answers the requests of one connection after another; cheap to clone.
#[derive(Clone)]
pub(crate) struct Dispatch {
    ids: Arc<IdService>,
    answers: OriginBudget,
    router: TowerToHyperService<Router>,
    access: Access,
}

impl Dispatch {
    /// A dispatch over these services, behind these doors.
    pub(crate) fn new(services: Services, doors: Doors) -> Self {
        let (ids, answers) = (Arc::clone(&services.ids), services.answers.of(None));
        let router = TowerToHyperService::new(router(services, doors.tokens.is_some()));
        Self { ids, answers, router, access: Access::new(doors) }
    }

    /// The same for one connection, whose other end has this address, if it is known.
    pub(super) fn for_connection(self, address: Option<IpAddr>) -> Self {
        let is_local = address.is_some_and(|address| address.to_canonical().is_loopback());
        Self { access: self.access.from(is_local), answers: self.answers.at(address), ..self }
    }

    /// The tokens of the node's auth file, if it has one.
    #[inline]
    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.access.tokens()
    }

    /// Whether the sender of the last request has shown nothing that gives it a right to anything, on a node that
    /// asks for tokens.
    #[inline]
    pub(super) fn is_stranger(&self, caller: &Caller) -> bool {
        self.tokens().is_some() && caller.is_stranger()
    }

    /// The ids that the short cut and the fast path take.
    pub(super) fn ids(&self) -> &IdService {
        &self.ids
    }

    /// The memory of answers that clients have not read yet, as this one has it.
    pub(super) fn answers(&self) -> &OriginBudget {
        &self.answers
    }

    /// The answer to a request for one id, if it needs no waiting.
    #[inline]
    fn buffered_id<B>(&self, request: &Request<B>) -> Option<Response<Bytes>> {
        if request.method() != Method::GET {
            return None;
        }
        let path = request.uri().path();
        if let Some(query) = request.uri().query() {
            return self.buffered_many(path, query, request.headers());
        }
        let (mode, response) = if let Some(raw) = path.strip_prefix(LEAF_SEGMENT) {
            (Mode::Segment, legacy::number(self.ids.next_now(&path_segment::decode(raw)?)?))
        } else if let Some(raw) = path.strip_prefix(V1_SEGMENT) {
            let tag = path_segment::decode(raw)?;
            let id = self.ids.next_now(&tag)?;
            (Mode::Segment, ids::single(Some(&tag), id, request.headers()))
        } else if let Some(raw) = path.strip_prefix(LEAF_SNOWFLAKE) {
            path_segment::decode(raw)?;
            (Mode::Snowflake, legacy::number(self.ids.next_snowflake_now()?))
        } else if path == V1_SNOWFLAKE {
            let id = self.ids.next_snowflake_now()?;
            (Mode::Snowflake, ids::single(None, id, request.headers()))
        } else {
            return None;
        };
        self.ids.metrics().request_answered(mode);
        Some(response)
    }

    /// The answer to a request for many ids of a tag, if all of them are buffered.
    fn buffered_many(
        &self,
        path: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        let tag = path_segment::decode(path.strip_prefix(V1_SEGMENT)?)?;
        let wanted = ids::IdQuery::many(query, headers)?;
        // The memory comes first: ids that were taken for an answer without any would be lost.
        let reserved = match wanted.long_bytes_max(Some(&tag), RUNS_OF_SEGMENTS) {
            Some(bytes) => Some(self.answers.reserve(bytes)?),
            None => None,
        };
        let ids = self.ids.held_ids().take_exactly(&tag, wanted.count)?;
        let (head, body) = wanted.answer(Some(&tag), &ids).into_parts();
        let body = self.answers.hold_reserved(reserved, body)?;
        self.ids.metrics().request_answered(Mode::Segment);
        Some(Response::from_parts(head, body))
    }

    async fn ask_router<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let answer = self.router.call(request);
        match tokio::time::timeout(REQUEST_MAX, answer).await {
            Ok(Ok(response)) => response,
            Err(_) => Problem::unavailable("no answer could be had in time").into_response(),
        }
    }

    /// Memory for the answer to a request, if that asks for so many ids that it may be long.
    ///
    /// # Errors
    /// When there is none. The request must be turned away then, before it takes ids; a list that finds no
    /// memory has cost nothing but its making.
    fn reserve<B>(&self, request: &Request<B>) -> Result<Option<HeldBytes>, Problem> {
        let path = request.uri().path();
        let (tag, run_min) = match path.strip_prefix(V1_SEGMENT) {
            Some(tag) => (Some(tag), RUNS_OF_SEGMENTS),
            None if path == V1_SNOWFLAKE => {
                (None, self.ids.snowflake_format().layout().ids_per_ms())
            }
            None => return Ok(None),
        };
        let Ok(wanted) = ids::IdQuery::of(request.uri().query(), request.headers()) else {
            return Ok(None);
        };
        let Some(bytes) = wanted.long_bytes_max(tag, run_min) else { return Ok(None) };
        self.answers.reserve(bytes).map(Some).ok_or_else(Problem::unread_answers)
    }

    /// The response, held against the budget if it is long; or a problem where that has no room.
    async fn hold(&self, reserved: Option<HeldBytes>, response: Response<Body>) -> Response<Body> {
        if response.body().size_hint().lower() <= ORDINARY_ANSWER_BYTES as u64 {
            return response;
        }
        let (head, body) = response.into_parts();
        // A body of known length is there as a whole. That of a backup has none, and comes piece by piece.
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        match self.answers.hold_reserved(reserved, bytes) {
            Some(bytes) => Response::from_parts(head, Body::from(bytes)),
            None => Problem::unread_answers().into_response(),
        }
    }

    async fn routed<B>(self, request: Request<B>) -> DispatchResponse
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let response = match self.reserve(&request) {
            Ok(reserved) => self.hold(reserved, self.ask_router(request).await).await,
            Err(problem) => problem.into_response(),
        };
        self.finish(&method, &path, response).map(Either::Right)
    }

    /// The answer to a request that is not carried out, if it must not be. Never a part of the fast path's
    /// own code, which passes requests on to here.
    #[inline(never)]
    fn refusal<B>(&self, request: &Request<B>, caller: &mut Caller) -> Option<DispatchResponse> {
        let fault = host::fault(request.version(), request.headers());
        let problem = match fault {
            Some(fault) => Problem::invalid_argument(fault),
            None => self.access.refusal(request, caller)?,
        };
        let mut response =
            self.finish(request.method(), request.uri().path(), problem.into_response());
        if let Some(tokens) =
            self.tokens().filter(|_| fault.is_none() && caller.shows_an_unknown_token())
        {
            self.ids.metrics().auth_failed(Protocol::Http);
            tokens.attempt_failed(self.ids.now_ms());
        }
        if fault.is_some() {
            // Whatever stands before the node may read the next request in another way than the node.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(response.map(Either::Right))
    }

    /// Answers a request. `caller` is whom the requests of its connection come from.
    #[inline]
    pub(super) fn call<B>(
        &self,
        caller: &mut Caller,
        mut request: Request<B>,
    ) -> ResponseFuture<DispatchResponse>
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        if let Some(refusal) = self.refusal(&request, caller) {
            return ResponseFuture::Ready(Some(refusal));
        }
        match self.buffered_id(&request) {
            Some(response) => {
                let response = response.map(|body| Either::Left(Full::new(body)));
                ResponseFuture::Ready(Some(response))
            }
            None => {
                if let Some(token) = caller.token() {
                    request.extensions_mut().insert(Sender(Some(Arc::clone(token))));
                }
                ResponseFuture::Routed(Box::pin(self.clone().routed(request)))
            }
        }
    }

    /// Counts an answer, and gives it the headers and the body that it still lacks.
    fn finish(&self, method: &Method, path: &str, mut response: Response<Body>) -> Response<Body> {
        let mode = mode_of(path);
        self.ids.metrics().request_answered(mode);
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            self.ids.metrics().request_failed(mode, problem.code());
            *response.body_mut() = problem.render(&mut response, path).into();
        } else if let Some(FailedWith(code)) = response.extensions().get() {
            self.ids.metrics().request_failed(mode, code);
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if *method == Method::HEAD && mode != Mode::Admin {
            // The length of an answer with an id is not known before the id is.
            response.headers_mut().remove(CONTENT_LENGTH);
            *response.body_mut() = Body::empty();
        }
        response
    }
}

/// A response that is there already, or one that the router prepares.
pub(crate) enum ResponseFuture<T> {
    /// The response, until it was polled for.
    Ready(Option<T>),
    /// The response to come.
    Routed(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T: Unpin> Future for ResponseFuture<T> {
    type Output = Result<T, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            ResponseFuture::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            ResponseFuture::Routed(response) => response.as_mut().poll(context).map(Ok),
        }
    }
}

fn mode_of(path: &str) -> Mode {
    if path.starts_with(LEAF_SEGMENT) || path.starts_with(V1_SEGMENT) {
        Mode::Segment
    } else if path.starts_with(LEAF_SNOWFLAKE) || path == V1_SNOWFLAKE {
        Mode::Snowflake
    } else {
        Mode::Admin
    }
}

#[cfg(test)]
mod tests;
