//! The costs of tokens, TLS and limits of tags.

use mintleaf_harness::Api;
use serde_json::json;

use super::counters::{ask_for_all, create_keys, increments};
use super::{LEAF, gets, ids};
use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::doors::{Door, NAME};
use crate::load::Load;
use crate::node::{Build, Node};
use crate::peers::nginx_by_tls;
use crate::slices::{Measure, compare};

/// How many tags are asked for in turn, so that no request equals the previous one.
const KEYS: u64 = 1_000;
/// A limit that no load reaches.
const UNREACHED: u32 = 1_000_000_000;

fn node(bench: &Bench, name: &str, door: Door) -> Result<Node> {
    Node::alone_of(bench, Build { name, door, ..Build::measured(bench) })
}

/// A node that requires a token, and one that requires none.
fn tokens(bench: &Bench) -> Result<([Node; 2], String)> {
    let nodes = [node(bench, "known", Door::Token)?, node(bench, "open", Door::Open)?];
    nodes.iter().try_for_each(|node| create_keys(node, KEYS))?;
    let token = nodes[0].token.clone().ok_or("the node knows no token")?;
    Ok((nodes, token))
}

/// Compares two loads, after each has asked for all keys.
fn of_loads(bench: &Bench, by: Measure, nodes: &[Node; 2], loads: &[Load; 2]) -> Result<Finding> {
    ask_for_all(bench, loads.each_ref())?;
    compare(bench, by, (&[&nodes[0].process], &loads[0]), (&[&nodes[1].process], &loads[1]))
}

/// Requests over HTTP with a token, to a node that requires it and to one that does not. The bytes are the
/// same, so only the check of the token differs.
pub(crate) fn token(bench: &Bench, depth: u64) -> Result<Finding> {
    let (nodes, token) = tokens(bench)?;
    let headers = format!("authorization: Bearer {token}\r\n");
    let loads = nodes.each_ref().map(|node| {
        let all = gets(bench, node.http, &format!("{LEAF}/key-{{key}}"));
        Load { keys: KEYS, depth, headers: headers.clone(), ..all }
    });
    of_loads(bench, Measure::Cpu, &nodes, &loads)
}

/// `INCR` on connections that are logged in, and on connections that need no login.
pub(crate) fn login(bench: &Bench, depth: u64) -> Result<Finding> {
    let (nodes, token) = tokens(bench)?;
    let login = format!("AUTH {NAME} {token}");
    let [known, open] = nodes.each_ref().map(|node| increments(bench, node.resp, KEYS, depth));
    of_loads(bench, Measure::Cpu, &nodes, &[Load { login, ..known }, open])
}

/// A tag with a limit that is never reached, and a tag without a limit.
pub(crate) fn limited(bench: &Bench, depth: u64) -> Result<Finding> {
    let node = ids::with_tag(Node::alone(bench)?)?;
    let created = json!({ "tag": "limited", "step": 1_000, "rate_limit": UNREACHED });
    let answer = Api(node.http).try_post("/v1/tags", &created)?;
    if !answer.is_ok() {
        return Err(format!("no tag with a limit: {answer:?}").into());
    }
    node.warm_up("limited")?;
    let [limited, free] = ["limited", ids::TAG]
        .map(|tag| Load { depth, ..gets(bench, node.http, &format!("{LEAF}/{tag}")) });
    compare(bench, Measure::Cpu, (&[&node.process], &limited), (&[&node.process], &free))
}

/// A node with TLS, and a load on kept connections with one id in each request.
fn tls(bench: &Bench) -> Result<(Node, Load)> {
    let node = ids::with_tag(node(bench, "tls", Door::Tls)?)?;
    let load = gets(bench, node.http, &format!("{LEAF}/{}", ids::TAG));
    let load = Load { ca: node.ca.clone(), ..load };
    Ok((node, load))
}

pub(crate) fn tls_to_nginx(bench: &Bench) -> Result<Finding> {
    let ((node, ours), (nginx, ca)) = (tls(bench)?, nginx_by_tls(bench)?);
    let theirs = Load { target: nginx.address, ca: Some(ca), ..ours.clone() };
    compare(bench, Measure::Cpu, (&[&node.process], &ours), (&[&nginx.process], &theirs))
}

pub(crate) fn tls_to_plain(bench: &Bench) -> Result<Finding> {
    let ((node, ours), plain) = (tls(bench)?, ids::with_tag(Node::alone(bench)?)?);
    let theirs = Load { target: plain.http, ca: None, ..ours.clone() };
    compare(bench, Measure::Cpu, (&[&node.process], &ours), (&[&plain.process], &theirs))
}
