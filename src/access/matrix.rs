//! What every route and every command needs. The router is made from this table, the commands of the Redis
//! protocol do not compile without a row of it, and `docs/security.md` shows it.

use super::role::{Needs, Scope};
use crate::text::path_segment;

/// A handler of the HTTP interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    LeafSegment,
    Segment,
    LeafSnowflake,
    Snowflake,
    Sequence,
    LastOfSequence,
    Register,
    ShowRegistered,
    ListRegister,
    LeafDecode,
    Tinyid,
    Decode,
    RaiseFloor,
    Console,
    ConsoleStyle,
    ConsoleScript,
    Livez,
    Readyz,
    Cache,
    Db,
    ListTags,
    ListBuffers,
    ShowTag,
    CreateTag,
    UpdateTag,
    DeleteTag,
    ImportTags,
    ListAudit,
    Backup,
    Workers,
    ListPools,
    SetPool,
    ShowPool,
    DeletePool,
    LeaseWorker,
    RenewLease,
    GiveBackLease,
    Cluster,
    AddNode,
    RemoveNode,
    Transfer,
    RaiseLevel,
    Metrics,
    OpenApi,
    Reference,
}

/// One method of one path: who may use it, and what answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// `GET` stands for `HEAD` and `OPTIONS` too, `*` for every method.
    pub(crate) method: &'static str,
    /// The path in OpenAPI's notation.
    pub(crate) path: &'static str,
    pub(crate) endpoint: Endpoint,
    pub(crate) needs: Needs,
    pub(crate) scope: Scope,
}

const fn row(
    method: &'static str,
    path: &'static str,
    endpoint: Endpoint,
    needs: Needs,
    scope: Scope,
) -> Route {
    Route { method, path, endpoint, needs, scope }
}

