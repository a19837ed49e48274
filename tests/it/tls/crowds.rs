//! Handshakes that never end: the resources that a crowd of them takes, and the clients that have to wait for it.

use std::io::Write;
use std::net::TcpStream;
use std::thread::available_parallelism;
use std::time::Instant;

use super::Secured;
use crate::exhaustion::slow_readers::resident;
use crate::exhaustion::{ELSEWHERE, HERE, connect, raise_own_limit};
use crate::harness::{RedisClient, Value, eventually, secs};

/// How many handshakes of one origin a worker thread has in flight.
const OF_ONE_ORIGIN: usize = 256;
/// As many as one origin has places for, on any machine.
const STALLED_MAX: usize = 4_000;
/// The most bytes of a handshake that a node keeps. The other memory of a stalled handshake is small in comparison.
const UNFINISHED_BYTES: usize = 60_000;

/// A client that has sent most of a handshake message, in records of 15,000 bytes.
fn stalled(node: &Secured) -> TcpStream {
    let mut stream = connect(HERE, node.http.addr(), None);
    let mut message = vec![1, 0, 0xff, 0xff];
    message.resize(UNFINISHED_BYTES, 0);
    for part in message.chunks(15_000) {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        let record = [&[0x16, 3, 1], &length[..], part].concat();
        if stream.write_all(&record).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn a_crowd_of_handshakes_that_stall_takes_bounded_memory_and_makes_nobody_else_wait() {
    let in_flight = available_parallelism().unwrap().get() * OF_ONE_ORIGIN;
    let count = (3 * in_flight).min(STALLED_MAX);
    if count < in_flight + 500 {
        eprintln!("SKIPPED: a crowd has room on so many cores");
        return;
    }
    raise_own_limit();
    let node = Secured::start();
    let client = node.client();
    let before = resident(node.process.pid());
    let crowd: Vec<TcpStream> = (0..count).map(|_| stalled(&node)).collect();
    let more = resident(node.process.pid()).saturating_sub(before);
    println!("{} stalled handshakes: {} MB more", crowd.len(), more >> 20);
    // Each connection takes a little memory, even if its handshake has not begun.
    let bound = in_flight * 2 * UNFINISHED_BYTES + count * 8 * 1024;
    assert!(more < bound as u64, "{} MB more, and {} MB are allowed", more >> 20, bound >> 20);

    let began = Instant::now();
    let mut elsewhere = RedisClient::over(client.over(connect(ELSEWHERE, node.resp.addr(), None)));
    assert!(matches!(elsewhere.ask("INCR orders"), Value::Integer(_)));
    println!("a client elsewhere was served after {:?}", began.elapsed());
    assert!(began.elapsed() < secs(5), "{:?}", began.elapsed());
    // Stalled handshakes make room for others of the same origin that do not stall.
    let mut here = RedisClient::over(client.over(connect(HERE, node.resp.addr(), None)));
    assert!(matches!(here.ask("INCR orders"), Value::Integer(_)));
    println!("a client of the same address was served after {:?}", began.elapsed());
    let failed = "mintleaf_tls_handshakes_failed_total{protocol=\"http\"}";
    eventually("stalled handshakes to end", secs(20), || {
        (node.metric(failed) >= 100.0).then_some(())
    });
}
