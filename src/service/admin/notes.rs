//! How nodes take note of a change before it is answered: the node that carried it to the leader, and where it binds
//! what nodes hold, every node that hears the leader.
//!
//! A node that takes note asks the leader how far the log is committed, and applies it up to there, as for a
//! linearizable read. The leader passes a request to take note on to every member that it reaches. So a member also
//! learns of it when the asking node cannot reach that member.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mintleaf_codec as codec;
use mintleaf_raft::{Handle, LeaderRequests, Pending};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::replica::Replica;
use crate::service::leader::LeaderQueue;

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

    /// Whether a request is one of these.
    fn is(request: &[u8]) -> bool {
        request.first() == Some(&FORMAT)
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
    let passed_on = node.ask_leader(Note::PassOn.encode(), deadline);
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

/// Has this node answer what other members ask of it: `leader` what they ask of it as the leader.
pub(in crate::service) fn answer_members(replica: &Arc<Replica>, leader: &LeaderQueue) {
    let requests = MemberRequests { replica: Arc::downgrade(replica), leader: leader.clone() };
    replica.node().answer_by(Arc::new(requests));
}

struct MemberRequests {
    /// The replica holds the node, which holds this.
    replica: Weak<Replica>,
    leader: LeaderQueue,
}

impl LeaderRequests for MemberRequests {
    fn answer(&self, request: Vec<u8>, deadline: Instant) -> Pending<'_, Option<Vec<u8>>> {
        if !Note::is(&request) {
            return self.leader.answer(request, deadline);
        }
        let replica = self.replica.clone();
        Box::pin(async move {
            let note = codec::decode_as(FORMAT, &request).ok()?;
            let replica: Arc<Replica> = replica.upgrade()?;
            match note {
                Note::Take => replica.read_barrier(deadline).await.ok()?,
                Note::PassOn => pass_on(replica.node(), deadline).await,
            }
            Some(Vec::new())
        })
    }
}
