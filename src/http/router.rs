//! Every path of a node, and the handler that answers it.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{MethodRouter, delete, get, post};

use super::paths::LEAF_DECODE;
use super::problem::Problem;
use super::{audit, cluster, ids, legacy, ops, pages, snowflake, tags};
use crate::service::{AuditService, ClusterService, IdService, Services, TagService};

type Route = (&'static str, MethodRouter<Services>);

/// Every path, in OpenAPI's notation. `get` answers HEAD as well, with the handler of
/// GET: where that takes ids, HEAD has a handler that takes none.
pub(super) fn routes() -> [Route; 22] {
    [
        ("/", get(pages::index)),
        ("/api/segment/get/{key}", get(legacy::segment).head(legacy::segment_head)),
        ("/api/snowflake/get/{key}", get(legacy::snowflake).head(legacy::snowflake_head)),
        (LEAF_DECODE, get(snowflake::leaf_decode)),
        ("/cache", get(pages::cache)),
        ("/db", get(pages::db)),
        ("/v1/segment/{tag}", get(ids::segment).head(ids::segment_head)),
        ("/v1/snowflake", get(snowflake::take).head(snowflake::take_head)),
        ("/v1/snowflake/{id}", get(snowflake::decode)),
        ("/v1/workers", get(snowflake::workers)),
        ("/v1/tags", get(tags::list).post(tags::create)),
        ("/v1/tags/{tag}", get(tags::get).patch(tags::update).delete(tags::delete)),
        ("/v1/audit", get(audit::list)),
        ("/v1/cluster", get(cluster::show)),
        ("/v1/cluster/nodes", post(cluster::add)),
        ("/v1/cluster/nodes/{id}", delete(cluster::remove)),
        ("/v1/cluster/leader", post(cluster::transfer)),
        ("/v1/cluster/level", post(cluster::raise_level)),
        ("/livez", get(ops::livez)),
        ("/readyz", get(ops::readyz)),
        ("/metrics", get(ops::metrics)),
        ("/openapi.json", get(ops::openapi)),
    ]
}

/// The router over these services.
pub(super) fn router(services: Services) -> Router {
    let router = Router::new();
    #[cfg(feature = "next-level")]
    let router = router.route("/v1/cluster/note", post(cluster::leave_note));
    routes()
        .into_iter()
        .fold(router, |router, (path, methods)| router.route(path, methods))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(services)
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

impl FromRef<Services> for Arc<AuditService> {
    fn from_ref(services: &Services) -> Self {
        Self::clone(&services.audit)
    }
}
