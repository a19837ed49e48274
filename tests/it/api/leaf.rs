//! Leaf's own paths: programs written for Leaf must not notice the change.

mod answers;

use std::io::{Read, Write};
use std::net::TcpStream;

use hyper::Method;

use super::*;

#[test]
fn success_is_the_bare_number() {
    let dev = mintleaf().dev();
    for expected in ["1", "2"] {
        let answer = dev.api().get("/api/segment/get/orders");
        assert_eq!((answer.status, answer.text()), (200, expected));
        assert_eq!(answer.header("content-type"), "text/plain;charset=UTF-8");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("content-length"), expected.len().to_string());
    }
    // Leaf ignores a query.
    assert_eq!(dev.api().get("/api/segment/get/orders?x=1").text(), "3");
}

#[track_caller]
fn assert_failed(answer: &Answer, path: &str, id: i8) {
    assert_eq!(answer.status, 500, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["status"], 500);
    assert_eq!(body["error"], "Internal Server Error");
    assert_eq!(body["message"], format!("Result{{id={id}, status=EXCEPTION}}"));
    assert_eq!(body["exception"], "com.sankuai.inf.leaf.server.exception.LeafServerException");
    assert_eq!(body["path"], path);
    // Unix milliseconds of this century.
    assert!(body["timestamp"].as_u64().is_some_and(|ms| ms > 1_600_000_000_000), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 6, "{body}");
}

#[test]
fn unknown_and_malformed_keys_are_leafs_minus_two() {
    let cluster = strict();
    let too_long = "x".repeat(129);
    for key in ["nobody", "%zz", "a%00b", &too_long] {
        let path = format!("/api/segment/get/{key}");
        assert_failed(&cluster.api(1).get(&path), &path, -2);
    }
}

#[test]
fn a_head_takes_no_id_and_every_other_method_takes_one() {
    let dev = mintleaf().dev();
    let ask = |method: Method| dev.api().send(&method, "/api/segment/get/orders", &[], "");
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for (method, id) in methods.into_iter().zip(1..) {
        for looks in [Method::HEAD, Method::OPTIONS] {
            let answer = ask(looks);
            assert_eq!((answer.status, answer.text()), (200, ""));
        }
        let answer = ask(method);
        assert_eq!((answer.status, answer.text()), (200, &*id.to_string()));
        assert_eq!(answer.header("content-type"), "text/plain;charset=UTF-8");
    }
    let head = ask(Method::HEAD);
    assert_eq!(head.header("content-type"), "text/plain;charset=UTF-8");
    assert!(!head.headers.contains_key("content-length"), "{head:?}");
}

#[test]
fn a_body_is_ignored_and_its_connection_goes_on() {
    let dev = mintleaf().dev();
    let mut stream = TcpStream::connect(dev.api().0).unwrap();
    stream.set_read_timeout(Some(secs(10))).unwrap();
    let mut answered = |head: &str, body: &str| {
        stream.write_all(head.as_bytes()).unwrap();
        // As from clients that write a head and a body one after the other.
        std::thread::sleep(std::time::Duration::from_millis(20));
        stream.write_all(body.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    for id in 1..5 {
        let head = "POST /api/segment/get/orders HTTP/1.1\r\nhost: a\r\ncontent-length: 7\r\n\r\n";
        let answer = answered(head, r#"{"a":1}"#);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{id}")), "{answer}");
    }
}

#[test]
fn an_id_to_take_apart_may_come_in_a_form() {
    let dev = mintleaf().dev();
    let form = [("content-type", "application/x-www-form-urlencoded; charset=UTF-8")];
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        let decode = "/decodeSnowflakeId";
        let answer = dev.api().send(&method, decode, &form, "x=1&snowflakeId=%35");
        assert_eq!(answer.ok()["sequenceId"], "5", "{method}");
    }
}

#[test]
fn a_node_without_a_cluster_is_leafs_minus_one() {
    let mut cluster = mintleaf().prepare(3, &[]);
    cluster.start_node(1);
    let api = cluster.api(1);
    eventually("the node to answer", secs(5), || api.try_get("/livez").ok());
    let path = "/api/segment/get/orders";
    assert_failed(&api.get(path), path, -1);
}

#[test]
fn cache_and_db_list_leafs_columns() {
    let cluster = strict();
    let api = cluster.api(1);
    assert_eq!(create(api, "<b>&orders", 10).status, 201);
    assert_eq!(create(api, "idle", 10).status, 201);
    let key = encoded("<b>&orders");
    assert_eq!(api.get(&format!("/api/segment/get/{key}")).text(), "1");

    let cache = api.get("/cache");
    assert_eq!(cache.header("content-type"), "text/html;charset=UTF-8");
    for column in ["name", "init", "next", "pos", "value0", "max0", "step0", "value1", "step1"] {
        assert!(cache.text().contains(&format!("<th>{column}</th>")), "{column}");
    }
    assert!(cache.text().contains("<td>&lt;b&gt;&amp;orders</td><td>true</td>"));
    assert!(!cache.text().contains("<td>idle</td>"), "a tag that nobody used is held");

    let db = api.get("/db");
    assert_eq!(db.header("content-type"), "text/html;charset=UTF-8");
    for column in ["tag", "max", "step", "update", "description"] {
        assert!(db.text().contains(&format!("<th>{column}</th>")), "{column}");
    }
    assert!(db.text().contains("<td>idle</td><td>1</td><td>10</td>"), "{}", db.text());
}
