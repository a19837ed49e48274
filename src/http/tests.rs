//! The interface over real sockets, against a real node of a cluster of one.

mod description;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use axum::http::header::{CONTENT_LENGTH, DATE};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::config::{DevArgs, DevConfig, PlaceArgs};
use crate::server::{Process, RunningNode};

struct Served {
    node: Option<RunningNode>,
    address: SocketAddr,
    runtime: Runtime,
    _data: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let place = PlaceArgs {
            http: Some("127.0.0.1:0".to_owned()),
            data: Some(data.path().join("node")),
            ..Default::default()
        };
        let config = DevConfig::resolve(DevArgs { nodes: 1, place, ..Default::default() }).unwrap();
        let node = RunningNode::start(&config.first, &Process::default()).unwrap();
        let address = node.http_addr();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { node: Some(node), address, runtime, _data: data }
    }

    fn ask(&self, method: Method, path: &str, accept: &str) -> (StatusCode, HeaderMap, Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("accept", accept)
            .body(Full::<Bytes>::default())
            .unwrap();
        self.runtime.block_on(async {
            let client = Client::builder(TokioExecutor::new()).build_http();
            let (head, body) = client.request(request).await.unwrap().into_parts();
            (head.status, head.headers, body.collect().await.unwrap().to_bytes())
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop();
        }
    }
}

#[test]
fn buffered_ids_are_answered_as_those_that_were_waited_for() {
    let served = Served::start();
    for (tag, query) in [("ids", "count=20"), ("ranges", "count=20&format=ranges")] {
        for accept in ["*/*", "text/plain"] {
            let path = format!("/v1/segment/{tag}-{}?{query}", accept.len());
            let [waited, at_hand] = [(); 2].map(|()| {
                let (status, mut headers, body) = served.ask(Method::GET, &path, accept);
                headers.remove(DATE);
                headers.remove(CONTENT_LENGTH);
                let shape = String::from_utf8(body.to_vec()).unwrap();
                (status, headers, shape.replace(|digit: char| digit.is_ascii_digit(), ""))
            });
            assert_eq!((waited.0, &waited), (StatusCode::OK, &at_hand), "{path}");
        }
    }
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    let served = Served::start();
    for path in ["/", "/cache", "/db", "/v1/tags", "/v1/cluster", "/livez", "/openapi.json"] {
        // A page may change at any time, so the HEAD must match one that stands between two equal lengths.
        let alike = (0..100).any(|_| {
            let (expected, before, _) = served.ask(Method::GET, path, "*/*");
            let (status, headers, body) = served.ask(Method::HEAD, path, "*/*");
            let (_, after, _) = served.ask(Method::GET, path, "*/*");
            assert_eq!((status, body.len()), (expected, 0), "{path}");
            let lengths = [before, headers, after].map(|of| of[CONTENT_LENGTH].clone());
            lengths.iter().all(|length| *length == lengths[0])
        });
        assert!(alike, "{path}");
    }
}

#[test]
fn head_on_an_id_path_has_the_head_of_get_without_a_length_and_takes_nothing() {
    let served = Served::start();
    let id = |path: &str| String::from_utf8(served.ask(Method::GET, path, "text/plain").2.to_vec());
    assert_eq!(id("/v1/segment/a").unwrap(), "1\n");
    for [at, query] in
        [["/api/segment/get/", ""], ["/v1/segment/", ""], ["/v1/segment/", "?count=3"]]
    {
        let path = |tag: &str| format!("{at}{tag}{query}");
        for accept in ["*/*", "text/plain", "application/json;charset=us-ascii"] {
            let (status, mut headers, body) = served.ask(Method::HEAD, &path("a"), accept);
            assert!(headers.remove(DATE).is_some());
            assert_eq!((status, body.len()), (StatusCode::OK, 0), "{at}{query}");
            let (status, mut expected, _) = served.ask(Method::GET, &path("b"), accept);
            assert_eq!(status, StatusCode::OK);
            expected.remove(DATE);
            expected.remove(CONTENT_LENGTH);
            assert_eq!(headers, expected, "{at}{query}");
        }
    }
    assert_eq!(id("/v1/segment/a").unwrap(), "2\n");
}

