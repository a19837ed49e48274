//! Worker ids and generators, where the cases of `conformance` do not look: threads, layouts, and the async client.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mintleaf_client::{Client, Error, Layout, Pool};
use mintleaf_conformance::request::{Kind, Request};
use mintleaf_conformance::stage::Stage;
use serde_json::json;

/// The first millisecond of the first lease of a scripted node.
const FROM_MS: u64 = 1_800_000_000_000;
const EPOCH_MS: u64 = 1_288_834_974_657;

fn node() -> Stage {
    let case = json!({"name": "a", "of": "a", "about": "", "endpoints": 1, "steps": []});
    Stage::new(serde_json::from_value(case).unwrap()).unwrap()
}

fn client(node: &Stage) -> Client {
    Client::builder().endpoints(node.endpoints()).build().unwrap()
}

/// The requests that gave leases back.
fn given_back(node: &Stage) -> Vec<Request> {
    let requests = node.seen().into_iter().map(|seen| seen.request);
    requests.filter(|request| request.kind == Kind::GiveBack).collect()
}

/// The request that gives a lease back, once it has arrived.
fn await_given_back(node: &Stage) -> Request {
    let began = Instant::now();
    loop {
        if let Some(request) = given_back(node).pop() {
            return request;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "nothing is given back");
        thread::yield_now();
    }
}

#[test]
fn threads_share_a_generator() {
    const THREADS: usize = 4;
    let node = node();
    let client = mintleaf_client::blocking::Client::from(client(&node));
    let lease = client.lease_worker("shops").unwrap();
    let snowflakes = lease.into_generator(Layout::default()).unwrap();
    let (each, arrived) = mpsc::channel();
    let all: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (snowflakes, each) = (&snowflakes, each.clone());
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    loop {
                        match snowflakes.next_id() {
                            Ok(id) => ids.push(id),
                            Err(error) => return (ids, error),
                        }
                        if ids.len() == 50_000 {
                            each.send(()).unwrap();
                        }
                    }
                })
            })
            .collect();
        (0..THREADS).for_each(|_| arrived.recv().unwrap());
        client.close();
        let mut all = Vec::new();
        for thread in threads {
            let (mut ids, error) = thread.join().unwrap();
            assert_eq!(error, Error::Closed);
            assert!(ids.is_sorted(), "ids rise for each thread");
            all.append(&mut ids);
        }
        all
    });
    let different: HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "an id twice");
    let highest = all.iter().max().unwrap();
    let last_ms: u64 =
        given_back(&node)[0].field("last_ms").unwrap().as_str().unwrap().parse().unwrap();
    assert_eq!(last_ms, (highest >> 22) + EPOCH_MS, "the highest millisecond");
}

#[tokio::test]
async fn an_async_program_registers_leases_and_gives_back() {
    let node = node();
    let client = client(&node);
    let registered = client.register("invoices", "order-1").await.unwrap();
    assert_eq!(
        (registered.id, registered.text.as_str(), registered.is_new),
        (1, "INV-000001", true)
    );
    let pool = Pool::new("shops").seconds(600).holder("shop-7");
    let lease = client.lease_worker(pool).await.unwrap();
    let asked = node.seen().pop().unwrap().request.body;
    assert_eq!(asked, r#"{"holder":"shop-7","seconds":600}"#);
    assert_eq!((lease.pool(), lease.worker_id(), lease.from_ms()), ("shops", 1, FROM_MS));
    assert_eq!(lease.until_ms(), FROM_MS + 600_000);
    assert!(lease.may_stamp(FROM_MS + 5));
    let snowflakes = lease.into_generator(Layout::default()).unwrap();
    let id = snowflakes.next_id().unwrap();
    assert!((id >> 22) + EPOCH_MS > FROM_MS + 5, "not a millisecond that was stamped before");
    assert_eq!((id >> 12 & 1023, snowflakes.worker_id()), (1, 1));
    snowflakes.close().await;
    assert_eq!(given_back(&node).len(), 1);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(snowflakes.next_id(), Err(Error::Closed));
    snowflakes.close().await;
    client.close();
    assert_eq!(given_back(&node).len(), 1, "once");
}

#[test]
fn a_lease_that_is_dropped_is_given_back() {
    let node = node();
    let client = mintleaf_client::blocking::Client::from(client(&node));
    let lease = client.lease_worker("shops").unwrap();
    assert!(lease.may_stamp(FROM_MS + 9));
    drop(lease);
    let request = await_given_back(&node);
    assert_eq!(request.field("last_ms"), Some(json!((FROM_MS + 9).to_string())));
}

#[test]
fn a_layout_has_room_for_the_lease_or_names_what_does_not_fit() {
    let node = node();
    let client = mintleaf_client::blocking::Client::from(client(&node));
    let generator = |layout: Layout| client.lease_worker("shops").unwrap().into_generator(layout);
    let fault = |layout: Layout| match generator(layout) {
        Err(Error::InvalidArgument(fault)) => fault,
        other => panic!("{other:?}"),
    };
    assert!(fault(Layout::default().worker_bits(0)).contains("worker_bits must be 1 to 22, not 0"));
    assert!(
        fault(Layout::default().sequence_bits(23))
            .contains("sequence_bits must be 1 to 22, not 23")
    );
    assert_eq!(fault(Layout::default().worker_bits(1)), "worker id 3 has more than 1 bits");
    assert!(
        fault(Layout::default().epoch_ms(FROM_MS + 3_000_000)).contains("epoch_ms must be before")
    );
    assert!(fault(Layout::default().epoch_ms(0).sequence_bits(22)).contains("not too long before"));
    drop(client.lease_worker("shops").unwrap());
    let layout = Layout::default().epoch_ms(FROM_MS).worker_bits(4).sequence_bits(3);
    let snowflakes = generator(layout).unwrap();
    let ids: Vec<u64> = (0..100).map(|_| snowflakes.next_id().unwrap()).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    assert!(ids.iter().all(|id| id >> 3 & 15 == 7 && id >> 7 >= 6_000_000), "{ids:?}");
    client.close();
    assert_eq!(given_back(&node).len(), 7, "also those that were of no use");
}

#[test]
fn settings_of_a_pool_that_cannot_be_are_named() {
    let node = node();
    let client = mintleaf_client::blocking::Client::from(client(&node));
    let fault = |pool: Pool| client.lease_worker(pool).unwrap_err().to_string();
    assert!(fault(Pool::new("")).contains("pool must have 1 to 128 characters"));
    assert!(fault(Pool::new("a").seconds(4)).contains("seconds must be 5 to 3600, not 4"));
    assert!(fault(Pool::new("a").holder("x".repeat(129))).contains("holder must have at most 128"));
    assert_eq!(node.seen().len(), 0);
}
