//! Invented names: how many tags clients can create, and how fast.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use hyper::Method;
use serde_json::json;

use crate::harness::{Api, Port, RedisClient, Value, command, encoded, mintleaf, secs};

/// How many commands one connection sends before it reads the answers.
const PIPELINED: usize = 500;
/// How much a node's memory may grow from the refused part of a flood: by a third of the size of the names alone.
const GROWTH_KB_MAX: u64 = 8 * 1024;

/// Takes an id of each name over several connections. Returns how often each first word of an error appeared;
/// ids count under an empty word.
fn flood(node: SocketAddr, names: &[String], connections: usize) -> Vec<(String, usize)> {
    let words = thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(connections));
        let floods: Vec<_> =
            parts.map(|part| scope.spawn(move || first_words(node, part))).collect();
        floods.into_iter().flat_map(|flood| flood.join().unwrap()).collect::<Vec<_>>()
    });
    let mut counts: Vec<(String, usize)> = Vec::new();
    for word in words {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    counts
}

fn first_words(node: SocketAddr, names: &[String]) -> Vec<String> {
    let mut client = RedisClient::connect(node);
    let mut words = Vec::new();
    for part in names.chunks(PIPELINED) {
        client.send(
            &part.iter().flat_map(|name| command(&format!("INCR {name}"))).collect::<Vec<_>>(),
        );
        words.extend(part.iter().map(|_| match client.answer() {
            Value::Error(told) => told.split(' ').next().unwrap_or_default().to_owned(),
            id => id.ids().first().map(|_| String::new()).unwrap(),
        }));
    }
    words
}

fn of(counts: &[(String, usize)], word: &str) -> usize {
    counts.iter().find(|(known, _)| known == word).map_or(0, |(_, count)| *count)
}

/// Names of 512 bytes.
fn long_names(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{kind}{n:08}") + &"🙂".repeat(119 - kind.len())).collect()
}

fn tags(api: Api) -> usize {
    let (mut count, mut after) = (0, String::new());
    loop {
        let page = api.get(&format!("/v1/tags?limit=1000{after}")).ok();
        count += page["tags"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => return count,
        }
    }
}

fn memory_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_flood_of_names_ends_at_the_bound_and_ids_go_on() {
    let port = Port::claim();
    let resp = port.addr().to_string();
    let mut node = mintleaf().prepare(1, &["--auto-create-tags", "--resp", &resp]);
    node.set_env(1, "MINTLEAF_TAGS_MAX", "1000");
    node.start_all();
    let api = node.api(1);
    assert_eq!(api.get("/v1/segment/orders").ids(), [1]);
    for gone in ["gone", "gone-too"] {
        assert_eq!(api.get(&format!("/v1/segment/{gone}?count=7")).ids().len(), 7);
        assert_eq!(api.delete(&format!("/v1/tags/{gone}")).status, 204);
    }

    let counts = flood(port.addr(), &long_names("a", 2_000), 8);
    assert_eq!((of(&counts, ""), of(&counts, "TOOMANYTAGS")), (997, 1_003), "{counts:?}");
    assert_eq!(tags(api), 998, "the names of deleted tags count");

    let pid = node.process(1).pid();
    let before_kb = memory_kb(pid);
    let counts = flood(port.addr(), &long_names("b", 40_000), 8);
    assert_eq!(counts, [("TOOMANYTAGS".to_owned(), 40_000)]);
    let grown_kb = memory_kb(pid).saturating_sub(before_kb);
    println!("{before_kb} kB, and {grown_kb} kB more after 40,000 refused names");
    assert!(grown_kb < GROWTH_KB_MAX, "{grown_kb} kB more");

    let refused = api.post("/v1/tags", &json!({ "tag": "new" }));
    assert_eq!(refused.problem(), (422, "too_many_tags".to_owned()));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("1000") && detail.contains("--tags-max"), "{detail}");
    assert_eq!(api.get("/v1/segment/new").problem(), (422, "too_many_tags".to_owned()));
    let head = |path: &str| api.send(&Method::HEAD, path, &[], "").status;
    assert_eq!([head("/v1/segment/new"), head("/v1/segment/orders")], [422, 200]);
    let leafs = api.get("/api/segment/get/new");
    assert_eq!([leafs.status, head("/api/segment/get/new")], [500, 500]);
    assert_eq!(leafs.json()["message"], "Result{id=-3, status=EXCEPTION}");
    assert_eq!(api.post("/v1/tags", &json!({ "tag": "orders" })).problem().1, "tag_exists");

    assert_eq!(api.get("/v1/segment/orders?count=5000").ids(), (2..=5_001).collect::<Vec<_>>());
    let created = api.post("/v1/tags", &json!({ "tag": "gone" }));
    assert_eq!(created.status, 201, "a name that is known needs no place");
    assert!(api.get("/v1/segment/gone-too").ids()[0] > 7, "nor does its first use");

    // A cluster may have more tags than the bound.
    node.stop(1);
    node.set_env(1, "MINTLEAF_TAGS_MAX", "10");
    node.start_all();
    let api = node.api(1);
    assert!(api.get("/v1/segment/orders").ids()[0] > 5_001);
    assert_eq!(api.delete("/v1/tags/orders").status, 204);
    assert_eq!(api.get("/v1/segment/new").problem().1, "too_many_tags");
    assert!(api.get("/v1/segment/orders").ids()[0] > 5_001);
}

