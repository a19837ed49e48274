//! Every setting of a node, as flag, environment variable and key of the `--config` file.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use super::sources::Sources;
use super::toml_lists::{list, worker_ids};

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

/// The lines of this project that the log has: those of a level, and of all graver ones.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// The node cannot go on, or an operator is needed now.
    Error,
    /// Something is wrong and may pass.
    Warn,
    /// What an operator wants to know of normal operation.
    #[default]
    Info,
    /// Single requests and connections.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The name of the level, as flags and files have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The settings of one node, as flags, environment variables and file keys.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServeArgs {
    /// TOML file with any of these settings; keys are the flags' names without the dashes
    #[arg(long, env = "MINTLEAF_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Where each setting comes from.
    #[arg(skip)]
    #[serde(skip)]
    pub sources: Sources,
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
    /// Use a data directory that was copied from elsewhere, once: the original must be gone for good, and this the
    /// only copy, because two in use would repeat ids
    #[arg(long, env = "MINTLEAF_MOVED", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub moved: Option<bool>,
    /// Raft addresses of the first voters, this node among them, the same list on each:
    /// 1=HOST:PORT,2=HOST:PORT,3=HOST:PORT
    #[arg(long, env = "MINTLEAF_PEERS", value_name = "LIST")]
    #[serde(deserialize_with = "list")]
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
    /// Where this node is, for clients that prefer nodes near by: 1 to 64 letters, digits, dots, dashes and
    /// underscores [default: none]
    #[arg(long, env = "MINTLEAF_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
    /// File with the secret by which members prove themselves to each other, 32 to 1024 bytes; a second line
    /// may hold the secret of before
    #[arg(long, env = "MINTLEAF_CLUSTER_SECRET_FILE", value_name = "FILE")]
    #[serde(alias = "cluster_secret_file")]
    pub cluster_secret_file: Option<PathBuf>,
    /// PEM file with this node's certificate for other nodes, whose name is node-N.mintleaf, instead of a
    /// secret
    #[arg(long, env = "MINTLEAF_RAFT_CERT", value_name = "FILE")]
    #[serde(alias = "raft_cert")]
    pub raft_cert: Option<PathBuf>,
    /// PEM file with the private key of --raft-cert
    #[arg(long, env = "MINTLEAF_RAFT_KEY", value_name = "FILE")]
    #[serde(alias = "raft_key")]
    pub raft_key: Option<PathBuf>,
    /// PEM file with the CAs that sign the nodes' certificates
    #[arg(long, env = "MINTLEAF_RAFT_CA", value_name = "FILE")]
    #[serde(alias = "raft_ca")]
    pub raft_ca: Option<PathBuf>,
    /// File with the tokens that clients show, and what each allows; `mintleaf token new` prints its lines
    #[arg(long, env = "MINTLEAF_AUTH_FILE", value_name = "FILE")]
    #[serde(alias = "auth_file")]
    pub auth_file: Option<PathBuf>,
    /// PEM file with this node's certificate for clients: HTTP and the Redis protocol speak TLS then
    #[arg(long, env = "MINTLEAF_TLS_CERT", value_name = "FILE")]
    #[serde(alias = "tls_cert")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, env = "MINTLEAF_TLS_KEY", value_name = "FILE")]
    #[serde(alias = "tls_key")]
    pub tls_key: Option<PathBuf>,
    /// PEM file with the CAs that sign clients' certificates; every client must show one then
    #[arg(long, env = "MINTLEAF_TLS_CLIENT_CA", value_name = "FILE")]
    #[serde(alias = "tls_client_ca")]
    pub tls_client_ca: Option<PathBuf>,
    /// Accept what lets strangers in: clients on an --http or --resp that is no loopback address and changes by
    /// whoever reaches --http, both without --auth-file, and nodes elsewhere without --cluster-secret-file
    #[arg(long, env = "MINTLEAF_INSECURE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub insecure: Option<bool>,
    /// Create an unknown tag when its first id is asked for
    #[arg(long, env = "MINTLEAF_AUTO_CREATE_TAGS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    #[serde(alias = "auto_create_tags")]
    pub auto_create_tags: Option<bool>,
    /// Most names of tags that the cluster keeps, those of deleted ones included, 1 to 1000000000
    /// [default: 10000000]
    #[arg(long, env = "MINTLEAF_TAGS_MAX", value_name = "N")]
    #[serde(alias = "tags_max")]
    pub tags_max: Option<u64>,
    /// Memory for the counters of sequences while this node leads, 1MiB to 1024GiB: keys that rest are forgotten and
    /// go on higher [default: 256MiB]
    #[arg(long, env = "MINTLEAF_SEQUENCE_MEMORY", value_name = "SIZE")]
    #[serde(alias = "sequence_memory")]
    pub sequence_memory: Option<String>,
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
    #[serde(alias = "snowflake_worker_id", deserialize_with = "worker_ids")]
    pub snowflake_worker_id: Vec<u16>,
    /// Worker ids that the cluster uses, such as 512-1023 or 0-9,20; the same on every node, and fixed once the
    /// cluster has formed [default: all]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WORKERS", value_name = "LIST")]
    #[serde(alias = "snowflake_workers", deserialize_with = "list")]
    pub snowflake_workers: Option<String>,
    /// How far this node's clock may be off, 10ms to 1h [default: 2s]
    #[arg(long, env = "MINTLEAF_MAX_CLOCK_SKEW", value_name = "DURATION")]
    #[serde(alias = "max_clock_skew")]
    pub max_clock_skew: Option<String>,
    /// Log entries after which a snapshot replaces them, 100 to 10000000 [default: 20000]
    #[arg(long, env = "MINTLEAF_SNAPSHOT_ENTRIES", value_name = "N")]
    #[serde(alias = "snapshot_entries")]
    pub snapshot_entries: Option<u64>,
    /// How long a node that is asked to stop goes on serving, so that clients can leave, 0 to 10m [default: 5s]
    #[arg(long, env = "MINTLEAF_DRAIN", value_name = "DURATION")]
    pub drain: Option<String>,
    /// How log lines look [default: text]
    #[arg(long, env = "MINTLEAF_LOG_FORMAT", value_name = "FORMAT")]
    #[serde(alias = "log_format")]
    pub log_format: Option<LogFormat>,
    /// Which log lines there are; RUST_LOG, a filter by module, wins over it [default: info]
    #[arg(long, env = "MINTLEAF_LOG_LEVEL", value_name = "LEVEL")]
    #[serde(alias = "log_level")]
    pub log_level: Option<LogLevel>,
}

