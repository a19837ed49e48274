//! Every route: who may use it, and what answers. The router is made from this table, and `docs/security.md` shows it.

use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, patch, post, put};

use super::id_request::{IdPath, LEAF_METHODS};
use super::{
    audit, backup, buffers, cluster, console, import, legacy, ops, pages, pools, registers,
    sequences, snowflake, tags, tinyid,
};
use crate::access::Demand;
use crate::access::Needs::{self, Admin, AnyRole, Backup, Issue, Nothing, Read};
use crate::access::Scope::{self, Everything, NoTag, TagOfBody, TagOfParameter, TagOfPath};
use crate::service::Services;

/// One method of one path.
#[derive(Debug)]
pub(crate) struct Route {
    /// `GET` stands for `HEAD` and `OPTIONS` too, `*` for every method.
    pub(crate) method: &'static str,
    /// The path in OpenAPI's notation.
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    pub(crate) scope: Scope,
    /// What answers on the path; `None` for ids, which the dispatch answers.
    pub(super) handler: Option<fn() -> MethodRouter<Services>>,
}

const fn row(
    method: &'static str,
    path: &'static str,
    needs: Needs,
    scope: Scope,
    handler: fn() -> MethodRouter<Services>,
) -> Route {
    Route { method, path, needs, scope, handler: Some(handler) }
}

const fn id_row(path: &'static str, scope: Scope) -> Route {
    Route { method: "*", path, needs: Issue, scope, handler: None }
}

/// Every route, ids first: in the order of [`IdPath`]. No two rows of one method fit the same path.
pub(crate) static ROUTES: &[Route] = &[
    id_row("/api/segment/get/{key}", TagOfPath),
    id_row("/api/snowflake/get/{key}", NoTag),
    id_row("/v1/segment/{tag}", TagOfPath),
    id_row("/v1/snowflake", NoTag),
    row("*", "/v1/sequence/{tag}/{key}", Issue, TagOfPath, || {
        get(sequences::take).head(sequences::head)
    }),
    row("GET", "/v1/sequence/{tag}/{key}/last", AnyRole, TagOfPath, || get(sequences::last)),
    row("POST", "/v1/register/{tag}/{key}", Issue, TagOfPath, || post(registers::register)),
    row("GET", "/v1/register/{tag}/{key}", AnyRole, TagOfPath, || get(registers::show)),
    row("GET", "/v1/register/{tag}", Read, TagOfPath, || get(registers::list)),
    row("GET", "/v1/snowflake/{id}", AnyRole, NoTag, || get(snowflake::decode)),
    row("POST", "/v1/snowflake/floor", Admin, Everything, || post(snowflake::raise_floor)),
    row("*", "/decodeSnowflakeId", AnyRole, NoTag, || by_any_method(legacy::decode)),
    row("*", "/tinyid/id/nextIdSimple", Issue, TagOfParameter, tinyid::methods),
    row("*", "/tinyid/id/nextId", Issue, TagOfParameter, tinyid::methods),
    row("*", "/tinyid/id/nextSegmentIdSimple", Issue, TagOfParameter, tinyid::methods),
    row("*", "/tinyid/id/nextSegmentId", Issue, TagOfParameter, tinyid::methods),
    row("GET", "/", Nothing, NoTag, || get(console::page)),
    row("GET", "/console.css", Nothing, NoTag, || get(console::style)),
    row("GET", "/console.js", Nothing, NoTag, || get(console::script)),
    row("GET", "/livez", Nothing, NoTag, || get(ops::livez)),
    row("GET", "/readyz", Nothing, NoTag, || get(ops::readyz)),
    row("*", "/cache", Read, Everything, || by_any_method(pages::cache)),
    row("*", "/db", Read, Everything, || by_any_method(pages::db)),
    row("GET", "/v1/tags", Read, Everything, || get(tags::list)),
    row("GET", "/v1/buffers", Read, Everything, || get(buffers::list)),
    row("POST", "/v1/tags", Admin, TagOfBody, || post(tags::create)),
    row("GET", "/v1/tags/{tag}", Read, TagOfPath, || get(tags::get)),
    row("PATCH", "/v1/tags/{tag}", Admin, TagOfPath, || patch(tags::update)),
    row("DELETE", "/v1/tags/{tag}", Admin, TagOfPath, || delete(tags::delete)),
    row("POST", "/v1/import", Admin, TagOfBody, || post(import::take_over)),
    row("GET", "/v1/audit", Read, Everything, || get(audit::list)),
    row("GET", "/v1/backup", Backup, Everything, || get(backup::take).head(backup::head)),
    row("GET", "/v1/workers", Read, NoTag, || get(snowflake::workers)),
    row("GET", "/v1/pools", Read, NoTag, || get(pools::list)),
    row("PUT", "/v1/pools/{pool}", Admin, Everything, || put(pools::set)),
    row("GET", "/v1/pools/{pool}", Read, NoTag, || get(pools::get)),
    row("DELETE", "/v1/pools/{pool}", Admin, Everything, || delete(pools::delete)),
    row("POST", "/v1/pools/{pool}/leases", Issue, NoTag, || post(pools::lease)),
    row("POST", "/v1/pools/{pool}/leases/{lease}", Issue, NoTag, || post(pools::renew)),
    row("DELETE", "/v1/pools/{pool}/leases/{lease}", Issue, NoTag, || delete(pools::give_back)),
    row("GET", "/v1/cluster", Read, NoTag, || get(cluster::show)),
    row("POST", "/v1/cluster/nodes", Admin, Everything, || post(cluster::add)),
    row("DELETE", "/v1/cluster/nodes/{id}", Admin, Everything, || delete(cluster::remove)),
    row("POST", "/v1/cluster/leader", Admin, Everything, || post(cluster::transfer)),
    row("POST", "/v1/cluster/level", Admin, Everything, || post(cluster::raise_level)),
    row("GET", "/metrics", Read, NoTag, || get(ops::metrics)),
    row("GET", "/openapi.json", Read, NoTag, || get(ops::openapi)),
    row("GET", "/openapi", Nothing, NoTag, || get(pages::interface)),
];

/// The row of an id path.
#[inline]
pub(super) fn of_ids(path: IdPath) -> &'static Route {
    &ROUTES[path as usize]
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

/// Whether a request of this method only reads.
fn reads(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// What a request needs. A request without a row needs the most that its method could do.
#[inline]
pub(crate) fn route<'a>(method: &str, path: &'a str) -> Demand<'a> {
    let listed_as = if reads(method) { "GET" } else { method };
    for row in ROUTES.iter().filter(|row| row.method == "*" || row.method == listed_as) {
        if let Some(first) = fit(row.path, path) {
            return Demand { needs: row.needs, scope: row.scope, first };
        }
    }
    match listed_as {
        "GET" => Demand { needs: Needs::Read, scope: Scope::NoTag, first: None },
        _ => Demand { needs: Needs::Admin, scope: Scope::Everything, first: None },
    }
}

/// Whether a path is the one of a row. Returns the first text that a `{…}` of it stands for, if it has any.
#[inline]
fn fit<'a>(pattern: &str, path: &'a str) -> Option<Option<&'a str>> {
    let (mut names, mut segments, mut first) = (pattern.split('/'), path.split('/'), None);
    loop {
        match (names.next(), segments.next()) {
            (None, None) => return Some(first),
            (Some(name), Some(segment)) if name.starts_with('{') && !segment.is_empty() => {
                first = first.or(Some(segment));
            }
            (Some(name), Some(segment)) if name == segment => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
