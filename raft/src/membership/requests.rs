//! Who carries a change out, and when: the leader, one at a time, in a separate task.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::progress::{
    CALL_TIMEOUT, LAG_ENTRIES_MAX, Outcome, is_caught_up, no_leader, unavailable,
};
use super::{change, consent, transfer};
use crate::core::Core;
use crate::message::{Change, MembershipError, Precaution, Request, Response};
use crate::runtime::Spawner;
use crate::types::Member;

/// How long a caller waits for a change; the change itself goes on.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a change waits for the previous one: a newcomer is visible a moment before the change that adds it has
/// ended.
const TURN_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before the leader is looked up again.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_millis(100);

/// Has changes carried out.
pub(crate) struct Membership {
    core: Arc<Core>,
    /// Held while a change is carried out.
    changing: Arc<Mutex<()>>,
    /// Runs the changes, which must outlive their callers.
    spawner: Spawner,
    /// Why the membership does not take this node's new addresses, as last logged for the operator.
    untold: parking_lot::Mutex<Option<String>>,
    /// The voter that was last asked to take over so that a learner could follow.
    asked_last: parking_lot::Mutex<Option<u64>>,
}

impl Membership {
    /// Changes run as tasks of the current process, on its runtime.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let (changing, untold, asked_last) = Default::default();
        Self { core, changing, spawner: Spawner::current(), untold, asked_last }
    }

    /// Has a change carried out, and waits for a leader until the deadline. Asking again is safe: a change that has
    /// happened already has nothing left to do, and a removal names the data directory that it means.
    pub(crate) async fn change(
        &self,
        change: Change,
        precaution: Precaution,
        deadline: Instant,
    ) -> Outcome {
        let mut may_have_happened = false;
        loop {
            let changed = self.change_now(change.clone(), precaution);
            let outcome = match timeout_at(deadline, changed).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    return Err(unavailable("not finished yet, and going on; look again later"));
                }
            };
            match (outcome, &change) {
                (Err(MembershipError::NoLeader(_)), _) => may_have_happened = true,
                // An earlier attempt that its caller lost track of is still under way.
                (Err(MembershipError::Busy), _) if may_have_happened => {}
                (Err(MembershipError::Unknown(_)), Change::Remove { .. }) if may_have_happened => {
                    return Ok(());
                }
                (outcome, _) => return outcome,
            }
            if Instant::now() + ASK_AGAIN_INTERVAL >= deadline {
                return Err(no_leader());
            }
            tokio::time::sleep(ASK_AGAIN_INTERVAL).await;
        }
    }

    /// Carries a change out here if this node leads, and asks the leader otherwise.
    pub(crate) async fn change_now(&self, change: Change, precaution: Precaution) -> Outcome {
        let core = &self.core;
        let leader = core.leader().ok_or_else(no_leader)?;
        if leader == core.identity.node_id() {
            return self.change_as_leader(change, precaution).await;
        }
        let member = core.member(leader).ok_or_else(no_leader)?;
        let within = CHANGE_TIMEOUT + CALL_TIMEOUT;
        let request = match precaution {
            Precaution::AskVoters => Request::Change(change),
            Precaution::None => Request::ForceChange(change),
        };
        match core.client.call(leader, &member, request, within).await {
            Ok(Response::Changed(outcome)) => outcome,
            Ok(_) => Err(unavailable("the leader answered something other than what was asked")),
            Err(error) => Err(MembershipError::NoLeader(format!("the leader was lost: {error}"))),
        }
    }

    /// Carries changes out one at a time, each in a separate task. A caller that goes away must not leave the
    /// membership half-way between two configurations, or the leader without heartbeats.
    pub(crate) async fn change_as_leader(&self, change: Change, precaution: Precaution) -> Outcome {
        if !self.core.leads() {
            return Err(no_leader());
        }
        change::check_addresses(&change)?;
        // Dialled before the turn is taken, so that a node with a wrong address does not keep others waiting.
        change::dial_told_address(&self.core, &change).await?;
        let turn = timeout(TURN_TIMEOUT, Arc::clone(&self.changing).lock_owned());
        let Ok(one_at_a_time) = turn.await else {
            return Err(MembershipError::Busy);
        };
        let core = Arc::clone(&self.core);
        let carried_out = self.spawner.spawn(async move {
            let _one_at_a_time = one_at_a_time;
            change::carry_out(&core, change, precaution).await
        });
        match timeout(CHANGE_TIMEOUT, carried_out).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(unavailable("the node is stopping")),
            Err(_) => Err(unavailable("not finished yet, and going on; look again later")),
        }
    }

    /// Asks the voters other than `id`, as its removal would, and changes nothing.
    pub(crate) async fn ask_voters_without(&self, id: u64) -> Outcome {
        let mut voters: BTreeSet<u64> = self.core.identity.members().voter_ids().collect();
        if voters.remove(&id) && !voters.is_empty() {
            consent::ask_voters(&self.core, &voters).await?;
        }
        Ok(())
    }

    /// Sends the leader this node's addresses if the membership has others.
    pub(crate) async fn tell_addresses(&self) {
        let (me, myself) = (self.core.identity.node_id(), self.core.myself());
        let known = self.core.member(me).filter(|known| known.store == myself.store);
        if known.is_none_or(|known| known == myself) {
            return;
        }
        let Member { raft, http, store } = myself;
        let store = Some(store);
        let add = Change::Add { id: me, raft, http, voter: false, store, release: None };
        match self.change_now(add, Precaution::AskVoters).await {
            Ok(()) => tracing::info!(node = me, "told the cluster this node's new addresses"),
            Err(MembershipError::Unavailable(why)) => {
                let before = self.untold.lock().replace(why.clone());
                if before.as_ref() != Some(&why) {
                    tracing::warn!(node = me, %why, "the cluster does not take over new addresses");
                }
            }
            Err(error) => tracing::debug!(node = me, %error, "new addresses are not known yet"),
        }
    }

    /// Hands leadership to a voter that would lead better, unless a change is under way.
    pub(crate) async fn hand_over(&self, id: u64) -> Outcome {
        let Ok(_one_at_a_time) = self.changing.try_lock() else {
            return Err(MembershipError::Busy);
        };
        transfer::hand_over(&self.core, id).await
    }

    /// The parts of the node that membership changes share with its other tasks.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Finishes a change that its leader did not live to finish, unless another change is under way.
    pub(crate) async fn finish_change(&self) {
        if !self.core.leads() || !change::is_unfinished(&self.core) {
            return;
        }
        let Ok(_one_at_a_time) = self.changing.try_lock() else { return };
        match change::finish(&self.core).await {
            Ok(()) => {}
            // A voter that leads now does the rest.
            Err(MembershipError::NoLeader(_)) if !self.core.leads() => {}
            Err(error) => tracing::warn!(%error, "a change of the membership waits to be finished"),
        }
    }

    /// Makes another voter lead in the next term while a learner holds a later vote than this leader's. That voter's
    /// log must reach as far as the leader's. After a failure the next voter is tried, because a voter may be cut off
    /// from all nodes except this leader. The learner was a voter once, and takes no entry of an earlier term. Its
    /// vote deposes no leader, so the term rises by a transfer of leadership.
    pub(crate) async fn raise_term_for_learners(&self) {
        let core = &self.core;
        let (me, own) = (core.identity.node_id(), core.vote());
        let later = core.heard.contact().later_vote(Instant::now()).filter(|later| *later > own);
        let Some(later) = later.filter(|_| core.leader() == Some(me)) else { return };
        let voters: BTreeSet<u64> = core.identity.members().voter_ids().collect();
        let can_take_over = |id: &u64| {
            *id != me && core.heard.is_reachable(*id) && is_caught_up(core, *id, LAG_ENTRIES_MAX)
        };
        let voters: BTreeSet<u64> = voters.into_iter().filter(can_take_over).collect();
        let Some(id) = next_in_turn(&voters, &mut self.asked_last.lock()) else { return };
        tracing::info!(peer = id, %later, "a learner voted in a later term: handing over to catch up");
        let transfer = Change::Transfer { id };
        if let Err(error) = self.change_as_leader(transfer, Precaution::AskVoters).await {
            tracing::warn!(%error, "cannot hand over so that a learner can follow");
        }
    }
}

/// Returns the id after the last one in turn, and makes it the last one.
fn next_in_turn(ids: &BTreeSet<u64>, last: &mut Option<u64>) -> Option<u64> {
    let after = last.and_then(|last| ids.range(last.saturating_add(1)..).next());
    let next = after.or_else(|| ids.first()).copied();
    *last = next.or(*last);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_voter_that_can_take_over_has_its_turn() {
        let (ids, mut last) = (BTreeSet::from([2, 3, 5]), None);
        let turns: Vec<_> = (0..4).filter_map(|_| next_in_turn(&ids, &mut last)).collect();
        assert_eq!(turns, [2, 3, 5, 2]);
        assert_eq!(next_in_turn(&BTreeSet::from([5]), &mut last), Some(5));
        assert_eq!(next_in_turn(&BTreeSet::new(), &mut last), None);
        assert_eq!(next_in_turn(&ids, &mut last), Some(2));
        let mut past = Some(u64::MAX);
        assert_eq!(next_in_turn(&ids, &mut past), Some(2));
    }
}