#[test]
fn a_snowflake_id_says_who_made_it_and_when() {
    let served = Served::start();
    let get = |path: &str| served.ask(Method::GET, path, "*/*");
    let json = |path: &str| -> Value { serde_json::from_slice(&get(path).2).unwrap() };
    let id = json("/v1/snowflake")["ids"][0].as_str().unwrap().to_owned();
    let workers = json("/v1/workers");
    let held = &workers["workers"][0];
    let decoded = json(&format!("/v1/snowflake/{id}"));
    assert_eq!(decoded["id"], id.as_str());
    assert_eq!(decoded["worker_id"], held["worker_id"]);
    let time_ms = decoded["timestamp_ms"].as_u64();
    assert!(held["floor_ms"].as_u64() <= time_ms && time_ms < held["fence_ms"].as_u64());
    let leaf = json(&format!("/decodeSnowflakeId?snowflakeId={id}"));
    let leaf_time = format!("{}(", time_ms.unwrap());
    assert!(leaf["timestamp"].as_str().unwrap().starts_with(&leaf_time), "{leaf}");
    assert!(json("/decodeSnowflakeId?snowflakeId=x")["errorMsg"].is_string());
    for refused in ["/v1/snowflake/x", "/v1/snowflake/9223372036854775808", "/decodeSnowflakeId"] {
        assert_eq!(get(refused).0, StatusCode::BAD_REQUEST, "{refused}");
    }
    let ranges = json("/v1/snowflake?count=100000&format=ranges");
    let bound = |range: &Value, name: &str| range[name].as_str().unwrap().parse::<u64>().unwrap();
    let ranges = ranges["ranges"].as_array().unwrap();
    let ids: u64 = ranges.iter().map(|range| bound(range, "end") - bound(range, "start")).sum();
    assert_eq!(ids, 100_000);
}

impl Served {
    /// The answers to requests that are sent at once on one connection, each whole.
    fn exchange(&self, requests: &[String]) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(requests.concat().as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        requests.iter().map(|_| next_answer(&mut stream)).collect()
    }
}

fn next_answer(stream: &mut BufReader<TcpStream>) -> String {
    let mut answer = String::new();
    while !answer.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut answer).unwrap(), 0, "{answer}");
    }
    let length = answer.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    answer + &String::from_utf8(body).unwrap()
}

/// An answer without its ids, its request's id, lengths and dates.
fn masked(answer: &str) -> String {
    let masked = answer.lines().map(|line| match line.split_once(": ") {
        Some(("date", date)) => {
            assert!(date.ends_with(" GMT"), "{date}");
            format!("date: {} long\r\n", date.len())
        }
        Some(("x-request-id", id)) => format!("x-request-id: {} long\r\n", id.len()),
        _ => {
            let line = match line.split_once(r#","request_id":""#) {
                Some((problem, id)) => problem.to_owned() + &id[id.find('"').unwrap_or(0)..],
                None => line.to_owned(),
            };
            line.replace(|digit: char| digit.is_ascii_digit(), "") + "\r\n"
        }
    });
    masked.collect()
}

/// Each request is answered on the fast path, and again behind another request, which hyper answers.
#[test]
fn fast_path_and_hyper_answer_alike() {
    let served = Served::start();
    let long = format!("/v1/segment/{}", "x".repeat(129));
    for path in [
        "/api/segment/get/a%2Fb",
        "/api/segment/get/",
        "//api/segment/get/a/",
        "/api/segment/get/%zz",
        "/api/segment/get/a?b",
        "/v1/segment/%E8%AE%A2.%22x",
        "/v1/segment/a+b",
        "/v1/segment/a?count=3",
        "/v1/segment/a?count=0",
        &long,
        "/api/snowflake/get/x",
        "/v1/snowflake",
        "/v1/snowflake?count=1&format=ranges",
    ] {
        for headers in [
            "",
            "accept: text/plain\r\nConnection: keep-alive\r\n",
            "accept: text/html, application/json;charset=us-ascii\r\n",
            "accept: application/json;charset=us-ascii;v=1\r\n",
            "accept: application/*+json\r\n",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
            let other = "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n".to_owned();
            let on_fast_path = // Or with hyper too, where the path is none that is read there.
                served.exchange(&[request.clone(), request.clone(), request.clone()]);
            let with_hyper = served.exchange(&[other, request.clone(), request]);
            for answer in on_fast_path {
                assert_eq!(masked(&answer), masked(&with_hyper[1]), "{path}");
            }
        }
    }
}

