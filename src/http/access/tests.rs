use super::*;

const LOCAL: Access = Access { insecure: false, is_local: true };
const REMOTE: Access = Access { insecure: false, is_local: false };

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// A change with these headers, sent from this machine.
fn is_taken(headers: &[(&str, &str)]) -> bool {
    LOCAL.refusal(&request("POST", "/v1/tags", headers)).is_none()
}

#[test]
fn every_request_needs_the_role_of_what_it_does() {
    for (method, path, needed) in [
        ("GET", "/api/segment/get/orders", Role::Issue),
        ("HEAD", "/api/segment/get/orders", Role::Issue),
        ("POST", "/api/segment/get/orders", Role::Issue),
        ("DELETE", "/api/snowflake/get/x", Role::Issue),
        ("GET", "/v1/segment/orders", Role::Issue),
        ("GET", "/v1/snowflake", Role::Issue),
        ("POST", "/v1/snowflake", Role::Issue),
        ("GET", "/v1/snowflake/17", Role::Issue),
        ("POST", "/v1/snowflake/floor", Role::Admin),
        ("GET", "/decodeSnowflakeId", Role::Issue),
        ("POST", "/decodeSnowflakeId", Role::Admin),
        ("GET", "/", Role::Read),
        ("GET", "/v1/tags", Role::Read),
        ("HEAD", "/v1/tags/orders", Role::Read),
        ("OPTIONS", "/v1/tags", Role::Read),
        ("POST", "/v1/tags", Role::Admin),
        ("PATCH", "/v1/tags/orders", Role::Admin),
        ("DELETE", "/v1/tags/orders", Role::Admin),
        ("POST", "/v1/cluster/nodes", Role::Admin),
        ("DELETE", "/v1/cluster/nodes/3", Role::Admin),
        ("POST", "/v1/cluster/leader", Role::Admin),
        ("POST", "/v1/cluster/level", Role::Admin),
        ("PUT", "/v1/segment", Role::Admin),
        ("POST", "//api/segment/get/orders", Role::Admin),
        ("POST", "/v1/t%61gs", Role::Admin),
        ("POST", "/nothing", Role::Admin),
        ("BREW", "/livez", Role::Admin),
        ("CONNECT", "", Role::Admin),
    ] {
        let method = method.parse().unwrap();
        assert_eq!(Role::needed(&method, path), needed, "{method} {path}");
    }
}

#[test]
fn ids_and_reading_are_open_to_everybody() {
    let evil = [("host", "evil.example"), ("origin", "null"), ("via", "1.1 proxy")];
    for path in ["/api/segment/get/orders", "/v1/snowflake", "/v1/tags", "/v1/cluster"] {
        assert_eq!(REMOTE.refusal(&request("GET", path, &evil)), None, "{path}");
    }
}

#[test]
fn changes_are_taken_from_this_machine_only_unless_anybody_may_make_them() {
    let change = request("POST", "/v1/tags", &[("host", "127.0.0.1:8080")]);
    assert_eq!(LOCAL.refusal(&change), None);
    let refused = REMOTE.refusal(&change).unwrap();
    assert_eq!(refused.code(), "forbidden");
    let evil =
        [("host", "evil.example"), ("origin", "http://evil.example"), ("forwarded", "for=a")];
    let evil = request("POST", "/v1/tags", &evil);
    assert!(LOCAL.refusal(&evil).is_some());
    assert_eq!(Access::new(true).refusal(&evil), None);
    assert_eq!(
        Access::new(false).refusal(&change),
        Some(refused),
        "nobody knows where it comes from"
    );
}

#[test]
fn the_host_of_a_change_is_a_loopback_name() {
    for name in [
        "localhost",
        "LocalHost:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.1.2.3",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:1",
        "localhost:",
    ] {
        assert!(is_taken(&[("host", name)]), "{name}");
    }
    for name in [
        "",
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "localhost.",
        "127.0.0.1.nip.io",
        "127.0.0.1.",
        "127.1",
        "0177.0.0.1",
        "2130706433",
        "0.0.0.0",
        "0",
        "10.0.0.1",
        "[::]",
        "[::ffff:127.0.0.1]",
        "::1",
        "[::1%25lo]",
        "localhost:x",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost,evil",
        "localhost evil",
        "127.0.0.1:80@evil",
        "%6cocalhost",
        "localhost:8080, evil.example",
    ] {
        assert!(!is_taken(&[("host", name)]), "{name}");
    }
    assert!(!is_taken(&[]), "a request of HTTP/1.0 may have none");
    assert!(!is_taken(&[("host", "localhost"), ("host", "localhost")]));
    assert!(!is_taken(&[("host", "localhost"), ("host", "evil.example")]));
}

#[test]
fn the_target_of_a_change_is_a_loopback_name_where_it_has_one() {
    let refused =
        |target| LOCAL.refusal(&request("POST", target, &[("host", "localhost")])).is_some();
    assert!(!refused("http://localhost:8080/v1/tags"));
    assert!(!refused("http://[::1]/v1/tags"));
    assert!(refused("http://evil.example/v1/tags"));
    assert!(refused("http://localhost@evil.example/v1/tags"));
    assert!(refused("http://evil.example@localhost/v1/tags"));
}

#[test]
fn the_origin_of_a_change_is_a_loopback_site_or_none() {
    let is_taken = |origins: &[&str]| {
        let origins = origins.iter().map(|&origin| ("origin", origin));
        is_taken(&[("host", "localhost:8080")].into_iter().chain(origins).collect::<Vec<_>>())
    };
    assert!(is_taken(&[]));
    for origin in
        ["http://localhost:8080", "https://localhost", "http://127.0.0.1:3000", "http://[::1]:1"]
    {
        assert!(is_taken(&[origin]), "{origin}");
    }
    for origin in [
        "null",
        "",
        "http://",
        "localhost",
        "//localhost",
        "http://evil.example",
        "http://localhost.evil.example",
        "http://localhost:8080/",
        "http://localhost/evil",
        "http://evil@localhost",
        "http://localhost evil.example",
        "http://localhost,http://localhost",
        "file://localhost",
        "ftp://localhost",
        "chrome-extension://localhost",
        "HTTP://evil.example",
        "http:localhost",
        "http:///localhost",
    ] {
        assert!(!is_taken(&[origin]), "{origin}");
    }
    assert!(!is_taken(&["http://localhost", "http://evil.example"]));
    assert!(!is_taken(&["http://evil.example", "http://localhost"]));
}

#[test]
fn changes_that_came_through_a_proxy_are_refused() {
    for header in ["Forwarded", "X-Forwarded-For", "x-forwarded-for", "Via"] {
        for value in ["for=127.0.0.1", "127.0.0.1", "1.1 localhost", ""] {
            assert!(!is_taken(&[("host", "localhost"), (header, value)]), "{header}: {value}");
        }
    }
}
