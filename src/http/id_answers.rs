//! Answers to requests for ids: at once from what is held, or after a wait.

use std::net::IpAddr;
use std::slice;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::ALLOW;
use axum::http::request::Parts;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use mintleaf_core::shape::Shape;
use mintleaf_core::tag::BizTag;

use super::id_request::{Form, IdDemand, IdPath, IdRequest};
use super::ids::{self, IdQuery};
use super::legacy::{self, Failure};
use super::problem::Problem;
use super::spelling;
use crate::connection::answer_budget::{HeldBytes, OriginBudget};
use crate::limits::{ORDINARY_ANSWER_BYTES, RANGED_IDS_MAX, REQUEST_MAX};
use crate::metrics::Mode;
use crate::service::{ClusterService, Error, IdService, JsonNumbers, Services, TakenIds};

/// Ids of a tag come in as few runs as there are segments to take them from: a handful.
pub(super) const RUNS_OF_SEGMENTS: u64 = RANGED_IDS_MAX;

/// Answers the requests for ids of one connection after another; cheap to clone.
#[derive(Clone)]
pub(super) struct IdAnswers {
    pub(super) ids: Arc<IdService>,
    cluster: Arc<ClusterService>,
    /// The memory of answers that clients have not read yet, as this one has it.
    pub(super) budget: OriginBudget,
    json_numbers: JsonNumbers,
}

impl IdAnswers {
    pub(super) fn new(services: &Services) -> Self {
        let (ids, cluster) = (Arc::clone(&services.ids), Arc::clone(&services.cluster));
        let (budget, json_numbers) = (services.answers.of(None), services.json_numbers);
        Self { ids, cluster, budget, json_numbers }
    }

    /// The same for one connection, whose other end has this address, if it is known.
    pub(super) fn at(self, address: Option<IpAddr>) -> Self {
        Self { budget: self.budget.at(address), ..self }
    }

    /// Whether the answer depends on the id: some ids may be quoted or refused.
    #[inline]
    pub(super) fn guards_numbers(&self, path: IdPath) -> bool {
        self.json_numbers != JsonNumbers::Allow && path.is_leafs()
    }

    /// The answer to a request for ids, if it needs no waiting.
    #[inline]
    pub(super) fn held<T: AsRef<str>>(&self, request: &IdRequest<T>) -> Option<Response<Bytes>> {
        if self.guards_numbers(request.path) {
            return None;
        }
        let (tag, id) = match request.demand() {
            IdDemand::Segments(tag, wanted) => return self.held_many(tag, wanted),
            IdDemand::Segment(tag) => (Some(tag), self.ids.next_now(tag)?),
            IdDemand::Snowflake => (None, self.ids.next_snowflake_now()?),
            IdDemand::Snowflakes(_) | IdDemand::Invalid => return None,
        };
        let response = request.form.answer(tag, None, slice::from_ref(&ids::only(id)))?;
        self.ids.metrics().request_answered(request.path.mode());
        Some(response)
    }

    /// The answer with many ids of a tag, if all of them are held.
    fn held_many(&self, tag: &str, wanted: &IdQuery) -> Option<Response<Bytes>> {
        // The memory comes first: ids that were taken for an answer without any would be lost.
        let reserved = match wanted.long_bytes_max(Some(tag), RUNS_OF_SEGMENTS) {
            Some(bytes) => Some(self.budget.reserve(bytes)?),
            None => None,
        };
        let ids = self.ids.held_ids().take_exactly(tag, wanted.count)?;
        let (head, body) = wanted.answer(Some(tag), None, &ids).ok()?.into_parts();
        let body = self.budget.hold_reserved(reserved, body)?;
        self.ids.metrics().request_answered(Mode::Segment);
        Some(Response::from_parts(head, body))
    }

    /// The answer to a request that may have to wait, or that asks in a way that gives no ids.
    pub(super) async fn waited(&self, request: &IdRequest<String>, head: &Parts) -> Response<Body> {
        if request.path.takes_by(&head.method) || head.method == Method::HEAD {
            let answer = tokio::time::timeout(REQUEST_MAX, self.answer(request, head));
            return answer.await.unwrap_or_else(|_| Problem::too_late().into_response());
        }
        let methods = request.path.methods();
        if request.path.is_leafs() && head.method == Method::OPTIONS {
            return legacy::options(methods);
        }
        ([(ALLOW, methods)], Problem::method_not_allowed()).into_response()
    }

    async fn answer(&self, request: &IdRequest<String>, head: &Parts) -> Response<Body> {
        let is_head = head.method == Method::HEAD;
        if request.path.is_leafs() {
            let answer = self.bare(request, is_head).await.unwrap_or_else(|failure| {
                let path = spelling::asked_path(head);
                failure.answer(&head.headers, path, self.ids.now_ms()).map(Body::from)
            });
            return answer;
        }
        self.listed(request, is_head).await.unwrap_or_else(Problem::into_response)
    }

