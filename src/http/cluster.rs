//! `/v1/cluster`: the members, the leader and the level, and changing them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};

use super::access::Sender;
use super::body::{Fields, OptionalFields, required};
use super::key;
use super::problem::Problem;
use super::query::Query;
use crate::service::{ClusterService, ClusterView, NewMember};
use crate::text::address::{PortRule, check_host_port, is_everywhere};

type Cluster = State<Arc<ClusterService>>;

/// Shows the cluster as this node knows it, quorum or not. With `?counts=true` the node asks the others what they have
/// counted.
pub(super) async fn show(State(service): Cluster, uri: Uri) -> Result<Json<ClusterView>, Problem> {
    let mut query = Query::parse(uri.query())?;
    let counts = query.choice("counts", [("true", true), ("false", false)])?.unwrap_or(false);
    Ok(Json(if counts { service.view_with_counts().await } else { service.view() }))
}

/// Adds a node: as a voter unless `"voter": false`. For a learner this is the promotion. For a voter, `"voter": false`
/// takes its vote away; with `"force": true` also where the change may never be committed.
pub(super) async fn add(
    State(service): Cluster,
    sender: Sender,
    mut fields: Fields,
) -> Result<Json<ClusterView>, Problem> {
    let id = required("id", fields.integer("id", 1..=u64::MAX)?)?;
    let raft = required("raft", address(&mut fields, "raft")?)?;
    let http = address(&mut fields, "http")?;
    let voter = fields.flag("voter")?.unwrap_or(true);
    let force = fields.flag("force")?.unwrap_or(false);
    fields.finish()?;
    Ok(Json(service.add_node(sender.actor(), NewMember { id, raft, http, voter, force }).await?))
}

/// Removes a node, with `?force=true` or `"force": true` also where the change may never be committed.
pub(super) async fn remove(
    State(service): Cluster,
    sender: Sender,
    uri: Uri,
    OptionalFields(mut fields): OptionalFields,
) -> Result<StatusCode, Problem> {
    let mut query = Query::parse(uri.query())?;
    let of_query = query.choice("force", [("true", true), ("false", false)])?;
    query.finish()?;
    let of_body = fields.flag("force")?;
    fields.finish()?;
    let force = of_query == Some(true) || of_body == Some(true);
    service.remove_node(sender.actor(), key::node_id(uri.path())?, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hands leadership to the voter `id`.
pub(super) async fn transfer(
    State(service): Cluster,
    sender: Sender,
    mut fields: Fields,
) -> Result<StatusCode, Problem> {
    let id = required("id", fields.integer("id", 1..=u64::MAX)?)?;
    fields.finish()?;
    service.transfer_leader(sender.actor(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Raises the level to the highest that all members support.
pub(super) async fn raise_level(
    State(service): Cluster,
    sender: Sender,
    uri: Uri,
    OptionalFields(fields): OptionalFields,
) -> Result<Json<ClusterView>, Problem> {
    Query::parse(uri.query())?.finish()?;
    fields.finish()?;
    Ok(Json(service.raise_level(sender.actor()).await?))
}

fn address(fields: &mut Fields, name: &str) -> Result<Option<String>, Problem> {
    let Some(address) = fields.text(name)? else { return Ok(None) };
    check_host_port(&address, PortRule::Real).map_err(|detail| Problem::invalid(name, detail))?;
    if is_everywhere(&address) {
        return Err(Problem::invalid(name, "must be an address that others can reach"));
    }
    Ok(Some(address))
}
