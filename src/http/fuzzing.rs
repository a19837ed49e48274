//! Entry points to the code that reads clients' bytes, for `tests/fuzz` and `benches`.

use std::sync::Arc;

use axum::http::{Request, Version};
use tokio::io::DuplexStream;

use super::access::Access;
use super::body::Fields;
use super::dispatch::Dispatch;
use super::query::Query;
use super::routes::route;
use super::{connection, fast_path, host, key, spelling};
use crate::access::{AccessPolicy, Caller, Tokens};
use crate::connection::drain::{self, Drain, DrainSender};
use crate::limits::HEADERS_MAX;
use crate::service::Services;
use crate::text::path_segment;

/// Serves connections that have no socket.
pub struct Connections {
    dispatch: Dispatch,
    _node: DrainSender,
    drain: Drain,
}

impl Connections {
    /// Connections to a node's services. Without tokens, their clients may change everything.
    pub fn new(services: Services, tokens: Option<Arc<Tokens>>) -> Self {
        let doors = AccessPolicy { tokens, insecure: true };
        let (_node, drain) = drain::drain();
        Self { dispatch: Dispatch::new(services, doors), _node, drain }
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, stream: DuplexStream) {
        let (read, write) = tokio::io::split(stream);
        let (dispatch, progress) = (self.dispatch.clone(), Arc::default());
        connection::serve_stream(read, write, dispatch, progress, self.drain.clone()).await;
    }
}

/// Where the plain requests for ids end that `bytes` begin with: as the fast path reads one after the other, and as
/// hyper's parser reads each.
pub fn plain_requests(bytes: &[u8]) -> [Vec<usize>; 2] {
    fast_path::ends(bytes)
}

/// Whether the request with this head, sent from this machine, counts as an administrator's; `None` when hyper's parser
/// or the dispatch refuses to read it.
pub fn is_admin(head: &[u8]) -> Option<bool> {
    let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut parsed);
    parsed.parse(head).ok().filter(httparse::Status::is_complete)?;
    let mut request = Request::builder().method(parsed.method?).uri(parsed.path?);
    for header in &*parsed.headers {
        request = request.header(header.name, header.value);
    }
    let version = if parsed.version? == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    let (mut head, ()) = request.version(version).body(()).ok()?.into_parts();
    spelling::normalize(&mut head);
    let is_readable = host::fault(version, &head.headers).is_none();
    let access = Access::new(AccessPolicy::default()).from(true);
    let demand = route(head.method.as_str(), head.uri.path());
    is_readable.then(|| access.refusal(&demand, &head, &mut Caller::default()).is_none())
}

/// The last segment of a path, undone from its escapes; `None` when it is refused.
pub fn key(raw: &str) -> Option<String> {
    path_segment::decode(raw).map(|key| key.into_owned())
}

/// Whether a path ends in a tag, and whether in a node id.
pub fn path(path: &str) -> [bool; 2] {
    [key::tag(path).is_ok(), key::node_id(path).is_ok()]
}

/// The integer `count` of a query that has nothing else; `None` when that is refused.
pub fn count(query: &str, count_max: u64) -> Option<u64> {
    let mut query = Query::parse(Some(query)).ok()?;
    let _ = query.text("after");
    let _ = query.choice("format", [("ids", false), ("ranges", true)]).ok()?;
    let count = query.integer("count", 1..=count_max).ok()??;
    query.finish().ok()?;
    Some(count)
}

/// The fields `step` and `start` of a JSON body that may have `tag` and `on` besides; `None` when
/// that is refused.
pub fn step_and_start(body: &[u8], max: u64) -> Option<[Option<u64>; 2]> {
    let mut fields = Fields::parse(body).ok()?;
    fields.text("tag").ok()?;
    fields.flag("on").ok()?;
    let step = fields.integer("step", 1..=max).ok()?;
    let start = fields.big_integer("start", 1..=max).ok()?;
    fields.finish().ok()?;
    Some([step, start])
}
