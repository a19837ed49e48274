//! The client over real connections, against servers that die in the middle of an answer, hang, close kept
//! connections, or speak TLS.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

#[path = "server/double.rs"]
mod double;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use double::{Reply, Server, ids, ranges};
use mintleaf_client::{Client, Error, blocking};

fn client<'a>(servers: impl IntoIterator<Item = &'a Server>) -> blocking::Client {
    let endpoints = servers.into_iter().map(Server::url);
    Client::builder().endpoints(endpoints).build_blocking().unwrap()
}

/// Takes ids of a tag until the server has seen a request for a lease.
fn take(client: &blocking::Client, count: usize) -> Vec<u64> {
    (0..count).map(|_| client.next_id("orders").unwrap()).collect()
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
fn node_dies_during_the_answer() {
    // In the middle of a number, and right after a complete range.
    for cut_at in [
        br#"{"ranges":[{"start":"900"#.len(),
        br#"{"ranges":[{"start":"900000","end":"900101"}"#.len(),
    ] {
        let dying = Server::start(move |request| match request.contains("ranges") {
            true => {
                let body = ranges(request, 900_000);
                let Reply::Whole(body) = body else { panic!("{body:?}") };
                Reply::CutOff(body, cut_at)
            }
            false => Reply::Close,
        });
        let well = Server::counting();
        let client = client([&dying, &well]);
        let ids = take(&client, 2_000);
        assert_eq!(ids, (1..=2_000).collect::<Vec<_>>(), "no id of an answer that broke off");
    }
}

#[test]
fn node_dies_before_the_answer() {
    let dead = Server::start(|_| Reply::Close);
    let gone = Server::start(|_| Reply::Close);
    let gone_url = gone.url();
    drop(gone); // nobody listens there any more
    let well = Server::counting();
    let endpoints = [dead.url(), gone_url, well.url()];
    let client = Client::builder().endpoints(endpoints).build_blocking().unwrap();
    assert_eq!(take(&client, 2_000), (1..=2_000).collect::<Vec<_>>());
}

#[test]
fn answer_is_slow() {
    let is_late = Arc::new(AtomicBool::new(false));
    let slow = Server::start({
        let is_late = Arc::clone(&is_late);
        move |request| {
            if is_late.load(Ordering::SeqCst) {
                return Reply::Close;
            }
            while !is_late.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            ids(request, 900_000)
        }
    });
    let well = Server::counting();
    let build = || {
        Client::builder()
            .endpoints([slow.url(), well.url()])
            .attempt_timeout(Duration::from_millis(100))
            .timeout(Duration::from_secs(30))
            .build_blocking()
            .unwrap()
    };
    // Each client asks the servers in its own random order. This client's one call is answered, so no request
    // is under way.
    let client = loop {
        let client = build();
        assert!(client.next_id("orders").unwrap() < 900_000, "another endpoint answered");
        if !slow.requests().is_empty() {
            break client;
        }
    };
    is_late.store(true, Ordering::SeqCst);
    let ids = take(&client, 10_000);
    assert!(ids.iter().all(|&id| id < 900_000), "an id of an answer that had been given up");
}

#[test]
fn malformed_answer() {
    let too_long = " ".repeat(1 << 20);
    for body in ["<html>".to_owned(), r#"{"ids":["0"]}"#.to_owned(), too_long + r#"{"ids":["7"]}"#]
    {
        let bad = Server::start(move |_| Reply::Whole(body.clone()));
        let well = Server::counting();
        assert_eq!(take(&client([&bad, &well]), 3), [1, 2, 3]);
    }
}

#[test]
fn kept_connection_was_closed() {
    let server = Server::counting();
    let client = Client::builder()
        .endpoints([server.url()])
        // As long as the longest rest.
        .timeout(Duration::from_secs(5))
        .build_blocking()
        .unwrap();
    client.next_id_of("chat", "room").unwrap();
    for _ in 0..20 {
        server.close_connections();
        client.next_id_of("chat", "room").unwrap();
    }
    assert_eq!(server.requests().len(), 21, "each request arrives once");
    assert_eq!(server.connections(), 21, "on a new connection");
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
fn lease_false_is_never_kept() {
    let server = Server::never_keep();
    let client = client([&server]);
    assert_eq!(take(&client, 3), [1, 2, 3]);
    assert_eq!(client.next_ids("orders", 4), Ok(vec![4, 5, 6, 7]));
    assert_eq!(client.handle("orders").unwrap().next_id(), Ok(8));
    let counts: Vec<_> = server.requests().iter().map(|head| head[..35].to_owned()).collect();
    let expected =
        [1, 1, 1, 4, 1].map(|count| format!("GET /v1/segment/orders?count={count} HTTP"));
    assert_eq!(counts, expected);
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
fn redirects_are_not_followed() {
    let trap = Server::counting();
    let url = trap.url();
    let sly = Server::start(move |_| Reply::Redirect(format!("{url}/v1/segment/orders?count=1")));
    let client = Client::builder()
        .endpoints([sly.url()])
        .token("mlt_secret")
        .timeout(Duration::from_millis(300))
        .build_blocking()
        .unwrap();
    assert!(matches!(client.next_id("orders"), Err(Error::Unavailable(_))));
    assert!(trap.requests().is_empty());
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
