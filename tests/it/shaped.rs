//! Tags with a format, with digits, and with periods, in every way to get ids.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value as Json, json};

use crate::harness::{Answer, Api, Dev, Finished, RedisClient, Value, mintleaf};

fn create(api: Api, tag: &Json) -> Json {
    api.post("/v1/tags", tag).ok()
}

/// The ids in a JSON answer whose ids are for one call.
#[track_caller]
fn texts(answer: &Answer) -> Vec<String> {
    let answer = answer.ok();
    assert_eq!(answer["lease"], false, "{answer}");
    let ids = answer["ids"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

fn printed(dev: &Dev, args: &[&str]) -> String {
    let finished = Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.stdout
}

#[test]
fn a_format_is_what_clients_get_on_every_path() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create(api, &json!({ "tag": "invoices", "format": "I\"{id:06}/订" }));
    create(api, &json!({ "tag": "bills", "kind": "register", "format": "B-{id:06}" }));
    assert_eq!(texts(&api.get("/v1/segment/invoices?count=2")), ["I\"000001/订", "I\"000002/订"]);
    let text = api.get_as("/v1/segment/invoices?count=2", "text/plain");
    assert_eq!(text.text(), "I\"000003/订\nI\"000004/订\n");
    let leafs = api.get("/api/segment/get/invoices");
    assert_eq!((leafs.status, leafs.text()), (200, "I\"000005/订"));
    assert_eq!(leafs.header("content-security-policy"), "default-src 'none'; sandbox");
    assert_eq!(leafs.header("x-content-type-options"), "nosniff");
    let ranges = api.get("/v1/segment/invoices?count=3&format=ranges").ok();
    let expected = json!({
        "tag": "invoices", "ranges": [{ "start": "6", "end": "9" }], "lease": false,
    });
    assert_eq!(ranges, expected, "ranges are of the numbers");
    let head = api.send(&Method::HEAD, "/v1/segment/invoices", &[], "");
    assert_eq!((head.status, head.text()), (200, ""));

    let mut redis = RedisClient::connect(dev.resp(1));
    assert_eq!(redis.ask("MINT invoices"), Value::Bulk("I\"000009/订".to_owned()));
    let two = ["I\"000010/订", "I\"000011/订"].map(|id| Value::Bulk(id.to_owned()));
    assert_eq!(redis.ask("MINT invoices COUNT 2").array(), two);
    for refused in ["INCR invoices", "INCRBY invoices 2", "GET invoices", "GET bills"] {
        let Value::Error(told) = redis.ask(refused) else { panic!("{refused} is answered") };
        let why =
            if refused.starts_with("GET") { "ERR tag has a shape" } else { "ERR tag has a format" };
        assert!(told.starts_with(why), "{told}");
    }
    assert_eq!(redis.ask("TYPE invoices"), Value::Simple("string".to_owned()));

    assert_eq!(printed(&dev, &["next", "invoices"]), "I\"000012/订\n");
    let shown: Json =
        serde_json::from_str(&printed(&dev, &["next", "invoices", "--json"])).unwrap();
    assert_eq!(shown, json!({ "tag": "invoices", "ids": ["I\"000013/订"], "lease": false }));
    let many = printed(&dev, &["next", "invoices", "-n", "10001"]);
    assert_eq!(many.lines().collect::<BTreeSet<_>>().len(), 10_001);
    assert!(api.get("/cache").text().contains("<td>invoices</td><td>true</td>"));
}

#[test]
fn long_texts_come_whole_and_many_of_them_within_the_memory_of_answers() {
    let dev = mintleaf().dev();
    let api = dev.api();
    let long = "\"".repeat(120);
    create(api, &json!({ "tag": "long", "format": format!("{long}{{id}}") }));
    let ids = texts(&api.get("/v1/segment/long?count=10000"));
    assert_eq!((ids.len(), ids[9_999].as_str()), (10_000, format!("{long}10000").as_str()));
    let mut redis = RedisClient::connect(dev.resp(1));
    let minted = redis.ask("MINT long COUNT 10000").array().to_vec();
    assert_eq!(minted.last(), Some(&Value::Bulk(format!("{long}20000"))));
}

#[test]
fn hidden_ids_have_so_many_digits_and_are_told_one_by_one() {
    let dev = mintleaf().dev();
    let api = dev.api();
    let made = create(api, &json!({ "tag": "coupons", "digits": 6 }));
    assert_eq!(made["digits"], 6, "{made}");
    let mut ids = texts(&api.get("/v1/segment/coupons?count=5000"));
    assert!(ids.windows(2).any(|pair| pair[0] > pair[1]), "in no order");
    let refused = api.get("/v1/segment/coupons?count=2&format=ranges");
    assert_eq!(refused.problem(), (400, "invalid_argument".to_owned()));
    assert!(refused.text().contains("format"), "{}", refused.text());

    let mut redis = RedisClient::connect(dev.resp(1));
    ids.push(redis.ask("INCR coupons").integer().to_string());
    ids.extend(redis.ask("MINT coupons COUNT 3").ids().iter().map(u64::to_string));
    for refused in ["INCRBY coupons 2", "GET coupons"] {
        let Value::Error(told) = redis.ask(refused) else { panic!("{refused} is answered") };
        assert!(told.starts_with("ERR tag has "), "{told}");
    }
    ids.push(api.get("/api/segment/get/coupons").text().to_owned());
    ids.extend(printed(&dev, &["next", "coupons", "-n", "2"]).lines().map(str::to_owned));
    let well_formed =
        |id: &String| id.len() == 6 && !id.starts_with('0') && id.parse::<u32>().is_ok();
    assert!(ids.iter().all(well_formed), "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 5_000 + 1 + 3 + 1 + 2);

    for page in ["/v1/tags/coupons", "/v1/tags", "/v1/audit"] {
        assert!(!api.get(page).text().contains("key"), "{page} shows a key");
    }
}

#[test]
fn a_tag_whose_hidden_ids_are_all_reserved_is_exhausted() {
    let mut dev = mintleaf().dev();
    create(dev.api(), &json!({ "tag": "coupons", "digits": 6, "step": 1_000_000 }));
    let ids = texts(&dev.api().get("/v1/segment/coupons?count=100"));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 100);
    assert_eq!(dev.api().get("/v1/tags/coupons").ok()["max_id"], "900001");
    dev.restart();
    // The ids that the node held are wasted.
    let refused = dev.api().get("/v1/segment/coupons");
    assert_eq!(refused.problem(), (422, "exhausted".to_owned()));
    let head = dev.api().send(&Method::HEAD, "/v1/segment/coupons", &[], "");
    assert_eq!(head.status, 422);
}

#[test]
fn a_frozen_or_limited_tag_of_any_shape_gives_no_more_than_it_may() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create(api, &json!({ "tag": "orders", "period": "year" }));
    assert_eq!(texts(&api.get("/v1/segment/orders?count=2")).len(), 2);
    api.patch("/v1/tags/orders", &json!({ "frozen": true })).ok();
    assert_eq!(api.get("/v1/segment/orders").problem(), (423, "frozen".to_owned()));
    let head = api.send(&Method::HEAD, "/v1/segment/orders", &[], "");
    assert_eq!(head.status, 423);
    api.patch("/v1/tags/orders", &json!({ "frozen": false, "rate_limit": 5 })).ok();
    assert_eq!(texts(&api.get("/v1/segment/orders?count=50")).len(), 50);
    assert_eq!(api.get("/v1/segment/orders").problem(), (429, "rate_limited".to_owned()));
    assert_eq!(api.delete("/v1/tags/orders").status, 204);
    assert_eq!(api.patch("/v1/tags/orders", &json!({ "step": 2 })).status, 404);
}

#[test]
fn a_sequence_has_no_ids_of_its_own() {
    let dev = mintleaf().dev();
    let api = dev.api();
    create(api, &json!({ "tag": "rooms", "kind": "sequence" }));
    assert_eq!(api.get("/v1/segment/rooms").status, 404);
    let leafs = api.get("/api/segment/get/rooms");
    assert_eq!(leafs.status, 500);
    assert_eq!(leafs.json()["message"], "Result{id=-2, status=EXCEPTION}");
    let mut redis = RedisClient::connect(dev.resp(1));
    for refused in ["INCR rooms", "MINT rooms", "INCRBY rooms 3"] {
        assert!(matches!(redis.ask(refused), Value::Error(_)), "{refused} is answered");
    }
}
