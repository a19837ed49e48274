//! Sequences: numbers of keys in strict order through any node, over killed leaders, deletions and restores.

mod failover;
mod restored;

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{
    Api, Finished, RedisClient, Value as Reply, command, encoded, eventually, mintleaf, secs,
};

/// Creates a sequence with this step.
#[track_caller]
fn create(api: Api, tag: &str, step: u32) {
    let made = api.post("/v1/tags", &json!({ "tag": tag, "kind": "sequence", "step": step })).ok();
    assert_eq!((&made["kind"], &made["step"]), (&json!("sequence"), &json!(step)));
}

fn path(tag: &str, key: &str) -> String {
    format!("/v1/sequence/{}/{}", encoded(tag), encoded(key))
}

/// The next number of a key.
#[track_caller]
fn next(api: Api, tag: &str, key: &str) -> u64 {
    let numbers = api.get(&path(tag, key)).ids();
    assert_eq!(numbers.len(), 1);
    numbers[0]
}

/// The known last number of a key, and whether it is exact.
#[track_caller]
fn last(api: Api, tag: &str, key: &str) -> (Option<u64>, bool) {
    let known = api.get(&format!("{}/last", path(tag, key))).ok();
    let number = known["last"].as_str().map(|number| number.parse().unwrap());
    (number, known["exact"].as_bool().unwrap())
}

#[test]
fn each_key_counts_on_its_own_through_any_node() {
    let cluster = mintleaf().cluster(3);
    let nodes = cluster.ids().into_iter().map(|id| cluster.api(id)).collect::<Vec<_>>();
    create(nodes[0], "chat", 1_000);
    for (at, api) in nodes.iter().enumerate() {
        let before = at as u64;
        assert_eq!(next(*api, "chat", "room-17"), before + 1);
        assert_eq!(next(*api, "chat", "a/b"), before * 5 + 1);
        let taken = api.get(&format!("{}?count=4", path("chat", "a/b"))).ok();
        let ids: Vec<String> = (2..6).map(|n| (before * 5 + n).to_string()).collect();
        assert_eq!(taken, json!({ "tag": "chat", "key": "a/b", "ids": ids, "lease": false }));
        assert_eq!(last(*api, "chat", "a/b"), (Some(before * 5 + 5), true));
    }
    let ranges =
        nodes[1].get(&format!("{}?count=1000000&format=ranges", path("chat", "long"))).ok();
    assert_eq!(ranges["ranges"], json!([{ "start": "1", "end": "1000001" }]));
    assert_eq!(ranges["lease"], false);
    let text = nodes[2].get_as(&format!("{}?count=2", path("chat", "ü")), "text/plain");
    assert_eq!(text.text(), "1\n2\n");
    assert_eq!(last(nodes[2], "chat", "nobody"), (None, true));
    let row = nodes[0].get("/v1/tags/chat").ok();
    // A section that is used up reserves one more step before the next request.
    let highest = row["max_id"].as_str().unwrap();
    assert!(["1000001", "1001001"].contains(&highest), "the highest mark of a section: {highest}");
}

