//! Wrong clocks, and clusters where only some nodes have a secret.

use serde_json::json;

use super::{TAKEN, await_said, new_secret, prepare_with, reload_secrets};
use crate::auth::{entry, write};
use crate::harness::{Cluster, Dev, WallClocks, eventually, mintleaf, secs};
use crate::mixups::reachable;

const YEAR_MS: i64 = 365 * 24 * 3_600_000;

/// Waits until every node reaches every other one.
fn await_all_reachable(cluster: &Cluster) {
    for id in cluster.ids() {
        for other in cluster.ids() {
            eventually(&format!("node {id} to reach node {other}"), secs(10), || {
                (reachable(cluster.api(id), other) == Some(true)).then_some(())
            });
        }
    }
}

#[test]
fn wrong_clocks_shut_no_member_out_that_knows_the_secret() {
    let (old, new) = (new_secret(), new_secret());
    let mut cluster = prepare_with(&old);
    let Some(clocks) = WallClocks::of(&mut cluster, "between_nodes") else { return };
    cluster.start_all();
    // One is before the certificates become valid, one after all certificates expire, and one slightly behind.
    for (id, years) in [(1, -55), (2, 300), (3, -2)] {
        clocks.shift(id, years * YEAR_MS);
    }
    for id in cluster.ids() {
        cluster.kill(id);
        cluster.start_node(id);
        eventually("the node to serve clients", secs(10), || {
            cluster.api(id).try_get("/livez").ok()
        });
        await_all_reachable(&cluster);
        for through in cluster.ids() {
            let tag = format!("tag-{id}-{through}");
            eventually("a tag to be created", secs(10), || {
                let body = json!({ "tag": tag });
                (cluster.api(through).post("/v1/tags", &body).status == 201).then_some(())
            });
            assert_eq!(cluster.api(through).get(&format!("/v1/segment/{tag}")).ids(), [1]);
        }
    }
    // Secrets can be replaced under such clocks, too.
    for secrets in [&[&*new, &*old][..], &[&*new]] {
        for id in cluster.ids() {
            reload_secrets(&mut cluster, id, secrets, TAKEN);
        }
    }
    await_all_reachable(&cluster);
}

#[test]
fn a_node_with_a_secret_and_one_without_say_what_is_missing() {
    let mut cluster = prepare_with(&new_secret());
    let file = super::secret_file(&cluster, 3);
    let [one, two, three] = [1, 2, 3].map(|id| cluster.raft(id));
    let peers = format!("1={one},2={two},3={three}");
    cluster.set_flags(3, ["--peers", &peers]);
    for id in cluster.ids() {
        cluster.start_node(id);
    }
    for id in cluster.ids() {
        await_said(&mut cluster, id, "--cluster-secret-file");
    }
    for id in cluster.ids() {
        assert_eq!(cluster.api(id).get("/readyz").status, 503, "node {id} has formed a cluster");
    }
    cluster.kill(3);
    cluster.add_flag(3, "--cluster-secret-file", file);
    cluster.start_node(3);
    cluster.await_ready();
}

#[test]
fn the_nodes_of_dev_prove_themselves_to_each_other_and_to_no_other_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    let tokens = format!("anonymous = \"read\"\n{}", entry("ops", "admin", ""));
    write(&file, &tokens);
    let setting = format!("MINTLEAF_AUTH_FILE={}", file.display());
    for words in [vec![], vec!["env".to_owned(), setting]] {
        prove_themselves(&mintleaf().under(words).dev_with_nodes(3));
    }
}

fn prove_themselves(dev: &Dev) {
    let shown = dev.api().get("/v1/cluster").ok();
    for node in shown["nodes"].as_array().unwrap() {
        assert_eq!(node["reachable"], true, "{shown}");
        let raft = node["raft"].as_str().unwrap().parse().unwrap();
        let (heard, ended) = super::tls::send_frame(raft, None, &[7; 20]);
        assert_eq!(heard, b"", "an answer");
        assert!(ended.is_err());
    }
}
