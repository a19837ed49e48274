//! All kinds of traffic at a port that speaks TLS.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Secured, curl, port, runs};
use crate::harness::{Finished, mintleaf, secs};

/// `openssl s_client`, which sends nothing.
fn s_client(node: SocketAddr, args: &[&str]) -> Finished {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &node.to_string(), "-servername", "localhost"]);
    Finished::of(command.args(args).stdin(Stdio::null()))
}

#[test]
fn versions_before_1_2_and_weak_suites_are_refused() {
    if !runs("openssl", &["version"]) {
        return;
    }
    let node = Secured::start();
    for address in [node.http.addr(), node.resp.addr()] {
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let run = s_client(address, &[version]);
            assert!(run.stdout.contains(&format!("New, {name}")), "{version}: {run:?}");
        }
        // The client is configured to offer what it normally would not. The node refuses it.
        let offers = ["-cipher", "ALL:@SECLEVEL=0"];
        for version in ["-tls1", "-tls1_1"] {
            let run = s_client(address, &[&[version][..], &offers].concat());
            let refused = run.stderr.contains("SSL alert number");
            assert!(refused && run.stdout.contains("Cipher is (NONE)"), "{version}: {run:?}");
        }
        for suite in ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "aNULL"] {
            let suite = format!("{suite}:@SECLEVEL=0");
            let run = s_client(address, &["-tls1_2", "-cipher", &suite]);
            assert!(run.stdout.contains("Cipher is (NONE)"), "{suite}: {run:?}");
        }
    }
    let run = s_client(node.http.addr(), &["-alpn", "h2,http/1.1"]);
    assert!(run.stdout.contains("ALPN protocol: http/1.1"), "{run:?}");
}

#[test]
fn a_session_is_resumed_unless_clients_have_to_show_a_certificate() {
    if !runs("openssl", &["version"]) {
        return;
    }
    let open = Secured::start();
    let run = s_client(open.http.addr(), &["-tls1_2", "-reconnect"]);
    assert!(run.stdout.contains("Reused, TLSv1.2"), "{run:?}");
    let asks =
        Secured::start_with(|ca| vec!["--tls-client-ca".into(), ca.ca().display().to_string()]);
    let [shown, key] = asks.pki.client("app").map(|path| path.display().to_string());
    let args = ["-tls1_2", "-reconnect", "-cert", &shown, "-key", &key];
    let run = s_client(asks.http.addr(), &args);
    assert_eq!(run.stdout.matches("New, TLSv1.2").count(), 6, "{run:?}");
    assert!(!run.stdout.contains("Reused"), "{run:?}");
}

#[test]
fn a_client_without_a_certificate_of_the_ca_gets_nothing() {
    if !runs("curl", &["--version"]) {
        return;
    }
    let node =
        Secured::start_with(|ca| vec!["--tls-client-ca".into(), ca.ca().display().to_string()]);
    let stranger = super::Pki::make(node.dir.path(), "other");
    let url = format!("{}/api/segment/get/orders", node.url());
    let text = |files: [std::path::PathBuf; 2]| files.map(|file| file.display().to_string());
    for version in ["1.2", "1.3"] {
        let ask = |shown: Option<&[String; 2]>| {
            let mut args = vec!["--tls-max", version, &url];
            if let Some([certificate, key]) = shown {
                args.extend(["--cert", certificate, "--key", key]);
            }
            curl(&node.pki.ca(), &args)
        };
        let name = format!("app-{}", &version[2..]);
        let (own, theirs) = (text(node.pki.client(&name)), text(stranger.client(&name)));
        assert!(ask(Some(&own)).stdout.ends_with("\n200"), "{version}");
        for shown in [None, Some(&theirs)] {
            let run = ask(shown);
            assert!(run.code != Some(0) && run.stdout == "\n000", "{version}: {run:?}");
        }
    }
}

