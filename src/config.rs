//! What `mintleaf serve` and `mintleaf dev` can be told, and its checks.
//!
//! A setting comes from a flag, else from the environment, else from the `--config` file, else
//! from its default. [`ServeArgs`] names every one of them once, for all three sources; the
//! checks run on what the sources add up to, so that a mistake reads the same wherever it was
//! made.

mod dev;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use thiserror::Error;

pub use dev::{DevArgs, DevConfig};

use crate::snowflake::{Format, Layout, SnowflakeSettings};

/// Where clients are served unless said otherwise: this machine only.
pub const HTTP_DEFAULT: &str = "127.0.0.1:8080";
/// Where nodes talk to each other unless said otherwise: this machine only.
pub const RAFT_DEFAULT: &str = "127.0.0.1:9080";
/// Where data goes unless said otherwise.
pub const DATA_DEFAULT: &str = "./mintleaf-data";
/// How long a node goes on making snowflake ids without the quorum.
pub const SNOWFLAKE_WINDOW_DEFAULT: &str = "60s";
/// Leaf's and Twitter's origin, so that ids go on where theirs ended.
pub const SNOWFLAKE_EPOCH_MS_DEFAULT: u64 = 1_288_834_974_657;
/// How far from the cluster's median clock a node may be and still make snowflake ids.
pub const MAX_CLOCK_SKEW_DEFAULT: &str = "2s";
/// Log entries between two snapshots. Also about how much of the log a start replays.
pub const SNAPSHOT_ENTRIES_DEFAULT: u64 = 20_000;
/// What a snapshot may be told to wait for: fewer entries would write more snapshots than log.
const SNAPSHOT_ENTRIES: RangeInclusive<u64> = 100..=10_000_000;
/// Below this a secret can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// It goes first on every connection, before anything is believed.
const SECRET_BYTES_MAX: usize = 1024;
/// More worker ids than any one node can use up.
const WORKER_IDS_MAX: usize = 16;

/// A setting that cannot be used; the message names it and says what would do.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ConfigError(String);

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings of one node, as flags, environment variables and file keys.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeArgs {
    /// TOML file with any of these settings; keys are the flags' names without the dashes
    #[arg(long, env = "MINTLEAF_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// This node's Raft id, 1 or more, different on every node; must be given
    #[arg(long, env = "MINTLEAF_NODE_ID", value_name = "N")]
    #[serde(alias = "node_id")]
    pub node_id: Option<u64>,
    /// Address to serve clients on [default: 127.0.0.1:8080]
    #[arg(long, env = "MINTLEAF_HTTP", value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// Address to serve clients of the Redis protocol on [default: none]
    #[arg(long, env = "MINTLEAF_RESP", value_name = "HOST:PORT")]
    pub resp: Option<String>,
    /// Address for the other nodes [default: 127.0.0.1:9080]
    #[arg(long, env = "MINTLEAF_RAFT", value_name = "HOST:PORT")]
    pub raft: Option<String>,
    /// Data directory, for this node alone [default: ./mintleaf-data]
    #[arg(long, env = "MINTLEAF_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Raft addresses of the first voters, this node among them, the same list on each:
    /// 1=HOST:PORT,2=HOST:PORT,3=HOST:PORT
    #[arg(long, env = "MINTLEAF_PEERS", value_name = "LIST")]
    pub peers: Option<String>,
    /// Join the running cluster of which this is a node's raft address, instead of --peers
    #[arg(long, env = "MINTLEAF_JOIN", value_name = "HOST:PORT")]
    pub join: Option<String>,
    /// Client address to tell others, when it is not --http; for one of 0.0.0.0, the host of the raft
    /// address that others are told [default: the bound one]
    #[arg(long, env = "MINTLEAF_ADVERTISE_HTTP", value_name = "HOST:PORT")]
    #[serde(alias = "advertise_http")]
    pub advertise_http: Option<String>,
    /// Raft address to tell others, when it is not --raft or the one in --peers
    #[arg(long, env = "MINTLEAF_ADVERTISE_RAFT", value_name = "HOST:PORT")]
    #[serde(alias = "advertise_raft")]
    pub advertise_raft: Option<String>,
    /// File with the secret that members share, 16 to 1024 bytes
    #[arg(long, env = "MINTLEAF_CLUSTER_SECRET_FILE", value_name = "FILE")]
    #[serde(alias = "cluster_secret_file")]
    pub cluster_secret_file: Option<PathBuf>,
    /// Create an unknown tag when its first id is asked for
    #[arg(long, env = "MINTLEAF_AUTO_CREATE_TAGS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[serde(alias = "auto_create_tags")]
    pub auto_create_tags: Option<bool>,
    /// How long snowflake ids go on without the quorum, 1s to 1h [default: 60s]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WINDOW", value_name = "DURATION")]
    #[serde(alias = "snowflake_window")]
    pub snowflake_window: Option<String>,
    /// Origin of snowflake times, Unix milliseconds [default: 1288834974657]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_EPOCH_MS", value_name = "N")]
    #[serde(alias = "snowflake_epoch_ms")]
    pub snowflake_epoch_ms: Option<u64>,
    /// Bits of time, worker id and sequence in a snowflake id, the same on every node
    /// [default: 41+10+12]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_LAYOUT", value_name = "BITS")]
    #[serde(alias = "snowflake_layout")]
    pub snowflake_layout: Option<String>,
    /// Snowflake worker id to use, instead of whichever is free; may be given several times
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WORKER_ID", value_name = "N", value_delimiter = ',')]
    #[serde(alias = "snowflake_worker_id")]
    pub snowflake_worker_id: Vec<u16>,
    /// How far this node's clock may be off, 10ms to 1h [default: 2s]
    #[arg(long, env = "MINTLEAF_MAX_CLOCK_SKEW", value_name = "DURATION")]
    #[serde(alias = "max_clock_skew")]
    pub max_clock_skew: Option<String>,
    /// Log entries after which a snapshot replaces them, 100 to 10000000 [default: 20000]
    #[arg(long, env = "MINTLEAF_SNAPSHOT_ENTRIES", value_name = "N")]
    #[serde(alias = "snapshot_entries")]
    pub snapshot_entries: Option<u64>,
    /// How log lines look; RUST_LOG says which there are [default: text]
    #[arg(long, env = "MINTLEAF_LOG_FORMAT", value_name = "FORMAT")]
    #[serde(alias = "log_format")]
    pub log_format: Option<LogFormat>,
}

