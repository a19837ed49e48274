//! A node that was asked to stop: it leaves the rotation at once, keeps serving, and loses no request of a client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{
    Answer, Api, Cluster, Port, RedisClient, Value, command, eventually, known_leader, mintleaf,
    ms, pause, secs,
};

/// How long the nodes here drain.
const DRAIN: Duration = secs(4);
/// Time for the stop itself after the drain, on a busy machine.
const STOPPED_WITHIN: Duration = secs(10);
/// Requests to different parts of a node: the fast path, the dispatch, the router, and a change.
const REQUESTS: [&str; 4] = [
    "GET /api/segment/get/orders HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "GET /v1/segment/orders?count=3 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "GET /v1/tags/orders HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "PATCH /v1/tags/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
     content-length: 10\r\n\r\n{\"step\":9}",
];

/// A kept HTTP connection that returns heads as they arrive.
struct KeptConnection(TcpStream);

impl KeptConnection {
    fn open(api: Api) -> Self {
        let stream = TcpStream::connect(api.0).unwrap();
        stream.set_read_timeout(Some(secs(15))).unwrap();
        Self(stream)
    }

    /// The head of the answer to a request. The body is read, too.
    #[track_caller]
    fn ask(&mut self, request: &str) -> String {
        self.0.write_all(request.as_bytes()).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        head
    }

    /// Waits for the end of the connection. Nothing else may arrive.
    #[track_caller]
    fn assert_ended(&mut self) {
        let mut more = Vec::new();
        self.0.read_to_end(&mut more).unwrap();
        assert!(more.is_empty(), "{}", String::from_utf8_lossy(&more));
    }
}

/// A cluster that drains for [`DRAIN`] and has the tag `orders`; and the addresses of its Redis protocol.
fn draining_cluster(nodes: u64) -> (Cluster, Vec<Port>) {
    let drain = format!("{}s", DRAIN.as_secs());
    let mut cluster = mintleaf().prepare(nodes, &["--drain", &drain]);
    let resp: Vec<Port> = (1..=nodes).map(|_| Port::claim()).collect();
    for (id, port) in (1..).zip(&resp) {
        cluster.add_flag(id, "--resp", port.addr().to_string());
    }
    cluster.start_all();
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 1000 })).ok();
    (cluster, resp)
}

fn readiness(api: Api) -> Option<Answer> {
    api.try_get("/readyz").ok()
}

/// Asks a node to stop; returns the time of the request.
fn ask_to_stop(cluster: &mut Cluster, id: u64) -> Instant {
    let api = cluster.api(id);
    cluster.process(id).signal("TERM");
    let asked = Instant::now();
    let answer = eventually("the node to be out of rotation", ms(500), || {
        readiness(api).filter(|answer| answer.status == 503)
    });
    let reasons = answer.json()["reasons"].as_array().unwrap().clone();
    let is_draining =
        |reason: &serde_json::Value| reason.as_str().unwrap().starts_with("draining: ");
    assert!(reasons.iter().any(is_draining), "{reasons:?}");
    asked
}

#[track_caller]
fn assert_stopped(cluster: &mut Cluster, id: u64) {
    let (code, log) = cluster.ended(id, STOPPED_WITHIN);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn connections_are_kept_in_the_first_half_and_end_with_an_answer_in_the_second() {
    let (mut cluster, _) = draining_cluster(1);
    let api = cluster.api(1);
    let mut kept: Vec<_> = REQUESTS.iter().map(|_| KeptConnection::open(api)).collect();
    // Each connection stays where its first request has put it: on the fast path, or with hyper.
    for (connection, request) in kept.iter_mut().zip(REQUESTS) {
        assert!(connection.ask(request).starts_with("HTTP/1.1 200 "), "{request}");
    }
    let asked = ask_to_stop(&mut cluster, 1);
    for (connection, request) in kept.iter_mut().zip(REQUESTS) {
        let head = connection.ask(request);
        assert!(head.starts_with("HTTP/1.1 200 ") && !head.contains("connection:"), "{head}");
    }
    assert!(asked.elapsed() < DRAIN / 2, "this machine is too slow for this test");
    pause(DRAIN / 2 + ms(100) - asked.elapsed());
    for (connection, request) in kept.iter_mut().zip(REQUESTS) {
        let head = connection.ask(request);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("connection: close"), "{head}");
        connection.assert_ended();
    }
    // A new client is served, and gets the same `connection: close`.
    let head = KeptConnection::open(api).ask(REQUESTS[0]);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("connection: close"), "{head}");
    assert_stopped(&mut cluster, 1);
    let took = asked.elapsed();
    assert!(took < DRAIN, "no connection was open any more, and it took {took:?}");
}

