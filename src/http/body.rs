//! JSON bodies: bounded in size and time, and read field by field, strictly.
//!
//! An unknown, repeated or mistyped field is an error that names it. Integers that may pass 2^53 are taken as decimal
//! strings as well, because JavaScript cannot write them otherwise. An integer is what JSON Schema, and so the
//! description of the interface, calls one: 590.0 is an integer.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::decimal;
use super::problem::Problem;
use super::query::{Query, out_of_bounds, within};
use crate::limits::{BODY_BYTES_MAX, BODY_MAX, FIELDS_MAX};

/// The fields of one JSON object that are not read yet.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Value)>);

impl<S: Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        // A request with a body has its parameters in the body.
        Query::parse(head.uri.query())?.finish()?;
        if !is_json(&head.headers) {
            return Err(Problem::not_json());
        }
        Self::parse(&bounded(&head.headers, body).await?)
    }
}

/// The fields of a request that may come without a body: then it has none of them.
#[derive(Debug)]
pub(super) struct OptionalFields(pub(super) Fields);

impl<S: Sync> FromRequest<S> for OptionalFields {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let bytes = bounded(&head.headers, body).await?;
        if bytes.is_empty() {
            return Ok(Self(Fields(Vec::new())));
        }
        if !is_json(&head.headers) {
            return Err(Problem::not_json());
        }
        Fields::parse(&bytes).map(Self)
    }
}

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        serde_json::from_slice(bytes).map_err(|error| match bytes.trim_ascii_start().first() {
            Some(b'{') => Problem::invalid("body", format_args!("is not valid: {error}")),
            Some(_) => Problem::invalid("body", "must be a JSON object"),
            None => Problem::invalid("body", "is empty, and must be a JSON object"),
        })
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(given, _)| given == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// The field `name`, if it was given, as `read` reads it; `must` says what it must be.
    fn read<T>(
        &mut self,
        name: &str,
        must: impl Display,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| Problem::invalid(name, must))
    }

    /// The string `name`, if it was given.
    ///
    /// # Errors
    /// `invalid_argument` when it is not a string.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.read(name, "must be a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// The truth value `name`, if it was given.
    ///
    /// # Errors
    /// `invalid_argument` when it is neither true nor false.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        self.read(name, "must be true or false", |value| value.as_bool())
    }

    /// The integer `name`, if it was given: a JSON number whose fraction, if it has one, is zero.
    ///
    /// # Errors
    /// `invalid_argument` when it is anything else or outside `bounds`.
    pub(super) fn integer<T: TryFrom<u64> + PartialOrd + Display>(
        &mut self,
        name: &str,
        bounds: RangeInclusive<T>,
    ) -> Result<Option<T>, Problem> {
        self.read(name, out_of_bounds(&bounds), |value| within(whole(&value), &bounds))
    }

    /// The integer `name`, if it was given: as for [`Fields::integer`], or null, which is `Some(None)`.
    ///
    /// # Errors
    /// `invalid_argument` when it is anything else or outside `bounds`.
    pub(super) fn nullable_integer<T: TryFrom<u64> + PartialOrd + Display>(
        &mut self,
        name: &str,
        bounds: RangeInclusive<T>,
    ) -> Result<Option<Option<T>>, Problem> {
        let must = fmt::from_fn(|out| write!(out, "{}, or null", out_of_bounds(&bounds)));
        self.read(name, must, |value| match value {
            Value::Null => Some(None),
            value => within(whole(&value), &bounds).map(Some),
        })
    }

    /// The integer `name`, if it was given: as for [`Fields::integer`], or a string of decimal digits.
    ///
    /// # Errors
    /// `invalid_argument` when it is anything else or outside `bounds`.
    pub(super) fn big_integer(
        &mut self,
        name: &str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Problem> {
        self.read(name, out_of_bounds(&bounds), |value| match value {
            Value::String(text) => within(decimal::parse(&text), &bounds),
            value => within(whole(&value), &bounds),
        })
    }

    /// The list of integers `name`, if it was given, in any order.
    ///
    /// # Errors
    /// `invalid_argument` when it is anything else, or one of them is outside `bounds`.
    pub(super) fn integers<T: TryFrom<u64> + PartialOrd + Display>(
        &mut self,
        name: &str,
        bounds: RangeInclusive<T>,
    ) -> Result<Option<Vec<T>>, Problem> {
        let list = self.read(name, "must be a list of integers", |value| match value {
            Value::Array(list) => Some(list),
            _ => None,
        })?;
        let Some(list) = list else { return Ok(None) };
        let read = list.iter().map(|one| within(whole(one), &bounds)).collect::<Option<_>>();
        read.map(Some).ok_or_else(|| Problem::invalid(name, out_of_bounds(&bounds)))
    }

    /// The list of objects `name`, if it was given.
    ///
    /// # Errors
    /// `invalid_argument` when it is anything else, is empty, or has more than `most` objects.
    pub(super) fn objects(
        &mut self,
        name: &str,
        most: usize,
    ) -> Result<Option<Vec<Self>>, Problem> {
        let object = |value| match value {
            Value::Object(fields) if fields.len() <= FIELDS_MAX => {
                Some(Self(fields.into_iter().collect()))
            }
            _ => None,
        };
        let must = format_args!("must be a list of 1 to {most} objects");
        self.read(name, must, |value| match value {
            Value::Array(list) if (1..=most).contains(&list.len()) => {
                list.into_iter().map(object).collect()
            }
            _ => None,
        })
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `invalid_argument` naming a field that was not read.
    pub(super) fn finish(self) -> Result<(), Problem> {
        match self.0.first() {
            Some((name, _)) => Err(Problem::invalid(name, "is not a field of this request")),
            None => Ok(()),
        }
    }
}

/// The value of a field that must be there.
///
/// # Errors
/// `invalid_argument` when it is not.
pub(super) fn required<T>(name: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::invalid(name, "is required"))
}