/// Every route. The most requested ones stand first, and no two rows of one method fit the same path.
pub(crate) static ROUTES: &[Route] = &[
    row("*", "/api/segment/get/{key}", Endpoint::LeafSegment, Needs::Issue, Scope::TagOfPath),
    row("*", "/v1/segment/{tag}", Endpoint::Segment, Needs::Issue, Scope::TagOfPath),
    row("*", "/api/snowflake/get/{key}", Endpoint::LeafSnowflake, Needs::Issue, Scope::NoTag),
    row("*", "/v1/sequence/{tag}/{key}", Endpoint::Sequence, Needs::Issue, Scope::TagOfPath),
    row(
        "GET",
        "/v1/sequence/{tag}/{key}/last",
        Endpoint::LastOfSequence,
        Needs::AnyRole,
        Scope::TagOfPath,
    ),
    row("POST", "/v1/register/{tag}/{key}", Endpoint::Register, Needs::Issue, Scope::TagOfPath),
    row(
        "GET",
        "/v1/register/{tag}/{key}",
        Endpoint::ShowRegistered,
        Needs::AnyRole,
        Scope::TagOfPath,
    ),
    row("GET", "/v1/register/{tag}", Endpoint::ListRegister, Needs::Read, Scope::TagOfPath),
    row("*", "/v1/snowflake", Endpoint::Snowflake, Needs::Issue, Scope::NoTag),
    row("GET", "/v1/snowflake/{id}", Endpoint::Decode, Needs::AnyRole, Scope::NoTag),
    row("POST", "/v1/snowflake/floor", Endpoint::RaiseFloor, Needs::Admin, Scope::Everything),
    row("*", "/decodeSnowflakeId", Endpoint::LeafDecode, Needs::AnyRole, Scope::NoTag),
    row("*", "/tinyid/id/nextIdSimple", Endpoint::Tinyid, Needs::Issue, Scope::TagOfParameter),
    row("*", "/tinyid/id/nextId", Endpoint::Tinyid, Needs::Issue, Scope::TagOfParameter),
    row(
        "*",
        "/tinyid/id/nextSegmentIdSimple",
        Endpoint::Tinyid,
        Needs::Issue,
        Scope::TagOfParameter,
    ),
    row("*", "/tinyid/id/nextSegmentId", Endpoint::Tinyid, Needs::Issue, Scope::TagOfParameter),
    row("GET", "/", Endpoint::Console, Needs::Nothing, Scope::NoTag),
    row("GET", "/console.css", Endpoint::ConsoleStyle, Needs::Nothing, Scope::NoTag),
    row("GET", "/console.js", Endpoint::ConsoleScript, Needs::Nothing, Scope::NoTag),
    row("GET", "/livez", Endpoint::Livez, Needs::Nothing, Scope::NoTag),
    row("GET", "/readyz", Endpoint::Readyz, Needs::Nothing, Scope::NoTag),
    row("*", "/cache", Endpoint::Cache, Needs::Read, Scope::Everything),
    row("*", "/db", Endpoint::Db, Needs::Read, Scope::Everything),
    row("GET", "/v1/tags", Endpoint::ListTags, Needs::Read, Scope::Everything),
    row("GET", "/v1/buffers", Endpoint::ListBuffers, Needs::Read, Scope::Everything),
    row("POST", "/v1/tags", Endpoint::CreateTag, Needs::Admin, Scope::TagOfBody),
    row("GET", "/v1/tags/{tag}", Endpoint::ShowTag, Needs::Read, Scope::TagOfPath),
    row("PATCH", "/v1/tags/{tag}", Endpoint::UpdateTag, Needs::Admin, Scope::TagOfPath),
    row("DELETE", "/v1/tags/{tag}", Endpoint::DeleteTag, Needs::Admin, Scope::TagOfPath),
    row("POST", "/v1/import", Endpoint::ImportTags, Needs::Admin, Scope::TagOfBody),
    row("GET", "/v1/audit", Endpoint::ListAudit, Needs::Read, Scope::Everything),
    row("GET", "/v1/backup", Endpoint::Backup, Needs::Backup, Scope::Everything),
    row("GET", "/v1/workers", Endpoint::Workers, Needs::Read, Scope::NoTag),
    row("GET", "/v1/pools", Endpoint::ListPools, Needs::Read, Scope::NoTag),
    row("PUT", "/v1/pools/{pool}", Endpoint::SetPool, Needs::Admin, Scope::Everything),
    row("GET", "/v1/pools/{pool}", Endpoint::ShowPool, Needs::Read, Scope::NoTag),
    row("DELETE", "/v1/pools/{pool}", Endpoint::DeletePool, Needs::Admin, Scope::Everything),
    row("POST", "/v1/pools/{pool}/leases", Endpoint::LeaseWorker, Needs::Issue, Scope::NoTag),
    row(
        "POST",
        "/v1/pools/{pool}/leases/{lease}",
        Endpoint::RenewLease,
        Needs::Issue,
        Scope::NoTag,
    ),
    row(
        "DELETE",
        "/v1/pools/{pool}/leases/{lease}",
        Endpoint::GiveBackLease,
        Needs::Issue,
        Scope::NoTag,
    ),
    row("GET", "/v1/cluster", Endpoint::Cluster, Needs::Read, Scope::NoTag),
    row("POST", "/v1/cluster/nodes", Endpoint::AddNode, Needs::Admin, Scope::Everything),
    row("DELETE", "/v1/cluster/nodes/{id}", Endpoint::RemoveNode, Needs::Admin, Scope::Everything),
    row("POST", "/v1/cluster/leader", Endpoint::Transfer, Needs::Admin, Scope::Everything),
    row("POST", "/v1/cluster/level", Endpoint::RaiseLevel, Needs::Admin, Scope::Everything),
    row("GET", "/metrics", Endpoint::Metrics, Needs::Read, Scope::NoTag),
    row("GET", "/openapi.json", Endpoint::OpenApi, Needs::Read, Scope::NoTag),
    row("GET", "/openapi", Endpoint::Reference, Needs::Nothing, Scope::NoTag),
];

