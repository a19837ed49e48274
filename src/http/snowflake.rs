//! What snowflake ids say, made as they are of time, worker id and sequence; their floor; and which nodes may make
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use mintleaf_core::limits::ID_MAX;
use serde::Serialize;

use super::access::Sender;
use super::body::{Fields, required};
use super::problem::Problem;
use super::query::Query;
use super::{decimal, key};
use crate::service::{ClusterService, IdService, WorkersView};
use crate::text::timestamp::rfc3339;

type Ids = State<Arc<IdService>>;

/// The fields of an id, for clients of version 1.
#[derive(Serialize)]
pub(super) struct Decoded {
    id: String,
    timestamp_ms: u64,
    time: String,
    worker_id: u16,
    sequence: u64,
    /// The worker id's two parts, where the layout has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_center_id: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_center_worker_id: Option<u16>,
}

/// Takes an id apart, by the layout and epoch of this cluster.
pub(super) async fn decode(State(service): Ids, uri: Uri) -> Result<Json<Decoded>, Problem> {
    Query::parse(uri.query())?.finish()?;
    let text = key::last(uri.path());
    let format = service.snowflake_format();
    let layout = format.layout();
    let read = |id| Some((id, format.decode(id)?));
    let Some((id, parts)) = text.and_then(|text| decimal::parse(&text)).and_then(read) else {
        return Err(Problem::invalid("id", format_args!("is not a number of layout {layout}")));
    };
    let (data_center_id, data_center_worker_id) = layout.split_worker(parts.worker_id).unzip();
    Ok(Json(Decoded {
        id: id.to_string(),
        timestamp_ms: parts.time_ms,
        time: rfc3339(parts.time_ms),
        worker_id: parts.worker_id,
        sequence: parts.sequence,
        data_center_id,
        data_center_worker_id,
    }))
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