impl ServeArgs {
    /// These settings, and for those that are not set, `fallback`'s.
    fn or(self, fallback: Self) -> Self {
        Self {
            config: self.config,
            node_id: self.node_id.or(fallback.node_id),
            http: self.http.or(fallback.http),
            resp: self.resp.or(fallback.resp),
            raft: self.raft.or(fallback.raft),
            data: self.data.or(fallback.data),
            peers: self.peers.or(fallback.peers),
            join: self.join.or(fallback.join),
            advertise_http: self.advertise_http.or(fallback.advertise_http),
            advertise_raft: self.advertise_raft.or(fallback.advertise_raft),
            cluster_secret_file: self.cluster_secret_file.or(fallback.cluster_secret_file),
            auto_create_tags: self.auto_create_tags.or(fallback.auto_create_tags),
            snowflake_window: self.snowflake_window.or(fallback.snowflake_window),
            snowflake_epoch_ms: self.snowflake_epoch_ms.or(fallback.snowflake_epoch_ms),
            snowflake_layout: self.snowflake_layout.or(fallback.snowflake_layout),
            snowflake_worker_id: match self.snowflake_worker_id.is_empty() {
                true => fallback.snowflake_worker_id,
                false => self.snowflake_worker_id,
            },
            max_clock_skew: self.max_clock_skew.or(fallback.max_clock_skew),
            snapshot_entries: self.snapshot_entries.or(fallback.snapshot_entries),
            log_format: self.log_format.or(fallback.log_format),
        }
    }
}

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
    /// The first voters by ascending id; empty, or this node is among them.
    pub peers: Vec<(u64, String)>,
    /// A member's raft address, for a node that joins; never together with `peers`.
    pub join: Option<String>,
    /// The client address that others are told; the bound one when `None`. Port 0 stands for the bound
    /// one's.
    pub advertise_http: Option<String>,
    /// The raft address that others are told: the flag's, else this node's among `peers`; the
    /// bound one when `None`.
    pub advertise_raft: Option<String>,
    /// Where the shared secret is; see [`read_secret`].
    pub cluster_secret_file: Option<PathBuf>,
    /// Whether an unknown tag is created on first use.
    pub auto_create_tags: bool,
    /// How snowflake ids are made.
    pub snowflake: SnowflakeSettings,
    /// Log entries after which a snapshot replaces them.
    pub snapshot_entries: u64,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl ServeConfig {
    /// Adds the `--config` file to `args` and checks what comes of it.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => ServeArgs::default(),
        };
        Self::check(args.or(file))
    }

    fn check(args: ServeArgs) -> Result<Self, ConfigError> {
        let snowflake = snowflake(&args)?;
        let node_id = match args.node_id {
            Some(0) => return Err(fault("node-id", "must be 1 or more")),
            Some(node_id) => node_id,
            None => return Err(fault("node-id", "is required: an id of 1 or more for this node")),
        };
        let peers = args.peers.as_deref().map_or(Ok(Vec::new()), parse_peers)?;
        if !peers.is_empty() && args.join.is_some() {
            return Err(fault("join", "and --peers exclude each other: --peers forms a cluster"));
        }
        let own = peers.iter().find(|(id, _)| *id == node_id).map(|(_, address)| address.clone());
        if !peers.is_empty() && own.is_none() {
            return Err(fault(
                "peers",
                format_args!("must list this node too: {node_id}=HOST:PORT"),
            ));
        }
        let raft = listen_address("raft", args.raft.as_deref().unwrap_or(RAFT_DEFAULT))?;
        let advertise_raft = remote("advertise-raft", args.advertise_raft)?.or(own);
        if advertise_raft.is_none() && raft.ip().is_unspecified() {
            let why = format_args!("is needed: nobody can reach this node at {raft}");
            return Err(fault("advertise-raft", why));
        }
        let http = listen_address("http", args.http.as_deref().unwrap_or(HTTP_DEFAULT))?;
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
            resp: resp_address(args.resp.as_deref())?,
            raft,
            data: args.data.unwrap_or_else(|| DATA_DEFAULT.into()),
            peers,
            join: remote("join", args.join)?,
            advertise_http,
            advertise_raft,
            cluster_secret_file: args.cluster_secret_file,
            auto_create_tags: args.auto_create_tags.unwrap_or(false),
            snapshot_entries: snapshot_entries(args.snapshot_entries)?,
            log_format: args.log_format.unwrap_or_default(),
        })
    }
}