impl ServeArgs {
    /// These settings; each that is not set is taken from `fallback`.
    pub(super) fn or(self, fallback: Self) -> Self {
        Self {
            config: self.config,
            sources: self.sources,
            node_id: self.node_id.or(fallback.node_id),
            http: self.http.or(fallback.http),
            resp: self.resp.or(fallback.resp),
            raft: self.raft.or(fallback.raft),
            data: self.data.or(fallback.data),
            moved: self.moved.or(fallback.moved),
            peers: self.peers.or(fallback.peers),
            join: self.join.or(fallback.join),
            advertise_http: self.advertise_http.or(fallback.advertise_http),
            advertise_raft: self.advertise_raft.or(fallback.advertise_raft),
            zone: self.zone.or(fallback.zone),
            cluster_secret_file: self.cluster_secret_file.or(fallback.cluster_secret_file),
            raft_cert: self.raft_cert.or(fallback.raft_cert),
            raft_key: self.raft_key.or(fallback.raft_key),
            raft_ca: self.raft_ca.or(fallback.raft_ca),
            auth_file: self.auth_file.or(fallback.auth_file),
            tls_cert: self.tls_cert.or(fallback.tls_cert),
            tls_key: self.tls_key.or(fallback.tls_key),
            tls_client_ca: self.tls_client_ca.or(fallback.tls_client_ca),
            insecure: self.insecure.or(fallback.insecure),
            auto_create_tags: self.auto_create_tags.or(fallback.auto_create_tags),
            tags_max: self.tags_max.or(fallback.tags_max),
            sequence_memory: self.sequence_memory.or(fallback.sequence_memory),
            snowflake_window: self.snowflake_window.or(fallback.snowflake_window),
            snowflake_epoch_ms: self.snowflake_epoch_ms.or(fallback.snowflake_epoch_ms),
            snowflake_layout: self.snowflake_layout.or(fallback.snowflake_layout),
            snowflake_worker_id: match self.snowflake_worker_id.is_empty() {
                true => fallback.snowflake_worker_id,
                false => self.snowflake_worker_id,
            },
            snowflake_workers: self.snowflake_workers.or(fallback.snowflake_workers),
            max_clock_skew: self.max_clock_skew.or(fallback.max_clock_skew),
            snapshot_entries: self.snapshot_entries.or(fallback.snapshot_entries),
            drain: self.drain.or(fallback.drain),
            log_format: self.log_format.or(fallback.log_format),
            log_level: self.log_level.or(fallback.log_level),
        }
    }
}
