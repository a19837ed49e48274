//! The last release and this build in one cluster. Nodes are upgraded and rolled back one by one, behind a load
//! balancer and under load. Each build can read what the other has written, and each answers the other.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{THIS, await_versions, cluster_of, other_build, patiently, shows, version_of};
use crate::harness::{Api, Binary, Cluster, Finished, Node, eventually, mintleaf, secs};
use crate::rolling::{Crowd, Rolling};

/// A node that is a learner, outside the load balancer.
const LEARNER: u64 = 4;
/// Enough for some client to send a request at any moment. The machine also runs four nodes.
const CROWD: Crowd = Crowd { http: 8, resp: 4 };
/// A small number, so that each release also reads snapshots that the other has written.
const FLAGS: [&str; 2] = ["--snapshot-entries", "100"];

/// By how much a restore raises every line.
const ADVANCE: u64 = 500;

/// The last release.
fn last_release() -> Option<PathBuf> {
    other_build("MINTLEAF_LAST_RELEASE")
}

/// What a cluster agreed on and keeps over every upgrade.
struct Agreed {
    tags: Vec<(&'static str, Value)>,
    /// The first entries of the audit.
    audit: Value,
    floor_ms: Value,
    /// The highest id of a tag that was deleted.
    gone: u64,
}

fn row(api: Api, tag: &str) -> Value {
    patiently(|| api.get(&format!("/v1/tags/{tag}"))).ok()
}

/// The first entries of the audit.
fn audit(api: Api, entries: usize) -> Value {
    patiently(|| api.get(&format!("/v1/audit?limit={entries}"))).ok()["entries"].clone()
}

impl Agreed {
    /// Makes a node agree on something of every kind with the others.
    fn make(api: Api) -> Self {
        api.post("/v1/tags", &json!({ "tag": "plain", "step": 7, "start": "1000" })).ok();
        api.post("/v1/tags", &json!({ "tag": "notes", "description": "für später" })).ok();
        api.post("/v1/tags", &json!({ "tag": "frozen" })).ok();
        api.patch("/v1/tags/frozen", &json!({ "frozen": true, "max_id": "70000" })).ok();
        api.post("/v1/tags", &json!({ "tag": "limited" })).ok();
        api.patch("/v1/tags/limited", &json!({ "rate_limit": 50, "step": 3 })).ok();
        api.post("/v1/tags", &json!({ "tag": "gone", "step": 10 })).ok();
        let gone = *api.get("/v1/segment/gone?count=40").ids().last().unwrap();
        assert_eq!(api.delete("/v1/tags/gone").status, 204);
        let snowflake = api.get("/v1/snowflake").ids()[0];
        let floor = api.post("/v1/snowflake/floor", &json!({ "id": snowflake.to_string() })).ok();
        let tags = ["plain", "notes", "frozen", "limited"].map(|tag| (tag, row(api, tag)));
        let audit = audit(api, 100);
        let agreed = Self { tags: tags.into(), audit, floor_ms: floor["floor_ms"].clone(), gone };
        assert!(agreed.audit_entries() >= 9, "{}", agreed.audit);
        agreed
    }

    fn audit_entries(&self) -> usize {
        self.audit.as_array().unwrap().len()
    }

    /// Fails unless a node shows all of it.
    #[track_caller]
    fn check(&self, api: Api) {
        for (tag, agreed) in &self.tags {
            let shown = row(api, tag);
            assert!(shows(&shown, agreed), "{shown} was {agreed}");
        }
        let shown = audit(api, self.audit_entries());
        assert!(shows(&shown, &self.audit), "{shown} was {}", self.audit);
        assert_eq!(api.get("/v1/workers").ok()["floor_ms"], self.floor_ms);
        assert_eq!(api.get("/v1/segment/frozen").problem(), (423, "frozen".to_owned()));
        assert_eq!(patiently(|| api.get("/v1/tags/gone")).status, 404);
    }

