//! Probes, metrics, the cluster as one node sees it, and what all paths have in common.

use std::thread;
use std::time::Duration;

use hyper::Method;
use mintleaf_core::shape::Kind;
use serde_json::Value;

use super::*;
use crate::harness::TagWriter;

#[test]
fn a_node_says_that_it_lives_and_is_ready() {
    let dev = mintleaf().dev();
    assert_eq!(dev.api().get("/livez").status, 200);
    let ready = dev.api().get("/readyz");
    assert_eq!(ready.ok(), json!({ "ready": true, "reasons": [] }));
    assert_eq!(ready.header("cache-control"), "no-store");
}

#[test]
fn metrics_count_ids_grabs_and_refusals() {
    let dev = mintleaf().dev();
    assert_eq!(dev.api().get("/v1/segment/orders?count=7").ids().len(), 7);
    dev.api().get("/v1/segment/orders?count=0").problem();
    let page = dev.api().get("/metrics");
    assert_eq!(page.status, 200);
    let lines: Vec<&str> = page.text().lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        lines
            .iter()
            .all(|line| ["mintleaf_", "process_"].iter().any(|known| line.starts_with(known))),
        "{}",
        page.text()
    );
    let ids = lines.iter().find(|line| line.contains("ids") && line.ends_with(" 7"));
    assert!(ids.is_some(), "{}", page.text());
    let refused = lines.iter().find(|line| line.contains("invalid_argument"));
    assert!(refused.is_some_and(|line| line.ends_with(" 1")), "{}", page.text());
    // Clients choose the names of tags, so a tag must not become a label.
    assert!(!page.text().contains("orders"), "{}", page.text());
}

#[test]
fn held_ids_are_measured_whichever_way_a_request_is_read() {
    let dev = mintleaf().dev();
    dev.api().get("/v1/segment/orders").ids();
    let measured = || {
        let page = dev.api().get("/metrics");
        let name = "mintleaf_burst_seconds_count{protocol=\"http\"} ";
        let count = page.text().lines().find_map(|line| line.strip_prefix(name));
        count.expect("the metric").parse::<u64>().unwrap()
    };
    // A browser's requests are none that the fast path knows. Each thread measures one request in 64.
    for headers in [&[][..], &[("sec-fetch-site", "same-origin")]] {
        let before = measured();
        let asks = || dev.api().send(&Method::GET, "/v1/segment/orders", headers, "").ids();
        eventually("a request to be measured", secs(30), || {
            (0..64).for_each(|_| drop(asks()));
            (measured() > before).then_some(())
        });
    }
}

