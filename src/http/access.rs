//! Whether the sender of a request may make it.
//!
//! With an auth file, the token of the request decides. Without one, every caller that reaches the port may take ids
//! and read. Admin requests change something, or read everything there is, and clients have no names then. So a node
//! takes these requests from its own machine alone, and likewise the admin requests of callers without a token, where
//! an auth file allows them any. A page that a browser on that machine shows can send requests too, under any name that
//! its site has given to 127.0.0.1, and a proxy on that machine passes on requests from elsewhere: the headers
//! distinguish them from an administrator's own. A page of another site gets nothing at all of what is open to callers
//! without a token: it would use up numbers, or learn the names of tags. Links from there reach only what reveals
//! nothing about the cluster, such as the page of the console.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, VIA};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use mintleaf_core::tag::BizTag;

use super::host;
use super::parameters::Parameters;
use super::problem::Problem;
use crate::access::{AccessPolicy, Caller, Demand, Denial, Needs, Scope, Token, Tokens};
use crate::service::Actor;
use crate::text::address::is_loopback_host;

/// Headers that show that a proxy passed the request on.
static OF_PROXIES: [HeaderName; 8] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("cf-connecting-ip"),
    HeaderName::from_static("true-client-ip"),
];
/// The header that names the relation of the page that sends a request to this site, and its values for other sites.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const OTHER_SITES: [&[u8]; 2] = [b"cross-site", b"same-site"];

/// Where a connection's requests can come from.
#[derive(Clone, Debug)]
pub(super) struct Access {
    doors: AccessPolicy,
    /// Whether the other end of the connection is on this machine.
    is_local: bool,
}

impl Access {
    /// The access of a connection whose other end is not known.
    pub(super) fn new(doors: AccessPolicy) -> Self {
        Self { doors, is_local: false }
    }

    /// The access of a connection whose other end is on this machine, or not.
    pub(super) fn from(self, is_local: bool) -> Self {
        Self { is_local, ..self }
    }

    /// The tokens of the node's auth file, if it has one.
    #[inline]
    pub(super) fn tokens(&self) -> Option<&Tokens> {
        self.doors.tokens.as_deref()
    }

    /// The same for a handler that judges a request by itself.
    pub(super) fn shared_tokens(&self) -> Option<Arc<Tokens>> {
        self.doors.tokens.clone()
    }

    /// Why a request that needs this much is refused, if its sender may not make it. `caller` is the sender of the
    /// connection's requests.
    pub(super) fn refusal(
        &self,
        demand: &Demand<'_>,
        head: &Parts,
        caller: &mut Caller,
    ) -> Option<Problem> {
        if let Some(tokens) = self.tokens() {
            match authorization(&head.headers) {
                None if demand.scope == Scope::TagOfParameter => {
                    caller.shows(tokens, Parameters::of_query(head).bearer().as_deref());
                }
                shown => caller.shows(tokens, shown),
            }
            let verdict = caller.check_request(demand.needs, demand.scope, || demand.tag());
            if let Err(denial) = verdict {
                return Some(refused(denial));
            }
            if caller.token().is_some() {
                return None;
            }
        }
        self.refusal_without_a_token(head, demand.needs)
    }

    /// Why a request without a token is refused, if it is, given what the request needs.
    fn refusal_without_a_token(&self, head: &Parts, needs: Needs) -> Option<Problem> {
        let why = match needs {
            _ if self.doors.insecure => None,
            Needs::Nothing => None,
            Needs::Backup | Needs::Admin => self.not_admin(head),
            Needs::AnyRole | Needs::Issue | Needs::Read => is_of_another_site(&head.headers).then_some(
                "ids and what a node knows are not given to pages of other sites, which Sec-Fetch-Site and Origin tell \
                 of: ask from a page under the name that Host says, or from a program, or give that page's server a \
                 token",
            ),
        };
        why.map(Problem::forbidden)
    }

