//! Addresses, ids and clusters that are mistaken for each other: no node ends, and nothing changes.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, Port, Process, eventually, mintleaf, ms, secs};

/// How long a mix-up lasts before it is judged: several rounds of heartbeats, queries and elections.
const MIX_UP: std::time::Duration = secs(4);

/// A cluster of one node that is unrelated to the cluster under test.
struct Foreigner {
    http: Port,
    process: Process,
}

impl Foreigner {
    /// Bootstraps it as node `id` at this internal address.
    fn start(cluster: &Cluster, id: u64, raft: SocketAddr) -> Self {
        let (http, dir) = (Port::claim(), cluster.dir().join(format!("foreign-{id}")));
        let mut command = mintleaf().command();
        command.args(["serve", "--node-id", &id.to_string(), "--auto-create-tags"]);
        command.args(["--http", &http.addr().to_string(), "--raft", &raft.to_string()]);
        command.args(["--peers", &format!("{id}={raft}"), "--data"]).arg(&dir);
        let process =
            Process::start("the foreign node", &mut command, &dir.with_extension("log")).unwrap();
        let foreigner = Self { http, process };
        eventually("the foreign node to be ready", secs(10), || {
            (foreigner.api().try_get("/readyz").ok()?.status == 200).then_some(())
        });
        foreigner
    }

    fn api(&self) -> Api {
        Api(self.http.addr())
    }

    /// Checks that it still has one member and serves ids.
    #[track_caller]
    fn assert_untouched(&mut self, id: u64) {
        assert!(self.process.is_running(), "the foreign node has ended");
        let shown = self.api().get("/v1/cluster").ok();
        assert_eq!(shown["leader_id"], id, "{shown}");
        assert_eq!(shown["nodes"].as_array().unwrap().len(), 1, "{shown}");
        assert_eq!(self.api().get("/api/segment/get/orders").status, 200);
        assert!(!self.process.log().contains("wipe"), "{}", self.process.log());
    }
}

/// Id, address and role of every member, as a node shows them.
pub(crate) fn members(api: Api) -> Vec<Value> {
    let shown = api.get("/v1/cluster").ok();
    let nodes = shown["nodes"].as_array().unwrap().iter();
    nodes.map(|node| json!([node["id"], node["raft"], node["role"]])).collect()
}

/// Id and address of every member, as a node shows them.
fn addresses(api: Api) -> Vec<Value> {
    let members = members(api).into_iter();
    members.map(|member| json!([member[0], member[1]])).collect()
}

pub(crate) fn add(cluster: &Cluster, id: u64, raft: SocketAddr) -> Answer {
    let body = json!({ "id": id, "raft": raft.to_string() });
    cluster.api(1).post("/v1/cluster/nodes", &body)
}

#[track_caller]
fn assert_no_word_of_wiping(cluster: &mut Cluster, ids: &[u64]) {
    for &id in ids {
        assert!(cluster.process(id).is_running(), "node {id} has ended");
        let log = cluster.process(id).log();
        assert!(!log.contains("wipe"), "node {id}: {log}");
    }
}

#[test]
fn adding_a_node_of_another_cluster_is_refused_and_ends_nobody() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let before = members(cluster.api(leader));
    // One foreign node has a new id, the other the leader's id.
    for id in [4, leader] {
        let port = Port::claim();
        let mut foreigner = Foreigner::start(&cluster, id, port.addr());
        for named in [id, 9, 1] {
            let refused = add(&cluster, named, port.addr());
            assert_eq!(refused.problem(), (409, "wrong_cluster".to_owned()), "{refused:?}");
        }
        foreigner.assert_untouched(id);
        // The foreign node in turn refuses to add a node of this cluster.
        let body = json!({ "id": 2, "raft": cluster.raft(2).to_string() });
        let refused = foreigner.api().post("/v1/cluster/nodes", &body);
        assert_eq!(refused.problem(), (409, "wrong_cluster".to_owned()), "{refused:?}");
        foreigner.assert_untouched(id);
    }
    assert_no_word_of_wiping(&mut cluster, &[1, 2, 3]);
    assert_eq!(members(cluster.api(leader)), before);
    assert_eq!(cluster.leader(), leader);
    cluster.api(leader).post("/v1/tags", &json!({ "tag": "orders" })).ok();
}