    /// Creates the deleted tag again. Its ids must continue above `more` ids that were given since.
    #[track_caller]
    fn check_what_is_gone(&self, api: Api, more: u64) {
        let made = patiently(|| api.post("/v1/tags", &json!({ "tag": "gone" })));
        assert!([201, 409].contains(&made.status), "{made:?}");
        let id = patiently(|| api.get("/v1/segment/gone")).ids()[0];
        assert!(id > self.gone + more, "{id} follows {}", self.gone);
    }
}

/// Makes a node the leader.
fn lead(cluster: &mut Cluster, id: u64) {
    eventually(&format!("node {id} to lead"), secs(20), || {
        let answer = cluster.api(id).post("/v1/cluster/leader", &json!({ "id": id }));
        (answer.status == 204).then_some(())
    });
    cluster.await_ready();
}

/// Every node changes something that each of the others must show at once, and gives ids of both kinds.
fn speak(cluster: &Cluster, stage: &str) {
    for by in cluster.ids() {
        let tag = format!("{stage}-by-{by}");
        let made =
            patiently(|| cluster.api(by).post("/v1/tags", &json!({ "tag": tag, "step": 1 })));
        // A repeated request may find the tag that its first attempt created.
        assert!([201, 409].contains(&made.status), "{made:?}");
        let mut ids = Vec::new();
        for at in cluster.ids() {
            assert_eq!(row(cluster.api(at), &tag)["tag"], tag.as_str());
            let given = patiently(|| cluster.api(at).get(&format!("/v1/segment/{tag}?count=2")));
            ids.extend(given.ids());
            let snowflakes = patiently(|| cluster.api(at).get("/v1/snowflake?count=2"));
            assert_eq!(snowflakes.ids().len(), 2);
        }
        let given = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), given, "{stage}: an id was given twice");
    }
}

/// All members, and whether each one votes.
fn members(api: Api) -> Vec<(Value, bool)> {
    let nodes = cluster_of(api)["nodes"].as_array().unwrap().clone();
    nodes.iter().map(|node| (node["id"].clone(), node["role"] != "learner")).collect()
}

#[test]
fn the_last_release_is_upgraded_and_comes_back_and_nobody_notices() {
    let Some(last) = last_release() else { return };
    let last_version = version_of(&last);
    let mut rolling = Rolling::prepare(Some(&last), &FLAGS);
    let agreed = Agreed::make(rolling.cluster.api(1));
    let clients = rolling.clients(CROWD);

    // A node of this build joins the last release.
    rolling.cluster.start_joiner(LEARNER, 1, &FLAGS);
    rolling.cluster.await_ready();
    let all = [(json!(1), true), (json!(2), true), (json!(3), true), (json!(LEARNER), false)];
    assert_eq!(members(rolling.cluster.api(LEARNER)), all);
    let mut versions = [&*last_version, &*last_version, &*last_version, THIS];
    await_versions(&rolling.cluster, &versions);

    for (stage, to, version) in
        [("forward", None, THIS), ("back", Some(&*last), &*last_version), ("again", None, THIS)]
    {
        for id in [2, LEARNER, 3, 1] {
            rolling.roll(id, to, &clients);
            versions[id as usize - 1] = version;
            await_versions(&rolling.cluster, &versions);
            if id == 2 {
                // Each release leads for a while, with the other as a follower.
                for leader in [1, 2] {
                    lead(&mut rolling.cluster, leader);
                    speak(&rolling.cluster, &format!("{stage}-{leader}"));
                }
            }
        }
        for id in rolling.cluster.ids() {
            agreed.check(rolling.cluster.api(id));
            assert_eq!(members(rolling.cluster.api(id)), all);
            let said = rolling.cluster.process(id).log();
            assert!(!said.contains("hot tags cannot be read"), "{said}");
        }
        for build in [Binary::at(&last), mintleaf()] {
            look(&build, &rolling.cluster);
        }
    }
    agreed.check_what_is_gone(rolling.cluster.api(3), 0);
    clients.stop().check();
    let removed = rolling.cluster.api(1).delete(&format!("/v1/cluster/nodes/{LEARNER}"));
    assert_eq!(removed.status, 204);
    assert_eq!(rolling.cluster.ended(LEARNER, secs(15)).0, Some(3));
}

