//! tinyid's paths: ids and segments for programs that were written for it. They look at the body alone, so every answer
//! has the status 200; one that failed is empty, or has another code.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use mintleaf_core::limits::DOUBLE_EXACT_MAX;
use serde::Serialize;
use serde_json::Value;

use super::access::authorization;
use super::decimal;
use super::id_answers::hold;
use super::parameters::Parameters;
use super::problem::{FailedWith, Problem};
use crate::access::{Caller, Denial, Needs, Tokens};
use crate::connection::answer_budget::OriginBudget;
use crate::limits::{LISTED_IDS_MAX, ORDINARY_ANSWER_BYTES, RANGED_IDS_MAX};
use crate::metrics::Protocol;
use crate::service::{Error, IdService, JsonNumbers, NOT_CONSECUTIVE, Services, TakenIds};

/// What all of tinyid's paths begin with.
const PATHS: &str = "/tinyid/id/";
/// Bytes of the longest id in a list, with what surrounds it.
const ID_BYTES_MAX: usize = 19 + 3;

const OK: u16 = 200;
const TOKEN_ERROR: u16 = 5;
const SYSTEM_ERROR: u16 = 6;

/// Whether a path is one of tinyid's.
pub(super) fn is_taken_at(path: &str) -> bool {
    path.starts_with(PATHS)
}

/// What the dispatch hands over with a request: the tokens that it is judged by, where the node has an auth file.
#[derive(Clone)]
pub(super) struct JudgedBy(pub(super) Option<Arc<Tokens>>);

/// What is asked for, as the path says.
#[derive(Clone, Copy)]
struct Call {
    /// A segment rather than ids.
    is_segment: bool,
    /// Text rather than JSON.
    is_simple: bool,
}

/// What went wrong.
#[derive(Debug)]
struct Failure {
    code: u16,
    message: String,
    /// The code that counts it.
    counted: &'static str,
}

/// An answer in JSON.
#[derive(Serialize)]
struct Answer<'a, T> {
    data: Option<T>,
    code: u16,
    message: &'a str,
}

/// Ids for a client to hand out: those above `current_id` up to `max_id`. It asks for more from `loading_id` on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Segment {
    max_id: Value,
    loading_id: Value,
    current_id: Value,
    delta: u8,
    remainder: u8,
}

/// The handler of each of tinyid's four calls.
pub(super) fn methods() -> MethodRouter<Services> {
    get(answer).post(answer).head(head)
}

/// Answers one of tinyid's four calls.
async fn answer(
    State(services): State<Services>,
    Extension(JudgedBy(tokens)): Extension<JudgedBy>,
    Extension(budget): Extension<OriginBudget>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let call = Call::at(head.uri.path());
    let asked = Asked { services: &services, tokens: tokens.as_deref(), budget: &budget, call };
    asked.outcome(&head, body).await.unwrap_or_else(|failure| call.failed(&failure))
}

/// The head of an answer, which is the same for all; it takes nothing.
async fn head(head: Parts) -> Response {
    Call::at(head.uri.path()).response(Vec::new())
}

/// A call with what it is carried out by.
struct Asked<'a> {
    services: &'a Services,
    tokens: Option<&'a Tokens>,
    budget: &'a OriginBudget,
    call: Call,
}

