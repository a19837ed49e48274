//! The zones of nodes: every node shows the zone that each node was last started with.

use serde_json::{Value, json};

use crate::harness::{Api, Finished, eventually, mintleaf, secs};

fn zones(api: Api) -> Vec<Value> {
    let cluster = api.get("/v1/cluster").ok();
    cluster["nodes"].as_array().unwrap().iter().map(|node| node["zone"].clone()).collect()
}

#[test]
fn every_node_shows_the_zone_of_each_and_follows_a_move() {
    let mut cluster = mintleaf().prepare(3, &[]);
    cluster.add_flag(1, "--zone", "z1");
    cluster.set_env(2, "MINTLEAF_ZONE", "eu-west_1.a");
    cluster.start_all();
    for id in cluster.ids() {
        eventually(&format!("node {id} to show all zones"), secs(30), || {
            (zones(cluster.api(id)) == [json!("z1"), json!("eu-west_1.a"), Value::Null])
                .then_some(())
        });
    }
    let url = format!("http://{}", cluster.api(3).0);
    let status = Finished::of(mintleaf().command().args(["cluster", "status", "--url", &url]));
    assert!(status.stdout.contains("ZONE") && status.stdout.contains("eu-west_1.a"), "{status:?}");

    cluster.stop(2);
    cluster.set_env(2, "MINTLEAF_ZONE", "z9");
    cluster.start_node(2);
    cluster.await_ready();
    for id in cluster.ids() {
        eventually(&format!("node {id} to show the new zone"), secs(30), || {
            (zones(cluster.api(id))[1] == "z9").then_some(())
        });
    }
}

#[test]
fn what_is_no_zone_is_refused() {
    for zone in ["", "a b", "a/b", "\u{8ba2}", &"z".repeat(65)] {
        for command in [&["serve", "--node-id", "1"][..], &["dev"]] {
            let run = Finished::of(mintleaf().command().args(command).args(["--zone", zone]));
            assert_eq!(run.code, Some(2), "{zone}: {run:?}");
            assert!(run.stderr.contains("--zone must be 1 to 64"), "{run:?}");
        }
    }
}
