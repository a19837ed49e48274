//! The foundation of Mintleaf's black-box tests: the released binary runs as processes, and is used over real sockets.
//!
//! A test names the binary once, and gets everything else from it:
//!
//! ```no_run
//! use mintleaf_harness::Binary;
//!
//! let mintleaf = Binary::at("target/debug/mintleaf"); // a test of the package: env!("CARGO_BIN_EXE_mintleaf")
//! let mut cluster = mintleaf.cluster(3); // three processes, ready under one leader
//! let leader = cluster.leader();
//! let follower = cluster.others(leader)[0];
//! cluster.kill(leader); // SIGKILL
//! let answer = cluster.api(follower).get("/v1/snowflake");
//! assert_eq!(answer.ids().len(), 1);
//! cluster.start_node(leader);
//! cluster.await_ready();
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | `wait` | polling another process until a condition holds |
//! | `port` | ports that stay reserved for a test while its processes come and go |
//! | `process` | a process: its log, signals, exit code |
//! | `binary` | the `mintleaf` binary, and the commands that run it |
//! | `http` | the HTTP client: [`Client`] for async code, [`Api`] for all other code |
//! | `interrupts` | signals that ask a program to end |
//! | `resp` | a client of the Redis protocol |
//! | `node` | one `mintleaf serve`: its ports, data directory, flags and process |
//! | `cluster`, `dev` | several nodes; `mintleaf dev` |
//! | `clocks` | wall clocks of nodes, set while they run |
//! | `slow_syncs` | slow disks of nodes, without root |
//! | `recorder`, `history`, `load` | operations, recorded for `mintleaf-check`; clients that record them |
//!
//! A test fails at once when it cannot continue: most functions panic with a description of what they waited for, and a
//! failing test prints the last lines of each of its processes. [`Process`], [`Node`] and [`Client`] return errors
//! instead, for programs that report a failure and go on.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod binary;
mod clocks;
mod cluster;
mod dev;
mod history;
mod http;
mod interrupts;
mod load;
mod node;
mod port;
mod process;
mod recorder;
mod resp;
mod slow_syncs;
mod wait;

pub use binary::{Binary, clean};
pub use clocks::{Clocks, WallClocks, sweep};
pub use cluster::{Cluster, Turn, known_leader};
pub use dev::Dev;
pub use history::{History, Op, Outcome, judge};
pub use http::{Answer, Api, Client, NoAnswer, encoded};
pub use interrupts::Interrupts;
pub use load::{Load, TagWriter};
pub use node::{Node, Serve, peers};
pub use port::Port;
pub use process::{Finished, Process, signal};
pub use recorder::{LAYOUT, Recorder};
pub use resp::{RedisClient, Value, command};
pub use slow_syncs::SlowSyncs;
pub use wait::{await_some, eventually, from_env, ms, pause, secs};
