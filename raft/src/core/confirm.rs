//! Whether this node leads, confirmed by a quorum.

use std::sync::Arc;

use openraft::error::{CheckIsLeaderError, RaftError};
use tokio::time::{Instant, timeout_at};

use super::Core;
use crate::error::NotConfirmed;
use crate::message::{Request, Response};
use crate::types::{RaftMembership, RaftVote};

impl Core {
    /// Has a quorum confirm that this node leads, with messages sent after this call began. Returns the term that it
    /// leads. `DESIGN.md` ("Confirmed leadership") has the argument.
    pub(crate) async fn confirm_leadership(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<u64, NotConfirmed> {
        let (vote, members) = self.metrics(|now| (now.vote, Arc::clone(&now.membership_config)));
        let me = self.identity.node_id();
        if !vote.is_committed() || vote.leader_id.node_id != me {
            return Err(NotConfirmed::NotLeading);
        }
        let all_report_votes =
            members.voter_ids().all(|id| id == me || self.heard.weather().takes_heartbeats(id));
        if !all_report_votes {
            return self.confirm_by_openraft(deadline).await;
        }
        let confirmed = timeout_at(deadline, self.ask_for_later_votes(vote, &members)).await;
        match confirmed.unwrap_or(false) {
            true => Ok(vote.leader_id.term),
            false => Err(NotConfirmed::NoQuorum),
        }
    }

    /// Asks all voters in parallel for the latest vote that they may have given. Returns whether a quorum, this node
    /// included, has given none after `vote`.
    async fn ask_for_later_votes(
        self: &Arc<Self>,
        vote: RaftVote,
        members: &RaftMembership,
    ) -> bool {
        let confirmed = self.quorum_agrees(members, move |core, id, member| async move {
            let within = core.heard.weather().message_max(id);
            let request = Request::Heartbeat { lead: None };
            let answer = core.client.call(id, &member, request, within).await;
            matches!(answer, Ok(Response::Heartbeat(its)) if its.vote <= vote)
        });
        confirmed.await && self.latest_vote() <= vote
    }

    /// Does the same through openraft's own round, which waits for the disks of voters that are writing. Used while a
    /// voter runs a release that does not report its vote.
    async fn confirm_by_openraft(&self, deadline: Instant) -> Result<u64, NotConfirmed> {
        let confirmed = match timeout_at(deadline, self.raft.get_read_log_id()).await {
            Ok(Ok(confirmed)) => confirmed.0.map(|log_id| log_id.leader_id),
            Ok(Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_)))) => None,
            Ok(Err(_)) | Err(_) => return Err(NotConfirmed::NoQuorum),
        };
        // The term comes from the log id, not from a metric: metrics lag.
        let own = confirmed.filter(|leader| leader.node_id == self.identity.node_id());
        own.map(|leader| leader.term).ok_or(NotConfirmed::NotLeading)
    }
}
