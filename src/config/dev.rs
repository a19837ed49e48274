//! The settings of `mintleaf dev`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mintleaf_core::snowflake::SnowflakeSettings;

use super::args::{LogFormat, LogLevel, ServeArgs};
use super::auth_source::AuthSource;
use super::checks::{
    drain, listen_address, resp_address, sequence_memory, snowflake, tags_max, zone,
};
use super::client_tls_files::ClientTlsFiles;
use super::defaults::{DATA_DEFAULT, DEV_DRAIN_DEFAULT, HTTP_DEFAULT};
use super::error::{ConfigError, fault};
use super::exposure::{Exposure, check_exposure, reachable, tokens_in_clear};
use super::log_settings::LogSettings;
use super::sources::Sources;

/// Most nodes in one process: more than any trial needs.
const DEV_NODES_MAX: u8 = 9;

/// The flags of `mintleaf dev`.
#[derive(Clone, Debug, clap::Args)]
pub struct DevArgs {
    /// Real Raft nodes to run in this process, on consecutive ports
    #[arg(long, env = "MINTLEAF_NODES", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(DEV_NODES_MAX)))]
    pub nodes: u8,
    /// Address to serve clients on; the first node's, when there are more
    #[arg(long, env = "MINTLEAF_HTTP", value_name = "HOST:PORT", default_value = HTTP_DEFAULT)]
    pub http: String,
    /// Address to serve clients of the Redis protocol on; the first node's, when there are more
    /// [default: none]
    #[arg(long, env = "MINTLEAF_RESP", value_name = "HOST:PORT")]
    pub resp: Option<String>,
    /// Data directory; the next start goes on from it
    #[arg(long, env = "MINTLEAF_DATA", value_name = "DIR", default_value = DATA_DEFAULT)]
    pub data: PathBuf,
    /// Use data directories that were copied from elsewhere, once: the originals must be gone for good, and these
    /// the only copies, because two in use would repeat ids
    #[arg(long, env = "MINTLEAF_MOVED", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub moved: bool,
    /// File with the tokens that clients show, and what each allows; `mintleaf token new` prints its lines
    #[arg(long, env = "MINTLEAF_AUTH_FILE", value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// PEM file with this node's certificate for clients: HTTP and the Redis protocol speak TLS then
    #[arg(long, env = "MINTLEAF_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, env = "MINTLEAF_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// PEM file with the CAs that sign clients' certificates; every client must show one then
    #[arg(long, env = "MINTLEAF_TLS_CLIENT_CA", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Accept clients on addresses that are no loopback addresses, and changes by whoever reaches --http
    #[arg(long, env = "MINTLEAF_INSECURE", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub insecure: bool,
    /// Most names of tags that the cluster keeps, those of deleted ones included, 1 to 1000000000
    /// [default: 10000000]
    #[arg(long, env = "MINTLEAF_TAGS_MAX", value_name = "N")]
    pub tags_max: Option<u64>,
    /// Memory of each node for the counters of sequences while it leads, 1MiB to 1024GiB: keys that rest are forgotten
    /// and go on higher [default: 256MiB]
    #[arg(long, env = "MINTLEAF_SEQUENCE_MEMORY", value_name = "SIZE")]
    pub sequence_memory: Option<String>,
    /// Worker ids of snowflakes that the cluster uses, such as 512-1023 or 0-9,20; fixed once the cluster has
    /// formed [default: all]
    #[arg(long, env = "MINTLEAF_SNOWFLAKE_WORKERS", value_name = "LIST")]
    pub snowflake_workers: Option<String>,
    /// Where the nodes are, for clients that prefer nodes near by: 1 to 64 letters, digits, dots, dashes and
    /// underscores [default: none]
    #[arg(long, env = "MINTLEAF_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
    /// How long a cluster that is asked to stop goes on serving, so that clients can leave, 0 to 10m
    #[arg(long, env = "MINTLEAF_DRAIN", value_name = "DURATION", default_value = DEV_DRAIN_DEFAULT)]
    pub drain: String,
    /// How log lines look [default: text]
    #[arg(long, env = "MINTLEAF_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Which log lines there are; RUST_LOG, a filter by module, wins over it [default: info]
    #[arg(long, env = "MINTLEAF_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Where each setting comes from.
    #[arg(skip)]
    pub sources: Sources,
}

