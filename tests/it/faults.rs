//! A cluster with nodes that are killed and paused under load.

use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::harness::{
    Api, Cluster, Load, TagWriter, eventually, from_env, known_leader, mintleaf, ms, secs,
};

/// How soon after the death of the leader another node can grab. A dead leader is usually replaced after 1.2 to
/// 1.6 s; a split vote costs another round.
const FAILOVER_WITHIN: Duration = secs(3);

fn tags(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("tag-{n}")).collect()
}

fn create(api: Api, tag: &str, step: u32) {
    api.post("/v1/tags", &serde_json::json!({ "tag": tag, "step": step })).ok();
}

/// Waits until every node holds enough ids of every tag to outlast an election.
fn load_until_all_is_held(cluster: &Cluster, tags: &[String]) -> Load {
    let load = Load::start(&cluster.targets(), tags, 3);
    for (id, _) in cluster.targets() {
        for tag in tags {
            eventually("every tag on every node", secs(20), || {
                (held_of(cluster.api(id), tag) >= 500).then_some(())
            });
        }
    }
    load
}

/// How many ids of a tag a node holds, according to its `/cache` page.
fn held_of(api: Api, tag: &str) -> u64 {
    let page = api.get("/cache");
    let row = page.text().lines().find(|line| line.contains(&format!("<td>{tag}</td>")));
    let Some(row) = row else { return 0 };
    let cells: Vec<u64> = row.split("</td><td>").skip(4).map(digits).collect();
    [&cells[..3], &cells[3..]].iter().map(|slot| slot[1].saturating_sub(slot[0])).sum()
}

fn digits(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[test]
fn cluster_forms_in_any_start_order() {
    for order in [[3, 1, 2], [2, 3, 1]] {
        let mut cluster = mintleaf().prepare(3, &[]);
        cluster.start_node(order[0]);
        eventually("the first node to answer", secs(5), || {
            let answer = cluster.api(order[0]).try_get("/readyz").ok()?;
            assert_eq!(answer.status, 503, "ready without a cluster: {answer:?}");
            Some(())
        });
        cluster.start_node(order[1]);
        cluster.start_node(order[2]);
        let began = Instant::now();
        cluster.await_ready();
        let took = began.elapsed();
        println!("forming took {took:?}");
        assert!(took < secs(5), "forming took {took:?}");
    }
}

#[test]
fn leader_death_is_not_noticed_by_clients_of_the_others() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let tags = tags(20);
    for tag in &tags {
        create(cluster.api(1), tag, 50);
    }
    create(cluster.api(1), "untouched", 50);
    let writer = TagWriter::start(&cluster.targets(), ms(20));
    let load = load_until_all_is_held(&cluster, &tags);
    let survivor = cluster.others(leader)[0];
    let term_before = term(cluster.api(survivor));

    cluster.kill(leader);
    let died = Instant::now();
    eventually("a grab by another leader", FAILOVER_WITHIN, || {
        let answer = cluster.api(survivor).get("/v1/segment/untouched");
        (answer.status == 200).then_some(())
    });
    let took = died.elapsed();
    println!("the first grab came {took:?} after the leader's death");
    assert!(took < FAILOVER_WITHIN, "the first grab came {took:?} after the leader's death");
    assert!(term(cluster.api(survivor)) > term_before, "another leader is of a later term");
    load.await_more(500);
    cluster.start_node(leader);
    cluster.leader();
    load.await_more(500);

    let history = load.stop();
    history.check();
    let failed: Vec<_> = history.failures().filter(|op| op.node != leader).collect();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed[0]);
    let gap = history.longest_gap(survivor);
    assert!(gap < secs(2), "node {survivor} gave no id for {gap:?}");
    assert_all_there(&cluster, &writer.stop());
}

/// The term that a node shows to operators.
fn term(api: Api) -> u64 {
    let page = api.get("/metrics");
    let line = page.text().lines().find_map(|line| line.strip_prefix("mintleaf_raft_term "));
    line.unwrap().parse().unwrap()
}

fn assert_all_there(cluster: &Cluster, written: &[String]) {
    assert!(!written.is_empty());
    for tag in written {
        let shown = cluster.api(1).get(&format!("/v1/tags/{tag}")).ok();
        assert_eq!(shown["step"], 7, "{tag}");
    }
}

#[test]
fn follower_death_fails_no_request_of_the_others() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let tags = tags(20);
    tags.iter().for_each(|tag| create(cluster.api(2), tag, 50));
    let load = Load::start(&cluster.targets(), &tags, 3);
    load.await_more(1_000);
    cluster.kill(follower);
    load.await_more(1_000);
    cluster.start_node(follower);
    cluster.leader();
    load.await_more(1_000);
    let history = load.stop();
    history.check();
    let failed: Vec<_> = history.failures().filter(|op| op.node != follower).collect();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed[0]);
}