/// Runs a command of a build.
#[track_caller]
fn run(build: &Binary, args: &[&str]) -> String {
    let done = Finished::of(build.command().args(args));
    // As root, a restore warns that the directory belongs to root.
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done.stdout
}

/// Inspects every node of either release with the command line of a build.
fn look(build: &Binary, cluster: &Cluster) {
    for id in cluster.ids() {
        let url = format!("http://{}", cluster.api(id).0);
        for words in [&["cluster", "status"][..], &["tag", "get", "plain"], &["cluster", "level"]] {
            let args = [words, &["--json", "--url", &url]].concat();
            let what = format!("{args:?} to be answered");
            let shown = eventually(&what, secs(30), || {
                let done = Finished::of(build.command().args(&args));
                (done.code == Some(0)).then_some(done.stdout)
            });
            serde_json::from_str::<Value>(&shown).unwrap();
        }
    }
}

/// Takes a backup with one build, and inspects and restores it with the other; returns the other build's node on it.
fn carry_over(from: &Binary, to: &Binary, api: Api, dir: &Path) -> Node {
    let (backup, restored) = (dir.join("backup"), dir.join("restored"));
    let [backup, data] = [&backup, &restored].map(|path| path.to_str().unwrap());
    run(from, &["backup", backup, "--url", &format!("http://{}", api.0)]);
    let shown: Value = serde_json::from_str(&run(to, &["inspect", backup, "--json"])).unwrap();
    assert_eq!((&shown["whole"], &shown["level"]), (&json!(true), &json!(1)), "{shown}");
    assert_eq!((&shown["tags"], &shown["node_id"]), (&json!(4), &json!(1)), "{shown}");
    let above = api.get("/v1/snowflake").ids()[0].to_string();
    let advance = ADVANCE.to_string();
    let flags = ["--node-id", "1", "--advance-all-by", &advance, "--snowflake-above", &above];
    run(to, &[&["restore", backup, "--data", data], &flags[..]].concat());
    let mut node = Node::new(to, 1, dir);
    node.set_data(restored);
    node.start().unwrap();
    eventually("the node to be ready", secs(20), || node.is_ready().then_some(()));
    let (above, after): (u64, u64) =
        (above.parse().unwrap(), node.api().get("/v1/snowflake").ids()[0]);
    assert!(after > above, "{after} follows {above}");
    node
}

#[test]
fn a_backup_of_either_release_is_restored_by_the_other() {
    let Some(last) = last_release() else { return };
    let (last, this) = (Binary::at(last), mintleaf());
    for (from, to, forward) in [(&last, &this, true), (&this, &last, false)] {
        // A cluster of the last release, which this build upgrades without raising the level. A cluster that
        // this build forms has a level that the last release cannot read.
        let mut cluster = last.cluster(1);
        if !forward {
            cluster.stop(1);
            let path = from.command().get_program().to_owned();
            cluster.use_build(1, Some(Path::new(&path)));
            cluster.start_node(1);
            cluster.await_ready();
        }
        let api = cluster.api(1);
        let agreed = Agreed::make(api);
        let node = carry_over(from, to, api, cluster.dir());
        let same = |restored: &Value, agreed: &Value| {
            let (newer, older) = if forward { (restored, agreed) } else { (agreed, restored) };
            assert!(shows(newer, older), "{restored} was {agreed}");
        };
        for (tag, before) in &agreed.tags {
            let mut expected = before.clone();
            let max_id: u64 = before["max_id"].as_str().unwrap().parse().unwrap();
            expected["max_id"] = json!((max_id + ADVANCE).to_string());
            same(&row(node.api(), tag), &expected);
        }
        same(&audit(node.api(), agreed.audit_entries()), &agreed.audit);
        agreed.check_what_is_gone(node.api(), ADVANCE);
    }
}