/// A cluster in one process, checked.
#[derive(Clone, Debug)]
pub struct DevConfig {
    /// How many nodes, 1 to 9.
    pub nodes: u8,
    /// Client address of the first node; port 0 takes free ones for all.
    pub http: SocketAddr,
    /// Redis protocol address of the first node, if any; port 0 takes free ones for all.
    pub resp: Option<SocketAddr>,
    /// The directory that holds every node's data.
    pub data: PathBuf,
    /// Whether data directories may be copies of others, which are not in use and never will be.
    pub moved: bool,
    /// The tokens that clients have to show, if they have to.
    pub auth_file: Option<AuthSource>,
    /// The files that the nodes prove themselves with to clients, if any.
    pub client_tls: Option<ClientTlsFiles>,
    /// Whether every client that reaches a client address may change everything, rather than clients on this machine
    /// alone.
    pub insecure: bool,
    /// The flags with addresses that strangers can reach; empty unless `insecure`.
    pub exposed: Vec<String>,
    /// The flags with addresses where clients show tokens across a network without TLS.
    pub tokens_in_clear: Vec<String>,
    /// Most names of tags that the cluster keeps, those of deleted ones included.
    pub tags_max: u64,
    /// Bytes of each node for the counters of sequences.
    pub sequence_memory: usize,
    /// Where the nodes are, for clients that prefer nodes near by.
    pub zone: Option<String>,
    /// How snowflake ids are made.
    pub snowflake: SnowflakeSettings,
    /// How long the nodes go on serving after they were asked to stop.
    pub drain: Duration,
    /// The log of the process.
    pub log: LogSettings,
    /// Where each setting comes from.
    pub sources: Sources,
}

impl DevConfig {
    /// Checks `args`.
    ///
    /// # Errors
    /// The first setting that cannot be used, by the name it was given under.
    pub fn resolve(args: DevArgs) -> Result<Self, ConfigError> {
        let sources = args.sources.clone();
        Self::check(args).map_err(|error| error.told(&sources))
    }

    fn check(args: DevArgs) -> Result<Self, ConfigError> {
        let http = listen_address("http", &args.http)?;
        let resp = resp_address(args.resp.as_deref())?;
        for (name, address) in [("http", Some(http)), ("resp", resp)] {
            let Some(address) = address else { continue };
            if address.port().checked_add(u16::from(args.nodes) - 1).is_none() {
                let why = format_args!("leaves no {} consecutive ports: start lower", args.nodes);
                return Err(fault(name, why));
            }
        }
        let (nodes, data) = (args.nodes, args.data);
        let log = LogSettings::of(args.log_format, args.log_level);
        let insecure = args.insecure;
        let auth_file = args.auth_file;
        let auth_file = auth_file.map(|path| AuthSource::at(path, reachable(http, resp), insecure));
        let client_tls = ClientTlsFiles::of([args.tls_cert, args.tls_key, args.tls_client_ca])?;
        // The nodes talk to each other over loopback addresses.
        let exposure = Exposure {
            http,
            resp,
            clients_are_known: auth_file.is_some(),
            clients_speak_tls: client_tls.is_some(),
            raft: None,
            advertised_raft: None,
            raft_is_proven: false,
            insecure,
        };
        let exposed = check_exposure(&exposure)?;
        let tokens_in_clear = tokens_in_clear(&exposure);
        let snowflake_workers = args.snowflake_workers;
        let snowflake = snowflake(&ServeArgs { snowflake_workers, ..ServeArgs::default() })?;
        let tags_max = tags_max(args.tags_max)?;
        let sequence_memory = sequence_memory(args.sequence_memory.as_deref())?;
        let drain = drain(&args.drain)?;
        Ok(Self {
            nodes,
            http,
            resp,
            data,
            moved: args.moved,
            auth_file,
            client_tls,
            insecure,
            exposed,
            tokens_in_clear,
            tags_max,
            sequence_memory,
            zone: zone(args.zone)?,
            snowflake,
            drain,
            log,
            sources: args.sources,
        })
    }
}
