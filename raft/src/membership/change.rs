//! How the leader carries out each kind of change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use tokio::time::{Instant, sleep_until, timeout};

use super::consent::{ask_voters, until_answered};
use super::openraft_change::{
    FormerVoters, change_membership, is_joint, leave_joint_configuration,
};
use super::progress::{
    CALL_TIMEOUT, LAG_ENTRIES_MAX, Outcome, no_leader, unavailable, wait_until_caught_up,
};
use super::{level, transfer};
use crate::bootstrap::handshake::{self, HANDSHAKE_TIMEOUT};
use crate::client::CallError;
use crate::core::Core;
use crate::message::{Change, MembershipError, Precaution, Purpose, Refusal, Request};
use crate::raft_storage::disk_format;
use crate::runtime::SparseLines;
use crate::types::Member;
use crate::types::bounds::{BATCH_BYTES_MAX, check_address};

/// A learner that takes longer than this to catch up stays a learner for now.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(6);

/// Log lines about nodes that do not answer at the address that they announce.
static UNREACHED: SparseLines = SparseLines::each_second();

pub(super) async fn carry_out(core: &Arc<Core>, change: Change, precaution: Precaution) -> Outcome {
    settle_members(core).await?;
    finish(core).await?;
    match change {
        Change::Add { id, raft, http, voter, store, release } => {
            match release {
                Some(release) => level::check_supports(core, id, &release)?,
                // A member that announces its addresses may have been removed since.
                None if store.is_some() && core.member(id).is_none() => {
                    return Err(MembershipError::Unknown(id));
                }
                None => {}
            }
            add(core, id, raft, http, voter, store, precaution).await
        }
        Change::RaiseLevel => level::raise(core).await,
        Change::Remove { id, store } => remove(core, id, store, precaution).await,
        Change::Transfer { id } => transfer::transfer(core, id).await,
    }
}

/// Whether another leader left a change behind that [`finish`] has to end.
pub(super) fn is_unfinished(core: &Core) -> bool {
    is_joint(core) || voters_over_a_learner(core).is_some()
}

/// Ends what another leader left behind. openraft lets a leader go on that the change leaves without a vote. It would
/// count towards no quorum, so it first makes a voter lead, which ends the change.
pub(super) async fn finish(core: &Arc<Core>) -> Outcome {
    match voters_over_a_learner(core) {
        Some(voters) => Err(make_another_lead(core, &voters).await),
        None => leave_joint_configuration(core).await,
    }
}

/// The voters once a change that is under way has ended, if this node is a member then and none of them.
fn voters_over_a_learner(core: &Core) -> Option<BTreeSet<u64>> {
    let (members, me) = (core.identity.members(), core.identity.node_id());
    members.membership().get_node(&me)?;
    let voters = members.membership().get_joint_config().last()?;
    (!voters.contains(&me)).then(|| voters.clone())
}

/// Waits until the membership in effect here is committed, this node is sure to lead, and it has applied everything
/// that was committed before. Only then may it report a change as done already or impossible. The uncommitted
/// membership of a leader that was cut off is in effect only on that leader and never elsewhere, and a leader that
/// was just elected may not have applied the entry that raised the level.
async fn settle_members(core: &Core) -> Outcome {
    let settled = async {
        let committed = core.read_index_as_leader().await?;
        let index = core.identity.members().log_id().map(|id| id.index).max(Some(committed));
        let mut metrics = core.raft.metrics();
        metrics.wait_for(|now| now.last_applied.map(|id| id.index) >= index).await.ok()?;
        Some(())
    };
    let settled = timeout(CALL_TIMEOUT, settled).await;
    let no_quorum = || MembershipError::NoLeader("no quorum confirms the membership".to_owned());
    settled.ok().flatten().ok_or_else(no_quorum)
}

/// Refuses addresses that the membership must not hold, whether an operator or the node itself supplied them.
pub(super) fn check_addresses(change: &Change) -> Outcome {
    let Change::Add { raft, http, .. } = change else { return Ok(()) };
    [raft, http]
        .into_iter()
        .try_for_each(|address| check_address(address).map_err(MembershipError::Conflict))
}

/// Refuses a membership whose entry might outgrow a record of the log, now or once all of its nodes vote. A leader
/// that appended it would stop, and so would each later leader that got the same request.
fn check_size(core: &Core, id: u64, member: &Member) -> Outcome {
    let members = core.identity.members();
    let others = members.nodes().filter(|(other, _)| **other != id);
    let mut nodes: BTreeMap<u64, Member> =
        others.map(|(id, member)| (*id, member.clone())).collect();
    nodes.insert(id, member.clone());
    if disk_format::longest_membership_entry(nodes) <= BATCH_BYTES_MAX {
        return Ok(());
    }
    let why =
        "the membership has no room for another node with these addresses: remove a node first";
    Err(MembershipError::Conflict(why.to_owned()))
}

