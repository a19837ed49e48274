//! The snowflake floor and the pool of worker ids: what no id shows from now on, and which worker ids are used.

use std::time::Instant;

use serde_json::json;

use super::{await_id, id_of, shown_ms, true_ms, worker_of};
use crate::harness::{Answer, Api, Cluster, Finished, LAYOUT, Load, eventually, mintleaf, secs};

/// The lowest id of the default layout with this time.
fn id_at(time_ms: u64) -> u64 {
    (time_ms - LAYOUT.epoch_ms) << 22
}

fn raise(api: Api, id: u64) -> Answer {
    api.post("/v1/snowflake/floor", &json!({ "id": id.to_string() }))
}

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().unwrap().to_owned()
}

/// The fence of the window that `holder` has, according to `asked`.
fn window_of(cluster: &Cluster, asked: u64, holder: u64) -> Option<u64> {
    let shown = cluster.api(asked).get("/v1/workers").ok();
    let rows = shown["workers"].as_array()?;
    rows.iter().find(|row| row["node_id"] == json!(holder) && !row["boot"].is_null())?["fence_ms"]
        .as_u64()
}

/// Fails unless all nodes give ids above the floor.
#[track_caller]
fn assert_above(cluster: &Cluster, floor: u64) {
    for _ in 0..20 {
        for node in cluster.ids() {
            let id = id_of(cluster.api(node)).unwrap_or(u64::MAX);
            assert!(id > floor, "node {node} gave {id}, not above {floor}");
        }
    }
}

#[test]
fn every_node_gives_higher_ids_once_the_floor_was_answered_and_none_pauses() {
    let mut cluster = mintleaf().prepare(3, &[]);
    cluster.start_all();
    let load = Load::of_snowflakes(&cluster.targets(), 1);
    load.await_more(300);
    let mut floor = 0;
    for asked_of in cluster.ids() {
        // Ahead of all clocks, and within the held windows.
        floor = id_at(true_ms() + 3_000);
        let began = Instant::now();
        let answer = raise(cluster.api(asked_of), floor).ok();
        assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
        assert_eq!(answer["floor_ms"], json!(shown_ms(floor) + 1));
        assert_above(&cluster, floor);
    }
    // A lower floor changes nothing, and the answer names the floor in force.
    let lower = raise(cluster.api(1), floor - (60_000 << 22)).ok();
    assert_eq!(lower["floor_ms"], json!(shown_ms(floor) + 1));
    assert_above(&cluster, floor);
    for node in cluster.ids() {
        let shown = cluster.api(node).get("/v1/workers").ok();
        assert_eq!(shown["floor_ms"], json!(shown_ms(floor) + 1), "{shown}");
    }
    let entries = cluster.api(2).get("/v1/audit").ok()["entries"].clone();
    let raised = entries.as_array().unwrap();
    assert_eq!(raised.len(), 3, "{entries}");
    assert!(raised.iter().all(|entry| entry["action"] == "snowflake.floor"), "{entries}");
    assert_eq!(raised[2]["after"], json!({ "floor_ms": shown_ms(floor) + 1 }));
    assert_eq!(raised[2]["before"], raised[1]["after"]);
    let history = load.stop();
    assert_eq!(history.failures().count(), 0, "a floor within the windows delays nobody");
    history.check();
    // The floor outlives the processes.
    cluster.ids().into_iter().for_each(|node| cluster.kill(node));
    cluster.start_all();
    for node in cluster.ids() {
        await_id(cluster.api(node));
    }
    assert_above(&cluster, floor);
}

#[test]
fn a_node_that_was_killed_is_named_until_its_window_has_ended() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "10s"]);
    cluster.start_all();
    for node in cluster.ids() {
        await_id(cluster.api(node));
    }
    let leader = cluster.leader();
    let [killed, asked] = cluster.others(leader)[..] else { panic!("not three nodes") };
    // A follower learns of a window slightly after its holder, so the kill waits until the other node knows it.
    eventually("the window is known to the node that is asked", secs(10), || {
        window_of(&cluster, asked, killed)
    });
    cluster.kill(killed);
    let began = Instant::now();
    let fence_ms = window_of(&cluster, asked, killed).expect("a window outlives its holder");
    let floor = id_at(true_ms());
    let mut refusals = 0;
    let answered = loop {
        let answer = raise(cluster.api(asked), floor);
        if answer.status == 200 {
            break answer;
        }
        assert_eq!(answer.problem(), (503, "unavailable".to_owned()));
        let detail = detail(&answer);
        assert!(detail.contains(&format!("and node {killed} has not taken note")), "{detail}");
        assert!(!detail.contains(&format!("node {asked} ")), "{detail}");
        refusals += 1;
        assert!(began.elapsed() < secs(30), "{detail}");
    };
    assert_eq!(answered.ok()["floor_ms"], json!(shown_ms(floor) + 1));
    assert!(refusals > 0, "nobody was waited for");
    assert!(true_ms() > fence_ms, "answered before the window of a killed node had ended");
    cluster.start_node(killed);
    await_id(cluster.api(killed));
    assert_above(&cluster, floor);
}

