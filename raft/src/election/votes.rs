//! How a node judges candidates, and whether it may be a candidate itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use openraft::Vote;
use openraft::error::Fatal;
use tokio::time::Instant;

use crate::core::Core;
use crate::message::{Refusal, Response};
use crate::runtime::Spawner;
use crate::types::{RaftLogId, RaftVote, has_quorum};

/// Whether this node would let another node lead: it leads itself and no quorum answers it, or it has heard no leader
/// for the length of a leader lease (Raft thesis, 4.2.3 and 6.2).
pub(crate) fn would_elect_another(core: &Core) -> bool {
    let now = Instant::now();
    let (contact, timers) = (core.heard.contact(), core.heard.timers());
    if !core.leads() {
        return contact.leader_is_silent(now, timers.lease);
    }
    let members = core.identity.members();
    contact.without_quorum_for(core.identity.node_id(), &members, now) >= timers.election_max
}

/// Answers a pre-vote (Raft thesis, 9.6): whether this node would vote for a candidate with this log.
pub(crate) fn pre_vote(core: &Core, last: Option<RaftLogId>) -> Response {
    let reaches = core.last_log_id() <= last;
    Response::PreVote { granted: reaches && would_elect_another(core) }
}

/// Whether the leader that this node follows, or this node itself as leader, transferred its leadership to the
/// candidate. That leader's lease then no longer binds any node.
pub(crate) fn is_transfer(core: &Core, by: Option<RaftVote>) -> bool {
    by.is_some_and(|by| by.is_committed() && by == core.vote())
}

/// Stands for election at the leader's request (Raft thesis, 3.10). A request from any other node is refused.
pub(crate) async fn timeout_now(
    core: &Arc<Core>,
    sender: u64,
    by: RaftVote,
) -> Result<(), Refusal> {
    let from_leader = core.leader() == Some(sender);
    if !from_leader || !is_transfer(core, Some(by)) {
        return Err(Refusal::Failed("only its leader asks a node to take over".to_owned()));
    }
    if !may_campaign(core) {
        return Err(Refusal::Failed("this node is no voter".to_owned()));
    }
    core.transfer.take_over_from(by);
    elect(core).await.map_err(|error| Refusal::Failed(error.to_string()))
}

/// Makes openraft stand for election in the next term.
pub(super) async fn elect(core: &Arc<Core>) -> Result<(), Fatal<u64>> {
    // openraft gives this vote before its metrics show it.
    let vote = Vote::new(core.vote().leader_id.term + 1, core.identity.node_id());
    let asked = core.given_votes.ask(vote);
    core.raft.trigger().elect().await?;
    let core = Arc::clone(core);
    Spawner::current().spawn(async move {
        // openraft processes requests in order. If it leads by now, it ignores this one. If it has voted since, it
        // stands in a later term than the metrics showed.
        if let Ok(own) = core.raft.with_raft_state(|state| *state.vote_ref()).await {
            asked.ended_with(own);
        }
    });
    Ok(())
}

/// Whether this node is a quorum without any other, so that no other node can lead or win, and none holds a leader
/// lease.
pub(super) fn is_quorum_alone(core: &Core) -> bool {
    has_quorum(&core.identity.members(), &BTreeSet::from([core.identity.node_id()]))
}

/// Whether the membership that this node holds names its present store as a voter. An older membership may name a
/// store that was lost since, under the same id.
pub(super) fn may_campaign(core: &Core) -> bool {
    let (members, me) = (core.identity.members(), core.identity.node_id());
    let named = members.membership().get_node(&me);
    let is_named = named.is_some_and(|member| member.store == core.identity.store());
    is_named && members.voter_ids().any(|id| id == me)
}