/// Dials the internal address that a joining node or a moved member announces, before the membership records it. That
/// very node and its store have to answer. So no node can make the cluster send a member's messages elsewhere, and a
/// node that was given a wrong address finds out.
///
/// The error does not reveal what listens there instead, and takes as long as silence would, so this request is no
/// way to explore a network. The node is free to ask again.
pub(super) async fn dial_told_address(core: &Core, change: &Change) -> Outcome {
    let Change::Add { id, raft, store: Some(store), .. } = change else { return Ok(()) };
    let is_there = |member: &Member| (&member.raft, member.store) == (raft, *store);
    if core.member(*id).as_ref().is_some_and(is_there) {
        return Ok(());
    }
    let silent_at = Instant::now() + HANDSHAKE_TIMEOUT;
    let found = match handshake::send(core, Some(*id), raft, Purpose::Join).await {
        Ok((from, _)) if (from.node_id, from.store) == (*id, *store) => return Ok(()),
        Ok((from, _)) => format!("node {} listens there, with another directory", from.node_id),
        Err(error) => error.to_string(),
    };
    if let Some(others) = UNREACHED.take() {
        let what = "a node does not answer at the address that it tells";
        tracing::info!(peer = id, %raft, %found, others, "{what}");
    }
    sleep_until(silent_at).await;
    Err(unavailable(format!(
        "node {id} does not answer at {raft}: check --advertise-raft, or its own entry in --peers"
    )))
}

/// Adds a node as a learner, or changes its role or its addresses.
async fn add(
    core: &Arc<Core>,
    id: u64,
    raft: String,
    http: String,
    voter: bool,
    store: Option<u128>,
    precaution: Precaution,
) -> Outcome {
    let asks_for_itself = store.is_some();
    let member = match store {
        Some(store) => Member { raft, http, store },
        None => ask_newcomer(core, id, raft, http).await?,
    };
    match core.member(id) {
        Some(present) if present.store != member.store => {
            let why = format!(
                "node {id} is a member already, with another data directory: check --node-id and \
                 --data; if that directory is lost, remove the node first"
            );
            return Err(MembershipError::Conflict(why));
        }
        Some(present) if present == member => {}
        present => {
            check_size(core, id, &member)?;
            let nodes = BTreeMap::from([(id, member.clone())]);
            let set = ChangeMembers::SetNodes(nodes);
            change_membership(core, set, FormerVoters::Leave, precaution).await?;
            let (raft, http) = (member.raft, member.http);
            match present {
                None => tracing::info!(peer = id, raft, "added a learner"),
                Some(_) => {
                    tracing::info!(peer = id, raft, http, "a member has other addresses now");
                }
            }
        }
    }
    match voter {
        true => promote(core, id, precaution).await,
        false if asks_for_itself => Ok(()),
        false => demote(core, id, precaution).await,
    }
}

/// Asks a newcomer for its store. A member that is down at its known address is added as the membership describes it.
/// Anything else at the address is not a node that can be added. Only the log says what it is, and the error takes as
/// long as silence would, so that callers cannot use this request to explore a network.
async fn ask_newcomer(
    core: &Core,
    id: u64,
    raft: String,
    http: String,
) -> Result<Member, MembershipError> {
    let foreign = || {
        let why = format!("the node at {raft} belongs to another cluster; check the address");
        MembershipError::WrongCluster(why)
    };
    let silent_at = Instant::now() + HANDSHAKE_TIMEOUT;
    let asked = match handshake::send(core, None, &raft, Purpose::Join).await {
        Err(CallError::Refused { refusal: Refusal::WrongCluster { .. }, .. }) => {
            return Err(foreign());
        }
        Ok((_, introduction))
            if introduction
                .cluster
                .is_some_and(|cluster| Some(cluster) != core.identity.cluster()) =>
        {
            return Err(foreign());
        }
        Ok((from, introduction)) if from.node_id == id => Ok((from, introduction)),
        Ok((from, _)) => Err(format!("node {} listens there", from.node_id)),
        Err(error) => Err(error.to_string()),
    };
    match asked {
        Ok((from, introduction)) => {
            level::check_supports(core, id, &introduction.release)?;
            let http = if http.is_empty() { introduction.http } else { http };
            Ok(Member { raft, http, store: from.store })
        }
        Err(found) => {
            tracing::info!(peer = id, %raft, %found, "no node to add");
            let present = core.member(id).filter(|present| present.raft == raft);
            let Some(present) = present else {
                sleep_until(silent_at).await;
                return Err(no_such_node(id, &raft));
            };
            let http = if http.is_empty() { present.http } else { http };
            Ok(Member { http, ..present })
        }
    }
}