/// Where numbers with a fraction or an exponent stop being read exactly: 2^53. From there on an integer must have plain
/// digits: if a mark were read one too low, an id could be handed out twice.
const EXACT_END: f64 = 9_007_199_254_740_992.0;

/// The integer that a JSON value is.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && (0.0..EXACT_END).contains(&number)).then_some(number as u64)
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json"
        || essence.starts_with("application/") && essence.ends_with("+json")
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A whole body, unless its head says that it is too long.
async fn bounded(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    if declared_length(headers).is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(Problem::too_large(BODY_BYTES_MAX));
    }
    collected(body).await
}

/// A whole body, within its bounds.
///
/// # Errors
/// When it is too long, comes too slowly, or breaks off.
pub(super) async fn collected(body: Body) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(BODY_MAX, collect(body));
    read.await.map_err(|_| Problem::stalled_body())?
}

/// Reads and discards a body that is not needed. A body that is longer or slower than allowed is left where it is; if it
/// says so, none of it is asked for: its sender may wait for that (RFC 9110, 10.1.1). Returns whether all of it was read.
pub(super) async fn read_off<B>(body: B) -> bool
where
    B: HttpBody<Error: Into<axum::BoxError>>,
{
    if body.is_end_stream() {
        return true;
    }
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return false;
    }
    let mut body = pin!(Limited::new(body, BODY_BYTES_MAX));
    let to_its_end = async {
        loop {
            match body.frame().await {
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
                None => return true,
            }
        }
    };
    tokio::time::timeout(BODY_MAX, to_its_end).await.unwrap_or(false)
}

/// Lends a body to the code that answers its request. A body that this code has not read to its end comes back.
pub(super) fn lend<B>(body: B) -> (LentBody<B>, Loan<B>) {
    let rest = Arc::default();
    (LentBody { body: Some(body), is_begun: false, rest: Arc::clone(&rest) }, Loan(rest))
}

/// A body that was lent.
pub(super) struct LentBody<B> {
    /// `None` once it was read to its end.
    body: Option<B>,
    is_begun: bool,
    rest: Arc<Mutex<Option<Rest<B>>>>,
}

/// A body that was not read to its end.
struct Rest<B> {
    body: B,
    /// Whether some of it was read. Then it is too long or too slow, or it broke off.
    is_begun: bool,
}

/// What becomes of a body that was lent.
pub(super) struct Loan<B>(Arc<Mutex<Option<Rest<B>>>>);

