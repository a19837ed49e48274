//! A wall clock that is set to a time before 1970, where Unix time is not defined, while the node runs.

use serde_json::json;

use super::TEN_YEARS_MS;
use crate::harness::{Api, WallClocks, eventually, mintleaf, secs};

const CENTURY_MS: i64 = 10 * TEN_YEARS_MS;

/// Whether the node reports that its snowflakes wait for a correct clock, and gives no snowflake id.
fn has_stopped_snowflakes(api: Api) -> bool {
    let ready = api.get("/readyz");
    let refused = api.get("/v1/snowflake");
    ready.status == 503
        && ready.text().contains("snowflake: this node's clock shows 0")
        && refused.status == 503
}

#[test]
fn a_clock_set_before_1970_stops_a_nodes_snowflakes_and_neither_its_tags_nor_the_node() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "2s"]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a clock set before 1970") else { return };
    let wrong = 3;
    cluster.ids().into_iter().for_each(|id| cluster.start_node(id));
    // No HTTP request precedes this, so the node's threads meet the changed clock first.
    eventually("the node to be up and to hold a worker id", secs(20), || {
        let log = cluster.process(wrong).log();
        (log.contains("is up; try") && log.contains("holding a worker id")).then_some(())
    });
    clocks.shift(wrong, -CENTURY_MS);
    let api = cluster.api(wrong);
    eventually("the node to doubt its clock", secs(20), || {
        assert!(cluster.process(wrong).is_running(), "the node has ended");
        has_stopped_snowflakes(api).then_some(())
    });
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    for request in 0..20 {
        assert_eq!(api.get("/v1/segment/orders?count=500").ids().len(), 500, "request {request}");
        assert!(!api.get("/metrics").header("date").is_empty());
    }
    // The others have correct clocks, and are a majority.
    let other = cluster.api(1);
    eventually("snowflakes of another node", secs(10), || {
        (other.get("/v1/snowflake").status == 200).then_some(())
    });
    clocks.shift(wrong, 0);
    eventually("the node to be ready", secs(20), || {
        (api.get("/readyz").status == 200 && api.get("/v1/snowflake").status == 200).then_some(())
    });
}

#[test]
fn a_leader_whose_clock_is_set_before_1970_leads_on() {
    let mut cluster = mintleaf().prepare(3, &["--snowflake-window", "2s"]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a leader before 1970") else { return };
    cluster.start_all();
    let leader = cluster.leader();
    clocks.shift(leader, -CENTURY_MS);
    let api = cluster.api(leader);
    eventually("the leader to doubt its clock", secs(20), || {
        has_stopped_snowflakes(api).then_some(())
    });
    let follower = cluster.api(cluster.others(leader)[0]);
    for (number, api) in [api, follower].into_iter().enumerate() {
        let tag = format!("orders-{number}");
        api.post("/v1/tags", &json!({ "tag": tag })).ok();
        assert_eq!(api.get(&format!("/v1/segment/{tag}?count=500")).ids().len(), 500);
    }
    clocks.shift(leader, 0);
    eventually("the leader to be ready", secs(20), || {
        (api.get("/readyz").status == 200 && api.get("/v1/snowflake").status == 200).then_some(())
    });
}
