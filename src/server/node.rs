//! One node, from its data directory to its client port.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_raft::{Credentials, Node, Options, Security, StopReason, Tuning};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::assemble::{AssembledNode, Assembly, assemble};
use super::client_credentials::ClientCredentials;
use super::client_tokens::ClientTokens;
use super::draining;
use super::failure::NodeFailure;
use super::followed_files::follow;
use super::hot_tags_file::HotTagsFile;
use super::last_backup_file::{last_backup_s, remember_backups};
use super::machine_watch::watch_machine;
use super::peer_credentials::PeerCredentials;
use super::quorum_watch::watch_quorum;
use super::signals::Reload;
use super::supervisor::keep_informed;
use crate::access::AccessPolicy;
use crate::config::{NodeConfig, foreign_owner};
use crate::listener::{self, ClientCapacity, ClientPort, ClientPorts, RunningServer};
use crate::machine::clock::{Clock, SystemClock};
use crate::machine::entropy;

/// Threads of the runtime that carries Raft and the grabs. A commit is a chain of short steps; a second thread would be
/// woken for most of them and find nothing to do. Long work (syncs, snapshots) has separate threads.
const RAFT_THREADS: usize = 1;
/// Time that a stop leaves to work that does not end by itself.
const TEARDOWN_MAX: Duration = Duration::from_secs(5);

/// What a node gets from its process, besides its settings.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Requests to read files again.
    pub reload: Reload,
    /// The credentials that the nodes of the process share, in place of those in files.
    pub shared: Option<Arc<Credentials>>,
    /// How many clients are served, and on how many threads.
    pub clients: ClientCapacity,
    /// Connections that the internal port keeps open at most.
    pub peer_connections_max: usize,
}

/// A node that answers clients.
pub struct RunningNode {
    runtime: Runtime,
    assembled: AssembledNode,
    clients: RunningServer,
    hot_tags: Arc<HotTagsFile>,
    http_addr: SocketAddr,
    resp_addr: Option<SocketAddr>,
}

impl RunningNode {
    /// Starts a node. Must not be called from within a runtime.
    ///
    /// # Errors
    /// See [`NodeFailure`].
    pub fn start(config: &NodeConfig, process: &Process) -> Result<Self, NodeFailure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(RAFT_THREADS)
            .thread_name("mintleaf-raft")
            .on_thread_start(mintleaf_raft::lower_priority)
            .enable_all()
            .build()?;
        let _within = runtime.enter();
        check_clock(&SystemClock::default())?;
        check_owner(&config.data)?;
        let tokens = config.auth_file.clone().map(ClientTokens::open).transpose()?;
        let client_tls = config.client_tls.clone().map(ClientCredentials::open).transpose()?;
        let keys = config.peer_keys.clone().filter(|_| process.shared.is_none());
        let keys = keys.map(|keys| PeerCredentials::open(keys, config.node_id)).transpose()?;
        let http = bind(config.http)?;
        let resp = config.resp.map(bind).transpose()?;
        let http_addr = http.local_addr();
        let resp_addr = resp.as_ref().map(ClientPort::local_addr);
        let security = match (&process.shared, &keys) {
            (Some(shared), _) => Security::Tls(watch::channel(Arc::clone(shared)).1),
            (None, Some((keys, _))) => Security::Tls(keys.watch()),
            (None, None) => Security::Plain,
        };
        let advertise_http = advertised(config, http_addr);
        let options = options(config, process, advertise_http.clone(), security)?;
        let assembly = Assembly {
            clock: Arc::new(SystemClock::default()),
            snowflake: config.snowflake.clone(),
            nonce: entropy::random_u128()?,
            secret: entropy::random_u128()?,
            settings: config.service,
            draw_key: entropy::random_bytes,
        };
        let opened = assemble(assembly, |state, clock| Node::open(options, state, clock));
        // Boxed, so that tokio's schedulers share one copy of the code, which makes the binary smaller.
        let opened: Pin<Box<dyn Future<Output = _>>> = Box::pin(opened);
        let assembled = runtime.block_on(opened)?;
        let services = &assembled.services;
        if let Some(address) = resp_addr {
            let advertised = config.advertise_resp.as_deref();
            services.cluster.serve_redis_at(advertised, &advertise_http, address.port());
        }
        let doors = AccessPolicy {
            tokens: tokens.as_ref().map(|(it, _)| it.current()),
            insecure: config.insecure,
        };
        if let Some(tokens) = &doors.tokens {
            services.cluster.show_tokens(Arc::clone(tokens));
        }
        let ports = ClientPorts { http, resp, tls: client_tls.as_ref().map(|(it, _)| it.watch()) };
        runtime.spawn(follow(keys, process.reload.clone(), services.clone()));
        runtime.spawn(follow(client_tls, process.reload.clone(), services.clone()));
        runtime.spawn(follow(tokens, process.reload.clone(), services.clone()));
        let hot_tags = HotTagsFile::open(&config.data, services.clone());
        hot_tags.begin();
        runtime.spawn(Arc::clone(&hot_tags).run());
        services.ids.metrics().backup_was_taken(last_backup_s(&config.data));
        runtime.spawn(remember_backups(config.data.clone(), services.clone()));
        runtime.spawn(watch_quorum(services.clone()));
        runtime.spawn(watch_machine(config.data.clone(), services.clone()));
        let clients = runtime.block_on(listener::start(ports, process.clients, doors, services))?;
        drop(_within);
        Ok(Self { runtime, assembled, clients, hot_tags, http_addr, resp_addr })
    }

    /// Where clients are served.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where clients of the Redis protocol are served, if anywhere.
    pub fn resp_addr(&self) -> Option<SocketAddr> {
        self.resp_addr
    }

    /// Where other nodes are served; `None` in a cluster of one.
    pub fn raft_addr(&self) -> Option<SocketAddr> {
        self.assembled.node.listens_on()
    }

    /// Reports the node's state to the service manager, if there is one, until the node stops.
    pub(super) fn keep_supervisor_informed(&self) {
        self.runtime.spawn(keep_informed(self.assembled.services.clone()));
    }

    /// Waits until the node must stop, and returns the reason; `None` when a stop was asked for.
    pub fn run(&mut self, stopping: &mut watch::Receiver<bool>) -> Option<StopReason> {
        self.runtime.block_on(async {
            tokio::select! {
                why = self.assembled.ended() => Some(why),
                // A sender that is gone asks for a stop as well.
                _ = stopping.wait_for(|stop| *stop) => None,
            }
        })
    }

    /// Goes on serving for `time` after a stop was asked for, out of rotation, so that clients can leave. It ends
    /// sooner, from half of that time on, once no client is connected. Returns the reason if the node must stop at
    /// once.
    pub fn drain(&mut self, time: Duration, leadership: Leadership) -> Option<StopReason> {
        let services = self.assembled.services.clone();
        services.cluster.begin_draining();
        if time.is_zero() {
            return None;
        }
        let time_s = time.as_secs_f64();
        tracing::info!(
            "draining: not ready any more, and serving until clients have left, for {time_s} s at most"
        );
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                why = self.assembled.ended() => Some(why),
                () = draining::let_clients_leave(time, &self.clients, &services) => None,
                () = draining::hand_over(&services), if leadership == Leadership::HandedOver => None,
            }
        })
    }

    /// Stops: no new connections, requests in flight are finished, the log is flushed, all of it in bounded time.
    pub fn stop(self) {
        self.stop_serving().stop();
    }

    /// Does the first part of a stop: no new connections, requests in flight are finished, worker ids are given back.
    /// All of that takes bounded time.
    pub fn stop_serving(self) -> SilentNode {
        let Self { runtime, assembled, clients, hot_tags, .. } = self;
        let node = runtime.block_on(async {
            clients.shutdown().await;
            assembled.stop_services().await
        });
        hot_tags.close();
        SilentNode { runtime, node }
    }
}

