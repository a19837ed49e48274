//! `mintleaf dev`: a working cluster in one process, with nothing to configure.
//!
//! Its nodes are real: each has its own data directory, log, ports and threads. A separate thread watches each node,
//! and starts it again when it had to stop and another start may help.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mintleaf_raft::{Credentials, Remedy};
use tokio::sync::watch;

use super::dev_data::refuse_other_data;
use super::failure::NodeFailure;
use super::node::{Leadership, Process, RunningNode, SilentNode, absolute};
use super::open_files::{Nodes, client_capacity};
use super::signals::{Reload, Signals, follow_log_level, listen_for_signals};
use super::warnings::{warn_if_exposed, warn_of_tokens_in_clear};
use crate::config::{DevConfig, NodeConfig};
use crate::machine::entropy;
use crate::server::logging::Log;

/// From a node's client port to its internal one: 8080 goes with 9080.
const RAFT_PORT_OFFSET: u16 = 1_000;
/// Pause before a node that had to stop is started again.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// A thread that watches a node, until the process stops or the node may not start again.
type Watcher = JoinHandle<WatchEnd>;

/// How the watch over a node ended.
enum WatchEnd {
    /// The process stops, and the node is to stop together with the others.
    Running(Box<RunningNode>),
    /// The process stops, or the node could not be started at all; it does not run.
    NotRunning,
    /// The node may not start again.
    GaveUp(NodeFailure),
}

/// The one report of a watching thread: the node's client addresses, or the reason why the node cannot
/// start.
type FirstStart = Result<Addresses, NodeFailure>;

/// Where one node serves clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Addresses {
    http: SocketAddr,
    resp: Option<SocketAddr>,
}

/// Runs a cluster in this process until a signal, or until none of its nodes may be started again.
///
/// # Errors
/// Why a node did not start or may not start again, with the exit code for that: [`NodeFailure::exit_code`].
pub fn dev(config: &DevConfig, log: Log) -> Result<(), NodeFailure> {
    let first = &config.first;
    refuse_other_data(&first.data, config.nodes)?;
    warn_if_exposed(&first.exposed);
    warn_of_tokens_in_clear(&first.tokens_in_clear);
    keep_others_out(&first.data);
    let Signals { stopping, reload } = listen_for_signals()?;
    follow_log_level(log, reload.clone())?;
    let (report, reports) = mpsc::channel();
    let mut watchers: Vec<Watcher> = Vec::new();
    let process = process(config, reload)?;
    for node in node_configs(config)? {
        watchers.push(watch_node(node, process.clone(), stopping.clone(), report.clone())?);
    }
    drop(report);
    let started: Result<Vec<_>, _> = reports.iter().take(watchers.len()).collect();
    match started {
        Ok(mut addresses) => {
            addresses.sort();
            greet(&addresses, &first.data, first.client_tls.is_some())?;
            let (mut running, mut gave_up) = (Vec::new(), None);
            // A watcher that panicked has printed why; the others go on to their end.
            for end in watchers.into_iter().filter_map(|watcher| watcher.join().ok()) {
                match end {
                    WatchEnd::Running(node) => running.push(*node),
                    WatchEnd::NotRunning => {}
                    WatchEnd::GaveUp(why) => gave_up = Some(why),
                }
            }
            stop_together(running);
            gave_up.filter(|_| !*stopping.borrow()).map_or(Ok(()), Err)
        }
        // The process ends with the first node that cannot start, and the others with it.
        Err(error) => Err(error),
    }
}

/// Stops nodes as one: each gives its worker ids back while all of them still keep the log, and no node stands for
/// election because another one ends.
fn stop_together(nodes: Vec<RunningNode>) {
    let silent = at_once(nodes, RunningNode::stop_serving);
    silent.iter().for_each(SilentNode::stand_down);
    at_once(silent, SilentNode::stop);
}

