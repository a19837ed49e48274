//! `/v1/snowflake`: ids made of time, worker id and sequence; and their fields.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use jiff::Timestamp;
use serde::Serialize;

use super::access::Sender;
use super::body::{Fields, required};
use super::problem::Problem;
use super::query::Query;
use super::{decimal, ids, key};
use crate::limits::ID_MAX;
use crate::service::{ClusterService, IdService, WorkersView};
use crate::snowflake::IdParts;
use crate::timestamp::rfc3339;

type Ids = State<Arc<IdService>>;

/// Exactly `count` ids, or an error.
pub(super) async fn take(
    State(service): Ids,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let wanted = ids::IdQuery::of(uri.query(), &headers)?;
    let taken = service.take_snowflakes(wanted.count).await?;
    Ok(wanted.answer(None, &taken).map(Body::from))
}

/// The head of the answer that [`take`] would give. Takes no id.
pub(super) async fn take_head(
    State(service): Ids,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let wanted = ids::IdQuery::of(uri.query(), &headers)?;
    service.could_take_snowflakes().await?;
    Ok(wanted.answer(None, &[]).map(Body::from))
}

/// The fields of an id, for clients of version 1.
#[derive(Serialize)]
pub(super) struct Decoded {
    id: String,
    timestamp_ms: u64,
    time: String,
    worker_id: u16,
    sequence: u64,
    /// The worker id's two parts, where the layout has them.
    #[serde(flatten)]
    split: Option<SplitWorker>,
}

#[derive(Serialize)]
struct SplitWorker {
    data_center_id: u16,
    data_center_worker_id: u16,
}

/// Takes an id apart, by the layout and epoch of this cluster.
pub(super) async fn decode(State(service): Ids, uri: Uri) -> Result<Json<Decoded>, Problem> {
    let text = key::last(uri.path());
    let format = service.snowflake_format();
    let layout = format.layout();
    let read = |id| Some((id, format.decode(id)?));
    let Some((id, parts)) = text.and_then(|text| decimal::parse(&text)).and_then(read) else {
        return Err(Problem::invalid("id", format_args!("is not a number of layout {layout}")));
    };
    let split = layout.split_worker(parts.worker_id);
    Ok(Json(Decoded {
        id: id.to_string(),
        timestamp_ms: parts.time_ms,
        time: rfc3339(parts.time_ms),
        worker_id: parts.worker_id,
        sequence: parts.sequence,
        split: split.map(|(data_center_id, data_center_worker_id)| SplitWorker {
            data_center_id,
            data_center_worker_id,
        }),
    }))
}

/// The fields of an id with Leaf's names and in Leaf's order.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum LeafDecoded {
    #[serde(rename_all = "camelCase")]
    Parts { timestamp: String, worker_id: String, sequence_id: String },
    #[serde(rename_all = "camelCase")]
    NotAnId { error_msg: &'static str },
}

/// Takes an id apart as Leaf does: strings throughout, and 200 for text that is no number.
pub(super) async fn leaf_decode(
    State(service): Ids,
    uri: Uri,
) -> Result<Json<LeafDecoded>, Problem> {
    let mut query = Query::parse(uri.query())?;
    let given = query.text("snowflakeId").ok_or(Problem::invalid("snowflakeId", "is missing"))?;
    let parts = decimal::parse(&given).and_then(|id| service.snowflake_format().decode(id));
    let not_an_id = LeafDecoded::NotAnId { error_msg: "snowflake Id反解析发生异常!" };
    Ok(Json(parts.map_or(not_an_id, leaf_parts)))
}

fn leaf_parts(parts: IdParts) -> LeafDecoded {
    let time = Timestamp::from_millisecond(i64::try_from(parts.time_ms).unwrap_or(i64::MAX));
    let time = time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M:%S%.3f");
    LeafDecoded::Parts {
        timestamp: format!("{}({time})", parts.time_ms),
        worker_id: parts.worker_id.to_string(),
        sequence_id: parts.sequence.to_string(),
    }
}

/// Where the snowflake floor is.
#[derive(Serialize)]
pub(super) struct Floor {
    floor_ms: u64,
    time: String,
}

/// Raises the snowflake floor above the time of an id, and answers once no window reaches below it.
pub(super) async fn raise_floor(
    State(cluster): State<Arc<ClusterService>>,
    sender: Sender,
    mut fields: Fields,
) -> Result<Json<Floor>, Problem> {
    let id = required("id", fields.big_integer("id", 1..=ID_MAX)?)?;
    let force = fields.flag("force")?.unwrap_or(false);
    fields.finish()?;
    let floor_ms = cluster.raise_snowflake_floor(&sender.actor(), id, force).await?.floor_ms;
    Ok(Json(Floor { floor_ms, time: rfc3339(floor_ms) }))
}

/// Every worker id that was ever used, from local knowledge.
pub(super) async fn workers(State(cluster): State<Arc<ClusterService>>) -> Json<WorkersView> {
    Json(cluster.workers())
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
        let not_an_id = serde_json::to_string(&LeafDecoded::NotAnId { error_msg: "x" }).unwrap();
        assert_eq!(not_an_id, r#"{"errorMsg":"x"}"#);
    }
}
