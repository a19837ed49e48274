use axum::http::Method;
use proptest::prelude::*;

use super::*;

const PLAIN: &str = "GET /api/segment/get/a HTTP/1.1\r\nHost: x\r\n\r\n";

fn read(bytes: &str) -> ReadOutcome {
    PlainRequest::default().read(bytes.as_bytes())
}

fn get(path: &str, headers: &str) -> ReadOutcome {
    read(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n"))
}

#[test]
fn the_same_request_is_known_again() {
    let mut request = PlainRequest::default();
    assert_eq!(request.read(PLAIN.as_bytes()), ReadOutcome::New);
    let three = format!("{PLAIN}{PLAIN}{PLAIN}GET");
    assert_eq!(request.read(three.as_bytes()), ReadOutcome::Again);
    assert_eq!(request.repeats(three.as_bytes()), 3);
    assert_eq!(request.request().demand(), IdDemand::Segment("a"));
    let other = PLAIN.replace("/a ", "/%62 ");
    assert_eq!(request.read(other.as_bytes()), ReadOutcome::New);
    assert_eq!(request.request().demand(), IdDemand::Segment("b"));
    assert_eq!(request.repeats(PLAIN.as_bytes()), 0);
}

#[test]
fn every_beginning_of_a_plain_request_is_partial() {
    let mut known = PlainRequest::default();
    assert_eq!(known.read(PLAIN.as_bytes()), ReadOutcome::New);
    for length in 0..PLAIN.len() {
        assert_eq!(read(&PLAIN[..length]), ReadOutcome::Partial, "{length}");
        assert_eq!(known.read(&PLAIN.as_bytes()[..length]), ReadOutcome::Partial, "{length}");
    }
}

#[test]
fn many_ids_are_known_by_their_count_and_anything_odd_is_left_to_the_dispatch() {
    let mut request = PlainRequest::default();
    let mut asks = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(request.read(head.as_bytes()), ReadOutcome::New, "{path}");
        match request.request().demand() {
            IdDemand::Segments(tag, wanted) => Some((tag.to_owned(), wanted.count)),
            IdDemand::Snowflakes(_) | IdDemand::Invalid => None,
            other => panic!("{path} asks for {other:?}"),
        }
    };
    assert_eq!(asks("/v1/segment/%61?count=5"), Some(("a".to_owned(), 5)));
    assert_eq!(asks("/v1/segment/b?count=7&format=ranges"), Some(("b".to_owned(), 7)));
    for odd in ["/v1/segment/a?count=0", "/v1/segment/a?count=x", "/v1/segment/a?n=5"] {
        assert_eq!(asks(odd), None, "{odd}");
    }
    for odd in ["/v1/segment/%zz?count=5", "/api/segment/get/%zz", "/v1/snowflake?count=5"] {
        assert_eq!(asks(odd), None, "{odd}");
    }
    let one = "GET /api/segment/get/a?count=5 HTTP/1.1\r\nhost: x\r\n";
    let head = format!("{one}accept: application/*+json\r\n\r\n");
    assert_eq!(request.read(head.as_bytes()), ReadOutcome::New);
    assert_eq!(
        request.request().demand(),
        IdDemand::Invalid,
        "no media type that the client accepts"
    );
    assert_eq!(request.read(format!("{one}\r\n").as_bytes()), ReadOutcome::New);
    assert_eq!(request.request().demand(), IdDemand::Segment("a"));
}

#[test]
fn id_paths_are_plain_and_others_are_not() {
    for path in [
        "/api/segment/get/a.b",
        "/api/snowflake/get/%zz",
        "/v1/segment/%E8%AE%A2?count=5&format=ranges",
        "/v1/snowflake",
        "/v1/snowflake?count=3",
    ] {
        assert_eq!(get(path, ""), ReadOutcome::New, "{path}");
    }
    for path in [
        "/livez",
        "/api/segment/get/",
        "/api/segment/get/a/",
        "//api/segment/get/a",
        "/v1/segment/a/b",
        "/v1/snowflake/5",
        "/v1/snowflakes",
        "/v1/segment",
        "/v1/segment/a#b",
        "/v1/segment/\"",
        "/v1/segment/订",
        "http://x/v1/snowflake",
        "*",
        "",
        "/v1/snowflake ",
    ] {
        assert_eq!(get(path, ""), ReadOutcome::Unsupported, "{path}");
    }
}

