//! Probes, metrics and the description of the interface.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde_json::{Value, json};

use crate::metrics::Exposition;
use crate::service::ClusterService;

/// The interface, as OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// A body with its content type.
type Typed<T> = ([(HeaderName, &'static str); 1], T);

/// Reports that the process answers, and nothing more.
pub(super) async fn livez() -> &'static str {
    "ok"
}

/// Reports whether this node can hand out ids, and why not.
pub(super) async fn readyz(
    State(service): State<Arc<ClusterService>>,
) -> (StatusCode, Json<Value>) {
    let readiness = service.readiness();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": readiness.ready, "reasons": readiness.reasons })))
}

/// The counters, for Prometheus, in the format that it asks for.
pub(super) async fn metrics(
    State(service): State<Arc<ClusterService>>,
    headers: HeaderMap,
) -> Typed<String> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let exposition = Exposition::accepted(accept);
    ([(CONTENT_TYPE, exposition.content_type())], service.metrics_page(exposition))
}

/// The description of the interface.
pub(super) async fn openapi() -> Typed<&'static str> {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}