/// The secret in `path`, without the line break at its end.
///
/// # Errors
/// When the file cannot be read, or does not hold 16 to 1024 bytes.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let unreadable =
        |error| fault("cluster-secret-file", format_args!("{}: {error}", path.display()));
    let mut secret = std::fs::read(path).map_err(unreadable)?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
        if secret.last() == Some(&b'\r') {
            secret.pop();
        }
    }
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        let why = format_args!(
            "{}: holds {} bytes and must hold {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}; \
             try: openssl rand -hex 32",
            path.display(),
            secret.len()
        );
        return Err(fault("cluster-secret-file", why));
    }
    warn_if_exposed(path);
    Ok(secret)
}

#[cfg(unix)]
fn warn_if_exposed(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "others can read the cluster secret; chmod 600 it");
    }
}

#[cfg(not(unix))]
fn warn_if_exposed(_: &Path) {}

/// Which ports an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// One that can be connected to: 1 to 65535.
    Real,
    /// Also 0, which takes a free one.
    OrFree,
}

/// Checks that `text` is `HOST:PORT`; an IPv6 host stands in brackets.
///
/// # Errors
/// What it must be.
pub(crate) fn check_host_port(text: &str, allowed: Port) -> Result<(), &'static str> {
    const HOST_BYTES_MAX: usize = 253;
    let (host, port) = text.rsplit_once(':').ok_or("must be HOST:PORT")?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_is_sound = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=HOST_BYTES_MAX).contains(&host.len())
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    if !host_is_sound {
        return Err("must be HOST:PORT, with a host name, an IPv4 address or [IPv6 address]");
    }
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(0) if allowed == Port::Real => Err("must name a port of 1 to 65535"),
        Ok(_) if digits => Ok(()),
        _ => Err("must be HOST:PORT, with a port of at most 65535"),
    }
}

/// Whether an address means every address of the machine that uses it: one can listen there, and nobody
/// else can be sent there.
pub(crate) fn is_everywhere(host_port: &str) -> bool {
    let host = host_port.rsplit_once(':').map_or(host_port, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

/// The port `port` of the host in `host_port`.
fn at_host_of(host_port: &str, port: u16) -> String {
    let host = host_port.rsplit_once(':').map_or(host_port, |(host, _)| host);
    format!("{host}:{port}")
}

/// What is wrong with the setting `name`.
fn fault(name: &str, what: impl std::fmt::Display) -> ConfigError {
    ConfigError(format!("--{name} {what}"))
}

fn read_file(path: &Path) -> Result<ServeArgs, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| fault("config", format_args!("{}: {error}", path.display())))?;
    toml::from_str(&text)
        .map_err(|error| fault("config", format_args!("{}: {error}", path.display())))
}

