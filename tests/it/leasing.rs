//! The client library in Rust against real nodes that are killed, hung, rolled and frozen, and that get too many
//! requests. No call fails without need, and no id is given twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::Method;
use mintleaf_client::blocking::Client;
use mintleaf_client::{Builder, Error, Layout, Pool};
use serde_json::json;

use crate::harness::{Answer, Api, Cluster, eventually, from_env, mintleaf, ms, pause, secs};

/// Leases are small, so that the users need the nodes many times a second.
const LEASE_MAX: u32 = 200;
const THREADS: u64 = 8;
/// Longer than an attempt lasts.
const HANG: Duration = ms(3_500);
/// On a loaded machine a process may take half a minute to start.
const READY_WITHIN: Duration = secs(120);
/// What the process of the tests may grow by under one of them. Others run beside it and take some, and so do the ids
/// that users keep. 10^8 ids that a client kept would be more.
const GROWTH_MAX_MIB: u64 = 512;

pub(crate) fn builder(cluster: &Cluster) -> Builder {
    let endpoints = cluster.ids().into_iter().map(|id| format!("http://{}", cluster.api(id).0));
    // On a machine that is busy with other tests, a new leader may take longer than a user would wait.
    Client::builder().endpoints(endpoints).lease_max(LEASE_MAX).timeout(secs(30))
}

/// Threads that take ids by every kind of call until they are stopped.
pub(crate) struct Users {
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<BTreeMap<&'static str, Vec<u64>>>>,
}

impl Users {
    pub(crate) fn start(client: &Client) -> Self {
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
    pub(crate) fn judge(self) {
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

/// Ids in the order of their arrival, as runs of consecutive ones.
#[derive(Default)]
struct Runs(Vec<Range<u64>>);

impl Runs {
    fn add(&mut self, ids: &[u64]) {
        for &id in ids {
            match self.0.last_mut() {
                Some(last) if last.end == id => last.end += 1,
                _ => self.0.push(id..id + 1),
            }
        }
    }

    fn judge(mut self) {
        self.0.sort_unstable_by_key(|run| run.start);
        let twice = self.0.windows(2).find(|pair| pair[1].start < pair[0].end);
        assert_eq!(twice, None, "ids were given twice");
    }
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

/// `MINTLEAF_ROUNDS` says how often a node is disturbed.
#[test]
fn nodes_are_killed_hung_and_rolled() {
    let mut cluster = mintleaf().cluster(3);
    for tag in ["orders", "many"] {
        cluster.api(1).post("/v1/tags", &json!({ "tag": tag })).ok();
    }
    let client = builder(&cluster).build_blocking().unwrap();
    let users = Users::start(&client);
    let many = builder(&cluster).lease_max(1_000_000).build_blocking().unwrap();
    let (taken, stopping) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let taker = {
        let (taken, stopping) = (Arc::clone(&taken), Arc::clone(&stopping));
        std::thread::spawn(move || {
            let mut runs = Runs::default();
            while !stopping.load(Relaxed) {
                runs.add(&many.next_ids("many", 10_000).unwrap());
                taken.fetch_add(10_000, Relaxed);
                pause(ms(1));
            }
            runs
        })
    };
    let mut readings = Vec::new();
    for round in 0..from_env("MINTLEAF_ROUNDS", 3) {
        let id = (round + round / 3) % 3 + 1;
        match round % 3 {
            0 => cluster.kill(id),
            1 => {
                cluster.process(id).signal("STOP");
                pause(HANG);
                cluster.process(id).signal("CONT");
            }
            _ => cluster.stop(id),
        }
        if round % 3 != 1 {
            cluster.start_node(id);
        }
        let api = cluster.api(id);
        eventually("the node to be ready", READY_WITHIN, || {
            api.try_get("/readyz").ok().filter(Answer::is_ok)
        });
        readings.push((taken.load(Relaxed), resident_mib()));
    }
    stopping.store(true, Relaxed);
    taker.join().expect("a call failed").judge();
    users.judge();
    let (first, middle, last) =
        (readings[0], readings[readings.len() / 2], readings[readings.len() - 1]);
    eprintln!("(ids, MiB): {first:?}, then {middle:?}, at last {last:?}");
    assert!(last.1 < first.1 + GROWTH_MAX_MIB, "memory grew: {readings:?}");
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

fn make_pool(api: Api, workers: &str) {
    let headers = [("content-type", "application/json")];
    let body = json!({ "workers": workers }).to_string();
    assert_eq!(api.send(&Method::PUT, "/v1/pools/shops", &headers, &body).status, 200);
}

/// Snowflakes of one program after another, each with a client of its own, until the time is over.
fn generate(builder: &Builder, number: usize, until: Instant) -> Vec<u64> {
    let mut ids = Vec::new();
    while Instant::now() < until {
        let client = builder.clone().build_blocking().unwrap();
        let lease = client.lease_worker(Pool::new("shops").seconds(5)).unwrap();
        let snowflakes = lease.into_generator(Layout::default()).unwrap();
        // Some go on over renewals, and some are soon followed by another, perhaps with the same worker id.
        let ends = Instant::now() + if number.is_multiple_of(2) { secs(8) } else { ms(300) };
        while Instant::now() < ends.min(until) {
            match snowflakes.next_id() {
                Ok(id) => ids.push(id),
                // No node renewed it in time.
                Err(error) => assert_eq!(error.code(), "unavailable"),
            }
            if ids.len().is_multiple_of(500) {
                pause(ms(1));
            }
        }
        client.close();
    }
    ids
}

#[test]
fn programs_that_lease_worker_ids_make_no_snowflake_twice() {
    let mut cluster = mintleaf().cluster(3);
    cluster.await_ready();
    make_pool(cluster.api(1), "0-31");
    let until = Instant::now() + secs(12);
    let programs: Vec<_> = (0..4)
        .map(|number| {
            let builder = builder(&cluster);
            std::thread::spawn(move || generate(&builder, number, until))
        })
        .collect();
    pause(secs(1));
    let leader = cluster.leader();
    cluster.kill(leader);
    pause(secs(4));
    cluster.start_node(leader);
    let mut all = Vec::new();
    for program in programs {
        let mut ids = program.join().expect("a call failed");
        assert!(ids.len() > 1_000, "only {}", ids.len());
        all.append(&mut ids);
    }
    let taken = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), taken, "snowflakes were made twice");
}

#[test]
fn a_worker_id_that_is_given_back_is_leased_again_above_its_last_stamp() {
    let node = mintleaf().dev();
    make_pool(node.api(), "7");
    let client = Client::builder().endpoints([format!("http://{}", node.api().0)]);
    let client = client.build_blocking().unwrap();
    let first = client.lease_worker("shops").unwrap();
    let last_ms = first.from_ms() + 500;
    assert!(
        first.worker_id() == 7 && first.may_stamp(last_ms) && !first.may_stamp(first.until_ms())
    );
    assert_eq!(client.lease_worker("shops").unwrap_err().code(), "exhausted");
    assert_eq!(client.lease_worker("nothing").unwrap_err().code(), "not_found");
    first.close_blocking();
    assert!(!first.may_stamp(last_ms));
    // The last stamp is ahead of the clock: until it has passed, the worker id is not free.
    let again = || client.lease_worker("shops").ok();
    let second = eventually("the last stamp to pass", secs(30), again);
    assert!(second.worker_id() == 7 && second.from_ms() > last_ms, "{first:?} {second:?}");
    drop(second);
    eventually("a lease that was dropped to be given back", secs(30), again);
}
