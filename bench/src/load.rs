//! The load generator: one thread, many connections, loopback.
//!
//! A closed loop keeps `depth` requests in flight on each connection. It writes them at once, and writes the
//! next ones when all have been answered. An open loop sends at a rate, whatever the server does, and times
//! each request from the moment it was due. So when a server stalls, every request that falls due during the
//! stall counts against it.
//!
//! The generator is a separate process, so that it can have a core, and a share of it, for itself.

mod connection;
mod generator;
mod grpc;
mod protocol;
mod requests;
mod transport;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::histogram::Histogram;
use crate::options::seconds;
use crate::process;
use generator::Generator;
pub(crate) use protocol::Protocol;

/// What to send, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Load {
    /// Address of the server
    #[arg(long, value_name = "ADDR")]
    pub(crate) target: SocketAddr,
    /// Protocol of the server
    #[arg(long, value_enum)]
    pub(crate) protocol: Protocol,
    /// `GET /path`, `POST /path BODY`; a Redis command; a key of etcd. A seven-digit number replaces `{key}`
    #[arg(long)]
    pub(crate) request: String,
    /// More lines for the head of each HTTP request, each with its line end
    #[arg(long, value_name = "LINES", default_value = "")]
    pub(crate) headers: String,
    /// A Redis command that is sent first on every connection
    #[arg(long, value_name = "COMMAND", default_value = "")]
    pub(crate) login: String,
    /// Speak TLS with servers whose certificate this CA has signed
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Report how much processor time this process uses from the first request on
    #[arg(long = "server", value_name = "PID")]
    pub(crate) servers: Vec<u32>,
    /// How many different keys, in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) keys: u64,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) depth: u64,
    /// How long to go on
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub(crate) time: Duration,
    /// Stop after this many requests; the load fails if they are not done in time
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Open loop: send this many requests a second, on any free connection
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
}

impl Load {
    /// The load as command-line arguments.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("--target={}", self.target),
            format!("--protocol={}", self.protocol.name()),
            format!("--request={}", self.request),
            format!("--headers={}", self.headers),
            format!("--login={}", self.login),
            format!("--keys={}", self.keys),
            format!("--connections={}", self.connections),
            format!("--depth={}", self.depth),
            format!("--time={}", self.time.as_secs_f64()),
        ];
        words.extend(self.requests.map(|requests| format!("--requests={requests}")));
        words.extend(self.ca.iter().map(|ca| format!("--ca={}", ca.display())));
        words.extend(self.servers.iter().map(|pid| format!("--server={pid}")));
        words.extend(self.rate.map(|rate| format!("--rate={rate}")));
        words
    }

    /// Sends all requests and returns the outcome.
    ///
    /// # Errors
    /// When a connection cannot be made or breaks off.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let mut generator = Generator::connect(self)?;
        let servers_before = self.servers_ns()?;
        let (began, before) = (Instant::now(), process::cpu_ns_of("self")?);
        match self.rate {
            Some(rate) => generator.open_loop(rate)?,
            None => generator.closed_loop()?,
        }
        let used = process::cpu_ns_of("self")? - before;
        let busy = used as f64 / began.elapsed().as_nanos() as f64;
        let servers_ns = self.servers_ns()? - servers_before;
        Ok(Outcome { busy, servers_ns, ..generator.outcome() })
    }

    /// The processor time that the servers have used until now.
    fn servers_ns(&self) -> Result<u64> {
        self.servers.iter().map(|pid| process::cpu_ns_of(&pid.to_string())).sum()
    }
}

/// The outcome of a load. Times are in microseconds.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// Requests that were answered.
    pub(crate) answered: u64,
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    /// How much of its core the generator used. An open loop uses all of it.
    pub(crate) busy: f64,
    /// Processor time of the servers from the first request to the last, in nanoseconds. Connecting is not included.
    pub(crate) servers_ns: u64,
    /// Requests that were answered with an error.
    pub(crate) errors: u64,
    /// The first of these answers.
    pub(crate) first_error: Option<String>,
    /// Only in an open loop: the times of the requests that fell due in each quarter of a second.
    pub(crate) windows: Vec<Buckets>,
}

/// A histogram as it is written to JSON.
pub(crate) type Buckets = Vec<(usize, u64)>;

impl Outcome {
    fn new(histogram: &Histogram, answered: u64, took: Duration) -> Self {
        Self {
            answered,
            per_second: answered as f64 / took.as_secs_f64(),
            p50: histogram.quantile_us(0.5),
            p90: histogram.quantile_us(0.9),
            p99: histogram.quantile_us(0.99),
            p999: histogram.quantile_us(0.999),
            max: histogram.max_us(),
            ..Self::default()
        }
    }
}