impl Asked<'_> {
    async fn outcome(&self, head: &Parts, body: Body) -> Result<Response, Failure> {
        let parameters = Parameters::read(head, body).await?;
        let tag = parameters.text("bizType").unwrap_or_default();
        self.judge(head, &parameters, &tag)?;
        if tag.is_empty() {
            return Err(Problem::invalid("bizType", "is missing").into());
        }
        if let Some(shape) = self.ids().shape(&tag) {
            let is_formatted = shape.format.is_some();
            self.call.check(is_formatted, shape.has_consecutive_ids() && shape.period.is_none())?;
        }
        let count = if self.call.is_segment { 1 } else { count(&parameters)? };
        let bytes = count as usize * ID_BYTES_MAX;
        let reserved = match bytes > ORDINARY_ANSWER_BYTES {
            true => Some(self.budget.reserve(bytes).ok_or_else(Problem::unread_answers)?),
            false => None,
        };
        let taken = match self.call.is_segment {
            true => self.ids().take_step(&tag, RANGED_IDS_MAX).await,
            false => self.ids().take(&tag, count).await,
        };
        let body = self.body(&taken.map_err(|error: Error| Problem::of_tag(error, &tag))?)?;
        Ok(hold(self.budget, reserved, self.call.response(body)).await)
    }

    fn ids(&self) -> &IdService {
        &self.services.ids
    }

    /// Checks whether the sender may take ids of a tag: by its `Authorization`, or else by its parameter `token`.
    fn judge(&self, head: &Parts, parameters: &Parameters<'_>, tag: &str) -> Result<(), Failure> {
        let Some(tokens) = self.tokens else { return Ok(()) };
        let mut caller = Caller::default();
        match authorization(&head.headers) {
            Some(shown) => caller.shows(tokens, Some(shown)),
            None => caller.shows(tokens, parameters.bearer().as_deref()),
        }
        if caller.shows_an_unknown_token() {
            self.ids().metrics().auth_failed(Protocol::Http);
            tokens.attempt_failed(self.budget.origin(), self.ids().now_ms());
        }
        let verdict = caller.check(Needs::Issue).and_then(|()| caller.check_tag(tag.as_bytes()));
        verdict.map_err(Failure::of_token)
    }

    /// The body with these ids.
    fn body(&self, taken: &TakenIds) -> Result<Vec<u8>, Failure> {
        let text = taken.text.as_deref();
        if let Some(text) = text {
            let is_lasting = text.has_consecutive_ids() && text.period().is_none();
            self.call.check(text.is_formatted(), is_lasting)?;
        }
        let numbers = taken.numbers.iter().cloned().flatten();
        let ids = numbers.map(|number| text.map_or(number, |text| text.id(number)));
        if !self.call.is_segment {
            return match self.call.is_simple {
                true => Ok(joined(ids)),
                false => ids.map(|id| self.number(id)).collect::<Result<Vec<_>, _>>().map(json),
            };
        }
        let [range] = &taken.numbers[..] else {
            return Err(Problem::unavailable("the ids that came have gaps").into());
        };
        let (current, last) = (range.start - 1, range.end - 1);
        let loading = current + (last - current) / 5;
        if self.call.is_simple {
            return Ok(joined([current, loading, last, 1, 0].into_iter()));
        }
        let [max_id, loading_id, current_id] = [last, loading, current].map(|id| self.number(id));
        let (max_id, loading_id, current_id) = (max_id?, loading_id?, current_id?);
        Ok(json(Segment { max_id, loading_id, current_id, delta: 1, remainder: 0 }))
    }

    /// A number in JSON; one that readers would round, because a double does not hold it, as the node gives those.
    fn number(&self, id: u64) -> Result<Value, Failure> {
        match self.services.json_numbers {
            JsonNumbers::Quote if id > DOUBLE_EXACT_MAX => Ok(id.to_string().into()),
            JsonNumbers::Refuse if id > DOUBLE_EXACT_MAX => {
                Err(Problem::json_number_too_large().into())
            }
            _ => Ok(id.into()),
        }
    }
}

impl Call {
    fn at(path: &str) -> Self {
        let name = path.strip_prefix(PATHS).unwrap_or_default();
        Self { is_segment: name.starts_with("nextSegment"), is_simple: name.ends_with("Simple") }
    }

    /// Checks whether ids of a tag can be given: they must be numbers; and those of a segment must follow each other
    /// and be good for as long as the client keeps them, which ids of a period are not.
    fn check(self, is_formatted: bool, is_lasting_range: bool) -> Result<(), Failure> {
        let fault = match (is_formatted, is_lasting_range) {
            (true, _) => "tag has ids that are texts",
            (_, false) if self.is_segment => NOT_CONSECUTIVE,
            _ => return Ok(()),
        };
        Err(Problem::invalid_argument(fault).into())
    }

    fn response(self, body: Vec<u8>) -> Response {
        let media_type = match self.is_simple {
            true => "text/plain;charset=UTF-8",
            false => "application/json;charset=UTF-8",
        };
        ([(CONTENT_TYPE, media_type)], Body::from(body)).into_response()
    }

    fn failed(self, failure: &Failure) -> Response {
        let Failure { code, ref message, counted } = *failure;
        let body = match self.is_simple {
            true => Vec::new(),
            // Strings and numbers always serialize.
            false => {
                let answer = Answer { data: None::<()>, code, message };
                serde_json::to_vec(&answer).unwrap_or_default()
            }
        };
        let mut response = self.response(body);
        response.extensions_mut().insert(FailedWith(counted));
        response
    }
}

impl Failure {
    fn of_token(denial: Denial) -> Self {
        let counted = match denial {
            Denial::NoToken | Denial::NotBearer | Denial::UnknownToken => "unauthenticated",
            Denial::Role { .. } | Denial::Tags => "forbidden",
        };
        Self { code: TOKEN_ERROR, message: "token is error".to_owned(), counted }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let counted = problem.code();
        Self { code: SYSTEM_ERROR, message: problem.into_detail(), counted }
    }
}

/// How many ids a request asks for: 1 where it does not say, and no more than a list has.
fn count(parameters: &Parameters<'_>) -> Result<u64, Failure> {
    let Some(asked) = parameters.text("batchSize").filter(|asked| !asked.is_empty()) else {
        return Ok(1);
    };
    match decimal::parse(&asked) {
        Some(count @ 1..) => Ok(count.min(LISTED_IDS_MAX)),
        _ => Err(Problem::invalid("batchSize", "must be an integer of 1 or more").into()),
    }
}

/// Numbers as text.
fn joined(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let (mut out, mut digits) = (Vec::new(), itoa::Buffer::new());
    for number in numbers {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(digits.format(number).as_bytes());
    }
    out
}

fn json<T: Serialize>(data: T) -> Vec<u8> {
    // Strings and numbers always serialize.
    serde_json::to_vec(&Answer { data: Some(data), code: OK, message: "" }).unwrap_or_default()
}