#[test]
fn whatever_else_listens_at_an_address_is_refused_with_one_text() {
    let cluster = mintleaf().cluster(3);
    let before = addresses(cluster.api(1));
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude_at = rude.local_addr().unwrap();
    thread::spawn(move || rude.incoming().for_each(drop));
    let closed = Port::claim();
    // A founder that waits for others must not be added to another cluster.
    let founder = Port::claim();
    let mut waiting = {
        let (id, absent) = ("9", Port::claim());
        let mut command = mintleaf().command();
        let raft = founder.addr().to_string();
        command.args(["serve", "--node-id", id, "--http", "127.0.0.1:0", "--raft", &raft]);
        command.args(["--peers", &format!("9={raft},8={}", absent.addr()), "--data"]);
        command.arg(cluster.dir().join("founder"));
        Process::start("a founder", &mut command, &cluster.dir().join("founder.log")).unwrap()
    };
    eventually("the founder to be up", secs(10), || waiting.log().contains("is up").then_some(()));
    let mut texts = Vec::new();
    for address in [
        closed.addr(),
        mute.local_addr().unwrap(),
        rude_at,
        cluster.api(2).0,
        cluster.raft(2),
        founder.addr(),
    ] {
        let began = Instant::now();
        let refused = add(&cluster, 9, address);
        // An answer that comes at once would reveal whether a connection was refused or silent.
        assert!(began.elapsed() >= secs(1), "{address} was refused after {:?}", began.elapsed());
        assert_eq!(refused.problem(), (409, "conflict".to_owned()), "{refused:?}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        texts.push(detail.replace(&address.to_string(), "ADDRESS"));
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("ADDRESS") && texts[0].contains("--join"), "{texts:?}");
    assert!(waiting.is_running());
    assert_eq!(addresses(cluster.api(1)), before);
}

#[test]
fn a_joiner_that_tells_a_wrong_address_is_told_and_becomes_a_member_with_the_right_one() {
    let mut cluster = mintleaf().cluster(3);
    let before = addresses(cluster.api(1));
    let closed = Port::claim();
    for wrong in [closed.addr(), cluster.raft(2)] {
        cluster.start_joiner(4, 1, &["--advertise-raft", &wrong.to_string()]);
        let told = format!("node 4 does not answer at {wrong}: check --advertise-raft");
        eventually("the reason in the log", secs(10), || {
            cluster.process(4).log().contains(&told).then_some(())
        });
        assert_eq!(addresses(cluster.api(1)), before);
        assert!(cluster.process(4).is_running());
        cluster.kill(4);
    }
    cluster.start_joiner(4, 1, &[]);
    eventually("the joiner to be a member", secs(10), || {
        (addresses(cluster.api(1)).len() == 4).then_some(())
    });
}

#[test]
fn a_foreign_node_at_a_members_address_is_no_member_and_disturbs_nobody() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let leader = cluster.leader();
    let [gone, stays] = cluster.others(leader)[..] else { panic!("three nodes run") };
    let before = members(cluster.api(leader));
    cluster.kill(gone);
    let mut foreigner = Foreigner::start(&cluster, gone, cluster.raft(gone));
    thread::sleep(MIX_UP);
    foreigner.assert_untouched(gone);
    assert_no_word_of_wiping(&mut cluster, &[leader, stays]);
    assert_eq!(members(cluster.api(leader)), before);
    assert_eq!(reachable(cluster.api(leader), gone), Some(false));
    cluster.api(stays).post("/v1/tags", &json!({ "tag": "more" })).ok();
    drop(foreigner);
    cluster.start_node(gone);
    cluster.await_ready();
}

#[test]
fn a_node_that_comes_back_among_strangers_waits_for_its_own() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    for id in [1, 2, 3] {
        cluster.kill(id);
    }
    let strangers: Vec<_> =
        [2, 3].iter().map(|&id| Foreigner::start(&cluster, id, cluster.raft(id))).collect();
    cluster.start_node(1);
    thread::sleep(MIX_UP);
    assert_no_word_of_wiping(&mut cluster, &[1]);
    let reasons = cluster.api(1).get("/readyz");
    assert_eq!(reasons.status, 503, "{reasons:?}");
    for (mut stranger, id) in strangers.into_iter().zip([2, 3]) {
        stranger.assert_untouched(id);
    }
    cluster.start_node(2);
    cluster.start_node(3);
    cluster.await_ready();
    assert_eq!(cluster.api(1).get("/v1/segment/orders").status, 200);
}

