//! How nodes take note of a change before it is answered: the node that carried it to the leader, and where it binds
//! what nodes hold, every node that hears the leader.
//!
//! A node that takes note asks the leader how far the log is committed, and applies it up to there, as for a
//! linearizable read. The leader passes a request to take note on to every member that it reaches. So a member also
//! learns of it when the asking node cannot reach that member. If the leader does not answer that, the asking node passes
//! the request on to the members that it reaches itself.

use std::time::Duration;

use mintleaf_codec as codec;
use mintleaf_raft::Handle;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::replica::Replica;

/// How long the answer to a change waits for nodes to take note. They hear of commits within a heartbeat.
const NOTE_MAX: Duration = Duration::from_millis(500);

/// The format of a [`Note`], in its first byte. A node of a release that does not know it has no answer, and is not
/// waited for.
const FORMAT: u8 = 2;

/// What one member asks of another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Note {
    /// Apply what is committed by now.
    Take,
    /// Have every member that you reach do so.
    PassOn,
}

impl Note {
    fn encode(self) -> Vec<u8> {
        codec::encode(FORMAT, &self)
    }
}

/// Waits until this node knows of a change that it has carried to the leader, so that it does not go on for a moment as
/// if there were none. The change is made even if the wait fails.
pub(in crate::service) async fn take_note(replica: &Replica) {
    let node = replica.node();
    if node.leader_id() != Some(node.node_id()) {
        let _ = replica.read_barrier(Instant::now() + NOTE_MAX).await;
    }
}

/// Waits until every node that hears the leader knows of a change. The change is made even if the wait fails.
pub(in crate::service) async fn all_take_note(replica: &Replica) {
    let (node, deadline) = (replica.node(), Instant::now() + NOTE_MAX);
    if node.leader_id() == Some(node.node_id()) {
        return pass_on(node, deadline).await;
    }
    let passed_on = async {
        let leader = node.leader_id();
        let is_passed_on = tokio::select! {
            answer = node.ask_leader(Note::PassOn.encode(), deadline) => answer.is_ok(),
            () = node.leader_other_than(leader) => false,
        };
        // The leader that made the change may be gone by now. The members that this node asks in its place look for the
        // next one themselves.
        if !is_passed_on {
            pass_on(node, deadline).await;
        }
    };
    let _ = tokio::join!(passed_on, replica.read_barrier(deadline));
}

/// Has every other member take note that recently showed a sign of life.
async fn pass_on(node: &Handle, deadline: Instant) {
    let others = node.status().members.into_iter();
    let others = others.filter(|member| member.reachable && member.id != node.node_id());
    let mut asked = JoinSet::new();
    for member in others {
        let node = node.clone();
        asked.spawn(async move {
            let _ = node.ask_member(member.id, Note::Take.encode(), deadline).await;
        });
    }
    while asked.join_next().await.is_some() {}
}

/// Whether a request of another member is one to take note.
pub(super) fn is_note(request: &[u8]) -> bool {
    request.first() == Some(&FORMAT)
}

/// Carries out a request of another member to take note, and returns the answer.
pub(super) async fn answer(
    replica: &Replica,
    request: &[u8],
    deadline: Instant,
) -> Option<Vec<u8>> {
    match codec::decode_as(FORMAT, request).ok()? {
        Note::Take => replica.read_barrier(deadline).await.ok()?,
        Note::PassOn => pass_on(replica.node(), deadline).await,
    }
    Some(Vec::new())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use mintleaf_raft::{LeaderRequests, Node, Options, Pending, Security, Tuning};
    use parking_lot::Mutex;
    use tempfile::TempDir;
    use tokio::time::sleep;

    use super::*;
    use crate::machine::clock::{Clock, SystemClock};
    use crate::replica::{NoListener, StateReplica};

    struct MachineClock(SystemClock);

    impl mintleaf_raft::Clock for MachineClock {
        fn now_ms(&self) -> u64 {
            self.0.now_ms()
        }
    }

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
                node_id,
                data: dir.path().join(node_id.to_string()),
                fresh_store: node_id.into(),
                boot_nonce: node_id.into(),
                moved: false,
                listen: Some(listen),
                advertise_raft: None,
                advertise_http: String::new(),
                zone: String::new(),
                peers: Clone::clone(&peers),
                join: None,
                security: Security::Plain,
                tuning: Tuning::default(),
            };
            let state = Arc::new(StateReplica::new(|| Ok([7; 32]), Arc::new(NoListener)));
            let clock = Arc::new(MachineClock(SystemClock::default()));
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
}
