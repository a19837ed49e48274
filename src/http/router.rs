//! The handler of every route. Which routes there are, and who may use them, is one table: `access/matrix.rs`.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{MethodRouter, delete, get, patch, post};

use super::problem::Problem;
use super::{audit, backup, cluster, ids, import, legacy, ops, pages, snowflake, tags};
use crate::access::{Endpoint, ROUTES};
use crate::service::{
    AuditService, BackupService, ClusterService, IdService, Services, TagService,
};

/// The router over these services: every route of the matrix of roles, and its handler. `guarded` says whether
/// clients show tokens, so that what is open to everybody tells nothing of the cluster.
pub(super) fn router(services: Services, guarded: bool) -> Router {
    let of = |endpoint| match endpoint {
        Endpoint::Index if guarded => get(pages::bare_index),
        endpoint => handler(endpoint),
    };
    ROUTES
        .iter()
        .fold(Router::new(), |router, row| router.route(row.path, of(row.endpoint)))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(services)
}

/// The handler of a route. `get` answers HEAD as well, with the handler of GET: where that takes ids, HEAD has a
/// handler that takes none.
fn handler(endpoint: Endpoint) -> MethodRouter<Services> {
    match endpoint {
        Endpoint::LeafSegment => get(legacy::segment).head(legacy::segment_head),
        Endpoint::Segment => get(ids::segment).head(ids::segment_head),
        Endpoint::LeafSnowflake => get(legacy::snowflake).head(legacy::snowflake_head),
        Endpoint::Snowflake => get(snowflake::take).head(snowflake::take_head),
        Endpoint::LeafDecode => get(snowflake::leaf_decode),
        Endpoint::Decode => get(snowflake::decode),
        Endpoint::RaiseFloor => post(snowflake::raise_floor),
        Endpoint::Index => get(pages::index),
        Endpoint::Livez => get(ops::livez),
        Endpoint::Readyz => get(ops::readyz),
        Endpoint::Cache => get(pages::cache),
        Endpoint::Db => get(pages::db),
        Endpoint::ListTags => get(tags::list),
        Endpoint::ShowTag => get(tags::get),
        Endpoint::CreateTag => post(tags::create),
        Endpoint::UpdateTag => patch(tags::update),
        Endpoint::DeleteTag => delete(tags::delete),
        Endpoint::ImportTags => post(import::take_over),
        Endpoint::ListAudit => get(audit::list),
        Endpoint::Backup => get(backup::take).head(backup::head),
        Endpoint::Workers => get(snowflake::workers),
        Endpoint::Cluster => get(cluster::show),
        Endpoint::AddNode => post(cluster::add),
        Endpoint::RemoveNode => delete(cluster::remove),
        Endpoint::Transfer => post(cluster::transfer),
        Endpoint::RaiseLevel => post(cluster::raise_level),
        #[cfg(feature = "next-level")]
        Endpoint::LeaveNote => post(cluster::leave_note),
        Endpoint::Metrics => get(ops::metrics),
        Endpoint::OpenApi => get(ops::openapi),
    }
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

impl FromRef<Services> for Arc<AuditService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.audit)
    }
}