#[test]
fn a_newcomer_under_a_members_id_ends_alone_and_is_not_told_to_wipe() {
    let mut cluster = mintleaf().cluster(3);
    let before = members(cluster.api(1));
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "2", "--http", "127.0.0.1:0", "--raft", "127.0.0.1:0"]);
    command.args(["--join", &cluster.raft(1).to_string(), "--data"]);
    command.arg(cluster.dir().join("newcomer"));
    let log = cluster.dir().join("newcomer.log");
    let mut newcomer = Process::start("the newcomer", &mut command, &log).unwrap();
    assert_eq!(newcomer.exit_code(secs(10)), Some(3), "{}", newcomer.log());
    let said = newcomer.log();
    assert!(said.contains("check --node-id and --data") && !said.contains("wipe"), "{said}");
    assert_no_word_of_wiping(&mut cluster, &[1, 2, 3]);
    assert_eq!(members(cluster.api(1)), before);
}

#[test]
fn two_members_whose_directories_were_swapped_are_told_the_owners_names() {
    let mut cluster = mintleaf().cluster(3);
    let [one, other] = [2, 3];
    cluster.kill(one);
    cluster.kill(other);
    let (a, b, aside) = (cluster.data(one), cluster.data(other), cluster.dir().join("aside"));
    let swap = || {
        std::fs::rename(&a, &aside).unwrap();
        std::fs::rename(&b, &a).unwrap();
        std::fs::rename(&aside, &b).unwrap();
    };
    swap();
    for (id, owner) in [(one, other), (other, one)] {
        cluster.start_node(id);
        let (exit, log) = cluster.ended(id, secs(10));
        assert_eq!(exit, Some(3), "{log}");
        assert!(log.contains(&format!("belongs to node {owner}, not to node {id}")), "{log}");
        assert!(!log.contains("wipe"), "{log}");
    }
    swap();
    cluster.start_node(one);
    cluster.start_node(other);
    cluster.await_ready();
}

/// Whether a node reports that it reaches another one. It must report one or the other.
pub(crate) fn reachable(api: Api, id: u64) -> Option<bool> {
    let shown = api.get("/v1/cluster").ok();
    let node = shown["nodes"].as_array()?.iter().find(|node| node["id"] == id)?;
    let reachable = &node["reachable"];
    Some(reachable.as_bool().unwrap_or_else(|| panic!("reachable is {reachable}")))
}

#[test]
fn every_node_knows_within_two_seconds_who_can_be_reached() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let await_shown = |cluster: &Cluster, by: &[u64], id: u64, expected: bool| {
        let by = by.to_vec();
        // The request itself takes some time, too.
        eventually(&format!("node {id} to be shown {expected} by {by:?}"), ms(2_200), || {
            let shown = |api| reachable(api, id) == Some(expected);
            by.iter().all(|&node| shown(cluster.api(node))).then_some(())
        });
    };
    for id in cluster.ids() {
        await_shown(&cluster, &[1, 2, 3], id, true);
    }
    // A follower knows as much about the other follower as about the leader, and nothing changes in a calm cluster.
    let [first, second] = cluster.others(leader)[..] else { panic!("three nodes run") };
    for _ in 0..30 {
        thread::sleep(ms(100));
        assert_eq!(reachable(cluster.api(first), second), Some(true));
        assert_eq!(reachable(cluster.api(second), first), Some(true));
    }
    cluster.process(second).signal("STOP");
    await_shown(&cluster, &[first, leader], second, false);
    cluster.process(second).signal("CONT");
    await_shown(&cluster, &[1, 2, 3], second, true);
    cluster.kill(leader);
    await_shown(&cluster, &[first, second], leader, false);
    cluster.start_node(leader);
    cluster.await_ready();
    await_shown(&cluster, &[1, 2, 3], leader, true);
}
