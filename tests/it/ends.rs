//! How a node ends, what its exit code means to a supervisor, and which starts it refuses.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::harness::{
    Api, Cluster, Finished, Port, Process, WallClocks, eventually, mintleaf, ms, pause, secs,
};

/// The command that serves as node `id` on the data of node `owner`, which must not be running.
fn serve_as(cluster: &Cluster, id: u64, owner: u64) -> Command {
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", &id.to_string(), "--http", "127.0.0.1:0"]);
    command.args(["--raft", &cluster.raft(owner).to_string(), "--data"]).arg(cluster.data(owner));
    command
}

#[test]
fn another_nodes_directory_is_refused_with_its_owners_name_and_left_as_it_is() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let leader = cluster.leader();
    let owner = cluster.others(leader)[0];
    cluster.kill(owner);
    let identity = fs::read(cluster.data(owner).join("identity")).unwrap();
    for id in [9, leader] {
        let refused = Finished::of(&mut serve_as(&cluster, id, owner));
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let named = format!("belongs to node {owner}, not to node {id}: check --node-id");
        assert!(refused.stderr.contains(&named), "{refused:?}");
        assert!(!refused.stderr.contains("wipe"), "{refused:?}");
    }
    assert_eq!(fs::read(cluster.data(owner).join("identity")).unwrap(), identity);
    cluster.start_node(owner);
    cluster.await_ready();
}

#[test]
fn a_damaged_directory_needs_an_operator() {
    let mut cluster = mintleaf().cluster(1);
    cluster.kill(1);
    let path = cluster.data(1).join("identity");
    let mut identity = fs::read(&path).unwrap();
    identity[7] ^= 1;
    fs::write(path, identity).unwrap();
    cluster.start_node(1);
    let (exit, log) = cluster.ended(1, secs(10));
    assert_eq!(exit, Some(3), "{log}");
    assert!(log.contains("join the node again as a learner"), "{log}");
}

#[test]
fn a_new_directory_that_is_told_no_cluster_is_bad_usage() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "1", "--http", "127.0.0.1:0", "--raft", "127.0.0.1:0"]);
    let refused = Finished::of(command.arg("--data").arg(dir.path().join("data")));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--peers"), "{refused:?}");
}

#[test]
fn a_request_to_read_files_again_ends_no_node_that_still_reads_its_settings() {
    let dir = tempfile::tempdir().unwrap();
    // The node waits for its settings until this test closes the pipe.
    let settings = dir.path().join("settings");
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    let mut command = mintleaf().command();
    command.args(["serve", "--config"]).arg(&settings);
    let mut node = Process::start("the node", &mut command, &dir.path().join("log")).unwrap();
    let pipe = fs::File::options().write(true).open(&settings).unwrap();
    for _ in 0..3 {
        node.signal("HUP");
        pause(ms(10));
    }
    drop(pipe);
    assert_eq!(node.exit_code(secs(10)), Some(2), "{}", node.log());
    assert!(node.log().contains("--node-id"), "{}", node.log());
}

#[test]
fn no_address_of_every_interface_is_told_to_anybody() {
    let dir = tempfile::tempdir().unwrap();
    let [http, raft] = [(); 2].map(|()| Port::claim());
    let everywhere = format!("0.0.0.0:{}", http.addr().port());
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "1", "--insecure", "--http", &everywhere]);
    command.args(["--raft", &format!("0.0.0.0:{}", raft.addr().port())]);
    command.args(["--peers", &format!("1={}", raft.addr()), "--data"]).arg(dir.path().join("data"));
    let _node = Process::start("the node", &mut command, &dir.path().join("log")).unwrap();
    let api = Api(http.addr());
    let shown = eventually("the cluster to form", secs(10), || {
        let shown = api.try_get("/v1/cluster").ok()?.json();
        (shown["nodes"].as_array()?.len() == 1).then_some(shown)
    });
    assert_eq!(shown["nodes"][0]["http"], http.addr().to_string(), "{shown}");
    assert_eq!(shown["nodes"][0]["raft"], raft.addr().to_string(), "{shown}");
    for (field, other) in [("raft", "http"), ("http", "raft")] {
        let body = json!({ "id": 2, field: "0.0.0.0:1", other: "127.0.0.1:1" });
        let refused = api.post("/v1/cluster/nodes", &body);
        assert_eq!(refused.problem(), (400, "invalid_argument".to_owned()), "{refused:?}");
    }
}

#[test]
fn dev_does_not_start_a_removed_node_again_and_goes_on_with_the_others() {
    let mut dev = mintleaf().dev_with_nodes(3);
    assert_eq!(dev.node(1).delete("/v1/cluster/nodes/3").status, 204);
    let log = eventually("the third node to be given up", secs(10), || {
        let log = dev.process().log();
        log.contains("is not started again").then_some(log)
    });
    assert!(log.contains("was removed from the cluster"), "{log}");
    eventually("an id from a node that is left", secs(10), || {
        (dev.node(2).try_get("/api/segment/get/orders").ok()?.status == 200).then_some(())
    });
    dev.process().signal("TERM");
    assert_eq!(dev.process().exit_code(secs(10)), Some(0));
}

#[test]
fn dev_on_a_damaged_directory_needs_an_operator() {
    let mut dev = mintleaf().dev();
    dev.process().kill();
    fs::write(dev.dir().join("data/node-1/identity"), "half").unwrap();
    dev.kill_and_start();
    assert_eq!(dev.process().exit_code(secs(10)), Some(3), "{}", dev.process().log());
}

#[test]
fn a_clock_before_1970_is_refused_by_name_before_anything_is_made() {
    let mut cluster = mintleaf().prepare(1, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "a clock before 1970") else { return };
    let century_ms = 100 * 365 * 24 * 3600 * 1000;
    clocks.shift(1, -century_ms);
    cluster.start_node(1);
    let (code, log) = cluster.ended(1, secs(15));
    assert!(code == Some(2) && log.contains("shows a time before 1970"), "{code:?} {log}");
    assert!(!log.contains("panicked") && !cluster.data(1).exists(), "{log}");
    clocks.shift(1, 0);
    cluster.start_all();
}

#[test]
fn a_directory_of_another_user_is_a_wrong_setting_that_no_supervisor_tries_again() {
    let mut cluster = mintleaf().cluster(1);
    cluster.kill(1);
    let data = cluster.data(1);
    if fs::metadata(&data).unwrap().uid() != 0 {
        println!("SKIPPED: only root can run a node as another user");
        return;
    }
    const OTHER: u32 = 64_321;
    fs::set_permissions(cluster.dir(), Permissions::from_mode(0o755)).unwrap();
    let refused = Finished::of(serve_as(&cluster, 1, 1).uid(OTHER).gid(OTHER));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let says = format!("belongs to user 0, and this is user {OTHER}: chown -R it");
    assert!(refused.stderr.contains(&says), "{refused:?}");
    // A file in it that was forgotten.
    chown(&data, Some(OTHER), Some(OTHER)).unwrap();
    let refused = Finished::of(serve_as(&cluster, 1, 1).uid(OTHER).gid(OTHER));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("chown -R it"), "{refused:?}");
    // A directory that the user cannot make.
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "1", "--http", "127.0.0.1:0", "--raft", "127.0.0.1:0"]);
    command.args(["--peers", "1=127.0.0.1:9", "--data"]).arg(cluster.dir().join("new"));
    let refused = Finished::of(command.uid(OTHER).gid(OTHER));
    assert_eq!(refused.code, Some(2), "{refused:?}");
}