/// When the floor is requested, its worker id belongs to another node; and a clock may be two seconds behind.
#[test]
fn a_window_is_waited_for_if_its_worker_id_was_reassigned() {
    let flags = ["--snowflake-window", "3s", "--snowflake-workers", "7"];
    let mut cluster = mintleaf().prepare(3, &flags);
    cluster.start_all();
    let holder_of = |cluster: &Cluster, asked: u64| {
        let shown = cluster.api(asked).get("/v1/workers").ok();
        let row = shown["workers"].as_array()?.first()?.clone();
        Some((row["node_id"].as_u64()?, row["fence_ms"].as_u64()?))
    };
    let (holder, _) = eventually("a window", secs(10), || holder_of(&cluster, 1));
    cluster.kill(holder);
    let asked = cluster.others(holder)[0];
    let mut fence_ms = 0;
    eventually("the worker id to be reassigned", secs(20), || {
        let (now_held_by, ends_ms) = holder_of(&cluster, asked)?;
        if now_held_by == holder {
            fence_ms = ends_ms;
        }
        (now_held_by != holder).then_some(())
    });
    let floor = id_at(true_ms());
    eventually("the floor to be reached", secs(20), || {
        (raise(cluster.api(asked), floor).status == 200).then_some(())
    });
    let skew_ms = 2_000;
    assert!(true_ms() >= fence_ms + skew_ms, "{} and {fence_ms}", true_ms());
}

#[test]
fn a_floor_far_ahead_is_refused_without_force_and_then_there_are_no_ids() {
    let dev = mintleaf().dev();
    let api = dev.api();
    await_id(api);
    let ask =
        |args: &[&str]| Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]));
    let soon = id_at(true_ms() + 2_000).to_string();
    let raised = ask(&["snowflake-floor", &soon, "--yes"]);
    assert_eq!(raised.code, Some(0), "{raised:?}");
    assert!(raised.stdout.starts_with("no snowflake id given from now on shows a time before 20"));
    let far = id_at(true_ms() + 2 * 3_600_000).to_string();
    let refused = ask(&["snowflake-floor", &far, "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--force") && refused.stderr.contains("ahead"), "{refused:?}");
    assert_eq!(raise(api, far.parse().unwrap()).problem(), (409, "conflict".to_owned()));
    await_id(api);
    for (body, says) in [
        (json!({}), "id is required"),
        (json!({ "id": "0" }), "id must be an integer from 1 to"),
        (json!({ "id": "x" }), "id must be an integer from 1 to"),
        (json!({ "id": "1", "by": 1 }), "by is not a field"),
    ] {
        let answer = api.post("/v1/snowflake/floor", &body);
        assert_eq!(answer.problem(), (400, "invalid_argument".to_owned()));
        assert!(detail(&answer).contains(says), "{answer:?}");
    }
    let forced = ask(&["snowflake-floor", &far, "--force", "--yes", "--json"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let refused = eventually("the end of the ids", secs(5), || {
        Some(api.get("/v1/snowflake")).filter(|answer| answer.status != 200)
    });
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    eventually("the reason", secs(5), || {
        detail(&api.get("/v1/snowflake")).contains("the snowflake floor").then_some(())
    });
    assert_eq!(api.get("/v1/segment/orders").status, 200);
}

#[test]
fn worker_ids_come_from_the_pool_that_the_cluster_was_formed_with() {
    let mut cluster = mintleaf().prepare(3, &[]);
    for node in cluster.ids() {
        cluster.set_env(node, "MINTLEAF_SNOWFLAKE_WORKERS", "512-513,700");
        cluster.set_env(node, "MINTLEAF_SNOWFLAKE_WINDOW", "2s");
    }
    cluster.start_all();
    let mut used: Vec<u16> =
        cluster.ids().into_iter().map(|node| worker_of(await_id(cluster.api(node)))).collect();
    used.sort_unstable();
    assert_eq!(used, [512, 513, 700]);
    let shown = cluster.api(1).get("/v1/workers").ok();
    assert_eq!((&shown["pool"], &shown["window_ms_max"]), (&json!("512-513,700"), &json!(2_000)));
    // A start takes a worker id of the pool once its window has ended, and no other worker id.
    super::bounce(&mut cluster, 2);
    assert!(used.contains(&worker_of(await_id(cluster.api(2)))));
    for (name, other, right) in [
        ("WORKERS", "0-1023", "512-513,700"),
        ("WINDOW", "3s", "2000ms"),
        ("WORKERS", "700", "700,512-513"),
    ] {
        cluster.kill(3);
        cluster.set_env(3, &format!("MINTLEAF_SNOWFLAKE_{name}"), other);
        cluster.start_node(3);
        let (code, log) = cluster.ended(3, secs(10));
        assert_eq!(code, Some(2), "{log}");
        let told = log.lines().rev().find(|line| line.contains("start it with")).unwrap();
        // The message names a setting as it was given.
        assert!(told.contains(&format!("MINTLEAF_SNOWFLAKE_{name} ")), "{told}");
        cluster.set_env(3, &format!("MINTLEAF_SNOWFLAKE_{name}"), right);
        cluster.start_node(3);
        assert!(used.contains(&worker_of(await_id(cluster.api(3)))));
    }
}
