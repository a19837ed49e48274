//! Every setting of `serve` and `dev`, as flag, environment variable and key of the `--config` file.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use super::defaults::{DATA_DEFAULT, DEV_DRAIN_DEFAULT, HTTP_DEFAULT};
use super::sources::Sources;
use super::toml_lists::{list, worker_ids};
use crate::service::JsonNumbers;

/// Maximum number of nodes in one process: more than any trial needs.
const DEV_NODES_MAX: u8 = 9;

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

/// Which lines of this project go to the log: those of a level, and all more severe ones.
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

/// Where a node is and how clients reach it, for `serve` and `dev`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PlaceArgs {
    /// Address to serve clients on [default: 127.0.0.1:8080]
    #[arg(long, env = "MINTLEAF_HTTP", value_name = "HOST:PORT")]
    pub http: Option<String>,
    /// Address to serve clients of the Redis protocol on [default: none]
    #[arg(long, env = "MINTLEAF_RESP", value_name = "HOST:PORT")]
    pub resp: Option<String>,
    /// Data directory, for this node alone [default: ./mintleaf-data]
    #[arg(long, env = "MINTLEAF_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Accept, once, a data directory that was copied from elsewhere: the original must be gone for good and this the
    /// only copy, because two in use would repeat ids
    #[arg(long, env = "MINTLEAF_MOVED", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub moved: Option<bool>,
    /// Where this node is, for clients that prefer nearby nodes: 1 to 64 letters, digits, dots, dashes and
    /// underscores [default: none]
    #[arg(long, env = "MINTLEAF_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
    /// File with the tokens of clients and what each of them allows; `mintleaf token new` prints its lines
    #[arg(long, env = "MINTLEAF_AUTH_FILE", value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// PEM file with this node's certificate for clients; HTTP and the Redis protocol then use TLS
    #[arg(long, env = "MINTLEAF_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, env = "MINTLEAF_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// PEM file with the CAs that sign clients' certificates; every client must then show one
    #[arg(long, env = "MINTLEAF_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Let strangers in: without --auth-file, clients on an --http or --resp that is not a loopback address, and
    /// changes by anyone who reaches --http; without --cluster-secret-file, nodes on other machines
    #[arg(long, env = "MINTLEAF_INSECURE", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub insecure: Option<bool>,
}