/// The row of a handler that `GET` reaches. In a constant, a handler without such a row does not compile.
pub(crate) const fn get_of(endpoint: Endpoint) -> Route {
    let mut at = 0;
    while at < ROUTES.len() {
        let method = ROUTES[at].method.as_bytes();
        if ROUTES[at].endpoint as u8 == endpoint as u8
            && (is_equal(method, b"*") || is_equal(method, b"GET"))
        {
            return ROUTES[at];
        }
        at += 1;
    }
    panic!("no GET reaches the handler")
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand<'a> {
    pub(crate) needs: Needs,
    pub(crate) scope: Scope,
    /// What the first `{…}` of the path stands for, as it came.
    pub(crate) first: Option<&'a str>,
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

impl<'a> Demand<'a> {
    /// The tag that the path names; `None` when it cannot be read.
    #[inline]
    pub(crate) fn tag(&self) -> Option<std::borrow::Cow<'a, str>> {
        path_segment::decode(self.first?)
    }
}

/// Which arguments of a command are tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedTags {
    /// None.
    None,
    /// The first.
    First,
    /// All.
    All,
}

/// What a command of the Redis protocol needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandRule {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) tags: NamedTags,
}

const fn rule(name: &'static str, needs: Needs, tags: NamedTags) -> CommandRule {
    CommandRule { name, needs, tags }
}

/// Every command of the Redis protocol.
pub(crate) const COMMANDS: [CommandRule; 32] = [
    rule("INCR", Needs::Issue, NamedTags::First),
    rule("INCRBY", Needs::Issue, NamedTags::First),
    rule("MINT", Needs::Issue, NamedTags::First),
    rule("HINCRBY", Needs::Issue, NamedTags::First),
    rule("REGISTER", Needs::Issue, NamedTags::First),
    rule("SETNX", Needs::Issue, NamedTags::First),
    rule("SET", Needs::Issue, NamedTags::First),
    rule("HGET", Needs::AnyRole, NamedTags::First),
    rule("SNOWFLAKE", Needs::Issue, NamedTags::None),
    rule("GET", Needs::Read, NamedTags::First),
    rule("EXISTS", Needs::Read, NamedTags::All),
    rule("TYPE", Needs::Read, NamedTags::First),
    rule("PING", Needs::AnyRole, NamedTags::None),
    rule("ECHO", Needs::AnyRole, NamedTags::None),
    rule("SELECT", Needs::AnyRole, NamedTags::None),
    rule("CLIENT", Needs::AnyRole, NamedTags::None),
    rule("COMMAND", Needs::AnyRole, NamedTags::None),
    rule("CONFIG", Needs::AnyRole, NamedTags::None),
    rule("INFO", Needs::AnyRole, NamedTags::None),
    rule("CLUSTER", Needs::AnyRole, NamedTags::None),
    rule("READONLY", Needs::AnyRole, NamedTags::None),
    rule("READWRITE", Needs::AnyRole, NamedTags::None),
    rule("ASKING", Needs::AnyRole, NamedTags::None),
    rule("MULTI", Needs::AnyRole, NamedTags::None),
    rule("EXEC", Needs::AnyRole, NamedTags::None),
    rule("DISCARD", Needs::AnyRole, NamedTags::None),
    // HELLO asks for a role itself, because it may bring the token.
    rule("HELLO", Needs::Nothing, NamedTags::None),
    rule("AUTH", Needs::Nothing, NamedTags::None),
    rule("RESET", Needs::Nothing, NamedTags::None),
    rule("QUIT", Needs::Nothing, NamedTags::None),
    rule("POST", Needs::Nothing, NamedTags::None),
    rule("HOST:", Needs::Nothing, NamedTags::None),
];

/// The rule of a command. In a constant, a command without a rule does not compile.
pub(crate) const fn command(name: &'static str) -> CommandRule {
    let mut at = 0;
    while at < COMMANDS.len() {
        if is_equal(COMMANDS[at].name.as_bytes(), name.as_bytes()) {
            return COMMANDS[at];
        }
        at += 1;
    }
    panic!("the command has no row in the matrix of roles")
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests;