impl<B: HttpBody<Error: Into<axum::BoxError>>> Loan<B> {
    /// Reads the body off if none of it was read. Returns whether all of it was read.
    pub(super) async fn settle(self) -> bool {
        let rest = self.0.lock().take();
        match rest {
            None => true,
            Some(Rest { is_begun: true, .. }) => false,
            Some(Rest { body, is_begun: false }) => read_off(body).await,
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for LentBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let lent = self.get_mut();
        lent.is_begun = true;
        let Some(body) = &mut lent.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) {
            lent.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl<B> Drop for LentBody<B> {
    fn drop(&mut self) {
        let is_begun = self.is_begun;
        *self.rest.lock() = self.body.take().map(|body| Rest { body, is_begun });
    }
}

async fn collect(body: Body) -> Result<Bytes, Problem> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(BODY_BYTES_MAX)),
        Err(error) => Err(Problem::invalid("body", format_args!("broke off: {error}"))),
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        // The bound on fields keeps the search for repeats short.
        let mut fields = Vec::<(String, Value)>::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.iter().any(|(earlier, _)| *earlier == name) {
                return Err(de::Error::custom(format_args!("{name} is given more than once")));
            }
            if fields.len() == FIELDS_MAX {
                return Err(de::Error::custom("too many fields"));
            }
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        Fields::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn fields_are_read_by_name_and_type() {
        let mut body =
            fields(r#"{"tag":"orders","step":5,"start":"9223372036854775807","on":true}"#);
        assert_eq!(body.text("tag").unwrap().as_deref(), Some("orders"));
        assert_eq!(body.integer("step", 1..=9).unwrap(), Some(5));
        assert_eq!(body.big_integer("start", 1..=u64::MAX).unwrap(), Some(i64::MAX as u64));
        assert_eq!(body.flag("on").unwrap(), Some(true));
        assert_eq!(body.text("description").unwrap(), None);
        body.finish().unwrap();
    }

    #[test]
    fn lists_have_objects_and_a_bound() {
        let read = |json: &str| fields(json).objects("tags", 2);
        let tags = read(r#"{"tags":[{"tag":"a"},{"tag":"b"}]}"#).unwrap().unwrap();
        let names = tags.into_iter().map(|mut tag| tag.text("tag").unwrap().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read("{}").unwrap().map(|tags| tags.len()), None);
        for json in
            [r#"{"tags":[]}"#, r#"{"tags":[{},{},{}]}"#, r#"{"tags":{}}"#, r#"{"tags":[1]}"#]
        {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn lists_of_integers_have_bounds_and_may_be_empty() {
        let read = |json: &str| fields(json).integers("taken", 0..=9);
        assert_eq!(read(r#"{"taken":[7,3,3.0]}"#).unwrap(), Some(vec![7, 3, 3]));
        assert_eq!(read(r#"{"taken":[]}"#).unwrap(), Some(Vec::new()));
        assert_eq!(read("{}").unwrap(), None);
        for json in
            [r#"{"taken":[10]}"#, r#"{"taken":["1"]}"#, r#"{"taken":3}"#, r#"{"taken":null}"#]
        {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn big_integers_may_be_numbers() {
        let read = fields(r#"{"start":9223372036854775807}"#).big_integer("start", 1..=u64::MAX);
        assert_eq!(read.unwrap(), Some(i64::MAX as u64));
    }

    #[test]
    fn integers_are_what_json_schema_says_and_never_rounded() {
        let read = |number: &str| {
            let mut body = fields(&format!(r#"{{"start":{number}}}"#));
            body.big_integer("start", 0..=u64::MAX).ok().flatten()
        };
        assert_eq!(read("590.0"), Some(590));
        assert_eq!(read("59e1"), Some(590));
        assert_eq!(read("9007199254740991.0"), Some((1 << 53) - 1));
        assert_eq!(read("9007199254740993"), Some((1 << 53) + 1));
        // As a float this is one less.
        assert_eq!(read("9007199254740993.0"), None);
        for wrong in ["590.5", "-1.0", "1e300", "18446744073709551616"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn mistyped_fields_are_named_with_their_bound() {
        for value in ["0", "10", "-1", "1.5", "1e1", "1e-1", "\"5\"", "null", "[]", "true"] {
            let refused = fields(&format!("{{\"step\":{value}}}")).integer("step", 1..=9);
            let expected = Problem::invalid("step", "must be an integer from 1 to 9");
            assert_eq!(refused.unwrap_err(), expected, "{value}");
        }
        assert!(fields(r#"{"tag":7}"#).text("tag").is_err());
        assert!(fields(r#"{"voter":"yes"}"#).flag("voter").is_err());
        assert!(fields(r#"{"start":"+5"}"#).big_integer("start", 1..=9).is_err());
    }

    #[test]
    fn unknown_fields_are_named() {
        let refused = fields(r#"{"stpe":5}"#).finish().unwrap_err();
        assert_eq!(refused, Problem::invalid("stpe", "is not a field of this request"));
    }

    #[test]
    fn anything_but_one_object_with_unique_fields_is_refused() {
        let refused = |body: &str| Fields::parse(body.as_bytes()).err();
        let not_an_object = Some(Problem::invalid("body", "must be a JSON object"));
        for body in ["{", "{}{}", r#"{"a":1,"a":2}"#] {
            assert!(refused(body).is_some() && refused(body) != not_an_object, "{body}");
        }
        for body in ["[]", "7", "\u{feff}{}"] {
            assert_eq!(refused(body), not_an_object, "{body}");
        }
        let empty = Problem::invalid("body", "is empty, and must be a JSON object");
        assert_eq!(refused(" "), Some(empty));
    }

    #[test]
    fn content_type_must_be_json() {
        let says = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        assert!(says("application/json"));
        assert!(says("Application/JSON; charset=utf-8"));
        assert!(says("application/merge-patch+json"));
        assert!(!says("text/json"));
        assert!(!says("application/x-www-form-urlencoded"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
