//! A data directory that identifies its node and itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Given, create, inspected, restore, restored, start};
use crate::harness::{Dev, Finished, Node, eventually, mintleaf, secs};

/// Copies a directory.
fn copy_dir(from: &Path, to: &Path) {
    let copied = Finished::of(std::process::Command::new("cp").arg("-a").arg(from).arg(to));
    assert_eq!(copied.code, Some(0), "{copied:?}");
}

/// Starts a node that ends by itself, and returns its exit code and its output.
fn ended(node: &mut Node) -> (Option<i32>, String) {
    node.start().unwrap();
    let mut process = node.take_process().unwrap();
    (process.exit_code(secs(20)), process.said())
}

#[test]
fn a_copied_directory_is_refused_until_it_is_said_to_be_the_only_one() {
    let mut cluster = mintleaf().cluster(1);
    create(cluster.api(1), "orders", 1);
    cluster.stop(1);
    let (original, copy) = (cluster.data(1), cluster.dir().join("copied"));
    copy_dir(&original, &copy);
    let mut node = Node::new(&mintleaf(), 1, cluster.dir());
    node.set_data(copy.clone());
    let before = fs::read(copy.join("identity")).unwrap();
    let (code, said) = ended(&mut node);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("mintleaf restore") && said.contains("--moved"), "{said}");
    assert!(!said.contains("wipe"), "{said}");
    assert_eq!(fs::read(copy.join("identity")).unwrap(), before, "nothing was changed");
    // Under another id, the refusal names the owner.
    let mut other = Node::new(&mintleaf(), 5, cluster.dir());
    other.set_data(copy.clone());
    other.set_flags(["--moved"]);
    let (code, said) = ended(&mut other);
    assert!(code == Some(3) && said.contains("belongs to node 1"), "{said}");
    assert!(!said.contains("wipe"), "{said}");
    // Once is enough.
    for flags in [&["--moved"][..], &[]] {
        drop(start(1, copy.clone(), flags));
    }
    // A rename makes no copy.
    let renamed = cluster.dir().join("renamed");
    fs::rename(&copy, &renamed).unwrap();
    drop(start(1, renamed, &[]));
}

#[test]
fn a_restore_by_root_names_what_lets_a_node_of_another_user_start_there() {
    let mut cluster = mintleaf().cluster(1);
    let (source, data) = (cluster.data(1), cluster.dir().join("restored"));
    cluster.kill(1);
    if fs::metadata(&source).unwrap().uid() != 0 {
        println!("SKIPPED: only root restores as root");
        return;
    }
    let done = restore(&source, &data, 1, &["--advance-all-by", "1", "--stopped-at", "now"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let chown = format!("chown -R USER {}", data.display());
    let [chown, again] = [chown.as_str(), "runuser -u USER -- mintleaf restore"];
    assert!(done.stderr.contains(chown) && done.stderr.contains(again), "{done:?}");
}

#[test]
fn dev_refuses_copies_too() {
    let mut dev = mintleaf().dev();
    let data = dev.dir().join("data");
    dev.process().kill();
    let copy = dev.dir().join("copied");
    copy_dir(&data, &copy);
    let mut command = mintleaf().command();
    command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(&copy);
    let refused = Finished::of(&mut command);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("--moved"), "{refused:?}");
    moved(&dev, command.arg("--moved"));
}

/// Starts a node on the copy and waits until it is up.
fn moved(dev: &Dev, command: &mut std::process::Command) {
    let log = dev.dir().join("copied.log");
    let process = crate::harness::Process::start("the copy", command, &log).unwrap();
    eventually("the copy to start", secs(20), || {
        process.said().contains("log opened").then_some(())
    });
    assert!(!process.said().contains("node stopped"), "{}", process.said());
}

#[test]
fn the_directory_of_a_removed_node_is_a_copy_of_when_it_left() {
    let mut cluster = mintleaf().cluster(3);
    let mut given = Given::default();
    create(cluster.api(1), "orders", 1);
    for id in [1, 2, 3] {
        given.take(cluster.api(id), "orders", 50);
    }
    let leader = cluster.leader();
    let removed = cluster.others(leader)[0];
    let left = cluster.api(leader);
    assert_eq!(left.delete(&format!("/v1/cluster/nodes/{removed}")).status, 204);
    assert_eq!(cluster.ended(removed, secs(15)).0, Some(3));
    // The others continue, and make what the copy does not know.
    given.take(left, "orders", 500);
    create(left, "since", 1);
    given.take(left, "since", 300);
    for id in cluster.others(removed) {
        cluster.kill(id);
    }
    let (source, data) = (cluster.data(removed), cluster.dir().join("restored"));
    let shown = inspected(&source);
    assert!(shown["whole"] == true && shown["log_term"].as_u64() >= Some(1), "{shown}");
    let flags = ["--advance-all-by", "1000", "--stopped-at", "now"];
    restored(&source, &data, removed, &flags);
    let node = start(removed, data, &[]);
    create(node.api(), "since", 1);
    for tag in ["orders", "since"] {
        given.take(node.api(), tag, 500);
    }
}
