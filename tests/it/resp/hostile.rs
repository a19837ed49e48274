//! Bytes that no proper client would send, and clients that stall.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use crate::harness::{Dev, RedisClient, Value, command, eventually, mintleaf, secs};

/// Reads until the node closes the connection.
fn read_all(client: &RedisClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    match client.stream().read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
    }
    bytes
}

fn works(dev: &Dev) {
    let pong = Value::Simple("PONG".to_owned());
    assert_eq!(RedisClient::connect(dev.resp(1)).ask("PING"), pong);
}

#[test]
fn what_is_no_command_is_named_and_ends_the_connection() {
    let dev = mintleaf().dev();
    let long = [&b"x".repeat(70_000)[..], b"\r\n"].concat();
    let two_parts =
        [&b"*3\r\n$3\r\nGET\r\n$60000\r\n"[..], &b"x".repeat(60_000), b"\r\n$60000\r\n"];
    let two_parts = [&two_parts.concat()[..], &b"x".repeat(60_000), b"\r\n"].concat();
    for (bytes, told) in [
        (&b"*1\r\n$2147483648\r\n"[..], "invalid bulk length"),
        (b"*1\r\n$65537\r\n", "invalid bulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*2147483647\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\r\n:4\r\n", "expected '$', got ':'"),
        (b"*1\r\n$3\r\nGETxx", "expected a line break"),
        (b"GET \"orders\r\n", "unbalanced quotes"),
        (&long, "too big inline request"),
        (&two_parts, "too big request"),
    ] {
        let mut client = RedisClient::connect(dev.resp(1));
        client.send(&command("PING"));
        assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
        // The node may close before everything is sent.
        let _ = client.stream().write_all(bytes);
        let answer = String::from_utf8(read_all(&client)).unwrap();
        assert!(answer.starts_with("-ERR Protocol error: ") && answer.contains(told), "{answer:?}");
    }
    works(&dev);
}

#[test]
fn a_browser_gets_nowhere() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nINCR orders\r\n");
    let answer = String::from_utf8(read_all(&client)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    let http = dev.url().rsplit_once(':').unwrap().1.to_owned();
    let told = format!("\r\n\r\nthis port speaks the Redis protocol; HTTP is at port {http}\n");
    assert!(answer.ends_with(&told), "{answer}");
    assert_eq!(RedisClient::connect(dev.resp(1)).ask("INCR orders"), Value::Integer(1));
    for line in ["GET / HTTP/1.1", "HEAD /livez HTTP/1.0", "DELETE /v1/tags/orders HTTP/1.1"] {
        let mut client = RedisClient::connect(dev.resp(1));
        client.send(format!("{line}\r\nHost: a\r\n\r\n").as_bytes());
        assert!(read_all(&client).starts_with(b"HTTP/1.1 400 "), "{line}");
    }
    // A command in the form that clients send is no request of HTTP.
    let wrong = RedisClient::connect(dev.resp(1)).ask("GET / HTTP/1.1");
    assert!(matches!(&wrong, Value::Error(text) if text.contains("wrong number")), "{wrong:?}");
}

/// Sends random bytes; the same seed gives the same bytes.
#[test]
fn junk_harms_nobody() {
    let dev = mintleaf().dev();
    for seed in 0..40_u64 {
        let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let junk: Vec<u8> = std::iter::repeat_with(|| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            if seed % 2 == 0 { word as u8 } else { b"*$\r\n0123456789INCR "[word as usize % 19] }
        })
        .take(5_000)
        .collect();
        let client = RedisClient::connect(dev.resp(1));
        let _ = client.stream().write_all(&junk);
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
        read_all(&client);
    }
    works(&dev);
}

#[test]
fn commands_may_come_byte_by_byte() {
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    client.stream().set_nodelay(true).unwrap();
    for round in 1..=3 {
        for byte in [command("INCR orders"), b"PING\r\n".to_vec()].concat() {
            client.send(&[byte]);
        }
        assert_eq!(client.answer(), Value::Integer(round));
        assert_eq!(client.answer(), Value::Simple("PONG".to_owned()));
    }
}

#[test]
fn a_client_that_sends_much_and_reads_late_gets_every_answer() {
    const COMMANDS: usize = 10_000;
    let dev = mintleaf().dev();
    let mut client = RedisClient::connect(dev.resp(1));
    let mut stream = client.stream().try_clone().unwrap();
    // After the answers to `INCR` come six megabytes, which is more than the sockets hold.
    let writer = std::thread::spawn(move || {
        stream.write_all(&command("INCR orders").repeat(COMMANDS)).unwrap();
        stream.write_all(&command("MINT many COUNT 10000").repeat(100)).unwrap();
    });
    std::thread::sleep(Duration::from_millis(500));
    for id in 1..=COMMANDS as u64 {
        assert_eq!(client.answer(), Value::Integer(id));
    }
    let mut last = 0;
    for _ in 0..100 {
        let ids = client.answer().ids();
        assert!(ids.len() == 10_000 && ids[0] > last && ids.is_sorted_by(|a, b| a < b));
        last = ids[9_999];
    }
    writer.join().unwrap();
}

#[test]
fn who_stalls_is_cut_off_and_who_rests_is_not() {
    let dev = mintleaf().dev();
    let mut resting = RedisClient::connect(dev.resp(1));
    assert_eq!(resting.ask("INCR orders"), Value::Integer(1));
    let unused = RedisClient::connect(dev.resp(1));
    let stalled = RedisClient::connect(dev.resp(1));
    let deaf = RedisClient::connect(dev.resp(1));
    deaf.stream().set_write_timeout(Some(secs(1))).unwrap();
    // A client that never reads: eventually the node stops reading from it.
    let flood = command("MINT deaf COUNT 10000").repeat(1_000);
    let _ = deaf.stream().write_all(&flood);
    let began = Instant::now();
    stalled.stream().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    eventually("the end of the connection", secs(25), || {
        let dripped = stalled.stream().write_all(b"x");
        match dripped.and_then(|()| stalled.stream().read(&mut [0])) {
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                None
            }
            _ => Some(()),
        }
    });
    assert!(began.elapsed() > secs(5), "cut off after {:?}", began.elapsed());
    eventually("the gauge", secs(25), || {
        dev.api().get("/metrics").text().contains("mintleaf_resp_connections 2\n").then_some(())
    });
    assert_eq!(resting.ask("INCR orders"), Value::Integer(2));
    drop(unused);
}