/// What becomes of the leadership of a node that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another node takes the leadership over.
    HandedOver,
    /// The leadership stays, because all nodes end together.
    Kept,
}

/// A node that no longer serves clients, but still takes part in the log.
pub struct SilentNode {
    runtime: Runtime,
    node: Node,
}

impl SilentNode {
    /// Campaigns no more: nodes that end together must not depose each other on the way.
    pub fn stand_down(&self) {
        self.node.stand_down();
    }

    /// Ends, with the log flushed; within a bound.
    pub fn stop(self) {
        self.runtime.block_on(self.node.shutdown());
        self.runtime.shutdown_timeout(TEARDOWN_MAX);
    }
}

fn bind(address: SocketAddr) -> Result<ClientPort, NodeFailure> {
    ClientPort::bind(address).map_err(|source| NodeFailure::Clients { address, source })
}

/// The client address that other nodes get.
fn advertised(config: &NodeConfig, http_addr: SocketAddr) -> String {
    match &config.advertise_http {
        Some(address) => match address.strip_suffix(":0") {
            Some(host) => format!("{host}:{}", http_addr.port()),
            None => address.clone(),
        },
        None => http_addr.to_string(),
    }
}

/// Refuses a machine whose clock cannot be right. Below 1970 it has no Unix time, and the log cannot be opened without
/// one.
fn check_clock(clock: &impl Clock) -> Result<(), NodeFailure> {
    if clock.now_ms() > 0 {
        return Ok(());
    }
    let why =
        "the clock of this machine shows a time before 1970: set it, then start the node again";
    Err(NodeFailure::Usage(why.to_owned()))
}

/// Refuses the data directory of another user, such as one that root has restored.
fn check_owner(data: &Path) -> Result<(), NodeFailure> {
    match foreign_owner(data) {
        None => Ok(()),
        Some(said) => {
            Err(NodeFailure::Usage(format!("{said}: chown -R it to the user that runs the node")))
        }
    }
}

fn options(
    config: &NodeConfig,
    process: &Process,
    advertise_http: String,
    security: Security,
) -> Result<Options, io::Error> {
    Ok(Options {
        node_id: config.node_id,
        data: config.data.clone(),
        fresh_store: entropy::random_u128()?,
        boot_nonce: entropy::random_u128()?,
        moved: config.moved,
        listen: config.raft,
        advertise_raft: config.advertise_raft.clone(),
        advertise_http,
        zone: config.zone.clone(),
        peers: config.peers.clone(),
        join: config.join.clone(),
        security,
        tuning: Tuning {
            peer_connections_max: process.peer_connections_max,
            ..Tuning::default().with_snapshots_every(config.snapshot_entries)
        },
    })
}

/// A path from the root, for people; unchanged if it leads nowhere.
pub(super) fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}
