//! The Rust client of one release and the nodes of another: no call fails while the nodes are rolled, and no id comes
//! twice. `scripts/releases` tests the Java client of the last release likewise.

use std::process::{Command, Stdio};

use serde_json::json;

use super::other_build;
use crate::harness::{Cluster, eventually, mintleaf, secs};
use crate::leasing::{Users, builder};

/// Stops and starts one node after the other, each as soon as all are ready again.
fn roll(cluster: &mut Cluster) {
    for id in cluster.ids() {
        cluster.stop(id);
        cluster.start_node(id);
        cluster.await_ready();
    }
}

#[test]
fn clients_of_the_last_release_take_ids_of_this_build_while_its_nodes_are_rolled() {
    let Some(client) = other_build("MINTLEAF_LAST_CLIENT") else { return };
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let mut command = Command::new(client);
    command.args(cluster.ids().iter().map(|&id| format!("http://{}", cluster.api(id).0)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    eventually("the clients to take ids", secs(30), || {
        (cluster.api(1).get("/v1/tags/orders").ok()["max_id"] != "1").then_some(())
    });
    roll(&mut cluster);
    // Its input ends here, and so does the program.
    let said = running.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let counts = String::from_utf8(said.stdout).unwrap();
    let taken: Vec<u64> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert!(taken.len() == 2 && taken.iter().all(|&count| count > 1_000), "{counts}");
}

#[test]
fn clients_of_this_build_take_ids_of_the_last_release_while_its_nodes_are_rolled() {
    let Some(last) = other_build("MINTLEAF_LAST_RELEASE") else { return };
    let mut cluster = crate::harness::Binary::at(last).cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let client = builder(&cluster).build_blocking().unwrap();
    let users = Users::start(&client);
    roll(&mut cluster);
    users.judge();
}