#[test]
fn what_is_no_sequence_or_no_key_is_refused() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create(api, "chat", 1_000);
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let problem = |path: &str| api.get(path).problem();
    assert_eq!(problem("/v1/sequence/nobody/room"), (404, "unknown_tag".to_owned()));
    assert_eq!(problem("/v1/sequence/nobody/room/last"), (404, "unknown_tag".to_owned()));
    assert_eq!(problem("/v1/sequence/orders/room"), (404, "not_found".to_owned()));
    assert_eq!(problem("/v1/sequence/orders/room/last"), (404, "not_found".to_owned()));
    assert_eq!(problem("/v1/segment/chat").0, 404);
    let of_leaf = api.get("/api/segment/get/chat");
    assert!(of_leaf.status == 500 && of_leaf.text().contains("Result{id=-2"), "{of_leaf:?}");
    let too_long = path("chat", &"k".repeat(257));
    for path in [
        too_long.as_str(),
        "/v1/sequence/chat/%zz",
        "/v1/sequence/chat/%ff",
        "/v1/sequence/chat/room?count=0",
        "/v1/sequence/chat/room?count=10001",
        "/v1/sequence/chat/room?count=1000001&format=ranges",
        "/v1/sequence/chat/room?step=2",
        "/v1/sequence/chat/room/last?count=1",
    ] {
        assert_eq!(problem(path), (400, "invalid_argument".to_owned()), "{path}");
    }
    assert_eq!(api.get(&path("chat", &"k".repeat(256))).ids(), [1]);
    assert_eq!(api.get("/v1/sequence/chat/").status, 404);
    assert_eq!(api.post("/v1/sequence/chat/room", &json!({})).problem().0, 405);
    let head = api.send(&Method::HEAD, "/v1/sequence/chat/room", &[], "");
    assert_eq!((head.status, head.header("content-type")), (200, "application/json"));
    assert_eq!(next(api, "chat", "room"), 1, "HEAD takes nothing");
}

#[test]
fn a_sequence_can_be_frozen_limited_and_deleted() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create(api, "chat", 10);
    assert_eq!(next(api, "chat", "room"), 1);
    api.patch("/v1/tags/chat", &json!({ "frozen": true })).ok();
    assert_eq!(api.get(&path("chat", "room")).problem(), (423, "frozen".to_owned()));
    assert_eq!(last(api, "chat", "room"), (Some(1), true));
    api.patch("/v1/tags/chat", &json!({ "frozen": false, "rate_limit": 5 })).ok();
    assert_eq!(next(api, "chat", "room"), 2);
    let five = format!("{}?count=5", path("chat", "room"));
    let limited = eventually("the limit to be used up", secs(10), || {
        let answer = api.get(&five);
        (!answer.is_ok()).then_some(answer)
    });
    assert_eq!(limited.problem(), (429, "rate_limited".to_owned()));
    assert!(!limited.header("retry-after").is_empty());
    assert_eq!(api.send(&Method::HEAD, &five, &[], "").status, 429);
    api.patch("/v1/tags/chat", &json!({ "rate_limit": null })).ok();
    let given = next(api, "chat", "room");

    assert_eq!(api.delete("/v1/tags/chat").status, 204);
    assert_eq!(api.get(&path("chat", "room")).problem(), (404, "unknown_tag".to_owned()));
    create(api, "chat", 10);
    let again = next(api, "chat", "room");
    assert!(again > given && again % 10 == 1, "{again} begins behind the mark of before");
    assert_eq!(api.post("/v1/tags", &json!({ "tag": "plain" })).status, 201);
    assert_eq!(api.delete("/v1/tags/plain").status, 204);
    let other = api.post("/v1/tags", &json!({ "tag": "plain", "kind": "sequence" }));
    assert_eq!(other.problem(), (409, "conflict".to_owned()));
}