#[test]
fn openapi_describes_the_interface() {
    let dev = mintleaf().dev();
    let document = dev.api().get("/openapi.json");
    assert_eq!(document.header("content-type"), "application/json");
    let document = document.ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/api/segment/get/{key}", "/v1/segment/{tag}", "/v1/tags", "/v1/cluster"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}

#[test]
fn the_interface_and_the_console_know_every_kind() {
    let document: Value =
        serde_json::from_str(include_str!("../../../src/http/openapi.json")).unwrap();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Kind"]["enum"], json!(Kind::ALL.map(Kind::name)));
    let page = include_str!("../../../src/http/console/tags.js");
    let described = page.lines().find(|line| line.starts_with("const KINDS = ")).unwrap();
    let created = schemas.to_string();
    for kind in Kind::ALL.map(Kind::name) {
        assert!(created.contains(&format!(r#""kind":{{"const":"{kind}"}}"#)), "{kind}");
        // The plain kind is what a tag is when nothing is said of it.
        let is_plain = kind == Kind::default().name();
        assert!(is_plain || described.contains(&format!(" {kind}: '")), "{kind}: {described}");
    }
}

#[test]
fn the_page_of_the_interface_shows_what_its_first_steps_answer() {
    let dev = mintleaf().dev();
    let page = dev.api().get("/openapi");
    let shown: Vec<&str> =
        page.text().lines().filter_map(|line| line.strip_prefix("# answers ")).collect();
    let made = dev.api().post("/v1/tags", &json!({ "tag": "orders" }));
    let taken =
        ["/v1/segment/orders?count=3", "/v1/segment/orders"].map(|path| dev.api().get(path));
    let answers = [&made, &taken[0], &taken[1]].map(|answer| answer.text().trim());
    assert_eq!(shown.len(), answers.len(), "{shown:?}");
    for (shown, answer) in shown.iter().zip(answers) {
        let begin = shown.trim_end_matches(" and more");
        assert!(answer.starts_with(begin), "the page shows {shown}, and the answer is {answer}");
    }
}

#[test]
fn every_node_shows_the_cluster_alike() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let mut names = Vec::new();
    for id in cluster.ids() {
        let shown = cluster.api(id).get("/v1/cluster").ok();
        assert_eq!((&shown["node_id"], &shown["leader_id"]), (&json!(id), &json!(leader)));
        assert!(shown["term"].as_u64().unwrap() >= 1);
        names.push(shown["cluster_id"].as_str().unwrap().to_owned());
        for node in shown["nodes"].as_array().unwrap() {
            let of = node["id"].as_u64().unwrap();
            assert_eq!(node["http"], cluster.api(of).0.to_string());
            assert_eq!(node["raft"], cluster.raft(of).to_string());
            let role = if of == leader { "leader" } else { "voter" };
            assert_eq!(node["role"], role, "{shown}");
        }
    }
    assert!(names.iter().all(|name| name == &names[0]), "{names:?}");
}

/// What each node has counted, as one of them answers: ids and errors.
fn counts(api: Api) -> Vec<Option<(u64, u64)>> {
    let shown = api.get("/v1/cluster?counts=true").ok();
    let of = |node: &Value| {
        let counts = node.get("counts")?;
        let count = |name: &str| counts[name].as_str().unwrap().parse().unwrap();
        Some((count("ids"), count("errors")))
    };
    shown["nodes"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_node_that_is_asked_for_counts_shows_those_of_every_node_that_answers() {
    let mut cluster = mintleaf().cluster(3);
    create(cluster.api(1), "orders", 1000).ok();
    assert_eq!(cluster.api(1).get("/v1/segment/orders?count=7").ids().len(), 7);
    assert_eq!(cluster.api(2).get("/v1/segment/orders?count=5").ids().len(), 5);
    cluster.api(3).get("/v1/segment/orders?count=0").problem();
    for id in cluster.ids() {
        // An answer is shared for a moment, and a member that was silent for one has none.
        eventually("the counts of all nodes", secs(10), || {
            (counts(cluster.api(id)) == [Some((7, 0)), Some((5, 0)), Some((0, 1))]).then_some(())
        });
        let shown = cluster.api(id).get("/v1/cluster").ok();
        assert!(shown["nodes"].as_array().unwrap().iter().all(|it| it.get("counts").is_none()));
    }
    cluster.kill(2);
    eventually("the counts without those of a node that is gone", secs(10), || {
        (counts(cluster.api(3)) == [Some((7, 0)), None, Some((0, 1))]).then_some(())
    });
    let unclear = cluster.api(1).get("/v1/cluster?counts=perhaps");
    assert_eq!(refusal(&unclear, 400, "/v1/cluster").0, "invalid_argument");
}

#[test]
fn a_wrong_method_is_told_which_are_right() {
    let dev = mintleaf().dev();
    for (method, path, allowed) in [
        (Method::POST, "/v1/segment/orders", "GET,HEAD"),
        (Method::TRACE, "/api/segment/get/orders", "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"),
        (Method::TRACE, "/db", "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"),
        (Method::DELETE, "/v1/tags", "GET,HEAD,POST"),
        (Method::PUT, "/v1/tags/orders", "GET,HEAD,PATCH,DELETE"),
        (Method::GET, "/v1/cluster/nodes", "POST"),
        (Method::DELETE, "/readyz", "GET,HEAD"),
    ] {
        let refused = dev.api().send(&method, path, &[], "");
        assert_eq!(refusal(&refused, 405, path).0, "method_not_allowed");
        let sorted = |list: &str| {
            let mut methods: Vec<String> =
                list.split(',').map(|method| method.trim().to_owned()).collect();
            methods.sort();
            methods
        };
        assert_eq!(sorted(refused.header("allow")), sorted(allowed), "{method} {path}");
    }
}

#[test]
fn nothing_is_found_at_other_paths() {
    let dev = mintleaf().dev();
    for path in ["/nothing", "/v1", "/v2/tags", "/v1/segment/", "/v1/tags/a/b"] {
        assert_eq!(refusal(&dev.api().get(path), 404, path).0, "not_found");
    }
}

#[test]
fn the_console_is_served_with_all_that_it_asks_for() {
    let dev = mintleaf().dev();
    let page = dev.api().get("/");
    assert_eq!(page.header("content-type"), "text/html;charset=UTF-8");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    let named = page.text().split(" href=\"/").chain(page.text().split(" src=\"/"));
    let paths: Vec<&str> = named.map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(paths.contains(&"console.css") && paths.contains(&"console.js"), "{paths:?}");
    for path in paths.iter().filter(|path| !path.contains('<')) {
        assert_eq!(dev.api().get(&format!("/{path}")).status, 200, "{path}");
    }
    for path in ["/", "/console.css", "/console.js"] {
        let file = dev.api().get(path);
        assert_eq!(file.header("cache-control"), "no-cache", "{path}");
        let known = [("if-none-match", file.header("etag"))];
        let again = dev.api().send(&Method::GET, path, &known, "");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
}

#[test]
fn a_node_that_is_always_asked_how_it_is_goes_on() {
    const QUESTIONS: usize = 1_500;
    let dev = mintleaf().dev();
    // Every new tag is an entry in the log, and every entry changes the status that the node reports.
    let writer = TagWriter::start(&[(1, dev.api().0)], Duration::ZERO);
    thread::scope(|scope| {
        for path in ["/v1/cluster", "/readyz", "/metrics"] {
            let api = dev.api();
            scope.spawn(move || (0..QUESTIONS).for_each(|_| drop(api.get(path))));
        }
    });
    assert!(writer.stop().len() > 50);
    assert_eq!(create(dev.api(), "last", 10).status, 201);
}
