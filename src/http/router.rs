//! Every request but those for ids, which the dispatch answers, goes to its handler.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::Response;
use axum::http::request::Parts;
use axum::response::IntoResponse;

use super::problem::Problem;
use super::routes::ROUTES;
use super::{legacy, spelling};
use crate::service::{
    AuditService, BackupService, ClusterService, IdService, PoolService, Services, TagService,
};

/// The router over these services: the handler of each route.
pub(super) fn router(services: Services) -> Router {
    ROUTES
        .iter()
        .filter_map(|row| Some((row.path, row.handler?)))
        .fold(Router::new(), |router, (path, handler)| router.route(path, handler()))
        .fallback(nothing_here)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(services)
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

/// Lets a handler name the service that it needs as its state.
macro_rules! states {
    ($($field:ident: $service:ty,)*) => {$(
        impl FromRef<Services> for Arc<$service> {
            fn from_ref(services: &Services) -> Self {
                Self::clone(&services.$field)
            }
        }
    )*};
}

states! {
    ids: IdService,
    tags: TagService,
    cluster: ClusterService,
    backup: BackupService,
    pools: PoolService,
    audit: AuditService,
}