/// Makes a voter a learner. A leader that is to become a learner first makes another voter lead, and the caller asks
/// that one.
async fn demote(core: &Arc<Core>, id: u64, precaution: Precaution) -> Outcome {
    let voters: BTreeSet<u64> = core.identity.members().voter_ids().collect();
    if !voters.contains(&id) {
        return Ok(());
    }
    let others: BTreeSet<u64> = voters.into_iter().filter(|voter| *voter != id).collect();
    if others.is_empty() {
        let why = "the last voter cannot become a learner".to_owned();
        return Err(MembershipError::Conflict(why));
    }
    if id == core.identity.node_id() {
        // The successor asks the voters again. This node asks first, so that a refused change leaves everything as it
        // was.
        if precaution == Precaution::AskVoters {
            ask_voters(core, &others).await?;
        }
        return Err(make_another_lead(core, &others).await);
    }
    let demotion = ChangeMembers::RemoveVoters(BTreeSet::from([id]));
    change_membership(core, demotion, FormerVoters::Stay, precaution).await?;
    tracing::info!(peer = id, "made a voter a learner");
    Ok(())
}

/// Makes one of these voters lead: the one that follows most closely, reachable ones first. Returns what the caller of
/// a change gets, who then asks that one.
async fn make_another_lead(core: &Core, voters: &BTreeSet<u64>) -> MembershipError {
    let matched = core.metrics(|now| now.replication.clone()).unwrap_or_default();
    let closeness = |id: &u64| (core.heard.is_reachable(*id), matched.get(id).copied().flatten());
    let Some(successor) = voters.iter().copied().max_by_key(closeness) else {
        return no_leader();
    };
    match transfer::transfer(core, successor).await {
        Ok(()) => MembershipError::NoLeader(format!("node {successor} leads now; ask it")),
        Err(error) => error,
    }
}

/// Makes a learner a voter once it has caught up (Raft thesis, 4.2.1).
async fn promote(core: &Arc<Core>, id: u64, precaution: Precaution) -> Outcome {
    let members = core.identity.members();
    let uniform = members.membership().get_joint_config().len() == 1;
    if uniform && members.voter_ids().any(|voter| voter == id) {
        return Ok(());
    }
    let member = core.member(id).ok_or(MembershipError::Unknown(id))?;
    // A member's last known progress and sign of life mean nothing if it is down by now, and once it has a vote the
    // cluster needs it. So it is pinged.
    let caught_up = async {
        wait_until_caught_up(core, id, LAG_ENTRIES_MAX).await;
        until_answered(core, id, &member).await;
    };
    let late = |_| unavailable(format!("node {id} is a learner and still catching up; ask again"));
    timeout(CATCH_UP_TIMEOUT, caught_up).await.map_err(late)?;
    let promotion = ChangeMembers::AddVoterIds(BTreeSet::from([id]));
    change_membership(core, promotion, FormerVoters::Leave, precaution).await?;
    tracing::info!(peer = id, "promoted a learner to voter");
    Ok(())
}

/// Removes a node, voter or learner.
async fn remove(core: &Arc<Core>, id: u64, store: u128, precaution: Precaution) -> Outcome {
    let member = core.member(id).ok_or(MembershipError::Unknown(id))?;
    if store != member.store {
        let why = format!("node {id} has joined again since, with another data directory");
        return Err(MembershipError::Conflict(why));
    }
    let voters: BTreeSet<u64> = core.identity.members().voter_ids().collect();
    if voters == BTreeSet::from([id]) {
        return Err(MembershipError::Conflict("the last voter cannot be removed".to_owned()));
    }
    let ids = BTreeSet::from([id]);
    let removal = match voters.contains(&id) {
        true => ChangeMembers::RemoveVoters(ids),
        false => ChangeMembers::RemoveNodes(ids),
    };
    change_membership(core, removal, FormerVoters::Leave, precaution).await?;
    tracing::info!(peer = id, "removed a node");
    tell_removed(core, id, &member).await;
    Ok(())
}

/// Notifies a node that it was removed. Replication to it has ended, so it would not learn of it otherwise.
async fn tell_removed(core: &Core, id: u64, member: &Member) {
    if id == core.identity.node_id() {
        return;
    }
    let members_index = core.identity.members().log_id().map_or(0, |log_id| log_id.index);
    let removed = Request::Removed { members_index };
    if let Err(error) = core.client.call(id, member, removed, CALL_TIMEOUT).await {
        tracing::info!(peer = id, %error, "the removed node could not be told");
    }
}

/// The only answer about an address where there is no node that can be added.
fn no_such_node(id: u64, raft: &str) -> MembershipError {
    MembershipError::Conflict(format!(
        "there is no new node {id} at {raft}: check both, that it was started with --join, and that it has \
         the cluster's secret, or a certificate of its CA"
    ))
}
