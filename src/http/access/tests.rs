use super::*;

/// Why a request is refused, without an auth file, that comes from this machine or another.
fn refusal(is_local: bool, request: &Request<()>) -> Option<Problem> {
    Access::new(Doors::default()).from(is_local).refusal(request, &mut Caller::default())
}

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// A change with these headers, sent from this machine.
fn is_taken(headers: &[(&str, &str)]) -> bool {
    refusal(true, &request("POST", "/v1/tags", headers)).is_none()
}

#[test]
fn ids_and_reading_are_open_to_everybody() {
    let evil = [("host", "evil.example"), ("origin", "null"), ("via", "1.1 proxy")];
    for path in ["/api/segment/get/orders", "/v1/snowflake", "/v1/tags", "/v1/cluster"] {
        assert_eq!(refusal(false, &request("GET", path, &evil)), None, "{path}");
    }
}

#[test]
fn changes_are_taken_from_this_machine_only_unless_anybody_may_make_them() {
    let change = request("POST", "/v1/tags", &[("host", "127.0.0.1:8080")]);
    assert_eq!(refusal(true, &change), None);
    let refused = refusal(false, &change).unwrap();
    assert_eq!(refused.code(), "forbidden");
    let evil =
        [("host", "evil.example"), ("origin", "http://evil.example"), ("forwarded", "for=a")];
    let evil = request("POST", "/v1/tags", &evil);
    assert!(refusal(true, &evil).is_some());
    let insecure = Access::new(Doors { tokens: None, insecure: true });
    assert_eq!(insecure.refusal(&evil, &mut Caller::default()), None);
    let unknown = Access::new(Doors::default()).refusal(&change, &mut Caller::default());
    assert_eq!(unknown, Some(refused), "nobody knows where it comes from");
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
        |target| refusal(true, &request("POST", target, &[("host", "localhost")])).is_some();
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

#[test]
fn no_token_has_the_name_by_which_the_audit_calls_callers_without_one() {
    let name = Sender(None).actor();
    let why = crate::access::checked_name(name.as_str()).unwrap_err();
    assert!(why.contains("without a token"), "{why}");
    assert!(crate::access::checked_name("anonymous-2").is_ok());
}