    /// The one id that a request on Leaf's paths asks for; for HEAD none, and only the head of that answer.
    ///
    /// # Errors
    /// What Leaf says instead.
    async fn bare(
        &self,
        request: &IdRequest<String>,
        is_head: bool,
    ) -> Result<Response<Body>, Failure> {
        let (of_tag, key) = (request.path == IdPath::LeafSegment, request.tag.as_str());
        // Leaf treats a malformed key as one that it does not know.
        if of_tag && key.is_empty() {
            return Err(Failure::of_segment(Error::UnknownTag, key, true));
        }
        let Form::Bare(Some(media_type)) = &request.form else {
            return Err(Failure::not_acceptable());
        };
        let taken = self.take(of_tag.then_some(key), 1, is_head).await;
        let TakenIds { numbers, text } = taken.map_err(|error| match of_tag {
            true => Failure::of_segment(error, key, self.cluster.view().cluster_id.is_some()),
            false => Failure::of_snowflake(error),
        })?;
        let answer = legacy::answer(media_type.clone(), text.as_deref(), &numbers);
        Ok(match self.json_numbers {
            JsonNumbers::Quote if legacy::may_be_rounded(answer.body()) => {
                answer.map(|id| Body::from([b"\"", &id[..], b"\""].concat()))
            }
            JsonNumbers::Refuse if legacy::may_be_rounded(answer.body()) => {
                Problem::json_number_too_large().into_response()
            }
            _ => answer.map(Body::from),
        })
    }

    /// Exactly the ids that a request of version 1 asks for; for HEAD none, and only the head of that answer.
    ///
    /// # Errors
    /// What is wrong with the request, or why there are no ids.
    async fn listed(
        &self,
        request: &IdRequest<String>,
        is_head: bool,
    ) -> Result<Response<Body>, Problem> {
        let tag = request.biz_tag()?;
        let tag = tag.as_ref().map(BizTag::as_str);
        let wanted = request.listed()?;
        let shape = tag.and_then(|tag| self.ids.shape(tag));
        if let Some(shape) = &shape {
            wanted.check(shape.has_consecutive_ids())?;
        }
        let reserved = self.reserve(tag, wanted, shape.as_deref())?;
        let taken = self.take(tag, wanted.count, is_head).await;
        let TakenIds { numbers, text } = taken.map_err(|error| match tag {
            Some(tag) => Problem::of_tag(error, tag),
            None => error.into(),
        })?;
        let answer = wanted.answer(tag, text.as_deref(), &numbers)?;
        Ok(hold(&self.budget, reserved, answer.map(Body::from)).await)
    }

    /// Takes ids of a tag, or snowflake ids; for HEAD none, but checks whether it could.
    async fn take(&self, tag: Option<&str>, count: u64, is_head: bool) -> Result<TakenIds, Error> {
        let numbers = match (tag, is_head) {
            (Some(tag), false) => return self.ids.take(tag, count).await,
            (None, false) => self.ids.take_snowflakes(count).await?,
            (Some(tag), true) => self.ids.could_take(tag, count).await.map(|()| Vec::new())?,
            (None, true) => self.ids.could_take_snowflakes().await.map(|()| Vec::new())?,
        };
        Ok(TakenIds::plain(numbers))
    }

    /// Memory for an answer, if that may be long.
    ///
    /// # Errors
    /// When there is no memory. The caller must then turn the request away before it takes ids.
    fn reserve(
        &self,
        tag: Option<&str>,
        wanted: &IdQuery,
        shape: Option<&Shape>,
    ) -> Result<Option<HeldBytes>, Problem> {
        let run_min = match tag {
            Some(_) => RUNS_OF_SEGMENTS,
            None => self.ids.snowflake_format().layout().ids_per_ms(),
        };
        let long = match shape {
            Some(shape) => wanted.long_bytes_max_shaped(tag, shape),
            None => wanted.long_bytes_max(tag, run_min),
        };
        let Some(bytes) = long else { return Ok(None) };
        self.budget.reserve(bytes).map(Some).ok_or_else(Problem::unread_answers)
    }
}

/// The response, held against the budget if it is long; or a problem if the budget has no room. A list that gets no
/// memory has cost nothing except the work of making it.
pub(super) async fn hold(
    budget: &OriginBudget,
    reserved: Option<HeldBytes>,
    response: Response<Body>,
) -> Response<Body> {
    if response.body().size_hint().lower() <= ORDINARY_ANSWER_BYTES as u64 {
        return response;
    }
    let (head, body) = response.into_parts();
    // A body of known length is there as a whole. That of a backup has none, and comes piece by piece.
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    match budget.hold_reserved(reserved, bytes) {
        Some(bytes) => Response::from_parts(head, Body::from(bytes)),
        None => Problem::unread_answers().into_response(),
    }
}
