//! tinyid's paths, as its server answers and its clients ask.

use std::collections::HashSet;
use std::thread;

use hyper::Method;
use serde_json::json;

use super::{create, strict};
use crate::harness::{Api, mintleaf};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn get(api: Api, call: &str) -> String {
    let answer = api.get(&format!("/tinyid/id/{call}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text().to_owned()
}

/// Asks as tinyid's client does: an empty POST with the parameters in the query.
fn post(api: Api, call: &str) -> String {
    let answer = api.send(&Method::POST, &format!("/tinyid/id/{call}"), &[FORM], "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text().to_owned()
}

/// The ids of a segment, as tinyid's client walks it.
fn walked(segment: &str) -> std::ops::RangeInclusive<u64> {
    let fields: Vec<u64> = segment.split(',').map(|field| field.parse().unwrap()).collect();
    let [current, loading, max, 1, 0] = fields[..] else { panic!("{segment}") };
    assert_eq!(loading, current + (max - current) / 5, "{segment}");
    current + 1..=max
}

#[test]
fn ids_and_segments_come_as_tinyid_gives_them() {
    let cluster = strict();
    let api = cluster.api(1);
    assert_eq!(create(api, "orders", 1000).status, 201);
    assert_eq!(get(api, "nextSegmentIdSimple?bizType=orders&token=x"), "0,200,1000,1,0");
    assert_eq!(post(api, "nextSegmentIdSimple?token=x&bizType=orders"), "1000,1200,2000,1,0");
    assert_eq!(
        get(api, "nextSegmentId?bizType=orders"),
        r#"{"data":{"maxId":3000,"loadingId":2200,"currentId":2000,"delta":1,"remainder":0},"code":200,"message":""}"#
    );
    assert_eq!(get(api, "nextIdSimple?bizType=orders"), "3001");
    assert_eq!(post(api, "nextIdSimple?bizType=orders&batchSize=3"), "3002,3003,3004");
    assert_eq!(get(api, "nextId?bizType=orders"), r#"{"data":[3005],"code":200,"message":""}"#);
    let form = "bizType=orders&batchSize=2&token=any";
    let answer = api.send(&Method::POST, "/tinyid/id/nextId", &[FORM], form);
    assert_eq!(answer.text(), r#"{"data":[3006,3007],"code":200,"message":""}"#);
    assert_eq!(answer.header("content-type"), "application/json;charset=UTF-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    let many = get(api, "nextIdSimple?bizType=orders&batchSize=99999999");
    assert_eq!(many.split(',').collect::<HashSet<_>>().len(), 10_000);
    let head = api.send(&Method::HEAD, "/tinyid/id/nextIdSimple?bizType=orders", &[], "");
    assert_eq!((head.status, head.header("content-type")), (200, "text/plain;charset=UTF-8"));
    let next: u64 = get(api, "nextIdSimple?bizType=orders").parse().unwrap();
    let last: u64 = many.rsplit(',').next().unwrap().parse().unwrap();
    assert_eq!(next, last + 1, "HEAD takes no id");
}

#[test]
fn what_has_no_ids_for_tinyid_is_an_empty_text_or_code_6() {
    let cluster = strict();
    let api = cluster.api(1);
    for shape in [
        json!({ "tag": "text", "format": "T-{id}" }),
        json!({ "tag": "keys", "kind": "sequence" }),
        json!({ "tag": "hidden", "digits": 12 }),
        json!({ "tag": "day", "period": "day" }),
        json!({ "tag": "plain" }),
    ] {
        assert_eq!(api.post("/v1/tags", &shape).status, 201);
    }
    let calls = ["nextId", "nextSegmentId"];
    for (query, given) in [
        ("bizType=nobody", [false, false]),
        ("bizType=text", [false, false]),
        ("bizType=keys", [false, false]),
        ("bizType=hidden", [true, false]),
        ("bizType=day", [false, false]),
        ("bizType=", [false, false]),
        ("token=x", [false, false]),
        ("bizType=%00", [false, false]),
        ("bizType=plain&batchSize=0", [false, true]),
        ("bizType=plain&batchSize=-1", [false, true]),
        ("bizType=plain&batchSize=x", [false, true]),
        ("bizType=plain&batchSize=", [true, true]),
    ] {
        for (call, is_given) in calls.into_iter().zip(given) {
            let text = get(api, &format!("{call}Simple?{query}"));
            assert_eq!(!text.is_empty(), is_given, "{call} {query}: {text}");
            let answer = api.get(&format!("/tinyid/id/{call}?{query}")).ok();
            assert_eq!(answer["code"], if is_given { 200 } else { 6 }, "{call} {query}: {answer}");
            assert_eq!(answer["data"].is_null(), !is_given, "{answer}");
            assert_eq!(answer["message"] == "", is_given, "{answer}");
        }
    }
    assert_eq!(api.get("/tinyid/id/nextSnowflakeId?bizType=plain").status, 404);
    assert_eq!(api.send(&Method::DELETE, "/tinyid/id/nextId", &[], "").status, 405);
    let page = [("sec-fetch-site", "cross-site")];
    let call = "/tinyid/id/nextIdSimple?bizType=plain";
    assert_eq!(api.send(&Method::GET, call, &page, "").status, 403);
}

#[test]
fn an_unknown_tag_is_created_where_first_uses_create_tags() {
    let dev = mintleaf().dev();
    assert_eq!(walked(&get(dev.api(), "nextSegmentIdSimple?bizType=fresh")), 1..=1000);
    assert_eq!(get(dev.api(), "nextIdSimple?bizType=other"), "1");
}

#[test]
fn clients_of_tinyid_on_three_nodes_get_no_id_twice() {
    let cluster = mintleaf().cluster(3);
    for shape in [
        json!({ "tag": "plain", "step": 50 }),
        json!({ "tag": "strict", "step": 50, "order": "strict" }),
    ] {
        assert_eq!(cluster.api(1).post("/v1/tags", &shape).status, 201);
    }
    for tag in ["plain", "strict"] {
        let clients = (0..6_u64).map(|client| {
            let api = cluster.api(client % 3 + 1);
            thread::spawn(move || {
                let call = format!("nextSegmentIdSimple?token=any&bizType={tag}");
                let ids: Vec<u64> = (0..40).flat_map(|_| walked(&post(api, &call))).collect();
                assert!(ids.is_sorted(), "each client of one node sees rising ids");
                ids
            })
        });
        let clients: Vec<_> = clients.collect();
        let ids: Vec<u64> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert_eq!(ids.len(), 6 * 40 * 50, "a segment has as many ids as the tag's step");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }
}
