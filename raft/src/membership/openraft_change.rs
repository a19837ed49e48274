//! A change of the membership by openraft: two entries through a joint configuration if voters change (Raft
//! paper, 6).

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use tokio::time::timeout;

use super::consent::ask_voters;
use super::progress::{CALL_TIMEOUT, Outcome, no_leader, unavailable};
use crate::core::Core;
use crate::message::{MembershipError, Precaution};
use crate::types::Member;

/// What happens to voters that a change leaves without a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormerVoters {
    /// The voters become learners.
    Stay,
    /// The voters leave the membership.
    Leave,
}

/// Ends a joint configuration that another leader left behind. While it lasts, the cluster needs the majorities of
/// both configurations (Raft thesis, 4.3), and openraft does not end it by itself. A former voter stays as a learner:
/// the log does not show whether it was to be removed. An operator who wanted that asks again.
pub(super) async fn leave_joint_configuration(core: &Arc<Core>) -> Outcome {
    if !is_joint(core) {
        return Ok(());
    }
    let no_voter = ChangeMembers::AddVoterIds(BTreeSet::new());
    change_membership(core, no_voter, FormerVoters::Stay, Precaution::None).await?;
    tracing::info!("finished a change of the membership that was cut off");
    Ok(())
}

pub(super) fn is_joint(core: &Core) -> bool {
    core.identity.members().membership().get_joint_config().len() > 1
}

/// Carries a change through. Unless an operator forces it, a change of the voters begins only once a majority of the
/// voters that it leaves has answered.
pub(super) async fn change_membership(
    core: &Arc<Core>,
    change: ChangeMembers<u64, Member>,
    former_voters: FormerVoters,
    precaution: Precaution,
) -> Outcome {
    if let Some(voters) = voters_after(core, &change)
        && precaution == Precaution::AskVoters
    {
        ask_voters(core, &voters).await?;
    }
    let retain = former_voters == FormerVoters::Stay;
    let mut change = pin!(core.raft.change_membership(change, retain));
    // A leader that is deposed may never learn the fate of its entry. A leader that removes itself learns it shortly
    // after it has stopped leading.
    let changed = tokio::select! {
        changed = &mut change => changed,
        () = core.until_deposed() => {
            let lost = "leadership was lost meanwhile; look again later";
            let late = |_| MembershipError::NoLeader(lost.to_owned());
            timeout(CALL_TIMEOUT, change).await.map_err(late)?
        }
    };
    match changed {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
            Err(refused(&error))
        }
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => Err(no_leader()),
        Err(error) => Err(unavailable(error)),
    }
}

/// The voters that a change leaves; `None` if it does not change them.
fn voters_after(core: &Core, change: &ChangeMembers<u64, Member>) -> Option<BTreeSet<u64>> {
    let members = core.identity.members();
    let voters = members.membership().get_joint_config().last()?;
    match change {
        ChangeMembers::AddVoterIds(added) => Some(voters.union(added).copied().collect()),
        ChangeMembers::RemoveVoters(removed) => Some(voters.difference(removed).copied().collect()),
        _ => None,
    }
}

fn refused(error: &ChangeMembershipError<u64>) -> MembershipError {
    match error {
        ChangeMembershipError::InProgress(_) => MembershipError::Busy,
        ChangeMembershipError::LearnerNotFound(missing) => {
            MembershipError::Unknown(missing.node_id)
        }
        ChangeMembershipError::EmptyMembership(_) => {
            MembershipError::Conflict("the last voter cannot be removed".to_owned())
        }
    }
}
