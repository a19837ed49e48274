//! Who takes note of a change, and who passes it on.

use std::net::TcpListener;
use std::sync::Arc;

use mintleaf_raft::{LeaderRequests, Node, Options, Pending};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;
use crate::machine::clock::SystemClock;
use crate::replica::{NoListener, StateReplica};
use crate::server::RaftClock;

/// Keeps what a member was asked.
#[derive(Default)]
struct Asked(Mutex<Vec<Vec<u8>>>);

impl LeaderRequests for Asked {
    fn answer(&self, request: Vec<u8>, _: Instant) -> Pending<'_, Option<Vec<u8>>> {
        self.0.lock().push(request);
        Box::pin(async { Some(Vec::new()) })
    }
}

async fn eventually(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "not in time");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_takes_note_though_the_leader_has_no_answer() {
    let dir = TempDir::new().unwrap();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let free = [free(), free(), free()].map(|socket| socket.local_addr().unwrap());
    let peers = (1..=3).zip(free.map(|address| address.to_string())).collect();
    let mut members = Vec::new();
    for (node_id, listen) in (1..=3).zip(free) {
        let options = Options {
            listen: Some(listen),
            advertise_raft: None,
            peers: Clone::clone(&peers),
            ..Options::alone(node_id, dir.path().join(node_id.to_string()))
        };
        let state = Arc::new(StateReplica::new(|| Ok([7; 32]), Arc::new(NoListener)));
        let clock = Arc::new(RaftClock(Arc::new(SystemClock::default())));
        let node = Node::open(options, Arc::clone(&state) as _, clock).await.unwrap();
        members.push((node, state));
    }
    let [(leader, _), (asking, state), (third, _)] = <[_; 3]>::try_from(members).ok().unwrap();
    let replica = Replica::new(asking.handle(), state);
    let asked = Arc::new(Asked::default());
    third.handle().answer_by(Arc::clone(&asked) as _);
    eventually(|| replica.node().leader_id().is_some()).await;
    replica.node().transfer_leader(1).await.unwrap();
    let reaches_all = || replica.node().status().members.iter().all(|member| member.reachable);
    eventually(|| replica.node().leader_id() == Some(1) && reaches_all()).await;
    // Nothing answers the members at the leader, as if it had just ended.
    all_take_note(&replica).await;
    assert_eq!(*asked.0.lock(), [Note::Take.encode()]);
    drop(replica);
    for node in [leader, asking, third] {
        node.shutdown().await;
    }
}
