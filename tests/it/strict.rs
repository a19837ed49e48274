//! Strict tags: ids that rise over all nodes, under any leader.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hyper::Method;
use serde_json::{Value as Json, json};

use crate::harness::{
    Api, Cluster, RedisClient, Value, eventually, known_leader, mintleaf, ms, pause, secs,
};

/// Creates a tag, and repeats the request during an election.
fn create(api: Api, tag: &Json) {
    eventually("the tag to be there", secs(30), || {
        let answer = api.try_post("/v1/tags", tag).ok()?;
        [201, 409].contains(&answer.status).then_some(())
    });
}

fn create_strict(api: Api, tag: &str) {
    create(api, &json!({ "tag": tag, "order": "strict", "step": 50 }));
}

/// The next id of a tag, once a node gives one.
fn next(api: Api, tag: &str) -> u64 {
    eventually("an id", secs(30), || {
        let answer = api.try_get(&format!("/v1/segment/{tag}")).ok()?;
        (answer.status == 200).then(|| answer.ids()[0])
    })
}

/// A counter of a node; `name` has no prefix.
fn metric(api: Api, name: &str) -> u64 {
    let page = api.get("/metrics");
    let name = format!("mintleaf_{name} ");
    let value = page.text().lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Clients of all nodes. Each of their requests must get ids above all ids that were answered before it was sent.
struct Clients {
    stopping: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(cluster: &Cluster, tag: &'static str) -> Self {
        let (stopping, answered, highest) =
            <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let nodes = cluster.ids().into_iter().flat_map(|id| [(id, 1), (id, 7)]);
        let threads = nodes.map(|(id, count)| {
            let api = cluster.api(id);
            let (stopping, answered) = (Arc::clone(&stopping), Arc::clone(&answered));
            let highest = Arc::clone(&highest);
            thread::spawn(move || {
                while !stopping.load(SeqCst) {
                    let before = highest.load(SeqCst);
                    let path = format!("/v1/segment/{tag}?count={count}");
                    let Some(answer) =
                        api.try_get(&path).ok().filter(|answer| answer.status == 200)
                    else {
                        pause(ms(5));
                        continue;
                    };
                    let ids = answer.ids();
                    assert!(ids.is_sorted(), "node {id} gave {ids:?}");
                    let (first, last) = (ids[0], ids[ids.len() - 1]);
                    assert!(first > before, "node {id} gave {first} after {before} was answered");
                    highest.fetch_max(last, SeqCst);
                    answered.fetch_add(1, SeqCst);
                }
            })
        });
        let threads = threads.collect();
        Self { stopping, answered, threads }
    }

    /// Waits until this many more requests were answered.
    fn await_more(&self, count: u64) {
        let enough = self.answered.load(SeqCst) + count;
        eventually("more ids", secs(30), || (self.answered.load(SeqCst) >= enough).then_some(()));
    }

    fn stop(self) {
        self.stopping.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("ids rise"));
    }
}

fn another_leader(cluster: &Cluster, old: u64) {
    let survivor = cluster.others(old)[0];
    eventually("another leader", secs(15), || {
        known_leader(cluster.api(survivor)).filter(|leader| *leader != old)
    });
}

#[test]
fn ids_rise_over_all_nodes_through_leaders_that_are_killed_and_paused() {
    let mut cluster = mintleaf().cluster(3);
    create_strict(cluster.api(1), "invoices");
    let clients = Clients::start(&cluster, "invoices");
    clients.await_more(100);
    for _ in 0..2 {
        let old = cluster.leader();
        cluster.kill(old);
        another_leader(&cluster, old);
        clients.await_more(50);
        cluster.start_node(old);
        let paused = cluster.leader();
        // The paused leader still believes that it leads, and gets a request as soon as it runs again.
        cluster.process(paused).signal("STOP");
        another_leader(&cluster, paused);
        clients.await_more(50);
        cluster.process(paused).signal("CONT");
        clients.await_more(100);
    }
    clients.stop();
}

