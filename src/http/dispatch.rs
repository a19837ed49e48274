//! The first and last code that sees a request, unless the fast path answers it.
//!
//! A request with a bad `Host`, or whose sender may not make it, gets no further than here. The dispatch answers
//! requests for ids: for held ids at once, without a future on the heap, for others after a wait. Every other request
//! goes to the router. Both have a deadline. On the way out the dispatch gives problems their bodies, and counts every
//! answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use http_body_util::{Either, Full};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::access::{Access, Sender};
use super::failure_log::FailureLog;
use super::id_answers::{IdAnswers, hold};
use super::id_request::{IdPath, IdRequest};
use super::problem::{FailedWith, Problem};
use super::request_id::RequestId;
use super::router::router;
use super::routes::route;
use super::{body, host, registers, sequences, spelling, tinyid, trace};
use crate::access::{AccessPolicy, Caller, Tokens};
use crate::connection::answer_budget::OriginBudget;
use crate::connection::watchdog::Progress;
use crate::limits::SLOW_REQUEST_MAX;
use crate::metrics::{Burst, Mode, Protocol};
use crate::service::{IdService, Services};

/// The body of a request.
pub(super) trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + Unpin + 'static
{
}

impl<B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + Unpin + 'static> RequestBody
    for B
{
}

/// An answer, whose body is ready or comes from the router.
pub(super) type DispatchResponse = Response<Either<Full<Bytes>, Body>>;

/// Answers requests, one after another on each connection; cheap to clone.
#[derive(Clone)]
pub(crate) struct Dispatch {
    pub(super) id_answers: IdAnswers,
    router: TowerToHyperService<Router>,
    access: Access,
    failures: FailureLog,
    /// Of requests for ids that belong to a trace; the others are too many.
    failures_for_ids: FailureLog,
}

impl Dispatch {
    /// A dispatch over these services, behind these doors.
    pub(crate) fn new(services: Services, doors: AccessPolicy) -> Self {
        let id_answers = IdAnswers::new(&services);
        let router = TowerToHyperService::new(router(services));
        let (failures, failures_for_ids) = Default::default();
        Self { id_answers, router, access: Access::new(doors), failures, failures_for_ids }
    }

    /// The same dispatch for one connection. `address` is that of the other end, if it is known.
    pub(super) fn for_connection(self, address: Option<IpAddr>) -> Self {
        let is_local = address.is_some_and(|address| address.to_canonical().is_loopback());
        Self { access: self.access.from(is_local), id_answers: self.id_answers.at(address), ..self }
    }