/// Each request comes on its own connection, and again behind another request, which hyper answers.
#[test]
fn fast_path_and_hyper_refuse_the_same_hosts() {
    let served = Served::start();
    let other = "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n".to_owned();
    let no_id = served.exchange(&["GET /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n".to_owned()]);
    assert!(no_id[0].starts_with("HTTP/1.1 200"), "{no_id:?}");
    for (hosts, status) in [
        ("host: a\r\n", 200),
        ("host:\r\n", 200),
        ("host: [::1]:8080\r\n", 200),
        ("", 400),
        ("host: a\r\nhost: a\r\n", 400),
        ("host: a b\r\n", 400),
        ("host: a\r\nhost:\r\n", 400),
    ] {
        for path in ["/api/segment/get/a", "/v1/segment/a?count=2", "/v1/snowflake", "/v1/tags"] {
            for version in ["1.1", "1.0"] {
                let keep = "connection: keep-alive\r\n";
                let request = format!("GET {path} HTTP/{version}\r\n{hosts}{keep}\r\n");
                let status = if version == "1.0" && hosts.is_empty() { 200 } else { status };
                let first = served.exchange(std::slice::from_ref(&request));
                let behind = served.exchange(&[other.clone(), request.clone()]);
                let begin = format!("HTTP/{version} {status} ");
                assert!(first[0].starts_with(&begin), "{request}: {first:?}");
                if version == "1.1" {
                    assert_eq!(masked(&first[0]), masked(&behind[1]), "{request}");
                }
                assert!(behind[1].starts_with(&begin), "{request}: {behind:?}");
            }
        }
    }
}

#[test]
fn a_client_that_has_sent_all_is_answered_all_and_a_piece_of_a_request_is_not() {
    let served = Served::start();
    let request = "GET /v1/segment/a HTTP/1.1\r\nhost: a\r\n\r\n";
    for piece in ["", "GET /v1/seg"] {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(format!("{request}{request}{piece}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answered = String::new();
        stream.read_to_string(&mut answered).unwrap();
        assert_eq!(answered.matches("HTTP/1.1 200 OK").count(), 2, "{answered}");
    }
}

#[test]
fn a_stop_ends_connections_that_rest_on_the_fast_path() {
    let mut served = Served::start();
    let request = "GET /v1/snowflake HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    assert!(next_answer(&mut stream).contains("200 OK"));
    let began = Instant::now();
    served.node.take().unwrap().stop();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

/// A client that does not read may send as much as fits into the buffers on the way, and no more.
#[test]
fn a_client_that_reads_nothing_is_held_up_and_loses_nothing() {
    let served = Served::start();
    let request = b"GET /api/segment/get/a HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1000);
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while let Ok(written) = stream.write(&request[sent % request.len()..]) {
        sent += written;
        assert!(sent < 100 << 20);
    }
    let whole = sent / (request.len() / 1000);
    let mut stream = BufReader::new(stream);
    for id in 1..=whole {
        assert!(next_answer(&mut stream).ends_with(&format!("\r\n\r\n{id}")));
    }
}

#[test]
fn answers_of_the_fast_path_come_before_those_of_hyper() {
    let served = Served::start();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    let id = get("/api/segment/get/a");
    let mut requests = vec![id; 700];
    requests.push(get("/livez"));
    requests.push(get("/api/segment/get/a"));
    let answers = served.exchange(&requests);
    let bodies = answers.iter().map(|answer| answer.split_once("\r\n\r\n").unwrap().1);
    let mut expected: Vec<_> = (1..=700).map(|id| id.to_string()).collect();
    expected.extend(["ok".to_owned(), "701".to_owned()]);
    assert_eq!(bodies.collect::<Vec<_>>(), expected);
}
