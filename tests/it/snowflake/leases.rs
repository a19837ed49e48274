//! What the log grants: windows that end without a quorum, worker ids that are scarce or pinned, and one id
//! format for the whole cluster.

use std::time::Instant;

use super::{
    Windows, alarm, await_id, await_ready, await_unready, id_of, shown_ms, true_ms, worker_of,
};
use crate::harness::{Api, History, Load, Outcome, eventually, mintleaf, secs};

#[test]
fn without_a_quorum_ids_go_on_until_the_window_ends() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "4s"]);
    cluster.start_all();
    let node = cluster.leader();
    let api = cluster.api(node);
    let load = Load::of_snowflakes(&[(node, api.0)], 2);
    load.await_more(100);
    cluster.others(node).into_iter().for_each(|other| cluster.kill(other));
    let lost = Instant::now();
    let refused = eventually("the end of the window", secs(10), || {
        Some(api.get("/v1/snowflake")).filter(|answer| answer.status != 200)
    });
    // The window was renewed at the latest when half of it had passed. The refusal came after waiting for a quorum.
    let lasted = lost.elapsed();
    assert!(lasted > secs(1) && lasted < secs(8), "ids went on for {lasted:?}");
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    let reasons = await_unready(api);
    assert!(reasons.contains("snowflake") && reasons.contains("quorum"), "{reasons}");
    let fence_ms = api.get("/v1/workers").ok()["workers"][0]["fence_ms"].as_u64().unwrap();
    assert!(fence_ms <= true_ms());

    cluster.start_all();
    await_id(api);
    await_ready(api);
    load.await_more(100);
    load.stop().check();
}

#[test]
fn a_node_of_another_format_refuses_to_start() {
    let mut cluster = mintleaf().cluster(3);
    let changed = [("EPOCH_MS", "1500000000000"), ("LAYOUT", "41+6+6")];
    for (node, (name, value)) in [1, 2].into_iter().zip(changed) {
        cluster.kill(node);
        cluster.set_env(node, &format!("MINTLEAF_SNOWFLAKE_{name}"), value);
        cluster.start_node(node);
        let (code, log) = cluster.ended(node, secs(10));
        assert_eq!(code, Some(2), "{log}");
        let told = log.lines().rev().find(|line| line.contains("start it with")).unwrap();
        // The message names a setting as it was given, and a setting that was not given by its flag.
        let as_given = |other: &str| match other == name {
            true => format!("MINTLEAF_SNOWFLAKE_{name}"),
            false => format!("--snowflake-{}", other.to_lowercase().replace('_', "-")),
        };
        for (other, value) in [("LAYOUT", "41+10+12"), ("EPOCH_MS", "1288834974657")] {
            assert!(told.contains(&format!("{} {value}", as_given(other))), "{told}");
        }
        // A node with the right format still starts.
        let right = if name == "LAYOUT" { "41+10+12" } else { "1288834974657" };
        cluster.set_env(node, &format!("MINTLEAF_SNOWFLAKE_{name}"), right);
        cluster.start_node(node);
        await_id(cluster.api(node));
    }
}

#[test]
fn pinned_worker_ids_are_used_and_still_fenced() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "2s"]);
    for id in cluster.ids() {
        cluster.set_env(id, "MINTLEAF_SNOWFLAKE_WORKER_ID", format!("{}", 100 + id));
    }
    cluster.start_all();
    let load = Load::of_snowflakes(&cluster.targets(), 1);
    for node in cluster.ids() {
        let id = await_id(cluster.api(node));
        assert_eq!(u64::from(worker_of(id)), 100 + node);
        let decoded = cluster.api(1).get(&format!("/v1/snowflake/{id}")).ok();
        assert_eq!(decoded["worker_id"], 100 + node);
        assert_eq!(decoded["timestamp_ms"], shown_ms(id));
    }
    // The next start of a killed node waits until the old window has ended, and continues above it.
    super::bounce(&mut cluster, 1);
    assert_eq!(worker_of(await_id(cluster.api(1))), 101);
    // A worker id is refused while another node holds it.
    cluster.kill(2);
    cluster.set_env(2, "MINTLEAF_SNOWFLAKE_WORKER_ID", "103");
    cluster.start_node(2);
    let api = cluster.api(2);
    eventually("a refusal", secs(10), || {
        let answer = api.try_get("/v1/snowflake").ok().filter(|answer| answer.status != 200)?;
        answer.json()["detail"].to_string().contains("in use").then_some(())
    });
    assert!(alarm(api, "pool_exhausted"));
    cluster.kill(3);
    assert_eq!(worker_of(await_id(api)), 103);
    // The ids of one worker id rise, also from one process to the next and from one node to another.
    load.stop().check();
}

#[test]
fn a_pool_in_use_is_a_clear_refusal_and_passes_once_a_window_ends() {
    let flags = ["--snowflake-window", "2s", "--snowflake-layout", "41+1+12"];
    let mut cluster = mintleaf().prepare(3, &flags);
    (1..=3).for_each(|id| cluster.start_node(id));
    cluster.leader();
    let load = Load::of_snowflakes(&cluster.targets(), 1);
    let without = eventually("a node without a worker id", secs(15), || {
        let mut nodes = cluster.ids();
        nodes.retain(|&id| id_of(cluster.api(id)).is_none());
        <[u64; 1]>::try_from(nodes).ok()
    })[0];
    let api = cluster.api(without);
    eventually("a refusal", secs(5), || {
        let answer = api.get("/v1/snowflake");
        assert_eq!(answer.problem(), (503, "unavailable".to_owned()));
        answer.json()["detail"].to_string().contains("every worker id is in use").then_some(())
    });
    assert!(alarm(api, "pool_exhausted"));
    assert_eq!(api.get("/api/snowflake/get/any").status, 503);

    let holder = cluster.others(without)[0];
    cluster.kill(holder);
    await_id(api);
    eventually("the end of the alarm", secs(5), || (!alarm(api, "pool_exhausted")).then_some(()));
    load.stop().check();
}

#[test]
fn a_node_in_demand_takes_more_worker_ids_and_repeats_no_id() {
    let mut cluster = mintleaf().prepare(1, &[]);
    cluster.start_all();
    let api = cluster.api(1);
    let mut history = History::default();
    eventually("more than one worker id", secs(20), || {
        take_many(api, &mut history);
        (api.get("/v1/workers").ok()["workers"].as_array()?.len() > 2).then_some(())
    });
    // The last worker ids give ids, too.
    (0..20).for_each(|_| take_many(api, &mut history));
    let mut windows = Windows::default();
    windows.note(&cluster);
    println!("figures {}", windows.judge(history));
}

/// Asks for as many ids as a worker id has in 245 ms.
fn take_many(api: Api, history: &mut History) {
    let began = Instant::now();
    let answer = api.get("/v1/snowflake?count=1000000&format=ranges");
    let outcome = match answer.status {
        200 => Outcome::Ids(answer.intervals().unwrap()),
        status => Outcome::Refused(status),
    };
    history.note(1, None, began, outcome);
}