    /// The tokens of the node's auth file, if it has one.
    #[inline]
    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.access.tokens()
    }

    /// Notes what the sender of the last request has shown, on a node that requires tokens.
    #[inline]
    pub(super) fn note_sender(&self, caller: &Caller, progress: &Progress) {
        match self.tokens() {
            Some(_) if caller.token().is_some() => progress.prove(),
            Some(_) if caller.is_stranger() => progress.request_of_stranger(),
            _ => {}
        }
    }

    /// The ids that the fast path takes.
    pub(super) fn ids(&self) -> &IdService {
        &self.id_answers.ids
    }

    /// The budget for answers that clients have not read yet, as the client of this connection has it.
    pub(super) fn answers(&self) -> &OriginBudget {
        &self.id_answers.budget
    }

    async fn ask_router(&self, request: Request<impl RequestBody>) -> Response<Body> {
        let answer = self.router.call(request);
        match tokio::time::timeout(SLOW_REQUEST_MAX, answer).await {
            Ok(Ok(response)) => response,
            Err(_) => Problem::too_late().into_response(),
        }
    }

    async fn routed(self, mut head: Parts, body: impl RequestBody) -> DispatchResponse {
        let began = Instant::now();
        let path = spelling::asked_path(&head).to_owned();
        let method = head.method.clone();
        let mode = mode_of(&path);
        let request_id = (mode != Mode::Segment).then(|| RequestId::of(&head.headers)).flatten();
        let pages = (path == "/metrics").then(|| self.answers().of_pages());
        // Ids that may be many reserve memory for their answer before they are taken.
        let holds_itself = matches!(mode, Mode::Segment | Mode::Sequence);
        if holds_itself {
            head.extensions.insert(self.answers().clone());
        }
        if mode == Mode::Segment {
            head.extensions.insert(tinyid::JudgedBy(self.access.shared_tokens()));
        }
        let span = self.span_of(&head);
        let (body, loan) = body::lend(body);
        let request = Request::from_parts(head, body);
        let mut response = self.ask_router(request).instrument(span.clone()).await;
        let is_read = loan.settle().await;
        if !holds_itself {
            response = hold(pages.as_ref().unwrap_or(self.answers()), None, response).await;
        }
        self.ids().metrics().request_took(Protocol::Http, mode, began.elapsed());
        let response = self.finish(mode, &method, &path, (request_id, span), response);
        behind_body(is_read, response).map(Either::Right)
    }

    /// Answers a request for ids that may have to wait, or that asks in a way that gives none.
    pub(super) async fn waited(
        &self,
        request: &IdRequest<String>,
        head: &Parts,
        body: impl RequestBody,
    ) -> Response<Body> {
        let began = Instant::now();
        // Leaf ignores the body. The dispatch still reads it off, because the next request comes behind it.
        let is_read = body::read_off(body).await;
        let response = self.id_answers.waited(request, head).await;
        let (mode, path) = (request.path.mode(), spelling::asked_path(head));
        self.ids().metrics().request_took(Protocol::Http, mode, began.elapsed());
        // Most requests have no line.
        let has_line = response.status().is_server_error();
        let span = if has_line { self.span_of(head) } else { Span::none() };
        behind_body(is_read, self.finish(mode, &head.method, path, (None, span), response))
    }

    /// The refusal of a request, if it must not be carried out. This is never inlined into the fast path's own code,
    /// which passes requests on to here.
    #[inline(never)]
    pub(super) fn refusal(&self, head: &Parts, caller: &mut Caller) -> Option<Response<Body>> {
        let fault = host::fault(head.version, &head.headers);
        let problem = match fault {
            Some(fault) => Problem::invalid_argument(fault),
            None => {
                let demand = route(head.method.as_str(), head.uri.path());
                self.access.refusal(&demand, head, caller)?
            }
        };
        let mode = IdPath::of(head.uri.path()).map_or(Mode::Admin, IdPath::mode);
        let path = spelling::asked_path(head);
        let request_id = (mode == Mode::Admin).then(|| RequestId::of(&head.headers)).flatten();
        let response = problem.into_response();
        let known_by = (request_id, Span::none());
        let mut response = self.finish(mode, &head.method, path, known_by, response);
        if let Some(tokens) =
            self.tokens().filter(|_| fault.is_none() && caller.shows_an_unknown_token())
        {
            self.ids().metrics().auth_failed(Protocol::Http);
            tokens.attempt_failed(self.answers().origin(), self.ids().now_ms());
        }
        if fault.is_some() {
            // A proxy before the node may read the next request differently from the node.
            announce_end(&mut response);
        }
        Some(response)
    }

    /// Answers a request. `caller` is the sender of the connection's requests.
    #[inline]
    pub(super) fn call(
        &self,
        caller: &mut Caller,
        request: Request<impl RequestBody>,
    ) -> ResponseFuture<DispatchResponse> {
        let (mut head, body) = request.into_parts();
        spelling::normalize(&mut head);
        if let Some(refusal) = self.refusal(&head, caller) {
            let refusal = refusal.map(Either::Right);
            if caller.token().is_none() || body.is_end_stream() {
                // A stranger cannot make a node read.
                return ResponseFuture::Ready(Some(behind_body(body.is_end_stream(), refusal)));
            }
            return ResponseFuture::Awaited(Box::pin(async move {
                behind_body(body::read_off(body).await, refusal)
            }));
        }
        if let Some(asked) = IdRequest::read(&head.uri, &head.headers) {
            let takes = asked.path.takes_by(&head.method) && body.is_end_stream();
            let burst = Burst::begin();
            if let Some(response) = takes.then(|| self.id_answers.held(&asked)).flatten() {
                if let Some(burst) = &burst {
                    self.ids().metrics().burst_answered(Protocol::Http, burst);
                }
                let response = response.map(|body| Either::Left(Full::new(body)));
                return ResponseFuture::Ready(Some(response));
            }
            let (dispatch, asked) = (self.clone(), asked.into_owned());
            return ResponseFuture::Awaited(Box::pin(async move {
                dispatch.waited(&asked, &head, body).await.map(Either::Right)
            }));
        }
        if let Some(token) = caller.token() {
            head.extensions.insert(Sender(Some(Arc::clone(token))));
        }
        ResponseFuture::Awaited(Box::pin(self.clone().routed(head, body)))
    }

    fn span_of(&self, head: &Parts) -> Span {
        trace::span(&head.headers, || self.ids().leader_id())
    }

    /// Counts an answer, and adds the headers and the body that it still lacks. The log reports a request with an id or
    /// a span if it failed through the node's fault.
    fn finish(
        &self,
        mode: Mode,
        method: &Method,
        path: &str,
        (request_id, span): (Option<RequestId>, Span),
        mut response: Response<Body>,
    ) -> Response<Body> {
        self.ids().metrics().request_answered(mode);
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            self.ids().metrics().request_failed(mode, problem.code());
            let shown = request_id.as_ref().map(RequestId::as_str);
            *response.body_mut() = problem.render(&mut response, path, shown).into();
            let is_logged = shown.is_some() || !span.is_none();
            if is_logged && response.status().is_server_error() {
                let failures =
                    if shown.is_some() { &self.failures } else { &self.failures_for_ids };
                let now_s = self.ids().now_ms() / 1000;
                span.in_scope(|| failures.note(&problem, method, path, shown, now_s));
            }
        } else if let Some(FailedWith(code)) = response.extensions().get() {
            self.ids().metrics().request_failed(mode, code);
        }
        if let Some(request_id) = request_id {
            request_id.tell(response.headers_mut());
        }
        // The console's files already state how long they are valid.
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().entry(CACHE_CONTROL).or_insert(no_store);
        if *method == Method::HEAD && mode != Mode::Admin {
            // The length of an answer with an id is not known before the id is.
            response.headers_mut().remove(CONTENT_LENGTH);
            *response.body_mut() = Body::empty();
        }
        response
    }
}

/// The answer to a request, once it is known whether the request's body was read. If it was not, hyper ends the
/// connection behind the answer when the body comes later, and the client must know that before its next request.
fn behind_body<B>(is_read: bool, mut response: Response<B>) -> Response<B> {
    if !is_read {
        announce_end(&mut response);
    }
    response
}

/// Has an answer announce that it is the last one of its connection.
pub(super) fn announce_end<B>(response: &mut Response<B>) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

/// The mode that counts the requests of a path of the router.
fn mode_of(path: &str) -> Mode {
    if sequences::is_taken_at(path) {
        Mode::Sequence
    } else if registers::is_taken_at(path) {
        Mode::Register
    } else if tinyid::is_taken_at(path) {
        Mode::Segment
    } else {
        Mode::Admin
    }
}

/// A response that is ready, or one to come.
pub(crate) enum ResponseFuture<T> {
    /// The response, until it is polled for.
    Ready(Option<T>),
    /// The response to come.
    Awaited(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T: Unpin> Future for ResponseFuture<T> {
    type Output = Result<T, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            ResponseFuture::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            ResponseFuture::Awaited(response) => response.as_mut().poll(context).map(Ok),
        }
    }
}

#[cfg(test)]
mod tests;