#[test]
fn redis_clients_take_numbers_of_keys_many_at_a_time() {
    let dev = mintleaf().dev();
    create(dev.api(), "chat", 1_000);
    let mut client = RedisClient::connect(dev.resp(1));
    assert_eq!(client.ask("HGET chat room"), Reply::Null);
    assert_eq!(client.ask("HINCRBY chat room 1"), Reply::Integer(1));
    assert_eq!(client.ask("hincrby chat room 10"), Reply::Integer(11));
    assert_eq!(client.ask("HGET chat room"), Reply::Bulk("11".to_owned()));
    for refused in ["HINCRBY chat room 0", "HINCRBY chat room 1000001", "HINCRBY chat room x"] {
        assert!(matches!(client.ask(refused), Reply::Error(text) if text.contains("increment")));
    }
    let unknown = Reply::Error("ERR unknown tag".to_owned());
    assert_eq!(client.ask("HINCRBY nobody room 1"), unknown);
    assert_eq!(client.ask("HGET nobody room"), unknown);

    // Answers come in the order of the commands, with any commands in between.
    let mut piped = Vec::new();
    for n in 0..2_000 {
        piped.extend(command(&format!("HINCRBY chat many-{} 1", n % 100)));
        match n {
            500 => piped.extend(command("HINCRBY chat many x")),
            700 => piped.extend(command("PING")),
            900 => piped.extend(command("HINCRBY nobody room 1")),
            _ => {}
        }
    }
    client.send(&piped);
    for n in 0..2_000 {
        assert_eq!(client.answer(), Reply::Integer(n / 100 + 1), "the answer to command {n}");
        match n {
            500 => assert!(matches!(client.answer(), Reply::Error(_))),
            700 => assert_eq!(client.answer(), Reply::Simple("PONG".to_owned())),
            900 => assert_eq!(client.answer(), unknown),
            _ => {}
        }
    }
    let page = dev.api().get("/metrics");
    let page = page.text();
    assert!(page.contains("mintleaf_sequence_keys 101\n"), "{page}");
    assert!(page.contains("mintleaf_ids_total{mode=\"sequence\"} 2011\n"), "{page}");
}

#[test]
fn what_one_connection_asks_for_is_carried_out_in_turn_whatever_counts_it_asks_for() {
    let dev = mintleaf().dev_with_nodes(3);
    create(dev.api(), "chat", 10);
    dev.api().post("/v1/tags", &json!({ "tag": "strict", "order": "strict", "step": 10 })).ok();
    for node in 1..=3 {
        let mut client = RedisClient::connect(dev.resp(node));
        let (mut piped, mut asked) = (Vec::new(), Vec::new());
        for n in 0..3_000_u64 {
            // Most commands ask for one number of what is held; some ask for many more.
            let (key, count) = (n as usize % 3, if n % 7 == 0 { 1 + n } else { 1 });
            piped.extend(command(&format!("HINCRBY chat {node}-{key} {count}")));
            asked.push((key, count));
        }
        client.send(&piped);
        let mut last = [0; 3];
        for (at, (key, count)) in asked.into_iter().enumerate() {
            let number = client.answer();
            // Another leader may take over in between. Then a key continues at a higher number.
            if matches!(number, Reply::Error(_)) {
                continue;
            }
            let (number, before) = (number.integer(), last[key]);
            assert!(number >= before + count, "{number} after {before}, command {at} at {node}");
            last[key] = number;
        }
        assert!(last.iter().all(|last| *last > 0), "at node {node}: {last:?}");

        let piped = ["INCRBY strict 100", "INCR strict", "INCR strict", "MINT strict"].repeat(50);
        client.send(&piped.iter().flat_map(|words| command(words)).collect::<Vec<u8>>());
        let answers: Vec<Reply> = piped.iter().map(|_| client.answer()).collect();
        let answers = answers.iter().filter(|answer| !matches!(answer, Reply::Error(_)));
        assert!(answers.map(Reply::integer).is_sorted(), "at node {node}");
    }
}

#[test]
fn the_command_line_takes_numbers_and_tells_the_last() {
    let dev = mintleaf().dev();
    let run =
        |args: &[&str]| Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]));
    assert_eq!(run(&["tag", "create", "chat", "--kind", "sequence"]).code, Some(0));
    assert_eq!(run(&["sequence", "last", "chat", "a/b"]).stdout, "nothing was given\n");
    assert_eq!(run(&["sequence", "next", "chat", "a/b", "-n", "3"]).stdout, "1\n2\n3\n");
    assert_eq!(run(&["sequence", "last", "chat", "a/b"]).stdout, "3\n");
    let taken: Value =
        serde_json::from_str(&run(&["sequence", "next", "chat", "a/b", "--json"]).stdout).unwrap();
    assert_eq!(taken, json!({ "tag": "chat", "key": "a/b", "ids": ["4"], "lease": false }));
    let refused = run(&["sequence", "next", "nobody", "room"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}