#[test]
fn three_nodes_at_once_exceed_the_bound_by_two_names_at_most() {
    const TAGS_MAX: usize = 300;
    let mut cluster =
        mintleaf().prepare(3, &["--tags-max", &TAGS_MAX.to_string(), "--auto-create-tags"]);
    cluster.start_all();
    let create = |api: Api, writer: usize| {
        let refused = (0..TAGS_MAX).find_map(|n| {
            let name = format!("tag-{writer}-{n}");
            let answer = match n % 2 {
                0 => api.post("/v1/tags", &json!({ "tag": name })),
                _ => api.get(&format!("/v1/segment/{name}")),
            };
            (!answer.is_ok()).then(|| answer.problem())
        });
        assert_eq!(refused, Some((422, "too_many_tags".to_owned())));
    };
    thread::scope(|scope| {
        for writer in 0..12 {
            let api = cluster.api(writer as u64 % 3 + 1);
            scope.spawn(move || create(api, writer));
        }
    });
    for id in cluster.ids() {
        let tags = tags(cluster.api(id));
        println!("node {id}: {tags} tags");
        assert!((TAGS_MAX..=TAGS_MAX + 2).contains(&tags), "{tags}");
    }
}

#[test]
fn first_uses_beyond_a_burst_are_so_many_a_second() {
    const NAMES: usize = 20_000;
    // Enough for a debug build to create tags faster than a node is allowed to.
    const CONNECTIONS: usize = 200;
    let dev = mintleaf().dev();
    let names: Vec<String> = (0..NAMES).map(|n| format!("tag-{n}")).collect();
    let began = Instant::now();
    let counts = flood(dev.resp(1), &names, CONNECTIONS);
    let seconds = began.elapsed().as_secs_f64();
    let (created, refused) = (of(&counts, ""), of(&counts, "RATELIMITED"));
    println!("{created} created and {refused} refused in {seconds:.1} s: {counts:?}");
    assert_eq!(created + refused, NAMES, "{counts:?}");
    assert!(created >= 10_000, "whoever moves in with 10,000 tags notices nothing");
    assert!((created as f64) < 10_001.0 + 1_000.0 * seconds, "{created} in {seconds} s");
    assert!(refused > 0 || seconds > 9.9, "the flood was too slow to be refused");

    assert_eq!(dev.api().post("/v1/tags", &json!({ "tag": "asked-for" })).status, 201);
    assert_eq!(dev.api().get("/v1/segment/tag-0").ids(), [2]);
    thread::sleep(secs(1));
    assert_eq!(dev.api().get("/v1/segment/later").ids(), [1], "a second later there is room");
}