/// The answer to these bytes up to the end of the connection, and how long that took.
fn exchange(node: SocketAddr, bytes: &[u8]) -> (String, Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(node).unwrap();
    stream.set_read_timeout(Some(secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut heard = Vec::new();
    // A connection may also be reset.
    let _ = stream.read_to_end(&mut heard);
    (String::from_utf8_lossy(&heard).into_owned(), began.elapsed())
}

#[test]
fn plain_text_is_told_to_speak_tls() {
    let node = Secured::start();
    for request in ["GET /api/segment/get/a HTTP/1.1\r\nhost: a\r\n\r\n", "x"] {
        let (heard, took) = exchange(node.http.addr(), request.as_bytes());
        assert!(heard.starts_with("HTTP/1.1 400 ") && heard.contains("https://"), "{heard}");
        assert!(took < secs(5), "{took:?}");
    }
    let (heard, _) = exchange(node.resp.addr(), b"PING\r\n");
    assert_eq!(heard, "-ERR this port speaks TLS: connect with TLS, rediss://\r\n");
    assert_eq!(node.client().open(node.http.addr()).get("/api/segment/get/a").1, "1");
}

#[test]
fn tls_at_a_plain_port_ends_the_connection() {
    let dev = mintleaf().dev();
    let hello = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00";
    for address in [dev.api().0, dev.resp(1)] {
        let (heard, took) = exchange(address, hello);
        assert!(took < secs(17) && !heard.contains("200"), "{heard:?} after {took:?}");
    }
}

#[test]
fn garbage_and_silence_end_and_keep_nobody_out() {
    let mut node = Secured::start();
    let client = node.client();
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    thread::scope(|scope| {
        let mut ends = Vec::new();
        for address in [node.http.addr(), node.resp.addr()] {
            for bytes in [&b""[..], b"\x16", hello] {
                ends.push(scope.spawn(move || (exchange(address, bytes), secs(8)..secs(14))));
            }
            for bytes in [&[0x16; 5000][..], b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x00\x01\x00"] {
                ends.push(scope.spawn(move || (exchange(address, bytes), secs(0)..secs(14))));
            }
        }
        for _ in 0..50 {
            assert_eq!(client.open(node.http.addr()).get("/api/segment/get/a").0, 200);
        }
        for end in ends {
            let ((heard, took), expected) = end.join().unwrap();
            assert!(expected.contains(&took), "{heard:?} after {took:?}, not {expected:?}");
        }
    });
    let failed = node.metric("mintleaf_tls_handshakes_failed_total{protocol=\"http\"}");
    assert!(failed >= 5.0, "{failed}: those that go silent count, too");
    assert!(node.process.is_running());
}

/// A slow client leaves the answers to this many requests in the node for a while: more bytes than the sockets,
/// the session and the node's buffer hold together.
const REQUESTS: usize = 60;

#[test]
fn a_client_that_reads_late_gets_every_byte() {
    let node = Secured::start();
    let mut kept = node.client().open(node.http.addr());
    assert_eq!(kept.get("/api/segment/get/a").0, 200);
    let request = "GET /v1/segment/a?count=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for to_hyper in [false, true] {
        if to_hyper {
            assert_eq!(kept.get("/livez").0, 200);
        }
        kept.send(&request.repeat(REQUESTS));
        thread::sleep(Duration::from_millis(700));
        let mut last = 0;
        for _ in 0..REQUESTS {
            let (status, body) = kept.answer();
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            let ids = body["ids"].as_array().unwrap();
            assert_eq!((status, ids.len()), (200, 10_000));
            let first: u64 = ids[0].as_str().unwrap().parse().unwrap();
            assert!(first > last, "{first} after {last}");
            last = ids[9_999].as_str().unwrap().parse().unwrap();
        }
        // If the end of an answer is in the session but not yet in the socket, it must not wait for the next request.
        assert_eq!(kept.get("/api/segment/get/a").0, 200);
    }
    let mut redis = node.client().open(node.resp.addr());
    redis.send(&"MINT a COUNT 10000\r\n".repeat(REQUESTS));
    thread::sleep(Duration::from_millis(700));
    let mut lines = redis.0.lines();
    for _ in 0..REQUESTS {
        assert_eq!(lines.next().unwrap().unwrap(), "*10000");
        for _ in 0..10_000 {
            assert!(lines.next().unwrap().unwrap().starts_with(':'));
        }
    }
}

#[test]
fn changes_over_tls_come_from_this_machine_and_not_through_a_proxy() {
    if !runs("curl", &["--version"]) {
        return;
    }
    let node = Secured::start();
    let url = format!("{}/v1/tags", node.url());
    let json = ["-H", "content-type: application/json", "-d", r#"{"tag":"orders"}"#, &url];
    let proxied = [&["-H", "via: 1.1 a"][..], &json].concat();
    assert!(curl(&node.pki.ca(), &proxied).stdout.ends_with("\n403"));
    assert!(curl(&node.pki.ca(), &json).stdout.ends_with("\n201"));
    let without = Finished::of(
        Command::new("curl")
            .args(["-s", &format!("https://127.0.0.1:{}/", port(node.http.addr()))]),
    );
    assert_eq!(without.code, Some(60), "a node of an unknown CA is not believed: {without:?}");
}
