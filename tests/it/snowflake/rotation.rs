//! Which wrong clocks do no harm, which take a node out of rotation, and which ids show wrong times.

use std::thread;
use std::time::{Duration, Instant};

use super::{
    HOUR_MS, TEN_YEARS_MS, Windows, alarm, await_id, await_ready, await_unready, id_of, off_by_ms,
};
use crate::harness::{Api, Cluster, Load, WallClocks, eventually, mintleaf, ms, secs};

/// How far the ids of a node with a correct clock may be off, in milliseconds. Two clocks are read, with a
/// request in between.
const OFF_MS_MAX: u64 = 1_000;

#[test]
fn steps_of_five_milliseconds_cost_no_request() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "steps_of_five_milliseconds") else { return };
    cluster.start_all();
    let all = cluster.ids();
    let load = Load::of_snowflakes(&cluster.targets(), 2);
    for step in 0..60 {
        let by_ms = [5, -5, 0, -5, 5][step % 5];
        // The clock of one node is moved for a while, then the clocks of all nodes.
        let ids = if step < 30 { &all[..1] } else { &all[..] };
        ids.iter().for_each(|&id| clocks.shift(id, by_ms));
        thread::sleep(ms(40));
    }
    load.await_more(100);
    let history = load.stop();
    assert_eq!(history.failures().next().map(|op| format!("{op:?}")), None);
    let mut windows = Windows::default();
    windows.note(&cluster);
    println!("figures steps=60 {}", windows.judge(history));
}

#[test]
fn a_node_an_hour_off_is_out_of_rotation_until_its_clock_is_right() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "3s"]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a_node_an_hour_off") else { return };
    cluster.start_all();
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let load = Load::of_snowflakes(&cluster.targets(), 2);
    let mut windows = Windows::default();
    for (wrong, by_ms) in [(follower, HOUR_MS), (leader, -HOUR_MS), (follower, -HOUR_MS)] {
        let api = cluster.api(wrong);
        clocks.shift(wrong, by_ms);
        let reasons = await_unready(api);
        assert!(reasons.contains("clock"), "{reasons}");
        await_refusals(api);
        eventually("an alarm", secs(3), || alarm(api, "clock_skewed").then_some(()));
        for right in cluster.others(wrong) {
            assert_eq!(cluster.api(right).get("/readyz").status, 200, "node {right}");
            assert!(!alarm(cluster.api(right), "clock_skewed"));
        }
        clocks.shift(wrong, 0);
        await_ready(api);
        assert!(off_by_ms(await_id(api)) < OFF_MS_MAX);
        windows.note(&cluster);
    }
    let third = cluster.others(leader)[1];
    let history = load.stop();
    assert_eq!(history.failures().filter(|op| op.node == third).count(), 0);
    windows.note(&cluster);
    windows.judge(history);
}

/// Waits until a node refuses ids on both interfaces.
fn await_refusals(api: Api) {
    let refused = eventually("no more ids", secs(10), || {
        Some(api.get("/v1/snowflake")).filter(|answer| answer.status != 200)
    });
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    assert!(!refused.header("retry-after").is_empty());
    let leafs = api.get("/api/snowflake/get/any");
    let message = leafs.json()["message"].as_str().unwrap().to_owned();
    match leafs.status {
        500 => assert_eq!(message, "Result{id=-3, status=EXCEPTION}"),
        status => assert_eq!((status, &*message), (503, "Result{id=-1, status=EXCEPTION}")),
    }
}

#[test]
fn a_node_that_starts_an_hour_off_serves_once_its_clock_is_right() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a_node_that_starts") else { return };
    clocks.shift(3, -HOUR_MS);
    (1..=3).for_each(|id| cluster.start_node(id));
    (1..=2).for_each(|id| await_ready(cluster.api(id)));
    for id in 1..=2 {
        assert!(off_by_ms(await_id(cluster.api(id))) < OFF_MS_MAX);
    }
    eventually("the reason", secs(10), || {
        await_unready(cluster.api(3)).contains("clock").then_some(())
    });
    await_refusals(cluster.api(3));
    clocks.shift(3, 0);
    await_ready(cluster.api(3));
    assert!(off_by_ms(await_id(cluster.api(3))) < OFF_MS_MAX);
}

#[test]
fn a_leader_years_ahead_leaves_the_times_of_others_right() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "2s"]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a_leader_years_ahead") else { return };
    cluster.start_all();
    let leader = cluster.leader();
    let others = cluster.others(leader);
    clocks.shift(leader, TEN_YEARS_MS);
    await_unready(cluster.api(leader));
    // Under this leader all windows are renewed, and a new one is taken.
    super::bounce(&mut cluster, others[0]);
    await_right_times(&cluster, &others, secs(4));

    // A leader that comes back knows only its own clock at first.
    for id in cluster.ids() {
        cluster.kill(id);
    }
    cluster.start_node(leader);
    thread::sleep(ms(300));
    others.iter().for_each(|&id| cluster.start_node(id));
    await_right_times(&cluster, &others, secs(4));
}

#[test]
fn clocks_that_are_all_wrong_at_the_start_do_no_harm_once_they_are_right() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "clocks_that_are_all_wrong") else { return };
    cluster.ids().into_iter().for_each(|id| clocks.shift(id, HOUR_MS));
    cluster.start_all();
    cluster.ids().into_iter().for_each(|id| clocks.shift(id, 0));
    for id in cluster.ids() {
        assert!(off_by_ms(await_id(cluster.api(id))) < OFF_MS_MAX);
        await_ready(cluster.api(id));
    }
}

/// The ids of a process never fall. So a process that gave ids from the future has none to give until that time
/// comes. A new process has some.
#[test]
fn nodes_that_gave_ids_from_the_future_say_so_and_start_anew_with_right_times() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "nodes_that_gave_ids") else { return };
    cluster.ids().into_iter().for_each(|id| clocks.shift(id, HOUR_MS));
    cluster.start_all();
    let early: Vec<u64> = cluster.ids().iter().map(|&id| await_id(cluster.api(id))).collect();
    assert!(early.iter().all(|&id| off_by_ms(id).abs_diff(HOUR_MS as u64) < OFF_MS_MAX));
    cluster.ids().into_iter().for_each(|id| clocks.shift(id, 0));
    for id in cluster.ids() {
        let reasons = await_unready(cluster.api(id));
        assert!(reasons.contains("the clock went back"), "{reasons}");
        await_refusals(cluster.api(id));
        assert!(alarm(cluster.api(id), "clock_behind"));
    }
    for id in cluster.ids() {
        super::bounce(&mut cluster, id);
        assert!(off_by_ms(await_id(cluster.api(id))) < OFF_MS_MAX);
        await_ready(cluster.api(id));
    }
}

/// Checks that ids show the correct time. Nodes may have none at first.
fn await_right_times(cluster: &Cluster, ids: &[u64], lasts: Duration) {
    let began = Instant::now();
    while began.elapsed() < lasts {
        for &node in ids {
            if let Some(id) = id_of(cluster.api(node)) {
                let off_ms = off_by_ms(id);
                assert!(off_ms < OFF_MS_MAX, "node {node} is {off_ms} ms off");
            }
        }
        thread::sleep(ms(10));
    }
    for &node in ids {
        await_id(cluster.api(node));
    }
}