#[test]
fn without_a_quorum_a_strict_tag_gives_nothing_and_a_plain_one_what_is_held() {
    let mut cluster = mintleaf().cluster(3);
    let last = cluster.leader();
    let api = cluster.api(last);
    create_strict(api, "invoices");
    create(api, &json!({ "tag": "orders", "step": 1_000 }));
    assert!(next(api, "orders") > 0 && next(api, "invoices") > 0);
    let others = cluster.others(last);
    others.iter().for_each(|&other| cluster.kill(other));
    let refused = api.get("/v1/segment/invoices").problem();
    assert_eq!(refused, (503, "unavailable".to_owned()));
    assert!(metric(api, r#"rounds_total{outcome="failed"}"#) > 0);
    eventually(
        "refusals that need no 2 s, once the others have been silent for long",
        secs(20),
        || {
            let began = Instant::now();
            let refused = api.get("/v1/segment/invoices").problem();
            assert_eq!(refused, (503, "unavailable".to_owned()));
            (began.elapsed() < secs(1)).then_some(())
        },
    );
    let began = Instant::now();
    assert_eq!(api.send(&Method::HEAD, "/v1/segment/invoices", &[], "").status, 503);
    assert!(began.elapsed() < secs(1), "HEAD took {:?}", began.elapsed());
    let held = api.get("/v1/segment/orders");
    assert!(held.ids()[0] > 1, "{}", held.text());
    let back = others[0];
    cluster.start_node(back);
    let first = next(cluster.api(back), "invoices");
    assert!(next(api, "invoices") > first);
}

#[test]
fn commands_that_come_together_are_answered_together_on_every_node_in_their_order() {
    let dev = mintleaf().dev_with_nodes(3);
    create_strict(dev.api(), "invoices");
    let together = "INCR invoices\r\n".repeat(20) + "INCRBY invoices 5\r\nINCR invoices\r\n";
    let mut highest = 0;
    for node in [1, 2, 3] {
        let mut redis = RedisClient::connect(dev.resp(node));
        eventually("the node to know the tag", secs(20), || {
            (redis.ask("EXISTS invoices") == Value::Integer(1)).then_some(())
        });
        let numbers = eventually("all replies to be ids", secs(30), || {
            redis.send(together.as_bytes());
            let replies: Vec<Value> = (0..22).map(|_| redis.answer()).collect();
            let number = |reply: &Value| match reply {
                Value::Integer(number) => Some(*number),
                _ => None,
            };
            replies.iter().map(number).collect::<Option<Vec<u64>>>()
        });
        assert!(numbers[0] > highest, "node {node}: {numbers:?} after {highest}");
        assert!(numbers.is_sorted_by(|one, next| one < next), "node {node}: {numbers:?}");
        assert!(numbers[20] >= numbers[19] + 5, "node {node}: {numbers:?}");
        highest = numbers[21];
    }
}

#[test]
fn requests_that_wait_for_the_leader_are_measured_in_either_protocol() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create_strict(api, "invoices");
    create(api, &json!({ "tag": "chat", "kind": "sequence" }));
    let measured = |protocol: &str, mode: &str| {
        let name =
            format!("mintleaf_request_seconds_count{{protocol=\"{protocol}\",mode=\"{mode}\"}} ");
        let page = api.get("/metrics");
        let line = page.text().lines().find_map(|line| line.strip_prefix(name.as_str()));
        line.expect("the metric").parse::<u64>().unwrap()
    };
    let before = [("resp", "sequence"), ("http", "segment")].map(|(p, m)| measured(p, m));
    let mut redis = RedisClient::connect(dev.resp(1));
    redis.send("HINCRBY chat room 1\r\n".repeat(3).as_bytes());
    let numbers: Vec<Value> = (0..3).map(|_| redis.answer()).collect();
    assert_eq!(numbers, [1, 2, 3].map(Value::Integer));
    assert_eq!(redis.ask("HGET chat room"), Value::Bulk("3".to_owned()));
    next(api, "invoices");
    let after = [("resp", "sequence"), ("http", "segment")].map(|(p, m)| measured(p, m));
    assert!(after[0] >= before[0] + 2 && after[1] > before[1], "{before:?}, then {after:?}");
}

#[test]
fn metrics_tell_how_many_requests_share_a_round_and_how_others_reach_the_leader() {
    const TOGETHER: u64 = 200;
    let dev = mintleaf().dev_with_nodes(3);
    create(dev.api(), &json!({ "tag": "rooms", "kind": "sequence" }));
    let nodes = [1, 2, 3].map(|id| dev.node(id));
    let commands: String = (0..TOGETHER).map(|n| format!("HINCRBY rooms room-{n} 1\r\n")).collect();
    for node in [1, 2, 3] {
        let mut redis = RedisClient::connect(dev.resp(node));
        eventually("all replies to be numbers", secs(30), || {
            redis.send(commands.as_bytes());
            let replies: Vec<Value> = (0..TOGETHER).map(|_| redis.answer()).collect();
            replies.iter().all(|reply| matches!(reply, Value::Integer(_))).then_some(())
        });
    }
    let of_all = |name: &str| nodes.iter().map(|&api| metric(api, name)).sum::<u64>();
    let rounds = of_all(r#"rounds_total{outcome="confirmed"}"#);
    assert!(rounds > 0 && rounds == of_all("round_seconds_count"), "{rounds}");
    let requests = of_all("round_requests_total");
    assert!(requests >= 3 * TOGETHER && requests / rounds >= 10, "{requests} in {rounds} rounds");
    // Two of the three nodes did not lead, and asked the leader.
    let asked = nodes.map(|api| metric(api, r#"leader_messages_total{outcome="answered"}"#));
    assert!(asked.iter().filter(|count| **count > 0).count() >= 2, "{asked:?}");
}

/// Sends these commands together. Returns how many get ids, which must rise, and the errors of the rest.
fn ids_and_refusals(redis: &mut RedisClient, commands: usize) -> (usize, BTreeSet<String>) {
    redis.send("INCR invoices\r\n".repeat(commands).as_bytes());
    let replies: Vec<Value> = (0..commands).map(|_| redis.answer()).collect();
    let (mut ids, mut refusals) = (Vec::new(), BTreeSet::new());
    for reply in replies {
        match reply {
            Value::Integer(id) => ids.push(id),
            Value::Error(text) => drop(refusals.insert(text.split(' ').next().unwrap().to_owned())),
            other => panic!("{other:?}"),
        }
    }
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    (ids.len(), refusals)
}

#[test]
fn each_request_of_many_that_come_together_counts_against_the_rate_limit() {
    const LIMIT: u64 = 20;
    const TOGETHER: usize = 500;
    let dev = mintleaf().dev();
    let strict = json!({ "tag": "invoices", "order": "strict", "rate_limit": LIMIT });
    dev.api().post("/v1/tags", &strict).ok();
    let began = Instant::now();
    let mut redis = RedisClient::connect(dev.resp(1));
    let (over_resp, refusals) = ids_and_refusals(&mut redis, TOGETHER);
    assert_eq!(refusals, BTreeSet::from(["RATELIMITED".to_owned()]));
    assert!(over_resp >= LIMIT as usize, "{over_resp} in a full bucket of {LIMIT}");

    let mut http = TcpStream::connect(dev.api().0).unwrap();
    http.set_read_timeout(Some(secs(30))).unwrap();
    let request = "GET /v1/segment/invoices HTTP/1.1\r\nHost: localhost\r\n\r\n";
    http.write_all(request.repeat(TOGETHER).as_bytes()).unwrap();
    let (mut answers, mut read) = (Vec::new(), [0; 1 << 16]);
    let count = |answers: &[u8], status: &str| {
        String::from_utf8_lossy(answers).matches(&format!("HTTP/1.1 {status} ")).count()
    };
    while count(&answers, "200") + count(&answers, "429") < TOGETHER {
        let length = http.read(&mut read).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&answers));
        answers.extend_from_slice(&read[..length]);
    }
    let most = LIMIT * (2 + began.elapsed().as_secs());
    let taken = (over_resp + count(&answers, "200")) as u64;
    assert!(taken <= most, "{taken} ids in {:?}", began.elapsed());
    assert!(count(&answers, "429") > 0);
}

#[test]
fn head_says_what_the_rate_limit_would_and_takes_nothing_out_of_it() {
    let dev = mintleaf().dev();
    let api = dev.api();
    let strict = json!({ "tag": "invoices", "order": "strict", "rate_limit": 1 });
    api.post("/v1/tags", &strict).ok();
    let head = || api.send(&Method::HEAD, "/v1/segment/invoices", &[], "");
    for _ in 0..3 {
        assert_eq!(head().status, 200);
    }
    // A request for more than ten seconds' worth is refused, and takes nothing from the bucket.
    let much = api.send(&Method::HEAD, "/v1/segment/invoices?count=11", &[], "");
    assert_eq!(much.status, 422);
    // More than the bucket ever holds: the debt lasts for ten seconds.
    assert_eq!(api.get("/v1/segment/invoices?count=10").ids().len(), 10);
    let refused = head();
    assert_eq!((refused.status, refused.header("retry-after").is_empty()), (429, false));
}

#[test]
fn the_last_ids_go_to_the_first_of_those_that_come_together() {
    let dev = mintleaf().dev();
    let start = (1_u64 << 63) - 50;
    let strict = json!({ "tag": "invoices", "order": "strict", "start": start.to_string() });
    dev.api().post("/v1/tags", &strict).ok();
    let mut redis = RedisClient::connect(dev.resp(1));
    let exhausted = BTreeSet::from(["EXHAUSTED".to_owned()]);
    assert_eq!(ids_and_refusals(&mut redis, 80), (50, exhausted));
}