/// Does the same with each, at the same time. Where that panics, the panic is printed and the result is left out.
fn at_once<T: Send, R: Send>(all: Vec<T>, act: impl Fn(T) -> R + Copy + Send) -> Vec<R> {
    thread::scope(|scope| {
        let begun: Vec<_> = all.into_iter().map(|one| scope.spawn(move || act(one))).collect();
        begun.into_iter().filter_map(|acting| acting.join().ok()).collect()
    })
}

/// Takes the right to enter from all users except the owner, if the directory holds nothing but nodes. Each node closes
/// its own directory anyway, so a failure here does not matter.
fn keep_others_out(data: &Path) {
    let is_node = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with("node-");
    let Ok(mut entries) = fs::read_dir(data) else { return };
    if entries.all(|entry| entry.is_ok_and(|entry| is_node(&entry))) {
        let _ = fs::set_permissions(data, Permissions::from_mode(0o700));
    }
}

/// What the nodes share.
fn process(config: &DevConfig, reload: Reload) -> Result<Process, NodeFailure> {
    let count = NonZeroUsize::new(usize::from(config.nodes)).unwrap_or(NonZeroUsize::MIN);
    let raft = config.nodes > 1;
    let nodes = Nodes { count, raft, resp: config.first.resp.is_some() };
    let clients = client_capacity(nodes)?;
    let shared = raft.then(own_secret).transpose()?;
    let peer_connections_max = nodes.peer_connections_max();
    Ok(Process { reload, shared, clients, peer_connections_max })
}

/// A secret that only the nodes of this process know, and no later process needs.
fn own_secret() -> Result<Arc<Credentials>, NodeFailure> {
    let credentials = Credentials::from_secrets(&[entropy::random_bytes::<32>()?]);
    credentials.map(Arc::new).map_err(|error| NodeFailure::Usage(error.to_string()))
}

fn node_configs(config: &DevConfig) -> Result<Vec<NodeConfig>, NodeFailure> {
    let (alone, first) = (config.nodes == 1, &config.first);
    let mut nodes = Vec::new();
    for number in 0..config.nodes {
        let (http, raft) = addresses(first.http, number)?;
        let raft_host = SocketAddr::new(raft.ip(), 0).to_string();
        nodes.push(NodeConfig {
            node_id: u64::from(number) + 1,
            http,
            resp: first.resp.map(|first| at_place(first, number)),
            raft: (!alone).then_some(raft),
            data: first.data.join(format!("node-{}", number + 1)),
            advertise_http: http.ip().is_unspecified().then_some(raft_host),
            ..first.clone()
        });
    }
    let address = |node: &NodeConfig| node.raft.map(|raft| raft.to_string()).unwrap_or_default();
    let peers: BTreeMap<_, _> = nodes.iter().map(|node| (node.node_id, address(node))).collect();
    nodes.iter_mut().for_each(|node| node.peers = peers.clone());
    Ok(nodes)
}

/// The client and the internal address of the node at this place, counted from 0. The internal one is a loopback
/// address even where clients come from elsewhere: nodes of one process need only each other.
fn addresses(first: SocketAddr, place: u8) -> Result<(SocketAddr, SocketAddr), NodeFailure> {
    let mut raft = first;
    match first.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() => raft.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if !ip.is_loopback() => raft.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    if first.port() == 0 {
        return Ok((first, TcpListener::bind((raft.ip(), 0))?.local_addr()?));
    }
    let http = at_place(first, place);
    let raft_port = http.port().checked_add(RAFT_PORT_OFFSET);
    raft.set_port(raft_port.unwrap_or(http.port() - RAFT_PORT_OFFSET));
    Ok((http, raft))
}

/// The address of the node at this place: ports are consecutive, and port 0 stays 0, any free one.
fn at_place(first: SocketAddr, place: u8) -> SocketAddr {
    let mut address = first;
    if first.port() != 0 {
        address.set_port(first.port() + u16::from(place));
    }
    address
}

