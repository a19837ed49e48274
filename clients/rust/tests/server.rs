//! The client over real connections, where `conformance` does not look: what it closes, TLS, and its settings.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

#[path = "server/double.rs"]
mod double;

use std::time::{Duration, Instant};

use double::{Reply, Server, ids};
use mintleaf_client::{Client, Error, blocking};

fn client<'a>(servers: impl IntoIterator<Item = &'a Server>) -> blocking::Client {
    let endpoints = servers.into_iter().map(Server::url);
    Client::builder().endpoints(endpoints).build_blocking().unwrap()
}

#[test]
fn requests_say_who_asks_what_and_for_how_many() {
    let server = Server::start(|request| ids(request, 1));
    let client =
        Client::builder().endpoints([server.url()]).token("mlt_secret").build_blocking().unwrap();
    client.next_id("a/ü").unwrap();
    let head = server.requests().remove(0);
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("GET /v1/segment/a%2F%C3%BC?count=1 HTTP/1.1"));
    let lines: Vec<_> = lines.map(str::to_ascii_lowercase).collect();
    for wanted in [
        &format!("host: {}", server.url().trim_start_matches("http://")),
        "accept: application/json",
        "cache-control: no-store",
        "authorization: bearer mlt_secret",
    ] {
        assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:?}");
    }
}

#[test]
fn a_connection_is_kept_between_requests() {
    let server = Server::counting();
    let client = client([&server]);
    for _ in 0..10 {
        client.next_id_of("chat", "room").unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn close_while_leasing() {
    let silent = Server::start(|_| Reply::Silence);
    let client = client([&silent]);
    let waiting = std::thread::spawn({
        let client = client.clone();
        move || client.next_id("orders")
    });
    while silent.requests().is_empty() {
        std::thread::yield_now();
    }
    let began = Instant::now();
    client.close();
    assert!(began.elapsed() < Duration::from_secs(1), "it does not wait for the network");
    assert_eq!(waiting.join().unwrap(), Err(Error::Closed));
    assert_eq!(client.next_id("orders"), Err(Error::Closed));
    // When `close` returns, the thread has ended, and its connections with it.
    silent.await_no_connection();
}

#[test]
fn tls_is_spoken_to_those_whose_ca_is_trusted() {
    let authority = double::Authority::new();
    let server = Server::with_tls(&authority);
    let build = |ca: &str| {
        Client::builder()
            .endpoints([server.url()])
            .timeout(Duration::from_millis(500))
            .ca_pem(ca.as_bytes())
            .build_blocking()
            .unwrap()
    };
    assert_eq!(build(&authority.pem()).next_id("orders"), Ok(1));
    let stranger = build(&double::Authority::new().pem()).next_id("orders").unwrap_err();
    assert!(stranger.to_string().contains("certificate"), "{stranger}");
}

#[test]
fn settings_that_cannot_be_are_named() {
    let fault = |builder: mintleaf_client::Builder| builder.build().unwrap_err().to_string();
    let builder = || Client::builder().endpoints(["http://localhost:1"]);
    assert!(fault(Client::builder()).contains("endpoints"));
    assert!(fault(builder().endpoints(["localhost:1"])).contains("localhost:1"));
    assert!(fault(builder().lease_max(0)).contains("lease_max must be 1 to 1000000"));
    assert!(fault(builder().timeout(Duration::ZERO)).contains("timeout must be 1 ms"));
    assert!(fault(builder().token("a\nb")).contains("token"));
    let tls = Client::builder().endpoints(["https://localhost:1"]).ca_pem("nothing");
    assert!(fault(tls).contains("ca_pem"));
    let shown = format!("{:?}", builder().token("mlt_secret"));
    assert!(!shown.contains("mlt_secret"), "{shown}");
}

#[test]
fn a_lease_is_shown_without_its_name() {
    let granted = r#"{"worker_id":7,"lease":"7-secret","from_ms":"1000","until_ms":"61000"}"#;
    let server = Server::start(move |_| Reply::Whole(granted.to_owned()));
    let client = client([&server]);
    let lease = client.lease_worker("shops").unwrap();
    let shown = format!("{lease:?}");
    assert!(!shown.contains("7-secret"), "{shown}");
    assert!(shown.contains("worker_id: 7"), "{shown}");
}
