//! Strict tags: ids that rise over all nodes, whoever leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

use serde_json::json;

use crate::harness::{
    Api, Cluster, RedisClient, Value, eventually, known_leader, mintleaf, ms, pause, secs,
};

fn create(cluster: &mut Cluster, tag: &str) {
    let leader = cluster.leader();
    let api = cluster.api(leader);
    api.post("/v1/tags", &json!({ "tag": tag, "order": "strict", "step": 50 })).ok();
}

/// Clients of all nodes. Each of their requests must get ids above all that were answered before it was sent.
struct Clients {
    stopping: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(cluster: &Cluster, tag: &'static str) -> Self {
        let (stopping, answered, highest) =
            <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let nodes = cluster.ids().into_iter().flat_map(|id| [(id, 1), (id, 7)]);
        let threads = nodes.map(|(id, count)| {
            let api = cluster.api(id);
            let (stopping, answered) = (Arc::clone(&stopping), Arc::clone(&answered));
            let highest = Arc::clone(&highest);
            thread::spawn(move || {
                while !stopping.load(SeqCst) {
                    let before = highest.load(SeqCst);
                    let path = format!("/v1/segment/{tag}?count={count}");
                    let Some(answer) =
                        api.try_get(&path).ok().filter(|answer| answer.status == 200)
                    else {
                        pause(ms(5));
                        continue;
                    };
                    let ids = answer.ids();
                    assert!(ids.is_sorted(), "node {id} gave {ids:?}");
                    let (first, last) = (ids[0], ids[ids.len() - 1]);
                    assert!(first > before, "node {id} gave {first} after {before} was answered");
                    highest.fetch_max(last, SeqCst);
                    answered.fetch_add(1, SeqCst);
                }
            })
        });
        let threads = threads.collect();
        Self { stopping, answered, threads }
    }

    /// Waits until so many more requests were answered.
    fn await_more(&self, count: u64) {
        let enough = self.answered.load(SeqCst) + count;
        eventually("more ids", secs(30), || (self.answered.load(SeqCst) >= enough).then_some(()));
    }

    fn stop(self) {
        self.stopping.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("ids rise"));
    }
}

fn another_leader(cluster: &Cluster, old: u64) {
    let survivor = cluster.others(old)[0];
    eventually("another leader", secs(15), || {
        known_leader(cluster.api(survivor)).filter(|leader| *leader != old)
    });
}

#[test]
fn ids_rise_over_all_nodes_through_leaders_that_are_killed_and_paused() {
    let mut cluster = mintleaf().cluster(3);
    create(&mut cluster, "invoices");
    let clients = Clients::start(&cluster, "invoices");
    clients.await_more(100);
    for _ in 0..2 {
        let old = cluster.leader();
        cluster.kill(old);
        another_leader(&cluster, old);
        clients.await_more(50);
        cluster.start_node(old);
        let paused = cluster.leader();
        // The paused leader still takes itself for it, and is asked as soon as it runs again.
        cluster.process(paused).signal("STOP");
        another_leader(&cluster, paused);
        clients.await_more(50);
        cluster.process(paused).signal("CONT");
        clients.await_more(100);
    }
    clients.stop();
}

fn problem(api: Api, path: &str) -> (u16, String) {
    api.get(path).problem()
}

#[test]
fn without_a_quorum_a_strict_tag_gives_nothing_and_a_plain_one_what_is_held() {
    let mut cluster = mintleaf().cluster(3);
    create(&mut cluster, "invoices");
    let leader = cluster.leader();
    let api = cluster.api(leader);
    api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
    for tag in ["invoices", "orders"] {
        assert_eq!(api.get(&format!("/v1/segment/{tag}")).ids(), [1]);
    }
    cluster.others(leader).into_iter().for_each(|other| cluster.kill(other));
    assert_eq!(problem(api, "/v1/segment/invoices"), (503, "unavailable".to_owned()));
    assert_eq!(api.get("/v1/segment/orders").ids(), [2]);
    let back = cluster.others(leader)[0];
    cluster.start_node(back);
    eventually("ids from both", secs(20), || {
        let given = |id| cluster.api(id).try_get("/v1/segment/invoices").ok();
        let all = [leader, back].map(|id| given(id).is_some_and(|answer| answer.status == 200));
        (all == [true, true]).then_some(())
    });
}

#[test]
fn commands_that_come_together_are_answered_together_on_every_node_in_their_order() {
    let dev = mintleaf().dev_with_nodes(3);
    dev.api().post("/v1/tags", &json!({ "tag": "invoices", "order": "strict" })).ok();
    let mut expected = 1;
    for node in [1, 2, 3] {
        let mut redis = RedisClient::connect(dev.resp(node));
        eventually("the node to know the tag", secs(10), || {
            (redis.ask("EXISTS invoices") == Value::Integer(1)).then_some(())
        });
        let together = "INCR invoices\r\n".repeat(20) + "INCRBY invoices 5\r\nINCR invoices\r\n";
        redis.send(together.as_bytes());
        let replies: Vec<Value> = (0..22).map(|_| redis.answer()).collect();
        let integers = (expected..expected + 20).chain([expected + 24, expected + 25]);
        assert_eq!(replies, integers.map(Value::Integer).collect::<Vec<_>>(), "node {node}");
        expected += 26;
    }
}
