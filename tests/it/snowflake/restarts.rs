//! Processes that are killed, started and paused.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use super::{Random, Windows, await_id, bounce, id_of, shown_ms, true_ms, worker_of};
use crate::harness::{Cluster, History, Load, Outcome, eventually, from_env, mintleaf, ms, secs};

#[test]
fn killed_and_paused_nodes_repeat_no_id() {
    let pause = secs(from_env("MINTLEAF_PAUSE_SECONDS", 2));
    let mut cluster = mintleaf().cluster(3);
    let mut windows = Windows::default();
    let load = Load::of_snowflakes(&cluster.targets(), 2);
    load.await_more(300);
    for id in cluster.ids() {
        cluster.kill(id);
        load.await_more(200);
        cluster.start_node(id);
        await_id(cluster.api(id));
        windows.note(&cluster);
    }
    for id in cluster.ids() {
        cluster.process(id).signal("STOP");
        thread::sleep(pause);
        cluster.process(id).signal("CONT");
        await_id(cluster.api(id));
        windows.note(&cluster);
    }
    load.await_more(300);
    let history = load.stop();
    windows.note(&cluster);
    let figures = windows.judge(history);
    assert!(figures.starts >= 6, "{figures}");
    println!("figures kills=3 pauses=3 pause_seconds={} {figures}", pause.as_secs());
}

#[test]
fn fast_restarts_of_one_node_repeat_no_id_and_cost_the_others_none() {
    let restarts = from_env("MINTLEAF_RESTARTS", 8);
    let mut random = Random::seeded();
    let mut cluster = mintleaf().cluster(3);
    let mut windows = Windows::default();
    let load = Load::of_snowflakes(&cluster.targets(), 2);
    load.await_more(200);
    let victim = cluster.leader();
    for restart in 0..restarts {
        // The kill comes at any time from before the node serves to well after its first ids.
        thread::sleep(ms(random.below(900)));
        bounce(&mut cluster, victim);
        if restart % 8 == 0 {
            await_id(cluster.api(victim));
            windows.note(&cluster);
        }
    }
    await_id(cluster.api(victim));
    load.await_more(200);
    let history = load.stop();
    windows.note(&cluster);
    let others_failed = history.failures().filter(|op| op.node != victim).count();
    let figures = windows.judge(history);
    assert_eq!(others_failed, 0, "the other nodes were not touched");
    println!("figures fast_restarts={restarts} {figures}");
}

/// The pool has 1,024 worker ids. With windows of an hour, each start takes another one until a start is
/// refused. With windows of a second, worker ids are given out again.
#[test]
fn every_start_ends_with_ids_never_seen_before_or_with_a_clear_refusal() {
    let starts = from_env("MINTLEAF_STARTS", 5);
    for window in ["1h", "1s"] {
        let mut cluster = mintleaf().prepare(1, &["--snowflake-window", window]);
        let mut history = History::default();
        let mut workers = BTreeSet::new();
        let mut refused = 0;
        for start in 0..starts {
            cluster.start_node(1);
            let began = Instant::now();
            match first_ids(&cluster) {
                Some(ids) => {
                    workers.insert(worker_of(ids[0]));
                    let given = ids.iter().map(|&id| (id, id + 1)).collect();
                    history.note(1, None, began, Outcome::Ids(given));
                    let off_ms = shown_ms(ids[0]).abs_diff(true_ms());
                    assert!(off_ms < 2_000, "start {start} is {off_ms} ms off");
                }
                None => refused += 1,
            }
            cluster.kill(1);
        }
        let expected = if window == "1h" { starts.saturating_sub(1_024) } else { 0 };
        assert_eq!(refused, expected, "of {starts} starts with windows of {window}");
        history.check();
        let (ids, workers) = (history.ids(), workers.len());
        println!(
            "figures starts={starts} window={window} refused={refused} ids={ids} workers={workers}"
        );
    }
}

/// The first 50 ids of a fresh process, or `None` because no worker id is free.
fn first_ids(cluster: &Cluster) -> Option<Vec<u64>> {
    eventually("ids or a refusal", secs(20), || {
        let answer = cluster.api(1).try_get("/v1/snowflake?count=50").ok()?;
        if answer.status == 200 {
            return Some(Some(answer.ids()));
        }
        let (status, code) = answer.problem();
        assert_eq!((status, code.as_str()), (503, "unavailable"));
        let detail = answer.json()["detail"].to_string();
        detail.contains("every worker id is in use").then_some(None)
    })
}

#[test]
fn a_clean_stop_gives_the_worker_id_back_and_the_next_start_goes_on_above() {
    let mut cluster = mintleaf().prepare(1, &["--snowflake-layout", "41+0+16"]);
    let mut highest = 0;
    for _ in 0..3 {
        cluster.start_node(1);
        let began = Instant::now();
        let id = await_id(cluster.api(1));
        // There is only one worker id, with a window of 60 s: waiting for its end would take longer.
        assert!(began.elapsed() < secs(10));
        assert!(id > highest, "{id} after {highest}");
        highest = eventually("more", secs(1), || id_of(cluster.api(1)));
        cluster.process(1).signal("TERM");
        assert_eq!(cluster.ended(1, secs(10)).0, Some(0));
    }
}
