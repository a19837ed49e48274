//! Bytes that no proper client would send, and clients that stall.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::{Api, eventually, mintleaf, secs};

/// The node has closed a stalled connection by then. It waits 5 s for a body and up to 15 s for a head; the
/// rest is a margin for a busy machine.
const GIVEN_UP_WITHIN: Duration = secs(20);

fn connect(api: Api) -> TcpStream {
    let stream = TcpStream::connect(api.0).unwrap();
    stream.set_read_timeout(Some(GIVEN_UP_WITHIN)).unwrap();
    stream
}

/// Reads until the node closes the connection.
fn read_all(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The node has closed the connection while some of the sent bytes were unread.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
    }
    String::from_utf8(bytes).unwrap()
}

fn exchange(api: Api, request: &[u8]) -> String {
    let mut stream = connect(api);
    stream.write_all(request).unwrap();
    read_all(&stream)
}

#[test]
fn what_is_not_http_is_refused_and_closed() {
    let dev = mintleaf().dev();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: a\r\nbroken header\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"POST /v1/tags HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/tags HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        let answer = exchange(dev.api(), bytes);
        let shown = String::from_utf8_lossy(bytes);
        assert!(answer.is_empty() || answer.contains(" 400 "), "{shown:?} got {answer:?}");
    }
    assert_eq!(dev.api().get("/livez").status, 200);
}

#[test]
fn a_head_that_is_too_long_is_431() {
    let dev = mintleaf().dev();
    let long = "x".repeat(20_000);
    let one = format!("GET /livez HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n");
    let lines: String = (0..100).map(|n| format!("x{n}: 1\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
    for request in [one, many] {
        let answer = exchange(dev.api(), request.as_bytes());
        // The node may close before it has read everything, and then the client may not receive the answer.
        let told = answer.starts_with("HTTP/1.1 431 ") && answer.contains("\"code\":\"too_large\"");
        assert!(answer.is_empty() || told, "{answer:?}");
    }
    assert_eq!(dev.api().get("/livez").status, 200);
}

#[test]
fn a_client_that_stalls_in_the_head_is_cut_off_and_one_that_rests_is_not() {
    let dev = mintleaf().dev();
    let mut resting = connect(dev.api());
    take_id(&mut resting);
    let mut drip = connect(dev.api());
    drip.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n").unwrap();
    drip.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let began = Instant::now();
    // An occasional header byte does not keep the connection open.
    eventually("the end of the connection", GIVEN_UP_WITHIN, || {
        let dripped = drip.write_all(b"x");
        let mut byte = [0];
        match dripped.and_then(|()| drip.read(&mut byte)) {
            Err(error) if is_silence(&error) => None,
            Ok(1) => None,
            Ok(_) | Err(_) => Some(()),
        }
    });
    assert!(began.elapsed() > secs(3), "cut off after {:?}", began.elapsed());
    take_id(&mut resting);
}

/// Asks for an id on a connection that is kept open.
fn take_id(stream: &mut TcpStream) {
    stream.write_all(b"GET /api/segment/get/orders HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{:?}", &answer[..length]);
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn a_body_that_stalls_is_408() {
    let dev = mintleaf().dev();
    let mut stream = connect(dev.api());
    let head = "POST /v1/tags HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    stream.write_all(format!("{head}content-length: 20\r\n\r\n{{\"tag\"").as_bytes()).unwrap();
    let answer = read_all(&stream);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""code":"timeout""#), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}

#[test]
fn a_body_that_is_too_long_is_413_however_it_is_framed() {
    let dev = mintleaf().dev();
    let head = "POST /v1/tags HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let announced = format!("{head}content-length: 99999999999\r\n\r\n");
    let answer = exchange(dev.api(), announced.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");

    let mut stream = connect(dev.api());
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    // The body is twice the bound; the node may close before it has read all of it.
    let _ = (0..32).try_for_each(|_| stream.write_all(chunk.as_bytes()));
    let answer = read_all(&stream);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(dev.api().get("/livez").status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let dev = mintleaf().dev();
    // The first request waits for a grab of its new tag. Those behind it could be answered at once.
    let paths = ["/livez", "/api/segment/get/a", "/v1/segment/b?count=2", "/nothing", "/livez"];
    let mut requests = String::new();
    for path in paths.iter().cycle().take(40) {
        requests += &format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    requests += "GET /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answers = exchange(dev.api(), requests.as_bytes());
    let bodies: Vec<&str> = answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer.split_once("\r\n\r\n").unwrap().1)
        .collect();
    assert_eq!(bodies.len(), 41, "{answers}");
    for (round, bodies) in bodies[..40].chunks(paths.len()).enumerate() {
        assert_eq!((bodies[0], bodies[4]), ("ok", "ok"));
        assert_eq!(bodies[1], (round + 1).to_string());
        let (first, second) = (2 * round + 1, 2 * round + 2);
        assert_eq!(bodies[2], format!(r#"{{"tag":"b","ids":["{first}","{second}"]}}"#));
        assert!(bodies[3].contains("not_found"));
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_harms_nobody() {
    let dev = mintleaf().dev();
    for _ in 0..50 {
        let mut stream = connect(dev.api());
        stream
            .write_all(b"GET /v1/segment/orders?count=10000 HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
    }
    let ids = dev.api().get("/v1/segment/orders?count=10").ids();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}
