//! The client library in Rust against real nodes that are killed, rolled and frozen, and that get too many
//! requests. No call fails without need, and no id is given twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use mintleaf_client::blocking::Client;
use mintleaf_client::{Builder, Error};
use serde_json::json;

use crate::harness::{Cluster, eventually, mintleaf, ms, pause, secs};

/// Leases are small, so that the users need the nodes many times a second.
const LEASE_MAX: u32 = 200;
const THREADS: u64 = 8;

fn builder(cluster: &Cluster) -> Builder {
    let endpoints = cluster.ids().into_iter().map(|id| format!("http://{}", cluster.api(id).0));
    // On a machine that is busy with other tests, a new leader may take longer than a user would wait.
    Client::builder().endpoints(endpoints).lease_max(LEASE_MAX).timeout(secs(30))
}

/// Threads that take ids by every kind of call until they are stopped.
struct Users {
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<BTreeMap<&'static str, Vec<u64>>>>,
}

impl Users {
    fn start(client: &Client) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let threads = (0..THREADS)
            .map(|number| {
                let (client, stopping) = (client.clone(), Arc::clone(&stopping));
                std::thread::spawn(move || take(&client, number, &stopping))
            })
            .collect();
        Self { stopping, threads }
    }

    /// Stops them, and fails if a call failed or an id was given twice.
    fn judge(self) {
        self.stopping.store(true, Relaxed);
        let mut all: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for thread in self.threads {
            for (tag, mut ids) in thread.join().expect("a call failed") {
                all.entry(tag).or_default().append(&mut ids);
            }
        }
        for (tag, mut ids) in all {
            let taken = ids.len();
            assert!(taken > 1_000, "only {taken} of {tag}");
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), taken, "ids of {tag} were given twice");
        }
    }
}

fn take(client: &Client, number: u64, stopping: &AtomicBool) -> BTreeMap<&'static str, Vec<u64>> {
    let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut handle = client.handle("orders").unwrap();
    while !stopping.load(Relaxed) {
        let orders = seen.entry("orders").or_default();
        match number % 3 {
            0 => orders.extend(client.next_ids("orders", 70).unwrap()),
            1 => orders.extend((0..70).map(|_| client.next_id("orders").unwrap())),
            _ => orders.extend((0..70).map(|_| handle.next_id().unwrap())),
        }
        let snowflakes = seen.entry("snowflakes").or_default();
        snowflakes.extend((0..30).map(|_| client.next_snowflake().unwrap()));
        pause(ms(10));
    }
    seen
}

#[test]
fn nodes_are_rolled() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let client = builder(&cluster).build_blocking().unwrap();
    let users = Users::start(&client);
    for id in cluster.ids() {
        cluster.stop(id);
        cluster.start_node(id);
        cluster.await_ready();
    }
    users.judge();
}

#[test]
fn node_is_killed() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let client = builder(&cluster).build_blocking().unwrap();
    let users = Users::start(&client);
    pause(ms(300));
    let leader = cluster.leader();
    cluster.kill(leader);
    let seen = client.next_id("orders").unwrap();
    eventually("a lease from those that are left", secs(30), || {
        (client.next_id("orders").unwrap() > seen + 20 * u64::from(LEASE_MAX)).then_some(())
    });
    users.judge();
}

#[test]
fn real_refusals_reach_the_caller_as_they_are() {
    let mut cluster = mintleaf().cluster(1);
    cluster.await_ready();
    let api = cluster.api(1);
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let client = builder(&cluster).timeout(ms(1_500)).build_blocking().unwrap();
    let code = |result: Result<u64, Error>| result.map_err(|error| error.code().to_owned());

    assert_eq!(code(client.next_id("nobody")), Err("unknown_tag".to_owned()));
    assert_eq!(client.next_ids("orders", 3), Ok(vec![1, 2, 3]));
    api.patch("/v1/tags/orders", &json!({ "frozen": true })).ok();
    let held = (0..).take_while(|_| client.next_id("orders").is_ok()).count();
    assert!(held <= 2 * LEASE_MAX as usize, "{held} ids of a frozen tag");
    assert_eq!(code(client.next_id("orders")), Err("frozen".to_owned()));
    api.patch("/v1/tags/orders", &json!({ "frozen": false })).ok();
    eventually("the tag to be thawed", secs(5), || client.next_id("orders").ok());

    // More than the limit of a second. The node gives it once, and gives nothing more until the debt is paid off.
    api.post("/v1/tags", &json!({ "tag": "limited", "rate_limit": 10 })).ok();
    let over = client.next_ids("limited", 101).map(|_| 0);
    assert_eq!(code(over), Err("count_over_rate_limit".to_owned()));
    eventually("the limit to be felt", secs(10), || {
        (code(client.next_ids("limited", 100).map(|_| 0)) == Err("rate_limited".to_owned()))
            .then_some(())
    });

    api.delete("/v1/tags/orders");
    eventually("what is held to be used up", secs(60), || {
        (code(client.next_id("orders")) == Err("unknown_tag".to_owned())).then_some(())
    });
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    assert!(client.next_id("orders").unwrap() > 1_000, "above every id of before");
}
