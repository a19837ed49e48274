//! Probes, metrics and the description of the interface.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use crate::metrics;
use crate::service::IdService;

/// The interface, as OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

type Typed<T> = ([(HeaderName, &'static str); 1], T);

/// The process answers; nothing more is claimed.
pub(super) async fn livez() -> &'static str {
    "ok"
}

/// Whether this node can hand out ids, and if not, why.
pub(super) async fn readyz(State(service): State<Arc<IdService>>) -> (StatusCode, Json<Value>) {
    let readiness = service.readiness();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": readiness.ready, "reasons": readiness.reasons })))
}

pub(super) async fn metrics(State(service): State<Arc<IdService>>) -> Typed<String> {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], service.metrics_page())
}

pub(super) async fn openapi() -> Typed<&'static str> {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}
