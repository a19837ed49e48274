//! Who may do what: the role that a request needs, and whether its sender has it.
//!
//! Anybody who reaches the port may take ids and read. Admin requests change something, and clients have no
//! names, so these requests are taken from the node's own machine alone. A page that a browser there
//! shows can send requests too, under whatever name its site has given to 127.0.0.1, and a proxy on that
//! machine passes on requests of others: the headers tell them apart from an administrator's own.

use axum::http::header::{FORWARDED, HOST, ORIGIN, VIA};
use axum::http::{HeaderMap, HeaderName, Method, Request};

use super::host;
use super::paths::{LEAF_DECODE, LEAF_SEGMENT, LEAF_SNOWFLAKE, V1_SEGMENT, V1_SNOWFLAKE};
use super::problem::Problem;
use crate::address::is_loopback_host;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What the sender of a request must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Take ids, with what that needs: the creation of a tag on first use, and reading ids.
    Issue,
    /// Read everything else.
    Read,
    /// Change tags, the membership, and whatever else can be changed.
    Admin,
}

/// One path, or all that begin alike.
#[derive(Clone, Copy, Debug)]
enum Paths {
    Exactly(&'static str),
    Below(&'static str),
}

/// The roles that requests for some paths need: those that only read by their method, and all others.
#[derive(Clone, Copy, Debug)]
struct Rule {
    paths: Paths,
    reads: Role,
    others: Role,
}

const fn rule(paths: Paths, reads: Role, others: Role) -> Rule {
    Rule { paths, reads, others }
}

/// The first rule whose paths fit is the one that holds.
const RULES: [Rule; 6] = [
    rule(Paths::Below(LEAF_SEGMENT), Role::Issue, Role::Issue),
    rule(Paths::Below(LEAF_SNOWFLAKE), Role::Issue, Role::Issue),
    rule(Paths::Below(V1_SEGMENT), Role::Issue, Role::Issue),
    rule(Paths::Exactly(V1_SNOWFLAKE), Role::Issue, Role::Issue),
    rule(Paths::Below(V1_SNOWFLAKE), Role::Issue, Role::Admin),
    rule(Paths::Exactly(LEAF_DECODE), Role::Issue, Role::Admin),
];
/// The rule of all other paths. A request that nobody has thought of needs the most.
const OTHERWISE: Rule = rule(Paths::Below(""), Role::Read, Role::Admin);

impl Role {
    /// The role that a request needs.
    pub(super) fn needed(method: &Method, path: &str) -> Self {
        let fits = |rule: &&Rule| match rule.paths {
            Paths::Exactly(exactly) => path == exactly,
            Paths::Below(begin) => path.starts_with(begin),
        };
        let rule = RULES.iter().find(fits).unwrap_or(&OTHERWISE);
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => rule.reads,
            _ => rule.others,
        }
    }
}

/// Whom a connection's requests can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Whether anybody is an administrator who can reach the port.
    insecure: bool,
    /// Whether the other end of the connection is on this machine.
    is_local: bool,
}

impl Access {
    /// The access of a connection whose other end is not known.
    pub(super) fn new(insecure: bool) -> Self {
        Self { insecure, is_local: false }
    }

    /// The access of a connection whose other end is on this machine, or not.
    pub(super) fn from(self, is_local: bool) -> Self {
        Self { is_local, ..self }
    }

    /// Why a request is refused whose sender has not the role that it needs.
    pub(super) fn refusal<B>(self, request: &Request<B>) -> Option<Problem> {
        match Role::needed(request.method(), request.uri().path()) {
            Role::Issue | Role::Read => None,
            Role::Admin if self.insecure => None,
            Role::Admin => self.not_admin(request).map(Problem::forbidden),
        }
    }

    /// Why a request is not taken for an administrator's on this machine.
    fn not_admin<B>(self, request: &Request<B>) -> Option<&'static str> {
        let headers = request.headers();
        if !self.is_local {
            return Some(
                "changes are taken from the node's own machine only: send this to a loopback address there, \
                 or start the node with --insecure where something in front of it keeps strangers out",
            );
        }
        if [FORWARDED, X_FORWARDED_FOR, VIA].iter().any(|name| headers.contains_key(name)) {
            return Some(
                "changes are not taken through a proxy, which Forwarded, X-Forwarded-For and Via tell of: \
                 send this to the node itself, or start the node with --insecure where the proxy keeps \
                 strangers out",
            );
        }
        let target = request.uri().authority().map(|authority| authority.as_str());
        if !names_loopback(headers) || !target.is_none_or(|target| is_loopback(target.as_bytes())) {
            return Some(
                "changes are taken under a loopback name only: ask for localhost, 127.0.0.1 or [::1], as \
                 Host says, or start the node with --insecure where something in front of it keeps strangers \
                 out",
            );
        }
        if !headers.get_all(ORIGIN).iter().all(|origin| is_loopback_origin(origin.as_bytes())) {
            return Some(
                "changes are not taken from pages of other sites: Origin must be http:// or https:// with \
                 localhost, 127.0.0.1 or [::1], or be left out",
            );
        }
        None
    }
}

/// Whether a request has one `Host`, and that is a loopback name.
fn names_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => is_loopback(host.as_bytes()),
        _ => false,
    }
}

fn is_loopback(host_port: &[u8]) -> bool {
    host::name(host_port).is_some_and(is_loopback_host)
}

/// Whether an `Origin` is one site of this machine: `null` is none, and a list of them is not one.
fn is_loopback_origin(origin: &[u8]) -> bool {
    let host_port = origin.strip_prefix(b"http://").or(origin.strip_prefix(b"https://"));
    host_port.is_some_and(is_loopback)
}

#[cfg(test)]
mod tests;
