//! Answers of a real Leaf 1.0.1 on Spring Boot 1.5, request by request, in `answers.json`. An answer counts as
//! equal if its status, its media type, its `allow`, the members of its JSON and the words of its page are
//! equal.

use serde_json::Value;

use super::*;

/// Whether the answer to a request differs on purpose.
fn is_kept_different(path: &str, accept: &str) -> bool {
    // Not Leaf's paths: the console, and problems that only a node reports.
    let others = ["/", "/api", "/favicon.ico", "/nothing-here", "/API/segment/get/s50"];
    // Any text in its place is a key, and a path is compared as it is written.
    let odd_keys = [
        "/api/segment/get/leaf-segment-test.x",
        "/api/snowflake/get/.x",
        "/api/segment/get/orders;x=1",
        "/api/segment/get/a%2Fb",
        "/api/segment/get/%zz",
        "/api/./segment/get/orders",
        "/api/%73egment/get/orders",
    ];
    let is_image_of_an_id = accept == "image/png" && path.contains("/get/");
    others.contains(&path)
        || odd_keys.contains(&path)
        || path.ends_with("snowflakeId=-1")
        || is_image_of_an_id
}

#[track_caller]
fn assert_alike(of_leaf: &Value, answer: &Answer, request: &str) {
    assert_eq!(answer.status, of_leaf["status"], "{request}: {answer:?}");
    assert_eq!(answer.header("content-type"), of_leaf["content_type"], "{request}: {answer:?}");
    if let Some(allow) = of_leaf["allow"].as_str() {
        assert_eq!(answer.header("allow"), allow, "{request}");
    }
    match of_leaf["body"].as_str() {
        Some("ID") => assert!(answer.text().parse::<u64>().is_ok(), "{request}: {answer:?}"),
        Some(page) if page.starts_with('<') => {
            let reason = format!("status={}", of_leaf["status"]);
            let text = answer.text();
            assert!(text.starts_with(page) && text.contains(&reason), "{request}: {text}");
        }
        Some(json) => {
            let expected = serde_json::from_str::<Value>(json).unwrap();
            let mut got = answer.json();
            let got = got.as_object_mut().unwrap();
            if got.remove("timestamp").is_some_and(|timestamp| timestamp.is_u64()) {
                let path = request.split(' ').nth(1).unwrap().split('?').next().unwrap();
                assert_eq!(got.remove("path").unwrap(), path, "{request}");
            }
            for (member, value) in expected.as_object().unwrap() {
                assert_eq!(answer.json()[member], *value, "{request}: {member}");
                got.remove(member);
            }
            // The longest bodies were truncated when they were recorded.
            got.remove("message");
            assert!(got.is_empty(), "{request}: {got:?}");
        }
        // The rest of the page does not matter.
        None => assert!(answer.status == 200 || answer.body.is_empty(), "{request}: {answer:?}"),
    }
}

#[test]
fn every_request_is_answered_as_by_a_real_leaf() {
    let cluster = strict();
    let api = cluster.api(1);
    for tag in ["leaf-segment-test", "s50", "orders"] {
        assert_eq!(create(api, tag, 1_000).status, 201);
    }
    let answers: Vec<Value> = serde_json::from_str(include_str!("answers.json")).unwrap();
    let (mut alike, mut different) = (0, 0);
    for of_leaf in &answers {
        let text = |member: &str| of_leaf[member].as_str();
        let (method, path) = (text("method").unwrap(), text("path").unwrap());
        let request = format!("{method} {path} {:?} {:?}", text("accept"), text("sent"));
        let headers = [("accept", text("accept")), ("content-type", text("sent_type"))];
        let headers: Vec<(&str, &str)> =
            headers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let by = method.parse::<Method>().unwrap();
        let answer = api.send(&by, path, &headers, text("sent").unwrap_or_default());
        if is_kept_different(path, text("accept").unwrap_or_default()) {
            different += 1;
        } else {
            assert_alike(of_leaf, &answer, &request);
            alike += 1;
        }
    }
    assert!(alike > 240 && different < 30, "{alike} alike, {different} different");
}

#[test]
fn what_is_kept_different_is_so() {
    let dev = mintleaf().dev();
    let get = |path: &str| dev.api().get(path);
    // Dots and semicolons are part of the key.
    assert_eq!(get("/api/segment/get/a.b").text(), "1");
    assert_eq!(get("/api/segment/get/a").text(), "1");
    assert_eq!(get("/api/segment/get/a;b=1").text(), "1");
    assert_eq!(get("/v1/tags/a.b").ok()["tag"], "a.b");
    assert_eq!(get("/v1/tags/a;b=1").ok()["tag"], "a;b=1");
    assert_eq!(get("/api/snowflake/get/.x").status, 200);
    assert!(get("/decodeSnowflakeId?snowflakeId=-1").ok()["errorMsg"].is_string());
    assert_eq!(get("/").status, 200);
    for image in ["image/png", "image/*", "image/webp,image/*"] {
        let answer = dev.api().get_as("/api/segment/get/a", image);
        assert_eq!(answer.header("content-type"), "text/plain;charset=UTF-8");
    }
    for path in ["/nothing-here", "/API/segment/get/a", "/v1//snowflake", "/v1/segment/a/"] {
        assert_eq!(get(path).problem(), (404, "not_found".to_owned()), "{path}");
    }
}