#[test]
fn leader_that_was_paused_repeats_no_id() {
    let mut cluster = mintleaf().cluster(3);
    let tags = tags(20);
    tags.iter().for_each(|tag| create(cluster.api(3), tag, 50));
    let load = load_until_all_is_held(&cluster, &tags);
    let old = cluster.leader();
    let survivor = cluster.others(old)[0];
    cluster.process(old).signal("STOP");
    let paused = Instant::now();
    let new = eventually("another leader", secs(8), || {
        let leader = known_leader(cluster.api(survivor))?;
        (leader != old).then_some(leader)
    });
    // The pause is long enough for the others to elect a leader and grab without it.
    eventually("the end of the pause", secs(5), || (paused.elapsed() > secs(4)).then_some(()));
    cluster.process(old).signal("CONT");
    load.await_more(1_000);
    assert_ne!(new, old);
    cluster.leader();
    load.await_more(500);
    let history = load.stop();
    history.check();
    let failed: Vec<_> = history.failures().filter(|op| op.node != old).collect();
    assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed[0]);
}

#[test]
fn node_that_was_away_for_longer_than_the_log_reaches_comes_back_by_a_snapshot() {
    let mut cluster = mintleaf().prepare(3, &["--snapshot-entries", "100"]);
    cluster.start_all();
    cluster.await_ready();
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let tags = tags(20);
    tags.iter().for_each(|tag| create(cluster.api(leader), tag, 50));
    let load = Load::start(&cluster.targets(), &tags, 2);
    cluster.kill(follower);
    let written: Vec<String> = (0..300).map(|number| format!("written-{number}")).collect();
    written.iter().for_each(|tag| create(cluster.api(leader), tag, 7));
    // The node is killed again as soon as it is back, at any stage of its snapshot. It must never lack both the
    // snapshot and the log.
    for pause in [ms(50), ms(150), ms(400)] {
        cluster.start_node(follower);
        thread::sleep(pause);
        cluster.kill(follower);
    }
    cluster.start_node(follower);
    cluster.await_ready();
    let of_this_one = |tag: &String| cluster.api(follower).get(&format!("/v1/tags/{tag}")).status;
    eventually("all that was written", secs(10), || {
        written.iter().all(|tag| of_this_one(tag) == 200).then_some(())
    });
    load.stop().check();
    assert_eq!(snapshots(&cluster, follower), 1, "300 entries are more than the log keeps");
}

fn snapshots(cluster: &Cluster, id: u64) -> usize {
    fs::read_dir(cluster.data(id).join("snapshot")).unwrap().count()
}

#[test]
fn death_of_all_loses_no_tag_and_repeats_no_id() {
    let mut cluster = mintleaf().cluster(3);
    let tags = tags(20);
    tags.iter().for_each(|tag| create(cluster.api(1), tag, 50));
    let load = Load::start(&cluster.targets(), &tags, 2);
    let writer = TagWriter::start(&cluster.targets(), ms(20));
    for _ in 0..from_env("MINTLEAF_ROUNDS", 2) {
        load.await_more(800);
        for id in cluster.ids() {
            cluster.kill(id);
        }
        cluster.start_all();
    }
    load.await_more(500);
    load.stop().check();
    assert_all_there(&cluster, &writer.stop());
}

#[test]
fn without_a_quorum_a_node_gives_what_it_holds_then_says_no_and_returns_by_itself() {
    // With a long snowflake window, the node would stay ready as long as the window lasts.
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "1s"]);
    cluster.start_all();
    let node = cluster.leader();
    let api = cluster.api(node);
    create(api, "orders", 100);
    assert_eq!(api.get("/v1/segment/orders").ids(), [1]);
    // Both segments of the buffer are held.
    assert_eq!(api.get("/v1/segment/orders?count=20").ids().len(), 20);
    eventually("the second segment", secs(5), || (held_of(api, "orders") > 79).then_some(()));
    for other in cluster.others(node) {
        cluster.kill(other);
    }

    let held = held_of(api, "orders");
    for _ in 0..held {
        let answer = api.get("/api/segment/get/orders");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_says_no_in_time(api);
    let unready = eventually("the node to know", secs(5), || {
        let answer = api.get("/readyz");
        (answer.status == 503).then_some(answer)
    });
    let reasons = unready.json()["reasons"].to_string();
    assert!(reasons.contains("quorum"), "{reasons}");
    assert_eq!(api.get("/livez").status, 200);
    assert!(api.get("/v1/cluster").ok()["leader_id"].is_null());

    cluster.start_all();
    let ids = eventually("ids again", secs(10), || {
        let answer = api.get("/v1/segment/orders");
        (answer.status == 200).then(|| answer.ids())
    });
    assert!(ids[0] > held, "{ids:?}");
    cluster.await_ready();
}

/// A caller waits about 2 s for a segment, and is then refused.
fn assert_says_no_in_time(api: Api) {
    let began = Instant::now();
    let refused = api.get("/v1/segment/orders");
    let took = began.elapsed();
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    assert_eq!(refused.header("retry-after"), "1");
    assert!(took < secs(4), "the answer took {took:?}");
    let began = Instant::now();
    let leafs = api.get("/api/segment/get/orders");
    assert_eq!(leafs.status, 500);
    assert_eq!(leafs.json()["message"], "Result{id=-3, status=EXCEPTION}");
    assert!(began.elapsed() < secs(4));
    assert_eq!(api.get("/v1/tags").problem(), (503, "unavailable".to_owned()));
    assert_eq!(api.get("/v1/tags?consistency=stale").status, 200);
}
