//! Frozen tags, and tags with a rate limit, in every way to get ids.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value as Json, json};

use crate::harness::{
    Answer, Api, Finished, RedisClient, Value, eventually, mintleaf, pause, secs,
};

/// The time within which a change is in effect at every node.
const SOON: Duration = secs(1);

fn protect(api: Api, tag: &str, change: &Json) -> Json {
    api.patch(&format!("/v1/tags/{tag}"), change).ok()
}

/// Creates a tag, and repeats the request during an election.
fn create(api: Api, tag: &str) {
    eventually(&format!("{tag} to be there"), secs(10), || {
        let status = api.post("/v1/tags", &json!({ "tag": tag })).status;
        [201, 409].contains(&status).then_some(())
    });
}

/// Leaf's number for a failure, as its path returns it.
#[track_caller]
fn leafs_code(answer: &Answer) -> String {
    assert_eq!(answer.status, 500, "{answer:?}");
    answer.json()["message"].as_str().unwrap().to_owned()
}

#[track_caller]
fn error(answer: Value) -> String {
    match answer {
        Value::Error(text) => text.split(' ').next().unwrap().to_owned(),
        other => panic!("no error: {other:?}"),
    }
}

#[test]
fn a_frozen_tag_gives_no_ids_on_any_path_and_goes_on_when_it_is_let_go() {
    let dev = mintleaf().dev();
    let api = dev.api();
    assert_eq!(api.get("/v1/segment/orders?count=5").ids(), [1, 2, 3, 4, 5]);
    let frozen = protect(api, "orders", &json!({ "frozen": true }));
    assert_eq!((&frozen["frozen"], &frozen["rate_limit"]), (&json!(true), &Json::Null));

    for path in ["", "?count=2", "?count=5000&format=ranges", "?count=1000000&format=ranges"] {
        let refused = api.get(&format!("/v1/segment/orders{path}"));
        assert_eq!(refused.problem(), (423, "frozen".to_owned()), "{path}");
    }
    assert_eq!(leafs_code(&api.get("/api/segment/get/orders")), "Result{id=-3, status=EXCEPTION}");
    let mut redis = RedisClient::connect(dev.resp(1));
    for command in ["INCR orders", "INCRBY orders 10", "MINT orders", "MINT orders COUNT 3"] {
        assert_eq!(error(redis.ask(command)), "FROZEN", "{command}");
    }
    let page = api.get("/metrics");
    assert!(page.text().contains(r#"code="frozen""#), "{}", page.text());

    // It can be read and changed, and nodes keep the ids that they hold of it.
    let before = api.get("/v1/tags/orders").ok();
    let changed = protect(api, "orders", &json!({ "step": 7, "description": "halted" }));
    assert_eq!((&changed["frozen"], &changed["max_id"]), (&json!(true), &before["max_id"]));
    assert_eq!(api.get("/v1/segment/others").ids(), [1], "other tags go on");
    protect(api, "orders", &json!({ "frozen": false }));
    assert_eq!(api.get("/v1/segment/orders").ids(), [6]);

    // A tag that no node has used yet, and a tag that is deleted.
    api.post("/v1/tags", &json!({ "tag": "held", "frozen": true, "rate_limit": 5 })).ok();
    assert_eq!(api.get("/v1/segment/held").problem(), (423, "frozen".to_owned()));
    assert_eq!(api.get("/v1/tags/held").ok()["max_id"], "1", "nothing of it was reserved");
    assert_eq!(api.delete("/v1/tags/held").status, 204);
    assert_eq!(api.get("/v1/segment/held").ids(), [1], "created anew on first use");
}

#[test]
fn three_nodes_stop_within_a_second_and_all_of_them_go_on() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let asked = cluster.others(leader)[0];
    cluster.api(asked).post("/v1/tags", &json!({ "tag": "orders", "step": 100_000 })).ok();
    for id in cluster.ids() {
        assert_eq!(cluster.api(id).get("/v1/segment/orders?count=100").ids().len(), 100);
    }
    for _ in 0..3 {
        protect(cluster.api(asked), "orders", &json!({ "frozen": true }));
        pause(SOON);
        for id in cluster.ids() {
            let refused = cluster.api(id).get("/v1/segment/orders");
            assert_eq!(refused.problem(), (423, "frozen".to_owned()), "node {id}");
        }
        // Ids that came from the previously held segment are not given again.
        protect(cluster.api(asked), "orders", &json!({ "frozen": false }));
        for id in cluster.ids() {
            eventually(&format!("node {id} to go on"), SOON, || {
                let answer = cluster.api(id).get("/v1/segment/orders");
                answer.is_ok().then_some(())
            });
        }
    }
}

#[test]
fn a_node_that_was_away_freezes_what_it_holds_by_a_snapshot() {
    let mut cluster = mintleaf().prepare(3, &["--snapshot-entries", "100"]);
    cluster.start_all();
    cluster.await_ready();
    let leader = cluster.leader();
    let away = cluster.others(leader)[0];
    cluster.api(leader).post("/v1/tags", &json!({ "tag": "orders", "step": 100_000 })).ok();
    assert_eq!(cluster.api(away).get("/v1/segment/orders?count=100").ids().len(), 100);
    cluster.process(away).signal("STOP");
    protect(cluster.api(leader), "orders", &json!({ "frozen": true }));
    for number in 0..500 {
        create(cluster.api(leader), &format!("tag-{number}"));
    }
    cluster.process(away).signal("CONT");
    eventually("the node to know the last tag", secs(20), || {
        let row = cluster.api(away).try_get("/v1/tags/tag-499?consistency=stale").ok()?;
        row.is_ok().then_some(())
    });
    let refused = cluster.api(away).get("/v1/segment/orders");
    assert_eq!(refused.problem(), (423, "frozen".to_owned()));
}

#[test]
fn a_rate_limit_is_met_on_every_path_and_a_tag_without_one_is_free() {
    const LIMIT: u64 = 200;
    let dev = mintleaf().dev();
    let api = dev.api();
    api.post("/v1/tags", &json!({ "tag": "orders", "rate_limit": LIMIT })).ok();
    let mut redis = RedisClient::connect(dev.resp(1));
    let began = Instant::now();
    let (mut taken, mut refused) = (0, 0);
    while began.elapsed() < secs(3) {
        let answer = api.get("/v1/segment/orders?count=3");
        match answer.status {
            200 => taken += answer.ids().len() as u64,
            _ => {
                assert_eq!(answer.problem(), (429, "rate_limited".to_owned()));
                assert_eq!(answer.header("retry-after"), "1");
                refused += 1;
            }
        }
        match redis.ask("INCRBY orders 2") {
            Value::Integer(_) => taken += 2,
            other => assert_eq!(error(other), "RATELIMITED"),
        }
        let answer = api.get("/api/segment/get/orders");
        match answer.status {
            200 => taken += 1,
            _ => assert_eq!(leafs_code(&answer), "Result{id=-3, status=EXCEPTION}"),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{taken} ids in {seconds:.2} s, {refused} refused");
    // At the beginning the bucket holds the ids of one second.
    let bounds = 2.5 * LIMIT as f64..(1.5 + seconds) * LIMIT as f64;
    assert!(bounds.contains(&(taken as f64)), "{taken} is not within {bounds:?}");
    assert!(refused > 0);

    protect(api, "orders", &json!({ "rate_limit": null }));
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(api.get("/v1/segment/orders?count=10000").ids().len(), 10_000);
    }
    println!("50,000 ids without a limit in {:?}", began.elapsed());
}

#[test]
fn a_larger_request_passes_once_and_is_paid_off() {
    let dev = mintleaf().dev();
    let api = dev.api();
    let created = api.post("/v1/tags", &json!({ "tag": "orders", "rate_limit": 1_000 })).ok();
    assert_eq!((&created["rate_limit"], &created["frozen"]), (&json!(1_000), &json!(false)));
    let mut redis = RedisClient::connect(dev.resp(1));
    for much in ["10001", "1000000"] {
        // A refused request takes nothing, so the bucket is full for the largest request.
        let refused = api.get(&format!("/v1/segment/orders?count={much}&format=ranges"));
        assert_eq!(refused.problem(), (422, "count_over_rate_limit".to_owned()));
        assert_eq!(refused.json()["count_max"], 10_000);
        assert!(refused.text().contains("1 to 10000"), "{refused:?}");
        let command = format!("INCRBY orders {much}");
        assert_eq!(error(redis.ask(&command)), "COUNTOVERRATELIMIT");
    }
    let lease = "/v1/segment/orders?count=10000&format=ranges";
    let leased = api.get(lease).intervals().unwrap();
    assert_eq!(leased.iter().map(|(start, end)| end - start).sum::<u64>(), 10_000);
    let refused = api.get(lease);
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((7..=10).contains(&seconds), "{refused:?}");
    assert_eq!(api.get("/v1/segment/orders").status, 429, "nor is there one for anybody else");
    for (path, status) in [("/v1/segment/orders", 429), ("/api/segment/get/orders", 500)] {
        assert_eq!(api.send(&Method::HEAD, path, &[], "").status, status, "{path}");
    }
    // Another limit keeps the debt; removing the limit clears it.
    protect(api, "orders", &json!({ "rate_limit": 2_000 }));
    assert_eq!(api.get("/v1/segment/orders").status, 429);
    protect(api, "orders", &json!({ "rate_limit": null }));
    assert_eq!(api.get("/v1/segment/orders").ids().len(), 1);
    protect(api, "orders", &json!({ "rate_limit": 1_000 }));
    assert_eq!(api.get("/v1/segment/orders").status, 429, "the debt was forgiven");
}

#[test]
fn pipelined_requests_count_one_by_one() {
    let dev = mintleaf().dev();
    dev.api().post("/v1/tags", &json!({ "tag": "orders", "rate_limit": 10 })).ok();
    let mut redis = RedisClient::connect(dev.resp(1));
    for _ in 0..100 {
        redis.send(b"*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n");
    }
    let answers: Vec<Value> = (0..100).map(|_| redis.answer()).collect();
    let given = answers.iter().filter(|answer| matches!(answer, Value::Integer(_))).count();
    assert!((10..=30).contains(&given), "{given} of 100: {answers:?}");
}

#[test]
fn protection_has_its_bounds_and_the_command_line_sets_it() {
    let dev = mintleaf().dev();
    let api = dev.api();
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    for (change, named) in [
        (json!({ "rate_limit": 0 }), "rate_limit must be an integer from 1 to 1000000000, or null"),
        (json!({ "rate_limit": 1_000_000_001 }), "rate_limit"),
        (json!({ "rate_limit": "5" }), "rate_limit"),
        (json!({ "frozen": null }), "frozen must be true or false"),
        (
            json!({ "force": true }),
            "must change step, step_max, max_id, description, rate_limit or frozen",
        ),
    ] {
        let answer = api.patch("/v1/tags/orders", &change);
        assert_eq!(answer.problem(), (400, "invalid_argument".to_owned()), "{change}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
    let ask = |args: &[&str]| {
        let run = Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]));
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let shown = ask(&["tag", "update", "orders", "--rate-limit", "50000", "--frozen", "true"]);
    let words: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0][3..5], ["RATE_LIMIT", "FROZEN"], "{shown}");
    assert_eq!(words[1][3..5], ["50000", "true"], "{shown}");
    let json: Json = serde_json::from_str(&ask(&[
        "tag",
        "update",
        "orders",
        "--rate-limit",
        "none",
        "--frozen",
        "false",
        "--json",
    ]))
    .unwrap();
    assert_eq!((&json["rate_limit"], &json["frozen"]), (&Json::Null, &json!(false)));
}