/// Starts a node on its own thread, and again whenever it had to stop and another start may help.
fn watch_node(
    mut config: NodeConfig,
    process: Process,
    mut stopping: watch::Receiver<bool>,
    report: mpsc::Sender<FirstStart>,
) -> io::Result<Watcher> {
    let name = format!("mintleaf-node-{}", config.node_id);
    thread::Builder::new().name(name).spawn(move || {
        let mut first_start = Some(report);
        while !*stopping.borrow() {
            match RunningNode::start(&config, &process) {
                Ok(mut node) => {
                    // The port that was free at the first start is this node's from now on.
                    let (http, resp) = (node.http_addr(), node.resp_addr());
                    (config.http, config.resp) = (http, resp);
                    if let Some(report) = first_start.take() {
                        let _ = report.send(Ok(Addresses { http, resp }));
                    }
                    let ended = node.run(&mut stopping);
                    let ended = ended.or_else(|| node.drain(config.drain, Leadership::Kept));
                    let Some(why) = ended else { return WatchEnd::Running(Box::new(node)) };
                    node.stop();
                    match NodeFailure::Stopped(why) {
                        why if why.remedy() != Remedy::Restart => return gave_up(&config, why),
                        why => {
                            let node_id = config.node_id;
                            tracing::error!(node_id, %why, "node stopped; restarting");
                        }
                    }
                }
                Err(error) => {
                    if let Some(report) = first_start.take() {
                        let _ = report.send(Err(error));
                        return WatchEnd::NotRunning;
                    }
                    if error.remedy() != Remedy::Restart {
                        return gave_up(&config, error);
                    }
                    tracing::error!(node_id = config.node_id, %error, "node cannot restart");
                }
            }
            pause(&mut stopping);
        }
        WatchEnd::NotRunning
    })
}

/// Logs that a node is not started again; the other nodes go on.
fn gave_up(config: &NodeConfig, why: NodeFailure) -> WatchEnd {
    tracing::error!(node_id = config.node_id, %why, "node stopped, and is not started again");
    WatchEnd::GaveUp(why)
}

/// Waits out the restart interval, or until the process stops.
fn pause(stopping: &mut watch::Receiver<bool>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return;
    };
    let stopped = async { stopping.wait_for(|stop| *stop).await.is_ok() };
    let _ = runtime.block_on(async { tokio::time::timeout(RESTART_INTERVAL, stopped).await });
}

/// Shows a person what runs where and what to type next.
fn greet(addresses: &[Addresses], data: &Path, has_tls: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Some(&Addresses { http: first, resp }) = addresses.first() else { return Ok(()) };
    let s = if has_tls { "s" } else { "" };
    let [curl, redis_cli] = match has_tls {
        true => ["curl --cacert CA.pem", "redis-cli --tls --cacert CA.pem"],
        false => ["curl", "redis-cli"],
    };
    writeln!(out, "mintleaf dev: {} on this machine", nodes(addresses.len()))?;
    for address in addresses {
        writeln!(out, "  listening on   http{s}://{}", address.http)?;
    }
    for resp in addresses.iter().filter_map(|address| address.resp) {
        writeln!(out, "                 redis{s}://{resp}")?;
    }
    writeln!(out, "  console        http{s}://{first}/ in a browser")?;
    writeln!(out, "  data in        {}", absolute(data))?;
    writeln!(out, "  try            {curl} http{s}://{first}/api/segment/get/orders")?;
    writeln!(out, "                 {curl} 'http{s}://{first}/v1/segment/orders?count=10'")?;
    writeln!(out, "                 {curl} http{s}://{first}/v1/snowflake")?;
    if let Some(resp) = resp {
        let (host, port) = (resp.ip(), resp.port());
        writeln!(out, "                 {redis_cli} -h {host} -p {port} INCR orders")?;
    }
    if addresses.len() == 1 {
        writeln!(
            out,
            "  three nodes    mintleaf dev --nodes 3 --data three-nodes, once this one is stopped"
        )?;
    }
    writeln!(out, "  stop           ctrl-c; the next start carries on")?;
    out.flush()
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