#[test]
fn headers_that_hyper_acts_on_are_unsupported() {
    for headers in ["", "connection: Keep-Alive\r\n", "accept: text/plain\r\nx: \u{fc}\r\n"] {
        assert_eq!(get("/v1/snowflake", headers), ReadOutcome::New, "{headers}");
    }
    for headers in [
        "connection: close\r\n",
        "connection: keep-alive, x\r\n",
        "connection: keep-alive\r\nConnection: upgrade\r\n",
        "content-length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "expect: 100-continue\r\n",
        "upgrade: h2c\r\n",
        "host: y\r\n",
        "Host: x\r\n",
        "x : y\r\n",
        " x: y\r\n",
        "x: y\r\n z\r\n",
        "x\r\n",
        "x: \0\r\n",
        "x: a\rb\r\n",
    ] {
        assert_eq!(get("/v1/snowflake", headers), ReadOutcome::Unsupported, "{headers:?}");
    }
    assert_eq!(read("GET /v1/snowflake HTTP/1.1\r\n\r\n"), ReadOutcome::Unsupported, "no host");
    for (host, outcome) in [
        ("", ReadOutcome::New),
        ("\ta \t", ReadOutcome::New),
        ("127.0.0.1:8080", ReadOutcome::New),
        ("[::1]:8080", ReadOutcome::New),
        ("a b", ReadOutcome::Unsupported),
        ("a@b", ReadOutcome::Unsupported),
        ("[::1", ReadOutcome::Unsupported),
    ] {
        let request = format!("GET /v1/snowflake HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(read(&request), outcome, "{host}");
    }
    assert_eq!(read("GET /v1/snowflake HTTP/1.0\r\nhost: a\r\n\r\n"), ReadOutcome::Unsupported);
    assert_eq!(read("HEAD /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n"), ReadOutcome::Unsupported);
    assert_eq!(read("\r\nGET /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n"), ReadOutcome::Unsupported);
}

#[test]
fn long_heads_are_unsupported_whole_or_not() {
    let many = "x: y\r\n".repeat(HEADERS_MAX);
    assert_eq!(get("/v1/snowflake", &many), ReadOutcome::Unsupported);
    let long = format!("x: {}\r\n", "y".repeat(PLAIN_HEAD_BYTES_MAX));
    assert_eq!(get("/v1/snowflake", &long), ReadOutcome::Unsupported);
    let begun = format!("GET /v1/segment/{}", "y".repeat(PLAIN_HEAD_BYTES_MAX));
    assert_eq!(read(&begun), ReadOutcome::Unsupported);
}

/// Pieces of requests, most of them right.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let right = || {
        prop::sample::select(vec![
            "GET /v1/segment/a",
            "GET /api/snowflake/get/",
            "%41",
            "?count=2",
            " HTTP/1.1\r\n",
            "host: x\r\n",
            "host:\r\n",
            "Accept: text/plain\r\n",
            "connection: keep-alive\r\n",
            "\r\n",
            PLAIN,
            "GET /v1/snowflake HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n",
        ])
    };
    let wrong = prop::sample::select(vec![
        "\n",
        "\r",
        "\n\n",
        " ",
        ":",
        "\t",
        "content-length: 3\r\n",
        "HTTP/1.0\r\n",
        "\0",
        "POST ",
        "transfer-encoding: chunked\r\n",
        "connection: close\r\n",
        "host: y\n",
        "host: y z\r\n",
        "#",
        "x",
    ]);
    prop_oneof![
        6 => right().prop_map(|text| text.as_bytes().to_vec()),
        1 => wrong.prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

proptest! {
    /// Requests that were read before make no difference, and a request ends where hyper's parser ends
    /// it.
    #[test]
    fn the_fast_path_reads_what_hyper_reads(pieces in prop::collection::vec(piece(), 1..24)) {
        let bytes = pieces.concat();
        let (mut known, mut rest) = (PlainRequest::default(), &bytes[..]);
        while matches!(known.read(rest), ReadOutcome::New | ReadOutcome::Again) {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Request::new(&mut headers);
            prop_assert_eq!(parsed.parse(rest), Ok(Status::Complete(known.length())));
            prop_assert_eq!((parsed.method, parsed.version), (Some("GET"), Some(1)));
            let (_, head) = known.parts();
            prop_assert_eq!((&head.method, head.version), (&Method::GET, Version::HTTP_11));
            prop_assert_eq!(head.uri.to_string(), parsed.path.unwrap_or_default());
            prop_assert_eq!(host::fault(head.version, &head.headers), None);
            prop_assert_eq!(head.headers.len(), parsed.headers.len());
            let mut fresh = PlainRequest::default();
            prop_assert_eq!(fresh.read(rest), ReadOutcome::New);
            prop_assert_eq!(fresh.request(), known.request());
            rest = &rest[known.length()..];
        }
        prop_assert_eq!(known.read(rest), PlainRequest::default().read(rest));
    }
}
