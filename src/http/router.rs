//! The handler of every route except those of ids, which the dispatch answers. `access/matrix.rs` is the one table of
//! all routes and of who may use them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::handler::Handler;
use axum::http::Response;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, patch, post, put};

use super::id_request::LEAF_METHODS;
use super::problem::Problem;
use super::{
    audit, backup, buffers, cluster, console, import, legacy, ops, pages, pools, registers,
    sequences, snowflake, spelling, tags, tinyid,
};
use crate::access::{Endpoint, ROUTES};
use crate::service::{
    AuditService, BackupService, ClusterService, IdService, PoolService, Services, TagService,
};

/// The router over these services: the routes of the matrix of roles, and their handlers.
pub(super) fn router(services: Services) -> Router {
    ROUTES
        .iter()
        .filter_map(|row| Some((row.path, handler(row.endpoint)?)))
        .fold(Router::new(), |router, (path, handler)| router.route(path, handler))
        .fallback(nothing_here)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(services)
}

/// The handler of a route; `None` for ids.
fn handler(endpoint: Endpoint) -> Option<MethodRouter<Services>> {
    Some(match endpoint {
        Endpoint::LeafSegment
        | Endpoint::Segment
        | Endpoint::LeafSnowflake
        | Endpoint::Snowflake => return None,
        Endpoint::Sequence => get(sequences::take).head(sequences::head),
        Endpoint::LastOfSequence => get(sequences::last),
        Endpoint::Register => post(registers::register),
        Endpoint::ShowRegistered => get(registers::show),
        Endpoint::ListRegister => get(registers::list),
        Endpoint::LeafDecode => by_any_method(legacy::decode),
        Endpoint::Tinyid => get(tinyid::answer).post(tinyid::answer).head(tinyid::head),
        Endpoint::Cache => by_any_method(pages::cache),
        Endpoint::Db => by_any_method(pages::db),
        Endpoint::Decode => get(snowflake::decode),
        Endpoint::RaiseFloor => post(snowflake::raise_floor),
        Endpoint::Console => get(console::page),
        Endpoint::ConsoleStyle => get(console::style),
        Endpoint::ConsoleScript => get(console::script),
        Endpoint::Livez => get(ops::livez),
        Endpoint::Readyz => get(ops::readyz),
        Endpoint::ListTags => get(tags::list),
        Endpoint::ListBuffers => get(buffers::list),
        Endpoint::ShowTag => get(tags::get),
        Endpoint::CreateTag => post(tags::create),
        Endpoint::UpdateTag => patch(tags::update),
        Endpoint::DeleteTag => delete(tags::delete),
        Endpoint::ImportTags => post(import::take_over),
        Endpoint::ListAudit => get(audit::list),
        Endpoint::Backup => get(backup::take).head(backup::head),
        Endpoint::Workers => get(snowflake::workers),
        Endpoint::ListPools => get(pools::list),
        Endpoint::SetPool => put(pools::set),
        Endpoint::ShowPool => get(pools::get),
        Endpoint::DeletePool => delete(pools::delete),
        Endpoint::LeaseWorker => post(pools::lease),
        Endpoint::RenewLease => post(pools::renew),
        Endpoint::GiveBackLease => delete(pools::give_back),
        Endpoint::Cluster => get(cluster::show),
        Endpoint::AddNode => post(cluster::add),
        Endpoint::RemoveNode => delete(cluster::remove),
        Endpoint::Transfer => post(cluster::transfer),
        Endpoint::RaiseLevel => post(cluster::raise_level),
        Endpoint::Metrics => get(ops::metrics),
        Endpoint::OpenApi => get(ops::openapi),
        Endpoint::Reference => get(pages::interface),
    })
}

/// A handler that answers as Leaf's do: it looks at no method.
fn by_any_method<T: 'static>(handler: impl Handler<T, Services>) -> MethodRouter<Services> {
    get(handler.clone())
        .post(handler.clone())
        .put(handler.clone())
        .patch(handler.clone())
        .delete(handler)
        .options(async || legacy::options(LEAF_METHODS))
}

/// The answer for a path without a handler: below `/api/` it is Leaf's.
async fn nothing_here(State(ids): State<Arc<IdService>>, head: Parts) -> Response<Body> {
    let path = spelling::asked_path(&head);
    // A respelt path is one of Leaf's, even if its last slash is gone.
    if path == head.uri.path() && !spelling::is_below_api(path) {
        return Problem::not_found().into_response();
    }
    legacy::Failure::not_found().answer(&head.headers, path, ids.now_ms()).map(Body::from)
}

// A handler names the service that it needs as its state.

impl FromRef<Services> for Arc<IdService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.ids)
    }
}

impl FromRef<Services> for Arc<TagService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.tags)
    }
}

impl FromRef<Services> for Arc<ClusterService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.cluster)
    }
}

impl FromRef<Services> for Arc<BackupService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.backup)
    }
}

impl FromRef<Services> for Arc<PoolService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.pools)
    }
}

impl FromRef<Services> for Arc<AuditService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.audit)
    }
}
