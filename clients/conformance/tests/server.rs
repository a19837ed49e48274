//! The scripted server, as raw sockets see it.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mintleaf_conformance::case::{Case, Cases};
use mintleaf_conformance::stage::Stage;
use mintleaf_conformance::{control, verdict};
use serde_json::{Value, json};

/// What a request of a well-behaved client carries.
const HEADERS: &str = "accept: application/json\r\ncache-control: no-store\r\n";

fn stage(case: &Value) -> Stage {
    let mut whole = json!({"name": "a", "of": "a", "about": "", "endpoints": 1, "steps": []});
    whole.as_object_mut().unwrap().extend(case.as_object().unwrap().clone());
    Stage::new(serde_json::from_value(whole).unwrap()).unwrap()
}

/// A connection to an endpoint.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(stage: &Stage, endpoint: usize) -> Self {
        Self::open(&stage.endpoints()[endpoint]).unwrap()
    }

    fn open(endpoint: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(endpoint.strip_prefix("http://").unwrap())?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\n{headers}");
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        self.0.get_mut().write_all(format!("{head}{length}\r\n{body}").as_bytes()).unwrap();
    }

    /// Status, headers and body of the next answer; `None` when the connection ends before the body does.
    fn receive(&mut self) -> Option<(u16, String, String)> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).ok()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, head, String::from_utf8(body).unwrap()))
    }

    fn get(&mut self, path: &str) -> Option<(u16, Value)> {
        self.send("GET", path, HEADERS, "");
        self.receive().map(|(status, _, body)| (status, serde_json::from_str(&body).unwrap()))
    }

    /// Everything until the end of the connection.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn faults(stage: &Stage) -> Vec<String> {
    verdict::faults(stage.case(), &stage.seen())
}

#[test]
fn a_node_counts_each_tag_and_each_key_from_1() {
    let stage = stage(&json!({"endpoints": 2}));
    let (mut one, mut other) = (Connection::to(&stage, 0), Connection::to(&stage, 1));
    let get = |connection: &mut Connection, path: &str| connection.get(path).unwrap().1;
    assert_eq!(get(&mut one, "/v1/segment/a?count=2"), json!({"tag": "a", "ids": ["1", "2"]}));
    let ranges = json!({"tag": "a", "ranges": [{"start": "3", "end": "13"}]});
    assert_eq!(get(&mut other, "/v1/segment/a?count=10&format=ranges"), ranges);
    assert_eq!(get(&mut one, "/v1/segment/b?count=1")["ids"], json!(["1"]));
    assert_eq!(
        get(&mut one, "/v1/snowflake?count=4&format=ranges")["ranges"],
        json!([{"start": "1", "end": "5"}])
    );
    assert_eq!(
        get(&mut one, "/v1/sequence/c/k%2F1?count=1"),
        json!({"tag": "c", "key": "k/1", "ids": ["1"], "lease": false})
    );
    assert_eq!(get(&mut one, "/v1/sequence/c/k%2F1?count=1")["ids"], json!(["2"]));
    assert_eq!(get(&mut one, "/v1/sequence/c/k2?count=1")["ids"], json!(["1"]));
    assert_eq!(one.get("/v1/cluster").unwrap().0, 503);
    assert_eq!(faults(&stage), [""; 0]);
}

