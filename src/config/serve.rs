//! The settings of `mintleaf serve`, merged and checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mintleaf_core::snowflake::SnowflakeSettings;

use super::args::ServeArgs;
use super::auth_source::AuthSource;
use super::checks::{
    drain, listen_address, parse_peers, remote, resp_address, sequence_memory, snapshot_entries,
    snowflake, tags_max, zone,
};
use super::client_tls_files::ClientTlsFiles;
use super::defaults::{DATA_DEFAULT, DRAIN_DEFAULT, HTTP_DEFAULT, RAFT_DEFAULT};
use super::error::{ConfigError, fault};
use super::exposure::{Exposure, check_exposure, reachable, tokens_in_clear};
use super::log_settings::LogSettings;
use super::peer_keys::PeerKeys;
use super::settings_file::with_file;
use super::sources::Sources;
use crate::text::address::at_host_of;

/// One node of a cluster, checked.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// This node's Raft id, 1 or more.
    pub node_id: u64,
    /// Where to serve clients; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where to serve clients of the Redis protocol, if anywhere; port 0 takes a free one.
    pub resp: Option<SocketAddr>,
    /// Where to serve the other nodes; port 0 takes a free one.
    pub raft: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// Whether the data directory may be a copy of another one, which is not in use and never will be.
    pub moved: bool,
    /// The first voters by ascending id; empty, or this node is among them.
    pub peers: Vec<(u64, String)>,
    /// A member's raft address, for a node that joins; never together with `peers`.
    pub join: Option<String>,
    /// The client address that other nodes get; `None` for the bound one. Port 0 stands for the bound port.
    pub advertise_http: Option<String>,
    /// The raft address that other nodes get: the flag's, else this node's among `peers`; `None` for the bound one.
    pub advertise_raft: Option<String>,
    /// Where the node is, for clients that prefer nodes near by.
    pub zone: Option<String>,
    /// The files that the node proves itself with to other nodes, if any.
    pub peer_keys: Option<PeerKeys>,
    /// The tokens that clients have to show, if they have to.
    pub auth_file: Option<AuthSource>,
    /// The files that the node proves itself with to clients, if any.
    pub client_tls: Option<ClientTlsFiles>,
    /// Whether every client that reaches the client address may change everything, rather than clients on this machine
    /// alone.
    pub insecure: bool,
    /// The flags with addresses that strangers can reach; empty unless `insecure`.
    pub exposed: Vec<String>,
    /// The flags with addresses where clients show tokens across a network without TLS.
    pub tokens_in_clear: Vec<String>,
    /// Whether an unknown tag is created on first use.
    pub auto_create_tags: bool,
    /// Most names of tags that the cluster keeps, those of deleted ones included.
    pub tags_max: u64,
    /// Bytes for the counters of sequences.
    pub sequence_memory: usize,
    /// How snowflake ids are made.
    pub snowflake: SnowflakeSettings,
    /// Log entries after which a snapshot replaces them.
    pub snapshot_entries: u64,
    /// How long the node goes on serving after it was asked to stop.
    pub drain: Duration,
    /// The log of the process.
    pub log: LogSettings,
    /// Where each setting comes from.
    pub sources: Sources,
}

impl ServeConfig {
    /// Adds the `--config` file to `args` and checks the merged settings.
    ///
    /// # Errors
    /// The first setting that cannot be used, by the name it was given under.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let level_file = args.config.clone().filter(|_| args.log_level.is_none());
        let args = with_file(args)?;
        let sources = args.sources.clone();
        let mut config = Self::check(args).map_err(|error| error.told(&sources))?;
        config.log.level_file = level_file;
        Ok(config)
    }

    pub(super) fn check(args: ServeArgs) -> Result<Self, ConfigError> {
        let snowflake = snowflake(&args)?;
        let peer_keys = PeerKeys::of(&args)?;
        let client_tls = [&args.tls_cert, &args.tls_key, &args.tls_client_ca].map(Clone::clone);
        let client_tls = ClientTlsFiles::of(client_tls)?;
        let node_id = match args.node_id {
            Some(0) => return Err(fault("node-id", "must be 1 or more")),
            Some(node_id) => node_id,
            None => return Err(fault("node-id", "is required: an id of 1 or more for this node")),
        };
        let peers = founders(&args, node_id)?;
        let own = peers.iter().find(|(id, _)| *id == node_id).map(|(_, address)| address.clone());
        let raft = listen_address("raft", args.raft.as_deref().unwrap_or(RAFT_DEFAULT))?;
        let told = remote("advertise-raft", args.advertise_raft)?;
        let told_by = if told.is_some() { "advertise-raft" } else { "peers" };
        let advertise_raft = told.or(own);
        if advertise_raft.is_none() && raft.ip().is_unspecified() {
            let why = format_args!("is needed: nobody can reach this node at {raft}");
            return Err(fault("advertise-raft", why));
        }
        let http = listen_address("http", args.http.as_deref().unwrap_or(HTTP_DEFAULT))?;
        let resp = resp_address(args.resp.as_deref())?;
        let insecure = args.insecure.unwrap_or(false);
        let exposure = Exposure {
            http,
            resp,
            clients_are_known: args.auth_file.is_some(),
            clients_speak_tls: client_tls.is_some(),
            raft: Some(raft),
            advertised_raft: advertise_raft.as_deref().map(|address| (told_by, address)),
            raft_is_proven: peer_keys.is_some(),
            insecure,
        };
        let exposed = check_exposure(&exposure)?;
        let tokens_in_clear = tokens_in_clear(&exposure);
        let advertise_http = match remote("advertise-http", args.advertise_http)? {
            None if http.ip().is_unspecified() => {
                let raft = advertise_raft.clone().unwrap_or_else(|| raft.to_string());
                Some(at_host_of(&raft, http.port()))
            }
            given => given,
        };
        Ok(Self {
            node_id,
            snowflake,
            http,
            resp,
            raft,
            data: args.data.unwrap_or_else(|| DATA_DEFAULT.into()),
            moved: args.moved.unwrap_or(false),
            peers,
            join: remote("join", args.join)?,
            advertise_http,
            advertise_raft,
            zone: zone(args.zone)?,
            peer_keys,
            auth_file: args
                .auth_file
                .map(|path| AuthSource::at(path, reachable(http, resp), insecure)),
            client_tls,
            insecure,
            exposed,
            tokens_in_clear,
            auto_create_tags: args.auto_create_tags.unwrap_or(false),
            tags_max: tags_max(args.tags_max)?,
            sequence_memory: sequence_memory(args.sequence_memory.as_deref())?,
            snapshot_entries: snapshot_entries(args.snapshot_entries)?,
            drain: drain(args.drain.as_deref().unwrap_or(DRAIN_DEFAULT))?,
            log: LogSettings::of(args.log_format, args.log_level),
            sources: args.sources,
        })
    }
}

/// The first voters by ascending id; none, or this node is among them.
///
/// # Errors
/// When the list cannot be used, lacks this node, or is given to a node that joins.
fn founders(args: &ServeArgs, node_id: u64) -> Result<Vec<(u64, String)>, ConfigError> {
    let peers = args.peers.as_deref().map_or(Ok(Vec::new()), parse_peers)?;
    if !peers.is_empty() && args.join.is_some() {
        return Err(fault("join", "and --peers exclude each other: --peers forms a cluster"));
    }
    if !peers.is_empty() && peers.iter().all(|(id, _)| *id != node_id) {
        return Err(fault("peers", format_args!("must list this node too: {node_id}=HOST:PORT")));
    }
    Ok(peers)
}
