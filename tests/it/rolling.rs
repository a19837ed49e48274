//! Three nodes rolled one after another behind a load balancer that obeys `/readyz`: no HTTP request fails, no
//! command of the Redis protocol returns an error, and no id is given twice.
//!
//! `MINTLEAF_ROLLS` is the number of rolls of all three nodes, `MINTLEAF_WRITE_MS_MAX` the longest time of a
//! write, and `MINTLEAF_ROLLED` the binary to roll; `scripts/roll` sets all three.

mod clients;
mod proxy;

use std::path::{Path, PathBuf};

use serde_json::json;

use self::clients::Tally;
pub(crate) use self::clients::{Clients, Crowd, overload};
use self::proxy::Backend;
use crate::harness::{Cluster, Port, from_env, mintleaf, ms};

/// How long each node drains. Half of it is five checks of the load balancer.
const DRAIN: &str = "1s";
const CROWD: Crowd = Crowd { http: 64, resp: 16 };
/// The default for the slowest write. Machines that build and test at the same time sync slowly.
const WRITE_MS_MAX: u64 = 5_000;

/// Three nodes under load, behind a load balancer.
pub(crate) struct Rolling {
    pub(crate) cluster: Cluster,
    backends: Vec<Backend>,
    _resp: Vec<Port>,
}

impl Rolling {
    /// Starts three nodes of a build, `None` for the one under test. They have a tag for the load.
    pub(crate) fn prepare(build: Option<&Path>, flags: &[&str]) -> Self {
        let mut cluster = mintleaf().prepare(3, &[&["--drain", DRAIN], flags].concat());
        let resp: Vec<Port> = cluster.ids().iter().map(|_| Port::claim()).collect();
        for (id, port) in (1..).zip(&resp) {
            cluster.add_flag(id, "--resp", port.addr().to_string());
            cluster.use_build(id, build);
        }
        cluster.start_all();
        cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 100 })).ok();
        let backends = cluster.targets().into_iter().zip(&resp);
        let backends =
            backends.map(|((_, http), port)| Backend { http, resp: port.addr() }).collect();
        Self { cluster, backends, _resp: resp }
    }

    /// Starts the load.
    pub(crate) fn clients(&self, crowd: Crowd) -> Clients {
        let clients = Clients::start(self.backends.clone(), crowd);
        clients.await_more(500);
        clients
    }

    /// Stops a node, starts it with this build, and waits until the load uses it again.
    pub(crate) fn roll(&mut self, id: u64, build: Option<&Path>, clients: &Clients) {
        self.cluster.stop(id);
        self.cluster.use_build(id, build);
        self.cluster.start_node(id);
        self.cluster.await_ready();
        clients.await_rotation();
        clients.await_more(200);
    }
}

#[test]
fn nodes_that_are_rolled_behind_a_load_balancer_fail_nobody() {
    let build = std::env::var_os("MINTLEAF_ROLLED").map(PathBuf::from);
    let mut rolling = Rolling::prepare(build.as_deref(), &[]);
    let clients = rolling.clients(CROWD);
    let (rolls, mut all) = (from_env("MINTLEAF_ROLLS", 1), Tally::default());
    for roll in 1..=rolls {
        for id in rolling.cluster.ids() {
            rolling.roll(id, build.as_deref(), &clients);
        }
        let tally = clients.tally();
        println!("roll {roll} of {rolls}: {tally}");
        all.add(&tally);
    }
    let seen = clients.stop();
    println!("{rolls} rolls of three nodes: {all}, {} connections opened again", seen.reconnected);
    seen.check();
    let write_max = ms(from_env("MINTLEAF_WRITE_MS_MAX", WRITE_MS_MAX));
    assert!(all.slowest_write <= write_max, "the slowest write took {:?}", all.slowest_write);
}