    /// Why a request does not count as one of an administrator on this machine.
    fn not_admin(&self, head: &Parts) -> Option<&'static str> {
        let headers = &head.headers;
        if !self.is_local {
            return Some(
                "changes and backups are taken from the node's own machine only: send this to a loopback address there, \
                 or start the node with --insecure where something in front of it keeps strangers out",
            );
        }
        if OF_PROXIES.iter().any(|name| headers.contains_key(name)) {
            return Some(
                "changes and backups are not taken through a proxy, which Forwarded, Via, X-Forwarded-For and the \
                 like tell of: send this to the node itself, or start the node with --insecure where the proxy keeps \
                 strangers out",
            );
        }
        let target = head.uri.authority().map(|authority| authority.as_str());
        if !names_loopback(headers) || !target.is_none_or(|target| is_loopback(target.as_bytes())) {
            return Some(
                "changes and backups are taken under a loopback name only: ask for localhost, 127.0.0.1 or [::1], as \
                 Host says, or start the node with --insecure where something in front of it keeps strangers \
                 out",
            );
        }
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        if !headers.get_all(ORIGIN).iter().all(|origin| is_loopback_origin(origin.as_bytes()))
            || sites.any(|site| OTHER_SITES.contains(&site.as_bytes()))
        {
            return Some(
                "changes and backups are not taken from pages of other sites: Origin must be http:// or https:// \
                 with localhost, 127.0.0.1 or [::1], or be left out, and Sec-Fetch-Site must be same-origin or none",
            );
        }
        None
    }
}

/// The one `Authorization` of a request. Two of them count as one that is not a token.
#[inline]
pub(super) fn authorization(headers: &HeaderMap) -> Option<&[u8]> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => Some(b"two"),
        (given, _) => given.map(|value| value.as_bytes()),
    }
}

/// The token of an admitted request, if it has one. Handlers need it that learn from the body which tag a request is
/// about, or that record the actor of a change.
#[derive(Clone, Debug)]
pub(super) struct Sender(pub(super) Option<Arc<Token>>);

impl Sender {
    /// The name that changes of this sender are recorded under.
    pub(super) fn actor(&self) -> Actor {
        let token = self.0.as_deref();
        token.and_then(|token| Actor::parse(&token.name)).unwrap_or_default()
    }

    /// Checks whether the token reaches a tag.
    ///
    /// # Errors
    /// `forbidden`, when it does not.
    pub(super) fn check(&self, tag: &BizTag) -> Result<(), Problem> {
        match &self.0 {
            Some(token) if !token.reaches(tag.as_str().as_bytes()) => Err(refused(Denial::Tags)),
            _ => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Sender {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self(None)))
    }
}

/// The problem of a request that is refused by its token.
pub(super) fn refused(denial: Denial) -> Problem {
    match denial {
        Denial::NoToken => {
            Problem::unauthenticated("this needs a token: send `Authorization: Bearer TOKEN`")
        }
        Denial::NotBearer => {
            Problem::unauthenticated("this is no token: send one `Authorization: Bearer TOKEN`")
        }
        Denial::UnknownToken => {
            Problem::unauthenticated("the token is not one that this node knows")
        }
        Denial::Role { has, needs } => Problem::forbidden(format!(
            "this needs the role {}, and the token has the role {}",
            needs.roles(),
            has.name()
        )),
        Denial::Tags => Problem::forbidden("the token is for other tags"),
    }
}

/// Whether a browser reports that a page of another site sends this. A browser that sends `Sec-Fetch-Site` has compared
/// the sites itself; `Origin` counts where that header is missing.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        return sites.any(|site| OTHER_SITES.contains(&site.as_bytes()));
    }
    let is_own = |origin: &[u8]| {
        let own = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
        let host_port = origin.strip_prefix(b"http://").or(origin.strip_prefix(b"https://"));
        host_port.is_some_and(|asks| asks.eq_ignore_ascii_case(own) && !own.is_empty())
            || (names_loopback(headers) && is_loopback_origin(origin))
    };
    !headers.get_all(ORIGIN).iter().all(|origin| is_own(origin.as_bytes()))
}

/// Whether these headers show that a page in a browser sends a request.
pub(super) fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_FETCH_SITE) || headers.contains_key(ORIGIN)
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

/// Whether an `Origin` is one site of this machine. `null` is not a site, and a list of sites is not one.
fn is_loopback_origin(origin: &[u8]) -> bool {
    let host_port = origin.strip_prefix(b"http://").or(origin.strip_prefix(b"https://"));
    host_port.is_some_and(is_loopback)
}

#[cfg(test)]
mod tests;