#[test]
fn a_node_leaves_after_half_the_time_without_clients_and_after_all_of_it_with_idle_ones() {
    let (mut cluster, _) = draining_cluster(1);
    for idle in [false, true] {
        let mut connection = KeptConnection::open(cluster.api(1));
        connection.ask(REQUESTS[0]);
        let held = idle.then_some(connection);
        let asked = Instant::now();
        cluster.process(1).signal("TERM");
        assert_stopped(&mut cluster, 1);
        let took = asked.elapsed();
        let earliest = if idle { DRAIN } else { DRAIN / 2 };
        assert!(took >= earliest && took < earliest + secs(2), "{took:?}, idle clients: {idle}");
        drop(held);
        cluster.start_all();
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (mut cluster, _) = draining_cluster(1);
    ask_to_stop(&mut cluster, 1);
    let again = Instant::now();
    cluster.process(1).signal("TERM");
    let (code, log) = cluster.ended(1, DRAIN / 2);
    assert!(code == Some(1) && again.elapsed() < secs(1), "{code:?} {log}");
}

#[test]
fn a_request_to_read_files_again_does_not_end_a_drain() {
    let (mut cluster, _) = draining_cluster(1);
    ask_to_stop(&mut cluster, 1);
    for _ in 0..3 {
        cluster.process(1).signal("HUP");
        pause(ms(20));
    }
    assert_eq!(cluster.api(1).get("/api/segment/get/orders").status, 200);
    assert_stopped(&mut cluster, 1);
}

#[test]
fn a_leader_hands_over_at_once_and_no_election_follows() {
    let (mut cluster, _) = draining_cluster(3);
    let leader = cluster.leader();
    let term = |api: Api| api.get("/v1/cluster").ok()["term"].as_u64().unwrap();
    let before = term(cluster.api(leader));
    let asked = ask_to_stop(&mut cluster, leader);
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    let next = eventually("another leader", secs(2), || {
        let known: Vec<_> = apis.iter().filter_map(|&api| known_leader(api)).collect();
        (known.len() == 3 && known.iter().all(|&it| it == known[0] && it != leader))
            .then(|| known[0])
    });
    assert!(asked.elapsed() < DRAIN / 2, "handed over after {:?}", asked.elapsed());
    // The node that drains answers changes like the others.
    let made = cluster.api(leader).post("/v1/tags", &json!({ "tag": "late" }));
    assert_eq!(made.status, 201, "{made:?}");
    assert_stopped(&mut cluster, leader);
    pause(secs(1));
    for id in cluster.others(leader) {
        assert_eq!(term(cluster.api(id)), before + 1, "one hand-over, and no election");
        assert_eq!(known_leader(cluster.api(id)), Some(next));
    }
}

#[test]
fn a_node_that_drains_and_is_made_the_leader_hands_over_again() {
    let (mut cluster, _) = draining_cluster(3);
    let leader = cluster.leader();
    let drains = cluster.others(leader)[0];
    ask_to_stop(&mut cluster, drains);
    let made = cluster.api(leader).post("/v1/cluster/leader", &json!({ "id": drains }));
    assert_eq!(made.status, 204, "{made:?}");
    let apis: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    eventually("another leader", DRAIN / 2, || {
        apis.iter().all(|&api| known_leader(api).is_some_and(|it| it != drains)).then_some(())
    });
    let made = cluster.api(drains).post("/v1/tags", &json!({ "tag": "late" }));
    assert_eq!(made.status, 201, "{made:?}");
    assert_stopped(&mut cluster, drains);
}

#[test]
fn a_node_that_is_removed_while_it_drains_ends_as_a_removed_one() {
    for leads in [false, true] {
        let (mut cluster, _) = draining_cluster(3);
        let leader = cluster.leader();
        let (drains, left) = (cluster.others(leader)[0], cluster.others(leader)[1]);
        let (drains, other) = if leads { (leader, left) } else { (drains, leader) };
        ask_to_stop(&mut cluster, drains);
        // A leader that drains hands over at the same time, and only one change is made at a time.
        eventually("the removal", DRAIN / 2, || {
            let removed = cluster.api(other).delete(&format!("/v1/cluster/nodes/{drains}"));
            let is_busy = removed.text().contains("another change is in progress");
            assert!(removed.status == 204 || is_busy, "{removed:?}");
            (removed.status == 204).then_some(())
        });
        let (code, log) = cluster.ended(drains, STOPPED_WITHIN);
        assert_eq!(code, Some(3), "no supervisor is to start it again: {log}");
        assert!(log.contains("was removed from the cluster"), "{log}");
        assert_eq!(cluster.api(other).post("/v1/tags", &json!({ "tag": "late" })).status, 201);
    }
}

#[test]
fn nodes_that_stop_together_do_not_hand_leadership_round() {
    let (mut cluster, _) = draining_cluster(3);
    let _kept: Vec<_> =
        cluster.ids().iter().map(|id| KeptConnection::open(cluster.api(*id))).collect();
    for id in cluster.ids() {
        cluster.process(id).signal("TERM");
    }
    let logs = cluster.ids().into_iter().map(|id| cluster.ended(id, DRAIN + STOPPED_WITHIN).1);
    let handed: usize = logs.map(|log| log.matches("handed leadership over").count()).sum();
    assert!(handed <= 2, "{handed} times");
}

/// Reads until the node has ended the connection; returns what arrived.
fn read_off(mut stream: &TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            panic!("reset: answers may be lost")
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn connections_of_the_redis_protocol_end_between_two_commands() {
    let (mut cluster, resp) = draining_cluster(1);
    let node: SocketAddr = resp[0].addr();
    let [mut busy, mut idle, mut within] = [(); 3].map(|()| RedisClient::connect(node));
    for client in [&mut busy, &mut idle, &mut within] {
        client.ask("INCR orders").integer();
    }
    let asked = ask_to_stop(&mut cluster, 1);
    busy.ask("INCR orders").integer();
    pause(DRAIN / 2 + ms(100) - asked.elapsed());

    // All commands that are sent together are answered. Then the connection ends.
    busy.send(&[command("INCR orders"), command("MINT orders COUNT 3")].concat());
    assert!(matches!(busy.answer(), Value::Integer(_)));
    assert_eq!(busy.answer().ids().len(), 3);
    assert!(read_off(busy.stream()).is_empty());

    let sent = command("INCR orders");
    let (half, rest) = sent.split_at(9);
    within.send(half);
    // An idle connection ends after three quarters of the drain, without a byte. One in the middle of a command
    // ends after its answer.
    assert!(read_off(idle.stream()).is_empty());
    let ended = asked.elapsed();
    assert!(ended >= DRAIN / 4 * 3 && ended < DRAIN, "{ended:?}");
    within.send(rest);
    within.answer().integer();
    assert!(read_off(within.stream()).is_empty());
    assert_stopped(&mut cluster, 1);
}

#[test]
fn dev_drains_when_it_is_told_to_and_not_otherwise() {
    let mut dev = mintleaf().dev();
    let asked = Instant::now();
    dev.process().signal("TERM");
    assert_eq!(dev.process().exit_code(STOPPED_WITHIN), Some(0));
    assert!(asked.elapsed() < secs(2), "{:?}", asked.elapsed());
}
