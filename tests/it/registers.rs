//! Registers: numbers without a gap, each given to a key for good, over killed leaders, lost answers and restores.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Api, Over, RedisClient, Value as Reply, eventually, from_env, mintleaf, secs,
};

/// Callers that ask at the same time.
const CALLERS: usize = 50;

#[track_caller]
fn create(api: Api, tag: &str, more: &Value) {
    let mut body = json!({ "tag": tag, "kind": "register" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.post("/v1/tags", &body).ok();
}

fn path(tag: &str, key: &str) -> String {
    format!("/v1/register/{tag}/{key}")
}

/// The number of a key, and whether the request gave it to the key.
#[track_caller]
fn next(api: Api, tag: &str, key: &str) -> (u64, bool) {
    let answer = api.post(&path(tag, key), &json!({}));
    let is_new = answer.status == 201;
    let body = answer.ok();
    assert_eq!(body["new"], is_new);
    (body["id"].as_str().unwrap().parse().unwrap(), is_new)
}

/// Every key of a register with its number, from pages of seven.
fn listed(api: Api, tag: &str) -> Vec<(u64, String)> {
    let (mut all, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = api.get(&format!("/v1/register/{tag}?limit=7&after={after}")).ok();
        for entry in page["entries"].as_array().unwrap() {
            let number = entry["id"].as_str().unwrap().parse().unwrap();
            all.push((number, entry["key"].as_str().unwrap().to_owned()));
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return all,
        }
    }
}

/// A client may send the head of a request and its body one after the other, and many do.
#[test]
fn a_connection_goes_on_behind_a_body_that_comes_late_and_is_not_needed() {
    let dev = mintleaf().dev();
    create(dev.api(), "inv", &json!({}));
    let mut stream = TcpStream::connect(dev.api().0).unwrap();
    stream.set_read_timeout(Some(secs(5))).unwrap();
    for _ in 0..3 {
        let head = "POST /v1/register/inv/key HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(50));
        stream.write_all(b"{}").unwrap();
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.contains(r#""id":"1""#), "{answer}");
    }
}

#[test]
fn a_key_has_one_number_for_good_through_any_node() {
    let cluster = mintleaf().cluster(3);
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    create(nodes[0], "inv", &json!({ "format": "INV-{id:06}" }));
    for (at, api) in nodes.iter().enumerate() {
        let key = format!("order-{at}");
        assert_eq!(next(*api, "inv", &key), (at as u64 + 1, true));
        for other in &nodes {
            assert_eq!(next(*other, "inv", &key), (at as u64 + 1, false));
            let shown = other.get(&path("inv", &key)).ok();
            assert_eq!(shown["text"], format!("INV-{:06}", at + 1));
        }
    }
    assert_eq!(nodes[1].get(&path("inv", "nobody")).problem(), (404, "not_found".to_owned()));
    assert_eq!(nodes[1].get("/v1/segment/inv").problem(), (404, "not_found".to_owned()));
    assert!(nodes[1].get("/api/segment/get/inv").text().contains("Result{id=-2"));
    let keys: Vec<_> = listed(nodes[2], "inv").into_iter().map(|(_, key)| key).collect();
    assert_eq!(keys, ["order-0", "order-1", "order-2"]);
}

#[test]
fn keys_that_come_together_share_commits_and_are_numbered_in_their_order() {
    let dev = mintleaf().dev_with_nodes(3);
    let api = dev.api();
    create(api, "inv", &json!({}));
    create(api, "texts", &json!({ "format": "T-{id}" }));
    let entries = || {
        let cluster = api.get("/v1/cluster").ok();
        let nodes = cluster["nodes"].as_array().unwrap().iter();
        nodes.filter_map(|node| node["last_log_index"].as_u64()).max().unwrap()
    };
    for node in 1..=3 {
        let mut redis = RedisClient::connect(dev.resp(node));
        let keys: String = (0..200).map(|key| format!("REGISTER inv {node}-{key}\r\n")).collect();
        let again = format!("REGISTER inv {node}-7\r\n");
        let too_long = format!("REGISTER inv {}\r\n", "x".repeat(257));
        let text = format!("REGISTER texts {node}\r\n");
        let before = entries();
        redis.send(
            [keys, too_long, again, text, "REGISTER inv last\r\n".to_owned()].concat().as_bytes(),
        );
        // The key `last` has the number behind those of the first node.
        let first = [1, 202, 402][node - 1];
        for number in first..first + 200 {
            assert_eq!(redis.answer(), Reply::Integer(number));
        }
        let refused = redis.answer();
        assert!(matches!(&refused, Reply::Error(why) if why.contains("key")), "{refused:?}");
        assert_eq!(redis.answer(), Reply::Integer(first + 7));
        assert_eq!(redis.answer(), Reply::Bulk(format!("T-{node}")));
        assert_eq!(redis.answer(), Reply::Integer(201));
        let appended = entries() - before;
        assert!(appended < 50, "{appended} entries for 200 numbers");
    }
}

#[test]
fn what_no_register_has_is_refused_by_name() {
    let dev = mintleaf().dev();
    let api = dev.api();
    for (field, value) in [
        ("order", json!("strict")),
        ("digits", json!(12)),
        ("step", json!(5)),
        ("step_max", json!(5)),
    ] {
        let answer = api.post("/v1/tags", &json!({ "tag": "x", "kind": "register", field: value }));
        assert_eq!(answer.problem(), (400, "invalid_argument".to_owned()), "{field}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("kind") && detail.contains(field), "{detail}");
    }
    api.post("/v1/tags", &json!({ "tag": "plain" })).ok();
    let asked = api.post(&path("plain", "a"), &json!({}));
    assert_eq!(asked.problem(), (404, "not_found".to_owned()));
    create(api, "daily", &json!({ "period": "day" }));
    let raised = api.patch("/v1/tags/daily", &json!({ "max_id": "9" }));
    assert_eq!(raised.problem(), (400, "invalid_argument".to_owned()));
    create(api, "whole", &json!({}));
    api.patch("/v1/tags/whole", &json!({ "max_id": "9" })).ok();
    assert_eq!(next(api, "whole", "a"), (9, true));
    api.patch("/v1/tags/whole", &json!({ "frozen": true })).ok();
    assert_eq!(next(api, "whole", "a"), (9, false));
    assert_eq!(api.post(&path("whole", "b"), &json!({})).problem(), (423, "frozen".to_owned()));
}

/// Each caller drops every tenth answer and asks again, and leaders die under all of them.
#[test]
fn no_gap_no_key_with_two_numbers_and_no_number_with_two_keys_while_leaders_die() {
    let mut cluster = mintleaf().cluster(3);
    create(cluster.api(1), "inv", &json!({}));
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seen: Mutex<BTreeMap<String, BTreeSet<u64>>> = Mutex::default();
    thread::scope(|scope| {
        let _over = Over(&over);
        for caller in 0..CALLERS {
            let (nodes, over, answered, seen) = (&nodes, &over, &answered, &seen);
            scope.spawn(move || {
                for at in 0.. {
                    let key = format!("c{caller}-{at}");
                    let times = if at % 10 == 0 { 2 } else { 1 };
                    let (mut got, mut tries) = (0, caller);
                    while got < times {
                        tries += 1;
                        let node = nodes[tries % nodes.len()];
                        let Ok(answer) = node.try_post(&path("inv", &key), &json!({})) else {
                            continue;
                        };
                        if answer.is_ok() {
                            got += 1;
                            let number = answer.json()["id"].as_str().unwrap().parse().unwrap();
                            seen.lock().unwrap().entry(key.clone()).or_default().insert(number);
                        }
                    }
                    answered.fetch_add(1, Relaxed);
                    if over.load(Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..from_env("MINTLEAF_ROUNDS", 4) {
            let before = answered.load(Relaxed);
            eventually("callers go on", secs(30), || {
                (answered.load(Relaxed) > before + 200).then_some(())
            });
            let leader = cluster.leader();
            cluster.kill(leader);
            let before = answered.load(Relaxed);
            eventually("the others go on", secs(30), || {
                (answered.load(Relaxed) > before + 100).then_some(())
            });
            cluster.start_node(leader);
            cluster.await_ready();
        }
    });
    let seen = seen.into_inner().unwrap();
    let listed = listed_by_key(cluster.api(1), "inv");
    for (key, numbers) in &seen {
        assert_eq!(numbers.len(), 1, "{key} has {numbers:?}");
        assert_eq!(listed.get(key), numbers.first(), "{key}");
    }
    let numbers: BTreeSet<u64> = listed.values().copied().collect();
    assert_eq!(numbers.len(), listed.len(), "a number has two keys");
    assert!(numbers.iter().copied().eq(1..=listed.len() as u64), "there is a gap");
    println!("figures numbers={}", seen.len());
    assert!(seen.len() >= 1_200, "{}", seen.len());
}

fn listed_by_key(api: Api, tag: &str) -> BTreeMap<String, u64> {
    listed(api, tag).into_iter().map(|(number, key)| (key, number)).collect()
}