fn parse_peers(text: &str) -> Result<Vec<(u64, String)>, ConfigError> {
    let mut peers = Vec::new();
    let (mut ids, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let wrong = |why: &str| fault("peers", format_args!("has `{entry}`, which {why}"));
        let (id, address) = entry.split_once('=').ok_or_else(|| wrong("must be ID=HOST:PORT"))?;
        let id = id.parse().ok().filter(|&id| id >= 1);
        let id: u64 = id.ok_or_else(|| wrong("must begin with a node id of 1 or more"))?;
        check_host_port(address, Port::Real).map_err(wrong)?;
        if is_everywhere(address) {
            return Err(wrong("names no address that other nodes can reach"));
        }
        if !ids.insert(id) {
            return Err(wrong("repeats a node id"));
        }
        if !addresses.insert(address) {
            return Err(wrong("repeats an address"));
        }
        peers.push((id, address.to_owned()));
    }
    if peers.is_empty() {
        return Err(fault("peers", "is empty: list the first voters as ID=HOST:PORT,…"));
    }
    peers.sort();
    Ok(peers)
}

fn listen_address(name: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    check_host_port(text, Port::OrFree).map_err(|what| fault(name, what))?;
    let unknown = |error| fault(name, format_args!("{text} cannot be resolved: {error}"));
    let found = text.to_socket_addrs().map_err(unknown)?.collect::<Vec<_>>();
    // `localhost` means both families; clients try the older one more often.
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| fault(name, format_args!("{text} has no address")))
}

fn resp_address(text: Option<&str>) -> Result<Option<SocketAddr>, ConfigError> {
    text.map(|text| listen_address("resp", text)).transpose()
}

fn remote(name: &str, address: Option<String>) -> Result<Option<String>, ConfigError> {
    if let Some(address) = &address {
        check_host_port(address, Port::Real).map_err(|what| fault(name, what))?;
        if is_everywhere(address) {
            return Err(fault(name, "must be an address that others can reach"));
        }
    }
    Ok(address)
}

fn duration(name: &str, text: &str, bounds: [Duration; 2]) -> Result<Duration, ConfigError> {
    let [shortest, longest] = bounds;
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| (shortest..=longest).contains(duration))
        .ok_or_else(|| {
            let bounds = format_args!(
                "must be a duration from {shortest:?} to {longest:?}, such as 500ms, 60s or 2m"
            );
            fault(name, bounds)
        })
}

fn snowflake(args: &ServeArgs) -> Result<SnowflakeSettings, ConfigError> {
    let text = args.snowflake_layout.as_deref();
    let layout = text.map_or(Ok(Layout::LEAF), str::parse);
    let layout = layout.map_err(|why| fault("snowflake-layout", why))?;
    let epoch_ms = args.snowflake_epoch_ms.unwrap_or(SNOWFLAKE_EPOCH_MS_DEFAULT);
    let format = Format::new(layout, epoch_ms).map_err(|why| fault("snowflake-epoch-ms", why))?;
    Ok(SnowflakeSettings {
        format,
        window: duration(
            "snowflake-window",
            args.snowflake_window.as_deref().unwrap_or(SNOWFLAKE_WINDOW_DEFAULT),
            [Duration::from_secs(1), Duration::from_secs(3600)],
        )?,
        max_clock_skew: duration(
            "max-clock-skew",
            args.max_clock_skew.as_deref().unwrap_or(MAX_CLOCK_SKEW_DEFAULT),
            [Duration::from_millis(10), Duration::from_secs(3600)],
        )?,
        worker_ids: worker_ids(&args.snowflake_worker_id, layout)?,
    })
}

fn snapshot_entries(given: Option<u64>) -> Result<u64, ConfigError> {
    let entries = given.unwrap_or(SNAPSHOT_ENTRIES_DEFAULT);
    if SNAPSHOT_ENTRIES.contains(&entries) {
        return Ok(entries);
    }
    let (min, max) = (SNAPSHOT_ENTRIES.start(), SNAPSHOT_ENTRIES.end());
    Err(fault("snapshot-entries", format_args!("must be from {min} to {max}, and is {entries}")))
}

fn worker_ids(given: &[u16], layout: Layout) -> Result<Vec<u16>, ConfigError> {
    let wrong = |why: std::fmt::Arguments| Err(fault("snowflake-worker-id", why));
    if let Some(id) = given.iter().find(|&&id| id >= layout.worker_ids()) {
        let highest = layout.worker_ids() - 1;
        return wrong(format_args!("must be at most {highest} in layout {layout}, and is {id}"));
    }
    if given.len() > WORKER_IDS_MAX {
        return wrong(format_args!("may be given {WORKER_IDS_MAX} times at most"));
    }
    let distinct = given.iter().copied().collect::<BTreeSet<_>>();
    if distinct.len() < given.len() {
        return wrong(format_args!("must be given once for each worker id"));
    }
    Ok(distinct.into_iter().collect())
}

#[cfg(test)]
mod tests;
