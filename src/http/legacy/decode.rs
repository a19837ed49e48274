//! `/decodeSnowflakeId`: what a snowflake id says, in Leaf's words.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use mintleaf_core::snowflake::IdParts;
use serde::Serialize;

use super::failure::{Failure, json_type};
use crate::http::parameters::Parameters;
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
    let given = match Parameters::read(&head, body).await {
        Ok(parameters) => parameters.text(PARAMETER),
        Err(problem) => return problem.into_response(),
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
    match answered {
        Ok((decoded, media_type)) => {
            // Strings always serialize.
            let body = serde_json::to_vec(&decoded).unwrap_or_default();
            ([(CONTENT_TYPE, media_type)], Body::from(body)).into_response()
        }
        Err(failure) => {
            let path = asked_path(&head);
            failure.answer(&head.headers, path, service.now_ms()).map(Body::from)
        }
    }
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
