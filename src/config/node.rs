//! The settings of one node, merged and checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mintleaf_core::snowflake::SnowflakeSettings;

use super::args::{ServeArgs, ServiceArgs};
use super::auth_source::AuthSource;
use super::checks::{
    drain, listen_address, parse_peers, register_keys_max, remote, sequence_memory,
    snapshot_entries, snowflake, tags_max, zone,
};
use super::client_tls_files::ClientTlsFiles;
use super::defaults::{DATA_DEFAULT, HTTP_DEFAULT, RAFT_DEFAULT};
use super::error::{ConfigError, fault};
use super::exposure::{Exposure, check_exposure, reachable, tokens_in_clear};
use super::log_settings::LogSettings;
use super::peer_keys::PeerKeys;
use super::settings_file::with_file;
use super::sources::Sources;
use crate::service::ServiceSettings;
use crate::text::address::at_host_of;

/// One node, checked.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's Raft id, 1 or more.
    pub node_id: u64,
    /// Where to serve clients; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where to serve clients of the Redis protocol, if anywhere; port 0 takes a free one.
    pub resp: Option<SocketAddr>,
    /// Where to serve the other nodes; port 0 takes a free one. `None` for a cluster of one.
    pub raft: Option<SocketAddr>,
    /// The data directory.
    pub data: PathBuf,
    /// Whether the data directory may be a copy of another one, which is not in use and never will be.
    pub moved: bool,
    /// The first voters; empty, or this node is among them. Only looked at while the data directory is new.
    pub peers: BTreeMap<u64, String>,
    /// A member's raft address, for a node that joins; never together with `peers`. Only looked at while the data
    /// directory is new.
    pub join: Option<String>,
    /// The client address that other nodes get; `None` for the bound one. Port 0 stands for the bound port.
    pub advertise_http: Option<String>,
    /// The address that clients of the Redis protocol get; `None` for the port of `resp` at the host of the client address.
    pub advertise_resp: Option<String>,
    /// The raft address that other nodes get: the flag's, else this node's among `peers`; `None` for the bound one.
    pub advertise_raft: Option<String>,
    /// Where the node is, for clients that prefer nodes near by.
    pub zone: String,
    /// The files that the node proves itself with to other nodes, if any.
    pub peer_keys: Option<PeerKeys>,
    /// The tokens that clients have to show, if they have to.
    pub auth_file: Option<AuthSource>,
    /// The files that the node proves itself with to clients, if any.
    pub client_tls: Option<ClientTlsFiles>,
    /// Without an auth file: whether every client that reaches the client address may change everything, rather than
    /// clients on this machine alone.
    pub insecure: bool,
    /// The flags with addresses that strangers can reach; empty unless `insecure`.
    pub exposed: Vec<String>,
    /// The flags with addresses where clients show tokens across a network without TLS.
    pub tokens_in_clear: Vec<String>,
    /// What the services do.
    pub service: ServiceSettings,
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

