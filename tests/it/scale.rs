//! A node with a great many tags.

use std::fs;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Api, Dev, Load, from_env, mintleaf, ms};

/// How many connections create tags at the same time.
const WRITERS: u64 = 8;

fn create(api: Api, numbers: Range<u64>) {
    for number in numbers {
        let tag = json!({ "tag": format!("tag-{number:06}"), "step": number % 9 + 1 });
        assert_eq!(api.post("/v1/tags", &tag).status, 201);
    }
}

/// Counts all tags, page by page, and checks that each has the step that it was created with.
fn count(api: Api) -> u64 {
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = api.get(&format!("/v1/tags?limit=1000{after}")).ok();
        for tag in page["tags"].as_array().unwrap() {
            let name = tag["tag"].as_str().unwrap();
            if let Some(number) = name.strip_prefix("tag-") {
                let number: u64 = number.parse().unwrap();
                assert_eq!((number, &tag["step"]), (seen, &json!(seen % 9 + 1)));
                seen += 1;
            }
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return seen,
        }
    }
}

/// Checks that a snapshot has replaced a log that is long enough.
fn assert_snapshot_taken(dev: &Dev) {
    let cluster = dev.api().get("/v1/cluster").ok();
    let entries = cluster["nodes"][0]["last_log_index"].as_u64().unwrap();
    let snapshots = fs::read_dir(dev.dir().join("data/node-1/snapshot")).unwrap().count();
    println!("{entries} log entries, {snapshots} files of snapshots");
    assert!(entries < 25_000 || snapshots > 0);
}

#[test]
fn many_tags_are_created_at_once_and_survive_a_kill_and_do_not_delay_ids() {
    let tags = from_env("MINTLEAF_TAGS", 4_000);
    let mut dev = mintleaf().dev();
    let api = dev.api();
    let load = Load::start(&[(1, api.0)], &["orders".to_owned()], 2);
    let began = Instant::now();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let share = writer * tags / WRITERS..(writer + 1) * tags / WRITERS;
            scope.spawn(move || create(api, share));
        }
    });
    println!("{tags} tags in {:?}", began.elapsed());
    let history = load.stop();
    history.check();
    assert_eq!(history.failures().count(), 0);
    let mut took: Vec<Duration> = history.0.iter().map(|op| op.ended - op.began).collect();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    println!("{} requests for ids meanwhile: p99 {p99:?}, max {:?}", took.len(), took.last());
    // Requests for ids need no log, so a machine that is busy with writers still serves them at once.
    assert!(p99 < ms(500), "p99 is {p99:?}");

    assert_snapshot_taken(&dev);
    assert_eq!(count(api), tags);
    dev.restart();
    assert_eq!(count(dev.api()), tags);
}
