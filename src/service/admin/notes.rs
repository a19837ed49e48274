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
mod tests;
