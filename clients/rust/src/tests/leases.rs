//! Sizes, flights, threads and old snowflakes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::script::{Act, Line, Script, settled, take};
use crate::error::Error;
use crate::settings::Settings;

fn line_of_ids() -> Script {
    let mut line = Line(1);
    Script::new(1, move |_, request| line.answer(request))
}

/// The sizes of the leases that the client has asked for since the previous call.
fn sizes(script: &Script) -> Vec<u64> {
    let size = |path: String| {
        let count = path.split_once("count=")?.1.strip_suffix("&format=ranges")?;
        count.parse().ok()
    };
    script.paths().into_iter().filter_map(size).collect()
}

#[tokio::test(start_paused = true)]
async fn every_id_is_handed_out_once_and_none_is_left_out() {
    let script = line_of_ids();
    let client = script.client();
    assert_eq!(take(&client, 20_000).await, (1..=20_000).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn sizes_follow_use() {
    let script = line_of_ids();
    let client = script.client();
    for _ in 0..3_000 {
        take(&client, 1).await;
        sleep(Duration::from_millis(10)).await;
    }
    let steady = sizes(&script);
    assert_eq!(steady[..2], [101, 400], "a hundred, and then as much as is allowed");
    assert_eq!(steady[4..], vec![1_000; steady.len() - 4], "100 a second for ten seconds");
    for _ in 0..3_000 {
        take(&client, 1).await;
        sleep(Duration::from_secs(1)).await;
    }
    let slow = sizes(&script);
    assert!(slow.contains(&10), "{slow:?}: one a second for ten seconds");
    take(&client, 100_000).await;
    let burst = sizes(&script);
    assert!(burst.windows(2).all(|pair| pair[1] <= pair[0] * 4), "{burst:?}");
    assert!(burst.iter().max() > Some(&100_000), "{burst:?}");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_nobody_uses_asks_for_nothing() {
    let script = line_of_ids();
    let client = script.client();
    take(&client, 40).await;
    script.seen();
    sleep(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(script.seen(), []);
    assert_eq!(take(&client, 1).await, [41], "and what it holds is still its own");
}

#[tokio::test(start_paused = true)]
async fn range_too_small() {
    let script = line_of_ids();
    let client = script.client_with(Settings { lease_max: 10, ..Settings::default() });
    take(&client, 5).await;
    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let client = client.clone();
        calls.spawn(async move { client.next_ids("orders", 37).await });
    }
    let mut ids: Vec<u64> = calls.join_all().await.into_iter().flat_map(Result::unwrap).collect();
    ids.sort_unstable();
    assert_eq!(ids, (6..6 + 30 * 37).collect::<Vec<_>>());
    assert!(sizes(&script).iter().all(|&size| size <= 10));
}

#[tokio::test(start_paused = true)]
async fn a_call_for_much_is_not_passed_by_calls_for_little() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| {
        Act::Late(Duration::from_millis(100), Box::new(line.answer(request)))
    });
    let client = script.client_with(Settings { lease_max: 50, ..Settings::default() });
    take(&client, 1).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    for count in [400, 1, 1] {
        let (client, order) = (client.clone(), Arc::clone(&order));
        calls.spawn(async move {
            client.next_ids("orders", count).await.unwrap();
            order.lock().unwrap().push(count);
        });
        settled().await;
    }
    calls.join_all().await;
    assert_eq!(*order.lock().unwrap(), [400, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn one_flight_a_line() {
    let mut line = Line(1);
    let script = Script::new(3, move |_, request| {
        Act::Late(Duration::from_millis(5), Box::new(line.answer(request)))
    });
    let client = script.client();
    let mut calls = JoinSet::new();
    for _ in 0..2_000 {
        let client = client.clone();
        calls.spawn(async move { client.next_id("orders").await.unwrap() });
    }
    let ids: HashSet<u64> = calls.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 2_000);
    // The first lease is for all waiting calls and a hundred more. More than half of it is used at once, so the
    // next follows.
    assert_eq!(sizes(&script), [2_099, 400]);
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_are_turned_away() {
    let script = Script::new(1, |_, _| Act::Silence);
    let client = script.client();
    let mut calls = JoinSet::new();
    for _ in 0..10_005 {
        let client = client.clone();
        calls.spawn(async move { client.next_id("orders").await.unwrap_err() });
    }
    let errors = calls.join_all().await;
    let overloaded = errors.iter().filter(|error| **error == Error::Overloaded).count();
    assert_eq!(overloaded, 5);
}

#[test]
fn threads_share_a_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script = line_of_ids();
    let client = {
        let _entered = runtime.enter();
        script.client_with(Settings { lease_max: 1_000, ..Settings::default() })
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let engine = std::thread::spawn(move || runtime.block_on(stopped));
    let client = crate::blocking::Client::from(client);
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let client = client.clone();
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                let mut handle = client.handle("orders").unwrap();
                while ids.len() < 20_000 {
                    match number % 3 {
                        0 => ids.push(client.next_id("orders").unwrap()),
                        1 => ids.extend(client.next_ids("orders", 7).unwrap()),
                        _ => ids.push(handle.next_id().unwrap()),
                    }
                }
                ids
            })
        })
        .collect();
    let ids: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let different: HashSet<_> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "an id twice");
    // The ids missing here are those that the two handles held at their end, and those that are still held.
    let highest = ids.iter().max().copied().unwrap();
    assert!(highest - ids.len() as u64 <= 2 * 125 + 1_000, "{highest} for {}", ids.len());
    client.close();
    stop.send(()).unwrap();
    engine.join().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn old_snowflakes_are_thrown_away() {
    let script = line_of_ids();
    let client = script.client();
    for _ in 0..200 {
        client.next_snowflake().await.unwrap();
    }
    let held = script.paths().len();
    assert!(held < 20, "{held} requests: they are leased");
    let last = client.next_snowflake().await.unwrap();
    sleep(Duration::from_millis(999)).await;
    assert_eq!(client.next_snowflake().await, Ok(last + 1), "still fresh");
    script.seen();
    sleep(Duration::from_millis(1)).await;
    let next = client.next_snowflake().await.unwrap();
    assert!(next > last + 2, "{next} after {last}: the old ones are gone");
    assert!(!script.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_snowflake_now_and_then_is_asked_for_when_it_is_wanted() {
    let script = line_of_ids();
    let client = script.client();
    for _ in 0..10 {
        client.next_snowflake().await.unwrap();
        sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(script.paths(), vec!["/v1/snowflake?count=2&format=ranges"; 10]);
}