/// What a node does for its clients and how its process runs, for `serve` and `dev`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ServiceArgs {
    /// Worker ids that the cluster uses, such as 512-1023 or 0-9,20; the same on every node, and fixed once the
    /// cluster has formed [default: all]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WORKERS", value_name = "LIST")]
    #[serde(deserialize_with = "list")]
    pub snowflake_workers: Option<String>,
    /// Maximum number of tag names in the cluster, including those of deleted tags, 1 to 1000000000 [default: 10000000]
    #[arg(long, env = "MINTLEAF_TAGS_MAX", value_name = "N")]
    pub tags_max: Option<u64>,
    /// Maximum number of keys of all registers together, including those of deleted registers, 1 to 100000000 [default:
    /// 1000000]
    #[arg(long, env = "MINTLEAF_REGISTER_KEYS_MAX", value_name = "N")]
    pub register_keys_max: Option<u64>,
    /// Memory for the counters of sequences while this node leads, 1MiB to 1024GiB; a key that is idle may be
    /// forgotten, and then continues from a higher number [default: 256MiB]
    #[arg(long, env = "MINTLEAF_SEQUENCE_MEMORY", value_name = "SIZE")]
    pub sequence_memory: Option<String>,
    /// What Leaf's paths, whose answers are bare numbers, give for an id above 2^53 - 1, which JavaScript rounds: the
    /// number, the number in quotes, or 422 [default: allow]
    #[arg(long, env = "MINTLEAF_JSON_NUMBERS", value_name = "MODE")]
    pub json_numbers: Option<JsonNumbers>,
    /// How long a node goes on serving after it is asked to stop, so that clients can leave, 0 to 10m [default: 5s]
    #[arg(long, env = "MINTLEAF_DRAIN", value_name = "DURATION")]
    pub drain: Option<String>,
    /// Log format [default: text]
    #[arg(long, env = "MINTLEAF_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Log level; RUST_LOG, a filter by module, takes precedence [default: info]
    #[arg(long, env = "MINTLEAF_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// The settings of `mintleaf serve`. [`ServeArgs::from_toml`] reads them from a file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ServeArgs {
    /// TOML file with any of these settings; keys are the flags' names without the dashes
    #[arg(long, env = "MINTLEAF_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Where each setting comes from.
    #[arg(skip)]
    #[serde(skip)]
    pub sources: Sources,
    /// This node's Raft id, 1 or more, different on every node; required
    #[arg(long, env = "MINTLEAF_NODE_ID", value_name = "N")]
    pub node_id: Option<u64>,
    /// Where the node is.
    #[command(flatten)]
    #[serde(skip)]
    pub place: PlaceArgs,
    /// Address to serve the other nodes on [default: 127.0.0.1:9080]
    #[arg(long, env = "MINTLEAF_RAFT", value_name = "HOST:PORT")]
    pub raft: Option<String>,
    /// Raft addresses of the first voters, including this node, the same list on each:
    /// 1=HOST:PORT,2=HOST:PORT,3=HOST:PORT
    #[arg(long, env = "MINTLEAF_PEERS", value_name = "LIST")]
    #[serde(deserialize_with = "list")]
    pub peers: Option<String>,
    /// Raft address of a node whose running cluster to join, instead of --peers
    #[arg(long, env = "MINTLEAF_JOIN", value_name = "HOST:PORT")]
    pub join: Option<String>,
    /// Client address to advertise, if it is not --http [default: the address that the node listens on; if that is
    /// 0.0.0.0, its port at the host of the advertised raft address]
    #[arg(long, env = "MINTLEAF_ADVERTISE_HTTP", value_name = "HOST:PORT")]
    pub advertise_http: Option<String>,
    /// Redis protocol address to advertise, if it is not --resp [default: the port of --resp at the host of the
    /// advertised client address]
    #[arg(long, env = "MINTLEAF_ADVERTISE_RESP", value_name = "HOST:PORT")]
    pub advertise_resp: Option<String>,
    /// Raft address to advertise, if it is neither --raft nor the one in --peers
    #[arg(long, env = "MINTLEAF_ADVERTISE_RAFT", value_name = "HOST:PORT")]
    pub advertise_raft: Option<String>,
    /// File with the secret that members authenticate each other with, 32 to 1024 bytes; a second line may hold the
    /// previous secret
    #[arg(long, env = "MINTLEAF_CLUSTER_SECRET_FILE", value_name = "FILE")]
    pub cluster_secret_file: Option<PathBuf>,
    /// PEM file with this node's certificate for other nodes, with the name node-N.mintleaf, instead of a secret
    #[arg(long, env = "MINTLEAF_RAFT_CERT", value_name = "FILE")]
    pub raft_cert: Option<PathBuf>,
    /// PEM file with the private key of --raft-cert
    #[arg(long, env = "MINTLEAF_RAFT_KEY", value_name = "FILE")]
    pub raft_key: Option<PathBuf>,
    /// PEM file with the CAs that sign the nodes' certificates
    #[arg(long, env = "MINTLEAF_RAFT_CA", value_name = "FILE")]
    pub raft_ca: Option<PathBuf>,
    /// Log entries after which a snapshot replaces them, 100 to 10000000 [default: 20000]
    #[arg(long, env = "MINTLEAF_SNAPSHOT_ENTRIES", value_name = "N")]
    pub snapshot_entries: Option<u64>,
    /// Create an unknown tag when its first id is requested
    #[arg(long, env = "MINTLEAF_AUTO_CREATE_TAGS", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub auto_create_tags: Option<bool>,
    /// How far this node's clock may be off, 10ms to 1h [default: 2s]
    #[arg(long, env = "MINTLEAF_MAX_CLOCK_SKEW", value_name = "DURATION")]
    pub max_clock_skew: Option<String>,
    /// How long snowflake ids continue without a quorum, 1s to 1h [default: 60s]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WINDOW", value_name = "DURATION")]
    pub snowflake_window: Option<String>,
    /// Origin of snowflake times, Unix milliseconds [default: 1288834974657]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_EPOCH_MS", value_name = "N")]
    pub snowflake_epoch_ms: Option<u64>,
    /// Bits of time, worker id and sequence in a snowflake id, the same on every node
    /// [default: 41+10+12]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_LAYOUT", value_name = "BITS")]
    pub snowflake_layout: Option<String>,
    /// Snowflake worker id to use, instead of whichever is free; may be given several times
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WORKER_ID", value_name = "N", value_delimiter = ',')]
    #[serde(deserialize_with = "worker_ids")]
    pub snowflake_worker_id: Vec<u16>,
    /// What the node does.
    #[command(flatten)]
    #[serde(skip)]
    pub service: ServiceArgs,
}

/// The settings of `mintleaf dev`. Where the help of `serve` speaks of one node, this one speaks of several.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    mut_arg("http", |arg| arg.default_value(HTTP_DEFAULT).help(
        "Address to serve clients on; the first node's, when there are more",
    )),
    mut_arg("resp", |arg| arg.help(
        "Address to serve clients of the Redis protocol on; the first node's, when there are more [default: none]",
    )),
    mut_arg("data", |arg| {
        arg.default_value(DATA_DEFAULT).help("Data directory; the next start goes on from it")
    }),
    mut_arg("moved", |arg| arg.default_value("false").help(
        "Accept, once, data directories that were copied from elsewhere: the originals must be gone for good and \
         these the only copies, because two in use would repeat ids",
    )),
    mut_arg("zone", |arg| arg.help(
        "Where the nodes are, for clients that prefer nearby nodes: 1 to 64 letters, digits, dots, dashes and \
         underscores [default: none]",
    )),
    mut_arg("insecure", |arg| arg.default_value("false").help(
        "Accept clients on addresses that are not loopback addresses, and changes by anyone who reaches --http",
    )),
    mut_arg("snowflake_workers", |arg| arg.help(
        "Worker ids of snowflakes that the cluster uses, such as 512-1023 or 0-9,20; fixed once the cluster has \
         formed [default: all]",
    )),
    mut_arg("sequence_memory", |arg| arg.help(
        "Memory of each node for the counters of sequences while it leads, 1MiB to 1024GiB; idle keys are \
         forgotten, and continue higher [default: 256MiB]",
    )),
    mut_arg("drain", |arg| arg.default_value(DEV_DRAIN_DEFAULT).help(
        "How long a cluster goes on serving after it is asked to stop, so that clients can leave, 0 to 10m",
    ))
)]
pub struct DevArgs {
    /// Number of Raft nodes to run in this process, on consecutive ports; they reach each other on ports 1,000 higher
    #[arg(long, env = "MINTLEAF_NODES", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(DEV_NODES_MAX)))]
    pub nodes: u8,
    /// Where the nodes are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// What the nodes do.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Where each setting comes from.
    #[arg(skip)]
    pub sources: Sources,
}
