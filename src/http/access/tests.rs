use axum::http::Request;

use super::*;
use crate::access::{AuthFile, hash_of, written_hash};
use crate::http::routes::route;

/// Why a request is refused that is the first of its connection.
fn refusal_by(access: &Access, request: &Parts) -> Option<Problem> {
    let demand = route(request.method.as_str(), request.uri.path());
    access.refusal(&demand, request, &mut Caller::default())
}

/// Why a request from this machine or another is refused without an auth file.
fn refusal(is_local: bool, request: &Parts) -> Option<Problem> {
    refusal_by(&Access::new(AccessPolicy::default()).from(is_local), request)
}

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// A change with these headers, sent from this machine.
fn is_taken(headers: &[(&str, &str)]) -> bool {
    refusal(true, &request("POST", "/v1/tags", headers)).is_none()
}

#[test]
fn ids_and_reading_are_open_to_everybody() {
    let evil = [("host", "evil.example"), ("via", "1.1 proxy")];
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
    let insecure = Access::new(AccessPolicy { tokens: None, insecure: true });
    assert_eq!(refusal_by(&insecure, &evil), None);
    let unknown = refusal_by(&Access::new(AccessPolicy::default()), &change);
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
    for header in [
        "Forwarded",
        "X-Forwarded-For",
        "x-forwarded-for",
        "Via",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Real-IP",
        "CF-Connecting-IP",
        "True-Client-IP",
    ] {
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

#[test]
fn a_caller_whom_an_auth_file_lets_change_things_without_a_token_does_so_as_without_one() {
    let hash = written_hash(&hash_of(b"t"));
    let text = format!(
        "anonymous = \"admin\"\n[[token]]\nname = \"ops\"\nrole = \"admin\"\nhash = \"{hash}\"\n"
    );
    let tokens = Some(Arc::new(Tokens::new(AuthFile::parse(&text).unwrap())));
    let code = |insecure, is_local, headers: &[(&str, &str)]| {
        let access = Access::new(AccessPolicy { tokens: tokens.clone(), insecure }).from(is_local);
        let refusal = refusal_by(&access, &request("POST", "/v1/tags", headers));
        refusal.map(|problem| problem.code())
    };
    let (own, evil) = (("host", "localhost"), ("host", "evil.example"));
    let token = ("authorization", "Bearer t");
    assert_eq!(code(false, true, &[own]), None);
    let pages = ("origin", "http://evil.example");
    for (is_local, headers) in [
        (false, &[own][..]),
        (true, &[evil]),
        (true, &[own, ("via", "1.1 a")]),
        (true, &[own, pages]),
    ] {
        assert_eq!(code(false, is_local, headers), Some("forbidden"), "{headers:?}");
        assert_eq!(code(true, is_local, headers), None, "{headers:?}");
        let proven = [headers, &[token]].concat();
        assert_eq!(code(false, is_local, &proven), None, "{headers:?}");
    }
}

#[test]
fn changes_of_a_page_of_another_site_are_refused_whatever_origin_it_shows() {
    let from = |site| is_taken(&[("host", "localhost"), ("sec-fetch-site", site)]);
    assert!(from("same-origin") && from("none"));
    assert!(!from("cross-site") && !from("same-site"));
    let twice =
        [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
    assert!(!is_taken(&twice));
}

#[test]
fn a_page_of_another_site_gets_neither_ids_nor_what_a_node_knows() {
    let host = ("host", "a.example:8080");
    let of_others = [
        &[host, ("sec-fetch-site", "cross-site")][..],
        &[host, ("sec-fetch-site", "same-site"), ("origin", "http://a.example:8080")],
        &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
        &[host, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
        &[host, ("origin", "http://evil.example")],
        &[host, ("origin", "http://a.example:9090")],
        &[host, ("origin", "http://a.example")],
        &[host, ("origin", "null")],
        &[host, ("origin", "")],
        &[host, ("origin", "http://a.example:8080"), ("origin", "http://evil.example")],
        &[("origin", "http://")],
        &[("host", "localhost:8080"), ("origin", "http://evil.example")],
    ];
    let of_its_own = [
        &[host][..],
        &[host, ("sec-fetch-site", "same-origin")],
        &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        &[host, ("sec-fetch-site", "same-origin"), ("origin", "https://proxy.example")],
        &[host, ("origin", "http://A.example:8080")],
        &[host, ("origin", "https://a.example:8080")],
        &[("host", "localhost:8080"), ("origin", "http://127.0.0.1:8080")],
    ];
    let asks = ["/api/segment/get/a", "/v1/snowflake", "/v1/tags", "/cache", "/metrics", "/none"];
    for (method, path) in asks.into_iter().flat_map(|path| [("GET", path), ("HEAD", path)]) {
        for headers in of_others {
            let refused = refusal(true, &request(method, path, headers)).map(|it| it.code());
            assert_eq!(refused, Some("forbidden"), "{method} {path} {headers:?}");
        }
        for headers in of_its_own {
            let refused = refusal(true, &request(method, path, headers));
            assert_eq!(refused, None, "{method} {path} {headers:?}");
        }
    }
    for path in ["/", "/console.js", "/readyz", "/openapi"] {
        for headers in of_others {
            assert_eq!(refusal(true, &request("GET", path, headers)), None, "{path}");
        }
    }
}

#[test]
fn a_token_counts_more_than_the_page_that_shows_it() {
    let hash = written_hash(&hash_of(b"t"));
    let text = format!(
        "anonymous = \"issue\"\n[[token]]\nname = \"a\"\nrole = \"issue\"\nhash = \"{hash}\"\n"
    );
    let tokens = Some(Arc::new(Tokens::new(AuthFile::parse(&text).unwrap())));
    let is_taken = |insecure, headers: &[(&str, &str)]| {
        let access = Access::new(AccessPolicy { tokens: tokens.clone(), insecure });
        refusal_by(&access, &request("GET", "/v1/segment/a", headers)).is_none()
    };
    let page = ("sec-fetch-site", "cross-site");
    assert!(is_taken(false, &[]));
    assert!(!is_taken(false, &[page]));
    assert!(is_taken(false, &[page, ("authorization", "Bearer t")]));
    assert!(is_taken(true, &[page]), "--insecure leaves that to something else");
}
