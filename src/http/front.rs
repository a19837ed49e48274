//! The front door: the first and last code that sees a request, but for those that the lane answers.
//!
//! A request for ids of a tag that are at hand, or for one snowflake id, is answered here, at once, on
//! whatever connection it comes: no router, no future on the heap, no clock but a snowflake's, no log
//! line. It is a short cut and nothing more, because the [`Router`] answers the same request in the same
//! words. Every other request goes there under a deadline; on the way out problems get their bodies and
//! everything is counted.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use http_body_util::{Either, Full};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::problem::{FailedWith, Problem};
use super::{LEAF_SEGMENT, LEAF_SNOWFLAKE, V1_SEGMENT, V1_SNOWFLAKE, ids, key, legacy};
use crate::listener::REQUEST_MS_MAX;
use crate::metrics::Mode;
use crate::service::IdService;

/// Serves one connection after another; cheap to clone.
#[derive(Clone)]
pub(crate) struct FrontDoor {
    service: Arc<IdService>,
    router: TowerToHyperService<Router>,
}

impl FrontDoor {
    pub(crate) fn new(service: Arc<IdService>) -> Self {
        let router = TowerToHyperService::new(super::router(Arc::clone(&service)));
        Self { service, router }
    }

    pub(crate) fn service(&self) -> &Arc<IdService> {
        &self.service
    }

    /// The answer to a request for one id, if it needs no waiting.
    #[inline]
    fn id_at_hand<B>(&self, request: &Request<B>) -> Option<Response<Bytes>> {
        if request.method() != Method::GET {
            return None;
        }
        let path = request.uri().path();
        if let Some(query) = request.uri().query() {
            return self.batch_at_hand(path, query, request.headers());
        }
        let (mode, response) = if let Some(raw) = path.strip_prefix(LEAF_SEGMENT) {
            (Mode::Segment, legacy::number(self.service.next_now(&key::decode(raw)?)?))
        } else if let Some(raw) = path.strip_prefix(V1_SEGMENT) {
            let tag = key::decode(raw)?;
            let id = self.service.next_now(&tag)?;
            (Mode::Segment, ids::single(Some(&tag), id, request.headers()))
        } else if let Some(raw) = path.strip_prefix(LEAF_SNOWFLAKE) {
            key::decode(raw)?;
            (Mode::Snowflake, legacy::number(self.service.next_snowflake_now()?))
        } else if path == V1_SNOWFLAKE {
            let id = self.service.next_snowflake_now()?;
            (Mode::Snowflake, ids::single(None, id, request.headers()))
        } else {
            return None;
        };
        self.service.metrics().request_answered(mode);
        Some(response)
    }

    /// The answer to a request for many ids of a tag, if all of them are at hand.
    fn batch_at_hand(
        &self,
        path: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        let tag = key::decode(path.strip_prefix(V1_SEGMENT)?)?;
        let wanted = ids::Wanted::many(query, headers)?;
        let ids = self.service.taker().take_exactly(&tag, wanted.count)?;
        self.service.metrics().request_answered(Mode::Segment);
        Some(wanted.answer(Some(&tag), &ids))
    }

    async fn routed<B>(self, request: Request<B>) -> Response<Either<Full<Bytes>, Body>>
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        let path = request.uri().path().to_owned();
        let answer = self.router.call(request);
        let deadline = Duration::from_millis(REQUEST_MS_MAX);
        let mut response = match tokio::time::timeout(deadline, answer).await {
            Ok(Ok(response)) => response,
            Err(_) => Problem::unavailable("no answer could be had in time").into_response(),
        };
        let mode = mode_of(&path);
        self.service.metrics().request_answered(mode);
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            self.service.metrics().request_failed(mode, problem.code());
            *response.body_mut() = problem.render(&mut response, &path).into();
        } else if let Some(FailedWith(code)) = response.extensions().get() {
            self.service.metrics().request_failed(mode, code);
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.map(Either::Right)
    }
}

impl<B> Service<Request<B>> for FrontDoor
where
    B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
{
    type Response = Response<Either<Full<Bytes>, Body>>;
    type Error = Infallible;
    type Future = Answer<Self::Response>;

    #[inline]
    fn call(&self, request: Request<B>) -> Self::Future {
        match self.id_at_hand(&request) {
            Some(response) => {
                Answer::Ready(Some(response.map(|body| Either::Left(Full::new(body)))))
            }
            None => Answer::Routed(Box::pin(self.clone().routed(request))),
        }
    }
}

/// An answer that is there already, or one that is awaited.
pub(crate) enum Answer<T> {
    Ready(Option<T>),
    Routed(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T: Unpin> Future for Answer<T> {
    type Output = Result<T, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Answer::Ready(answer) => match answer.take() {
                Some(answer) => Poll::Ready(Ok(answer)),
                None => Poll::Pending,
            },
            Answer::Routed(answer) => answer.as_mut().poll(context).map(Ok),
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
