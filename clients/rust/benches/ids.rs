//! How fast a client hands out ids, on one thread and on two. A server in the same process answers each request
//! for a lease at once, so what is measured is the client's own cost.
//!
//! A handle is measured over a million ids at a time, which is one lease, requests included.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on ends")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use mintleaf_client::{Client, Layout, Pool, blocking};

/// How many ids one measured loop takes.
const IDS: u64 = 1_000_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let client = Client::builder().endpoints([format!("http://{}", serve())]).build().unwrap();
    let threads = blocking::Client::from(client.clone());
    // Sizes grow to the largest lease.
    for _ in 0..20 * IDS {
        threads.next_id("orders").unwrap();
    }
    let mut group = criterion.benchmark_group("client");
    group.throughput(Throughput::Elements(IDS));
    let mut handle = threads.handle("orders").unwrap();
    group.bench_function("handle, blocking", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                black_box(handle.next_id().unwrap());
            }
        });
    });
    let mut handle = client.handle("orders").unwrap();
    group.bench_function("handle, async", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                match at_once(handle.next_id()) {
                    Some(id) => black_box(id.unwrap()),
                    None => threads.next_id("orders").unwrap(),
                };
            }
        });
    });
    group.bench_function("next_id(tag), blocking", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                black_box(threads.next_id(black_box("orders")).unwrap());
            }
        });
    });
    group.bench_function("next_id(tag), async", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                match at_once(client.next_id(black_box("orders"))) {
                    Some(id) => black_box(id.unwrap()),
                    None => threads.next_id("orders").unwrap(),
                };
            }
        });
    });
    group.bench_function("next_snowflake(), blocking", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                black_box(threads.next_snowflake().unwrap());
            }
        });
    });
    generate(&mut group, &threads);
    from_two_threads(&mut group, &threads);
    group.finish();
    client.close();
    criterion.final_summary();
}

/// Snowflakes of a leased worker id.
fn generate(group: &mut BenchmarkGroup<'_, WallTime>, client: &blocking::Client) {
    // It makes more ids than 4,096 a millisecond, so its time runs ahead: the lease lasts an hour.
    let lease = client.lease_worker(Pool::new("shops").seconds(3_600)).unwrap();
    let snowflakes = lease.into_generator(Layout::default()).unwrap();
    group.bench_function("generator", |bench| {
        bench.iter(|| {
            for _ in 0..IDS {
                black_box(snowflakes.next_id().unwrap());
            }
        });
    });
}

fn from_two_threads(group: &mut BenchmarkGroup<'_, WallTime>, client: &blocking::Client) {
    group.throughput(Throughput::Elements(2 * IDS));
    group.bench_function("next_id(tag), two threads", |bench| {
        bench.iter_custom(|rounds| {
            let began = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..rounds * IDS {
                            black_box(client.next_id(black_box("orders")).unwrap());
                        }
                    });
                }
            });
            began.elapsed()
        });
    });
}

/// The result of a future that is ready without a wait.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Starts a server that answers each request with the ids after those of the previous answer.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let next = Arc::new(AtomicU64::new(1));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let next = Arc::clone(&next);
            std::thread::spawn(move || answer_all(stream.unwrap(), &next));
        }
    });
    at
}

fn answer_all(mut stream: TcpStream, next: &AtomicU64) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let (mut count, mut is_lease) = (0, false);
    while let Some(Ok(line)) = lines.next() {
        if let Some((_, rest)) = line.split_once("count=") {
            count = rest.split(['&', ' ']).next().unwrap().parse().unwrap();
        } else if line.starts_with("POST") {
            is_lease = true;
        } else if line.is_empty() && is_lease {
            let body = r#"{"worker_id":17,"lease":"17-1","from_ms":"1800000000000","until_ms":"1800003600000"}"#;
            let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", body.len());
            // Its own body is left unread, so this connection carries no further request.
            drop(stream.write_all(format!("{head}{body}").as_bytes()));
            return;
        } else if line.is_empty() {
            let start = next.fetch_add(count, Ordering::Relaxed);
            let end = start + count;
            // Each answer carries both shapes; the client reads the one that it asked for.
            let body =
                format!(r#"{{"ids":["{start}"],"ranges":[{{"start":"{start}","end":"{end}"}}]}}"#);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                return;
            }
        }
    }
}