impl NodeConfig {
    /// Adds the `--config` file to `args` and checks the merged settings.
    ///
    /// # Errors
    /// The first setting that cannot be used, by the name it was given under.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let level_file = args.config.clone().filter(|_| args.service.log_level.is_none());
        let args = with_file(args)?;
        let sources = args.sources.clone();
        let raft = args.raft.clone().unwrap_or_else(|| RAFT_DEFAULT.to_owned());
        let mut config =
            Self::check(args, Some(raft)).map_err(|error| error.naming_sources(&sources))?;
        config.log.level_file = level_file;
        Ok(config)
    }

    /// Checks the settings of a node that serves other nodes at `raft`, if there are any.
    pub(super) fn check(args: ServeArgs, raft: Option<String>) -> Result<Self, ConfigError> {
        let snowflake = snowflake(&args)?;
        let peer_keys = PeerKeys::of(&args)?;
        let ServeArgs { place, service, .. } = args;
        let client_tls = ClientTlsFiles::of([place.tls_cert, place.tls_key, place.tls_client_ca])?;
        let node_id = match args.node_id {
            Some(0) => return Err(fault("node-id", "must be 1 or more")),
            Some(node_id) => node_id,
            None => return Err(fault("node-id", "is required: an id of 1 or more for this node")),
        };
        let peers = founders(args.peers.as_deref(), args.join.is_some(), node_id)?;
        let raft = raft.map(|raft| listen_address("raft", &raft)).transpose()?;
        let told = remote("advertise-raft", args.advertise_raft)?;
        let told_by = if told.is_some() { "advertise-raft" } else { "peers" };
        let advertise_raft = told.or_else(|| peers.get(&node_id).cloned());
        let nowhere = raft.filter(|raft| raft.ip().is_unspecified() && advertise_raft.is_none());
        if let Some(raft) = nowhere {
            let why = format_args!("is needed: other nodes cannot reach this node at {raft}");
            return Err(fault("advertise-raft", why));
        }
        let http = listen_address("http", place.http.as_deref().unwrap_or(HTTP_DEFAULT))?;
        let resp = place.resp.map(|resp| listen_address("resp", &resp)).transpose()?;
        let insecure = place.insecure.unwrap_or(false);
        let exposure = Exposure {
            http,
            resp,
            clients_are_known: place.auth_file.is_some(),
            clients_speak_tls: client_tls.is_some(),
            raft,
            advertised_raft: advertise_raft.as_deref().map(|address| (told_by, address)),
            raft_is_proven: peer_keys.is_some(),
            insecure,
        };
        let exposed = check_exposure(&exposure)?;
        let tokens_in_clear = tokens_in_clear(&exposure);
        let advertise_http = remote("advertise-http", args.advertise_http)?.or_else(|| {
            let raft = advertise_raft.clone().or(raft.map(|raft| raft.to_string()));
            raft.filter(|_| http.ip().is_unspecified()).map(|raft| at_host_of(&raft, http.port()))
        });
        Ok(Self {
            node_id,
            snowflake,
            http,
            resp,
            raft,
            data: place.data.unwrap_or_else(|| DATA_DEFAULT.into()),
            moved: place.moved.unwrap_or(false),
            peers,
            join: remote("join", args.join)?,
            advertise_http,
            advertise_resp: remote("advertise-resp", args.advertise_resp)?,
            advertise_raft,
            zone: zone(place.zone)?,
            peer_keys,
            auth_file: place
                .auth_file
                .map(|path| AuthSource::at(path, reachable(http, resp), insecure)),
            client_tls,
            insecure,
            exposed,
            tokens_in_clear,
            service: services(args.auto_create_tags, &service)?,
            snapshot_entries: snapshot_entries(args.snapshot_entries)?,
            drain: drain(service.drain.as_deref())?,
            log: LogSettings::of(service.log_format, service.log_level),
            sources: args.sources,
        })
    }
}

/// What the services do.
///
/// # Errors
/// The first setting that cannot be used.
fn services(
    auto_create_tags: Option<bool>,
    service: &ServiceArgs,
) -> Result<ServiceSettings, ConfigError> {
    Ok(ServiceSettings {
        auto_create_tags: auto_create_tags.unwrap_or(false),
        tags_max: tags_max(service.tags_max)?,
        register_keys_max: register_keys_max(service.register_keys_max)?,
        sequence_memory: sequence_memory(service.sequence_memory.as_deref())?,
        json_numbers: service.json_numbers.unwrap_or_default(),
    })
}

/// The first voters; none, or this node is among them.
///
/// # Errors
/// When the list cannot be used, lacks this node, or is given to a node that joins.
fn founders(
    peers: Option<&str>,
    joins: bool,
    node_id: u64,
) -> Result<BTreeMap<u64, String>, ConfigError> {
    let Some(peers) = peers else { return Ok(BTreeMap::new()) };
    let peers = parse_peers(peers)?;
    if joins {
        return Err(fault(
            "join",
            "and --peers exclude each other: --peers forms a new cluster, and a node that joins one must not have it",
        ));
    }
    if !peers.contains_key(&node_id) {
        return Err(fault("peers", format_args!("must list this node too: {node_id}=HOST:PORT")));
    }
    Ok(peers)
}
