//! The client side of a node: HTTP/1.1, Leaf's paths and version 1.
//!
//! ```text
//! connection  its bounds, its end
//!   lane    plain requests for ids, answered from the bytes
//!   outbox  for hyper, which takes all else: one write for many answers
//!   front   one id at once, else the router; problems get their bodies here
//!     legacy, ids, snowflake, tags, cluster, pages, ops    one group of paths each
//!       key, query, body    what clients send, read strictly
//!       problem             what goes wrong: status and code
//! ```
//!
//! Handlers see [`IdService`] and nothing behind it. `openapi.json` describes every path that
//! `routes` lists; a test holds the two together.

mod body;
mod cluster;
mod connection;
mod front;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ids;
mod key;
mod lane;
mod legacy;
mod numerals;
mod ops;
mod outbox;
mod pages;
mod problem;
mod query;
mod snowflake;
mod tags;

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

pub(crate) use connection::{TURNED_AWAY, serve};
pub(crate) use front::FrontDoor;

use crate::service::IdService;
use problem::Problem;

const LEAF_SEGMENT: &str = "/api/segment/get/";
const V1_SEGMENT: &str = "/v1/segment/";
const LEAF_SNOWFLAKE: &str = "/api/snowflake/get/";
const V1_SNOWFLAKE: &str = "/v1/snowflake";

type Route = (&'static str, MethodRouter<Arc<IdService>>);

/// Every path of a node, in OpenAPI's notation. `get` answers HEAD as well.
fn routes() -> [Route; 21] {
    [
        ("/", get(pages::index)),
        ("/api/segment/get/{key}", get(legacy::segment)),
        ("/api/snowflake/get/{key}", get(legacy::snowflake)),
        ("/decodeSnowflakeId", get(snowflake::leaf_decode)),
        ("/cache", get(pages::cache)),
        ("/db", get(pages::db)),
        ("/v1/segment/{tag}", get(ids::segment)),
        ("/v1/snowflake", get(snowflake::take)),
        ("/v1/snowflake/{id}", get(snowflake::decode)),
        ("/v1/workers", get(snowflake::workers)),
        ("/v1/tags", get(tags::list).post(tags::create)),
        ("/v1/tags/{tag}", get(tags::get).patch(tags::update).delete(tags::delete)),
        ("/v1/cluster", get(cluster::show)),
        ("/v1/cluster/nodes", post(cluster::add)),
        ("/v1/cluster/nodes/{id}", axum::routing::delete(cluster::remove)),
        ("/v1/cluster/leader", post(cluster::transfer)),
        ("/v1/cluster/level", post(cluster::raise_level)),
        ("/livez", get(ops::livez)),
        ("/readyz", get(ops::readyz)),
        ("/metrics", get(ops::metrics)),
        ("/openapi.json", get(ops::openapi)),
    ]
}

fn router(service: Arc<IdService>) -> Router {
    let router = Router::new();
    #[cfg(feature = "next-level")]
    let router = router.route("/v1/cluster/note", post(cluster::leave_note));
    routes()
        .into_iter()
        .fold(router, |router, (path, methods)| router.route(path, methods))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(service)
}

/// `text` as one segment of a path.
pub(crate) fn path_segment(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}

#[cfg(test)]
mod tests;
