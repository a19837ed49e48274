//! `/decodeSnowflakeId`: what a snowflake id says, in Leaf's words.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use jiff::Timestamp;
use mintleaf_core::snowflake::IdParts;
use serde::Serialize;

use super::failure::{Failure, json_type};
use crate::http::body;
use crate::http::query::form_unescape;
use crate::http::spelling::asked_path;
use crate::service::IdService;

const PARAMETER: &str = "snowflakeId";

/// The fields of an id with Leaf's names.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Decoded {
    #[serde(rename_all = "camelCase")]
    Parts { timestamp: String, worker_id: String, sequence_id: String },
    #[serde(rename_all = "camelCase")]
    NotAnId { error_msg: &'static str },
}

/// Takes an id apart as Leaf does: strings throughout, and 200 for text that is not a number.
pub(in crate::http) async fn decode(
    State(service): State<Arc<IdService>>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let given = match given(head.uri.query()) {
        None if is_form(&head) => match body::collected(body).await {
            Ok(form) => given(std::str::from_utf8(&form).ok()),
            Err(problem) => return problem.into_response(),
        },
        given => given,
    };
    let answered = match (given, json_type(&head.headers)) {
        (None, _) => Err(Failure::missing_parameter(PARAMETER)),
        (_, None) => Err(Failure::not_acceptable()),
        (Some(text), Some(media_type)) => {
            let id = text.parse::<i64>().ok().and_then(|id| u64::try_from(id).ok());
            let parts = id.and_then(|id| service.snowflake_format().decode(id));
            let not_an_id = Decoded::NotAnId { error_msg: "snowflake Id反解析发生异常!" };
            Ok((parts.map_or(not_an_id, leaf_parts), media_type))
        }
    };
    let response = match answered {
        Ok((decoded, media_type)) => {
            // Strings always serialize.
            let body = Bytes::from(serde_json::to_vec(&decoded).unwrap_or_default());
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
        Err(failure) => failure.answer(&head.headers, asked_path(&head), service.now_ms()),
    };
    response.map(Body::from)
}

/// Whether the body holds parameters too, by a method that lets it.
fn is_form(head: &Parts) -> bool {
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    name.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        && [Method::POST, Method::PUT, Method::PATCH].contains(&head.method)
}

/// The parameter as servlets read it: repeated values are joined, and malformed ones are ignored.
fn given(query: Option<&str>) -> Option<String> {
    let pairs = query.unwrap_or_default().split('&');
    let values: Vec<_> = pairs
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_unescape(name)? == PARAMETER).then(|| form_unescape(value))?
        })
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn leaf_parts(parts: IdParts) -> Decoded {
    let time = Timestamp::from_millisecond(i64::try_from(parts.time_ms).unwrap_or(i64::MAX));
    let time = time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M:%S%.3f");
    Decoded::Parts {
        timestamp: format!("{}({time})", parts.time_ms),
        worker_id: parts.worker_id.to_string(),
        sequence_id: parts.sequence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_read_as_servlets_read_it() {
        for (query, expected) in [
            ("snowflakeId=5", Some("5")),
            ("x=1&snowflakeId=%35&y", Some("5")),
            ("snowflakeId", Some("")),
            ("snowflakeId=1&snowflakeId=2", Some("1,2")),
            ("snowflakeId=%zz", None),
            ("snowflakeid=5", None),
            ("", None),
        ] {
            assert_eq!(given(Some(query)).as_deref(), expected, "{query}");
        }
        assert_eq!(given(None), None);
    }

    #[test]
    fn leaf_reads_times_in_utc_and_numbers_as_strings() {
        let parts = IdParts { time_ms: 1_567_733_700_834, worker_id: 39, sequence: 3448 };
        let json = |parts| serde_json::to_string(&leaf_parts(parts)).unwrap();
        assert_eq!(
            json(parts),
            r#"{"timestamp":"1567733700834(2019-09-06 01:35:00.834)","workerId":"39","sequenceId":"3448"}"#
        );
        let whole_second = json(IdParts { time_ms: 0, ..parts });
        assert!(whole_second.contains("0(1970-01-01 00:00:00.000)"), "{whole_second}");
        let not_an_id = serde_json::to_string(&Decoded::NotAnId { error_msg: "x" }).unwrap();
        assert_eq!(not_an_id, r#"{"errorMsg":"x"}"#);
    }
}
