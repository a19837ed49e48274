//! Ports, peers, and the nodes of a running cluster.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use mintleaf_raft::{Target, have_it_prove};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::client::{BaseUrl, Client};
use super::super::failure::Failure;
use super::super::output::cell;
use super::super::status::lost_quorum;
use super::finding::{Finding, Findings};
use crate::access::AuthFile;
use crate::config::NodeConfig;
use crate::machine::clock::{Clock, SystemClock};
use crate::machine::entropy;

/// The longest wait for one peer or node.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// An answer that took longer says too little about a clock.
const CLOCK_ANSWER_MS_MAX: u64 = 500;

/// The URL of a node with these settings, for clients on the same machine.
pub(super) fn own_url(config: &NodeConfig) -> Option<BaseUrl> {
    let scheme = if config.client_tls.is_some() { "https" } else { "http" };
    let mut at = config.http;
    if at.ip().is_unspecified() {
        at.set_ip(if at.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    format!("{scheme}://{at}").parse().ok()
}

/// Whether a node can listen at its addresses, or already does.
pub(super) async fn ports(config: &NodeConfig, client: &Client, findings: &mut Findings) {
    let addresses = [("http", Some(config.http)), ("resp", config.resp), ("raft", config.raft)];
    let serves_here = match client.of_member(&config.http.to_string(), ANSWER_MAX) {
        Ok(here) => here.readiness().await.is_ok(),
        Err(_) => false,
    };
    for (flag, address) in addresses.into_iter().filter_map(|(flag, at)| Some((flag, at?))) {
        findings.push(("port", port(flag, address, serves_here)));
    }
}

fn port(flag: &str, address: SocketAddr, serves_here: bool) -> Finding {
    let hint = format!("another process listens there: stop it, or give another --{flag}");
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(format!("--{flag} {address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && serves_here => {
            let said =
                format!("--{flag} {address} is in use, apparently by the node that runs here");
            Finding::good(said)
        }
        Err(error) => Finding::bad(format!("--{flag} {address}: {error}"), hint),
    }
}

/// Whether the other founders, or the node where this one is to join, listen at their addresses and have the same keys.
pub(super) async fn peers(config: &NodeConfig, findings: &mut Findings) {
    let others = config.peers.iter().filter(|(id, _)| **id != config.node_id);
    let others = others.map(|(id, address)| (Some(*id), address));
    let join = config.join.iter().map(|address| (None, address));
    for (node_id, address) in others.chain(join) {
        findings.push(("peer", peer(Target { address, node_id }, config).await));
    }
}

async fn peer(target: Target<'_>, config: &NodeConfig) -> Finding {
    let who = target.node_id.map_or("the cluster to join".to_owned(), |id| format!("node {id}"));
    let address = target.address;
    match timeout(ANSWER_MAX, TcpStream::connect(address)).await {
        Ok(Ok(tcp)) => match proof(target, tcp, config).await {
            Ok(with) => Finding::good(format!("{who} can be reached at {address}{with}")),
            Err(why) => Finding::bad(
                format!("{who} at {address} is not believed: {why}"),
                "its log says what it found wrong with this node, if it was the one that refused",
            ),
        },
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Finding::doubtful(
            format!("{who}: nothing listens at {address}"),
            "it is not running, or its --raft is another address",
        ),
        Ok(Err(error)) => Finding::bad(
            format!("{who} cannot be reached at {address}: {error}"),
            "check the name and the network in between",
        ),
        Err(_) => Finding::bad(
            format!(
                "{who} cannot be reached at {address}: no answer in {} s",
                ANSWER_MAX.as_secs()
            ),
            "a firewall in between, or a machine that is off",
        ),
    }
}

/// Whether the process at the other end proves to be the node that is looked for, with the keys of this node; nothing
/// is to be said where no keys are set, or they cannot be used, which another check reports.
async fn proof(
    target: Target<'_>,
    tcp: TcpStream,
    config: &NodeConfig,
) -> Result<&'static str, String> {
    let Some(keys) = &config.peer_keys else { return Ok("") };
    let read = keys.read().and_then(|files| keys.credentials(config.node_id, &files));
    let (Ok(credentials), Ok(store)) = (read, entropy::random_u128()) else { return Ok("") };
    let now_ms = SystemClock::default().now_ms();
    let proving = have_it_prove(target, tcp, (config.node_id, store), credentials, now_ms);
    match timeout(ANSWER_MAX, proving).await {
        Ok(Ok(_)) => Ok(", with the same keys"),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it did not prove itself in {} s", ANSWER_MAX.as_secs())),
    }
}

/// The check of the nodes that run.
const CLUSTER: &str = "cluster";

/// How far this machine's clock is from those of the nodes, how the nodes are, and whether they are those of the node
/// with these settings.
pub(super) async fn cluster(client: &Client, config: Option<&NodeConfig>, findings: &mut Findings) {
    let view = match client.get("/v1/cluster").await {
        Ok(view) => view,
        Err(failure) => {
            let hint = "--url or MINTLEAF_URL names a node of the running cluster, if there is one";
            return findings.push((CLUSTER, Finding::unknown(failure.detail, hint)));
        }
    };
    findings.push((CLUSTER, whose(&view, client, config).await));
    if view["leader_id"].is_null()
        && let Some(lost) = lost_quorum(&view)
    {
        let hint = "mintleaf help quorum-loss says what still works, and the way out";
        findings.push((CLUSTER, Finding::bad(format!("no quorum: {lost}"), hint)));
    }
    let source = config.and_then(|config| config.auth_file.as_ref());
    let file = source.and_then(|source| source.parse(&source.read().ok()?).ok());
    let mut offsets_ms = Vec::new();
    for node in view["nodes"].as_array().into_iter().flatten() {
        let address = node["http"].as_str().unwrap_or_default();
        let Ok(member) = client.of_member(address, ANSWER_MAX) else { continue };
        match view_and_offset(&member).await {
            Ok((view, offset_ms)) => {
                offsets_ms.extend(offset_ms);
                let other = file.as_ref().and_then(|file| other_auth_file(&view, file));
                findings.extend(other.map(|other| (CLUSTER, other)));
            }
            Err(_) => findings.push((
                CLUSTER,
                Finding::doubtful(
                    format!("node {} does not answer at {address}", cell(node, "id")),
                    "it is not running, or cannot be reached from here",
                ),
            )),
        }
    }
    let skew_max = config.map_or(SKEW_DEFAULT, |config| config.snowflake.max_clock_skew);
    findings.push(("clock against the cluster", clock(offsets_ms, skew_max)));
}

/// The cluster that answers, and whether the node that runs with these settings belongs to another.
async fn whose(view: &Value, client: &Client, config: Option<&NodeConfig>) -> Finding {
    let named = |view: &Value| Some(view["cluster_id"].as_str()?.get(..8)?.to_owned());
    let (at, theirs) = (client.asked(), named(view));
    let own = match config {
        Some(config) => own_cluster(client, config).await.filter(|own| named(own).is_some()),
        None => None,
    };
    let own = own.filter(|own| own["cluster_id"] != view["cluster_id"]);
    let theirs = theirs.unwrap_or("without an id".to_owned());
    match own.as_ref().and_then(named) {
        None => Finding::good(format!("cluster {theirs} answers at {at}")),
        Some(own) => Finding::doubtful(
            format!(
                "cluster {theirs} answers at {at}, and the node that runs here belongs to {own}"
            ),
            "--url or MINTLEAF_URL names a node of another cluster: unset it, or name one of this cluster",
        ),
    }
}

/// What the node that runs with these settings says of its cluster, if one does.
async fn own_cluster(client: &Client, config: &NodeConfig) -> Option<Value> {
    let own = client.of_member(own_url(config)?.host_port(), ANSWER_MAX).ok()?;
    own.get("/v1/cluster").await.ok()
}

/// How far a clock may be off unless a setting gives another bound.
const SKEW_DEFAULT: Duration = Duration::from_secs(2);

/// That a node judges callers by another auth file than this one.
fn other_auth_file(view: &Value, file: &AuthFile) -> Option<Finding> {
    let (theirs, own) = (view["auth_file"].as_str()?, file.fingerprint());
    (theirs != own).then(|| {
        let node = cell(view, "node_id");
        let said = format!(
            "node {node} has another auth file in force ({theirs}) than the one here ({own})"
        );
        let hint = "give all nodes the same; mintleaf cluster status shows which has which, and which could not read its \
                    own";
        Finding::doubtful(said, hint)
    })
}

/// What a node says of the cluster, and about how far its clock is ahead of this machine's, in milliseconds. That may be
/// wrong by half of the time that the answer took; `None` if that was long.
async fn view_and_offset(member: &Client) -> Result<(Value, Option<i64>), Failure> {
    let clock = SystemClock::default();
    let (asked_ms, asked) = (clock.now_ms(), clock.monotonic_ms());
    let view = member.get("/v1/cluster").await?;
    let took_ms = clock.monotonic_ms() - asked;
    // A node hears itself at any time.
    let mut nodes = view["nodes"].as_array().into_iter().flatten();
    let own = nodes.find(|node| node["id"] == view["node_id"]);
    let theirs_ms = own.and_then(|own| own["last_heard_ms"].as_u64());
    let ahead_ms = |theirs_ms: u64| i128::from(theirs_ms) - i128::from(asked_ms + took_ms / 2);
    let precise = theirs_ms.filter(|_| took_ms <= CLOCK_ANSWER_MS_MAX);
    let offset_ms = precise.and_then(|theirs_ms| i64::try_from(ahead_ms(theirs_ms)).ok());
    Ok((view, offset_ms))
}

fn clock(mut offsets_ms: Vec<i64>, skew_max: Duration) -> Finding {
    offsets_ms.sort_unstable();
    let Some(median_ms) = offsets_ms.get(offsets_ms.len().saturating_sub(1) / 2) else {
        return Finding::unknown("no node could be asked for its clock", "see above");
    };
    let (off, skew_ms) = (median_ms.unsigned_abs(), skew_max.as_millis());
    let side = if *median_ms > 0 { "behind" } else { "ahead of" };
    let said = format!("{off} ms {side} the median of {} nodes", offsets_ms.len());
    let hint = format!(
        "beyond --max-clock-skew ({skew_ms} ms), a node gives no snowflake ids: synchronize the clock with NTP"
    );
    match u128::from(off) {
        off if off > skew_ms => Finding::bad(said, hint),
        off if off > skew_ms / 2 => Finding::doubtful(said, hint),
        _ => Finding::good(said),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_clock_is_held_against_the_median_of_the_nodes() {
        let skew = Duration::from_secs(2);
        let health = |offsets: &[i64]| clock(offsets.to_vec(), skew).health;
        assert_eq!(health(&[-3, 5, 900_000]), Health::Good);
        assert_eq!(health(&[-1_500, -1_501, 0]), Health::Doubtful);
        assert_eq!(health(&[2_001, 2_500, 0]), Health::Bad);
        assert_eq!(health(&[]), Health::Unknown);
    }
}