#[test]
fn a_node_registers_keys_and_leases_worker_ids() {
    let stage = stage(&json!({}));
    let mut node = Connection::to(&stage, 0);
    let mut send = |method: &str, path: &str, body: &str| {
        let headers = format!("{HEADERS}content-type: application/json\r\n");
        node.send(method, path, if body.is_empty() { HEADERS } else { &headers }, body);
        let (status, _, body) = node.receive().unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    };
    let numbers = ["k1", "k2", "k1"].map(|key| {
        let (status, body) = send("POST", &format!("/v1/register/i/{key}"), "");
        (status, body["id"].clone(), body["text"].clone(), body["new"].clone())
    });
    let wanted =
        [(201, "1", true), (201, "2", true), (200, "1", false)].map(|(status, id, is_new)| {
            (status, json!(id), json!(format!("INV-00000{id}")), json!(is_new))
        });
    assert_eq!(numbers, wanted);
    let (status, lease) = send("POST", "/v1/pools/p/leases", r#"{"seconds":5,"holder":"h"}"#);
    assert_eq!(
        (status, &lease["worker_id"], &lease["until_ms"]),
        (201, &json!(1), &json!("1800000005000"))
    );
    let path = format!("/v1/pools/p/leases/{}", lease["lease"].as_str().unwrap());
    let (status, renewed) = send("POST", &path, r#"{"seconds":60}"#);
    let until_ms: u64 = renewed["until_ms"].as_str().unwrap().parse().unwrap();
    assert!(
        status == 200 && (1_800_000_060_000..1_800_000_070_000).contains(&until_ms),
        "{renewed}"
    );
    assert_eq!(send("DELETE", &path, r#"{"last_ms":"1800000000000"}"#).0, 204);
    assert_eq!(faults(&stage), [""; 0]);
}

#[test]
fn rules_are_used_up_in_their_order() {
    let stage = stage(&json!({"endpoints": 2, "script": [
        {"on": "ranges", "over": 50, "act": {"status": 422}},
        {"tag": "b", "act": {"status": 404, "body": {"code": "unknown_tag"}, "headers": {"X-Other": "{other}/x"}}},
        {"endpoint": "first", "times": 2, "act": {"status": 500, "body": "no json"}},
        {"kept": true, "endpoint": "another", "act": {"merge": {"lease": false}}},
        {"phase": "late", "act": {"from": 100}}]}));
    let (mut one, mut other) = (Connection::to(&stage, 1), Connection::to(&stage, 0));
    let status = |connection: &mut Connection, path: &str| {
        connection.send("GET", path, HEADERS, "");
        connection.receive().unwrap()
    };
    assert_eq!(status(&mut one, "/v1/segment/a?count=1").2, "no json");
    assert_eq!(status(&mut other, "/v1/segment/a?count=1").2, r#"{"ids":["1"],"tag":"a"}"#);
    let (code, head, _) = status(&mut one, "/v1/segment/b?count=1");
    assert!(
        code == 404 && head.contains(&format!("X-Other: {}/x\r\n", stage.endpoints()[0])),
        "{head}"
    );
    assert_eq!(status(&mut one, "/v1/segment/a?count=51&format=ranges").0, 422);
    assert_eq!(status(&mut one, "/v1/segment/a?count=50&format=ranges").0, 500);
    let body = status(&mut other, "/v1/segment/a?count=1").2;
    assert_eq!(body, r#"{"ids":["2"],"lease":false,"tag":"a"}"#, "kept, and at another endpoint");
    assert_eq!(status(&mut other, "/v1/segment/a?count=1").2, r#"{"ids":["3"],"tag":"a"}"#);
    stage.enter("late").unwrap();
    assert_eq!(status(&mut other, "/v1/segment/a?count=2").2, r#"{"ids":["100","101"],"tag":"a"}"#);
}

#[test]
fn answers_come_late_cut_or_never() {
    let stage = stage(&json!({"script": [
        {"times": 1, "act": {"late_ms": 300}}, {"times": 1, "act": {"cut": "head"}}, {"times": 1, "act": {"cut": 9}},
        {"times": 1, "act": {"silence": true}}]}));
    let began = Instant::now();
    let path = "/v1/segment/a?count=1";
    assert_eq!(Connection::to(&stage, 0).get(path).unwrap().1["ids"], json!(["1"]));
    assert!(began.elapsed() >= Duration::from_millis(300));
    let ask = || {
        let mut connection = Connection::to(&stage, 0);
        connection.send("GET", path, HEADERS, "");
        connection
    };
    assert_eq!(ask().rest(), "", "before the first byte");
    let cut = ask().rest();
    assert!(
        cut.contains("content-length: 23\r\n") && cut.ends_with("\r\n\r\n{\"ids\":[\""),
        "{cut}"
    );
    let mut silent = ask();
    silent.0.get_mut().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(silent.0.read(&mut [0]).is_err(), "nothing yet");
    assert_eq!(ask().receive().unwrap().2, r#"{"ids":["5"],"tag":"a"}"#, "lost ids count");
    silent.0.get_mut().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    drop(stage);
    assert_eq!(silent.rest(), "", "the end of the case ends it");
}

#[test]
fn an_endpoint_that_refuses_is_back_in_the_next_phase() {
    let stage = stage(&json!({"endpoints": 2, "away": ["gone"], "script": [
        {"endpoint": 0, "times": 1, "act": {"refuse": true}}]}));
    let mut other = Connection::to(&stage, 1);
    let mut refused = Connection::to(&stage, 0);
    refused.send("GET", "/v1/segment/a?count=1", HEADERS, "");
    assert_eq!(refused.receive(), None);
    let endpoints = stage.endpoints();
    let is_open = |endpoint: usize| Connection::open(&endpoints[endpoint]).is_ok();
    assert!(!is_open(0) && is_open(1));
    assert!(other.get("/v1/segment/a?count=1").is_some());
    stage.enter("back").unwrap();
    assert!(is_open(0) && is_open(1));
    assert!(other.get("/v1/segment/a?count=1").is_some(), "connections stay");
    stage.enter("gone").unwrap();
    assert!(!is_open(0) && !is_open(1));
    assert_eq!(other.rest(), "");
    for phase in ["back", "gone", "back"] {
        stage.enter(phase).unwrap();
    }
    assert!(is_open(0) && is_open(1));
    drop(stage);
    assert!(Connection::open(&endpoints[0]).is_err());
}

#[test]
fn malformed_answers_are_what_their_names_say() {
    let body = |name: &str, path: &str| {
        let stage =
            stage(&json!({"script": [{"times": 1, "act": {"from": 5, "malformed": name}}]}));
        let mut connection = Connection::to(&stage, 0);
        connection.send("GET", path, HEADERS, "");
        connection.receive().unwrap().2
    };
    let ranges = |name: &str| {
        let body: Value =
            serde_json::from_str(&body(name, "/v1/segment/a?count=4&format=ranges")).unwrap();
        let range = |range: &Value| {
            format!("{}-{}", range["start"].as_str().unwrap(), range["end"].as_str().unwrap())
        };
        body["ranges"].as_array().unwrap().iter().map(range).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ranges("overlap"), "5-7 6-8");
    assert_eq!(ranges("twice"), "5-6 5-8");
    assert_eq!(ranges("fall"), "7-9 5-7");
    assert_eq!(ranges("empty"), "5-5 5-9");
    assert_eq!(ranges("backwards"), "9-5");
    assert_eq!(ranges("too_many"), "5-10");
    assert_eq!(ranges("too_few"), "5-8");
    assert_eq!(ranges("zero"), "0-4");
    assert_eq!(ranges("above"), "9223372036854775805-9223372036854775809");
    assert_eq!(ranges("plus"), "+5-9");
    let ids = |name: &str| {
        let body: Value = serde_json::from_str(&body(name, "/v1/segment/a?count=3")).unwrap();
        body["ids"].to_string()
    };
    assert_eq!(ids("fall"), r#"["7","6","5"]"#);
    assert_eq!(ids("too_many"), r#"["5","6","7","8"]"#);
    assert_eq!(ids("too_few"), r#"["5","6"]"#);
    assert_eq!(ids("zero"), r#"["0","6","7"]"#);
    assert_eq!(ids("above"), r#"["5","6","9223372036854775808"]"#);
    assert_eq!(ids("twice"), r#"["5","6","5"]"#);
    assert_eq!(ids("plus"), r#"["+5","6","7"]"#);
    let list = "/v1/segment/a?count=1";
    assert_eq!(body("no_json", list), "<html>It works!</html>");
    assert_eq!(body("no_ids", list), r#"{"tag":"a"}"#);
    assert!(body("too_long", list).len() > 1 << 20);
}

/// The faults after requests for these paths, each at its endpoint.
fn judged(case: &Value, paths: &[(usize, &str)]) -> Vec<String> {
    let stage = stage(case);
    let mut connections = [0, 1].map(|endpoint| Connection::to(&stage, endpoint));
    for (endpoint, path) in paths {
        connections[*endpoint].get(path).unwrap();
    }
    faults(&stage)
}

#[test]
fn a_verdict_names_each_request_that_is_not_as_wanted() {
    let (ids, ranges) = ("/v1/segment/a?count=1", "/v1/segment/a?count=9&format=ranges");
    let asked = [(1, ids), (0, ranges), (0, ranges)];
    let verdict = |requests: Value| judged(&json!({"endpoints": 2, "requests": requests}), &asked);
    let list = |list: Value| verdict(json!({"list": list}));
    let well = [
        json!([{"on": "ids", "path": ids}, {"count": 9, "endpoint": "another", "kept": false}, {"kept": true}]),
        json!([{"endpoint": "first"}, {"endpoint": "others", "times": [1, 9], "gap_ms": [0, 9000]}]),
        json!([{"endpoint": 1}, {"tag": "a", "times": 2}, {"on": "sequence", "times": [0, 1]}]),
    ];
    for list_of in well {
        assert_eq!(list(list_of.clone()), [""; 0], "{list_of}");
    }
    let faulty = [
        (json!([{}, {}]), "not in the list"),
        (json!([{}, {}, {}, {}]), "only 3 requests"),
        (json!([{"on": "ranges"}, {}, {}]), "should be Ranges"),
        (json!([{"count": [2, 9]}, {}, {}]), "should ask for"),
        (json!([{}, {"endpoint": "same"}, {}]), "should be at"),
        (json!([{}, {"endpoint": 1}, {}]), "should be at"),
        (json!([{}, {"kept": true}, {}]), "kept"),
        (json!([{}, {"gap_ms": [9000, 9999]}, {}]), "ms after"),
        (json!([{}, {"path": ids}, {}]), ids),
        (json!([{}, {"tag": "b"}, {}]), "for b"),
        (json!([{}, {"body": {"seconds": 5}}, {}]), "seconds"),
        (json!([{"times": [4, 9]}]), "only 3 requests"),
    ];
    for (list_of, fault) in faulty {
        let faults = list(list_of.clone());
        assert!(faults.len() == 1 && faults[0].contains(fault), "{list_of}: {faults:?}");
    }
    assert_eq!(
        verdict(
            json!({"totals": {"ranges": [2, 3], "ids": 1, "cluster": 0}, "each": {"tag": "a"}})
        ),
        [""; 0]
    );
    assert_eq!(verdict(json!({"totals": {"ranges": 3}})).len(), 1);
    assert_eq!(verdict(json!({"each": {"count": 9}})).len(), 1);
    assert_eq!(verdict(json!({"list": [{}], "more": true})), [""; 0]);
}

#[test]
fn a_verdict_names_requests_that_no_client_sends() {
    let stage = stage(&json!({"client": {"token": "mlt_a"}}));
    let mut connection = Connection::to(&stage, 0);
    let mut faults_of = |method: &str, path: &str, headers: &str, body: &str| {
        let before = faults(&stage).len();
        connection.send(method, path, headers, body);
        connection.receive().unwrap();
        faults(&stage)[before..].join(", ")
    };
    let well = format!("{HEADERS}authorization: Bearer mlt_a\r\n");
    let json = format!("{well}content-type: application/json\r\n");
    assert_eq!(faults_of("GET", "/v1/segment/a?count=1", &well, ""), "");
    assert_eq!(faults_of("POST", "/v1/pools/p/leases", &json, "{}"), "");
    assert!(faults_of("GET", "/v1/segment/a?count=1", HEADERS, "").contains("authorization"));
    assert!(
        faults_of(
            "GET",
            "/v1/segment/a?count=1",
            "accept: */*\r\nauthorization: Bearer mlt_a\r\n",
            ""
        )
        .contains("accept")
    );
    assert!(faults_of("GET", "/v1/tags", &well, "").contains("no client asks"));
    assert!(faults_of("POST", "/v1/register/a/k", &json, "{}").contains("no body"));
    assert!(faults_of("POST", "/v1/pools/p/leases", &well, "{}").contains("content-type"));
}

#[test]
fn a_test_plays_one_case_after_another() {
    let cases = json!({"cases": [
        {"name": "one", "of": "one", "about": "", "endpoints": 2, "steps": [], "away": ["gone"]},
        {"name": "two", "of": "two", "about": "", "endpoints": 1, "steps": [], "requests": {"totals": {"ids": 1}}}]});
    let at = format!("http://{}", control::serve(serde_json::from_value(cases).unwrap()).unwrap());
    let ask = |method: &str, path: &str| {
        let mut connection = Connection::open(&at).unwrap();
        connection.send(method, path, "", "");
        let (status, _, body) = connection.receive().unwrap();
        assert_eq!(connection.rest(), "", "each control request has its own connection");
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    assert_eq!(ask("GET", "/verdict").0, 404, "before any case");
    assert_eq!(ask("POST", "/cases/three").0, 404);
    let (_, one) = ask("POST", "/cases/one");
    let endpoints: Vec<_> =
        one["endpoints"].as_array().unwrap().iter().map(|at| at.as_str().unwrap()).collect();
    assert!(endpoints.len() == 2 && endpoints.iter().all(|at| Connection::open(at).is_ok()));
    assert_eq!(ask("POST", "/phases/gone"), (200, json!({})));
    assert!(endpoints.iter().all(|at| Connection::open(at).is_err()));
    assert_eq!(ask("GET", "/verdict"), (200, json!({"ok": true})));
    let (_, two) = ask("POST", "/cases/two");
    let verdict = ask("GET", "/verdict").1;
    assert_eq!((&verdict["ok"], verdict["faults"].as_array().unwrap().len()), (&json!(false), 1));
    Connection::open(two["endpoints"][0].as_str().unwrap())
        .unwrap()
        .get("/v1/segment/a?count=1")
        .unwrap();
    assert_eq!(ask("GET", "/verdict").1, json!({"ok": true}));
}

#[test]
fn cases_have_names_of_their_own_and_belong_to_the_table_of_the_readme() {
    let Cases { cases } = serde_json::from_str(include_str!("../cases.json")).unwrap();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    let table = include_str!("../README.md");
    let marked = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` **d** |"));
    let marked: BTreeSet<&str> = marked.map(|(name, _)| name).collect();
    let of: BTreeSet<&str> = cases.iter().map(|case: &Case| case.of.as_str()).collect();
    assert_eq!(of, marked);
}
