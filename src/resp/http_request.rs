//! A request of HTTP that came to this port: it gets an answer in its own words, and nothing behind it is carried out.

use super::call::{Call, CommandOutcome};
use super::parser::Args;

const METHODS: [&[u8]; 7] = [b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"];

/// Answers a command that is the first line of a request of HTTP.
///
/// # Errors
/// The end of the connection, if it is one.
#[cold]
pub(super) fn check(call: &mut Call<'_>, args: Args<'_>) -> Result<(), CommandOutcome> {
    let is_line = !call.bytes.starts_with(b"*") && args.len() == 3;
    let is_http = args.get(2).is_some_and(|version| version.starts_with(b"HTTP/1."));
    let is_method = args.get(0).is_some_and(|name| METHODS.contains(&name));
    if !is_line || !is_http || !is_method {
        return Ok(());
    }
    let at = match http_port(call) {
        Some(port) => format!("HTTP is at port {port}"),
        None => "HTTP has another".to_owned(),
    };
    let text = format!("this port speaks the Redis protocol; {at}\n");
    let head =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain;charset=UTF-8\r\nConnection: close";
    let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    call.out.extend_from_slice(answer.as_bytes());
    call.services.ids.metrics().request_failed(call.mode, "invalid_argument");
    Err(CommandOutcome::Close)
}

/// The port of HTTP that this node tells others; `None` while it belongs to no cluster.
fn http_port(call: &Call<'_>) -> Option<String> {
    let cluster = call.services.cluster.view();
    let own = cluster.nodes.into_iter().find(|node| node.id == cluster.node_id)?;
    own.http.rsplit_once(':').map(|(_, port)| port.to_owned())
}
