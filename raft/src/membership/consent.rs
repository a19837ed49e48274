//! A change of the voters that could never be committed is not begun.
//!
//! A joint configuration is in effect once it is appended, committed or not, and cannot be undone. If a majority of
//! the new voters is down, the cluster is lost, even if the remaining nodes are healthy. So the leader asks first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::progress::{CALL_TIMEOUT, Outcome, PING_AGAIN_INTERVAL};
use crate::core::Core;
use crate::message::{MembershipError, Request};
use crate::runtime::in_process;
use crate::types::Member;

/// How long the voters get to answer: a few of the longest round trips, and the start of a process that is just being
/// restarted.
const ASKING_MAX: Duration = Duration::from_secs(2);

/// Pings the voters that a change leaves, except this node, until a majority of them has answered.
///
/// # Errors
/// [`MembershipError::Conflict`], which names the voters that do not answer.
pub(super) async fn ask_voters(core: &Arc<Core>, voters: &BTreeSet<u64>) -> Outcome {
    let (me, deadline) = (core.identity.node_id(), Instant::now() + ASKING_MAX);
    let mut answered: BTreeSet<u64> = voters.iter().copied().filter(|id| *id == me).collect();
    let mut asked = JoinSet::new();
    for (id, member) in voters.iter().filter_map(|id| Some((*id, core.member(*id)?))) {
        if id != me {
            let core = Arc::clone(core);
            asked.spawn(in_process(async move {
                until_answered(&core, id, &member).await;
                id
            }));
        }
    }
    while 2 * answered.len() <= voters.len() {
        match timeout_at(deadline, asked.join_next()).await {
            Ok(Some(Ok(id))) => drop(answered.insert(id)),
            Ok(Some(Err(_))) => {}
            Ok(None) | Err(_) => return Err(could_never_commit(voters, &answered)),
        }
    }
    Ok(())
}

/// Pings a member until it answers. Callers set a timeout.
pub(super) async fn until_answered(core: &Core, id: u64, member: &Member) {
    while core.client.call(id, member, Request::Ping, CALL_TIMEOUT).await.is_err() {
        sleep(PING_AGAIN_INTERVAL).await;
    }
}

fn could_never_commit(voters: &BTreeSet<u64>, answered: &BTreeSet<u64>) -> MembershipError {
    let silent: Vec<_> = voters.difference(answered).map(|id| format!("node {id}")).collect();
    let do_not = if silent.len() == 1 { "does not" } else { "do not" };
    MembershipError::Conflict(format!(
        "{} {do_not} answer: {} of the {} voters that would be left can be reached and {} are needed, so the \
         change could never be committed and the cluster would stop. Bring back or remove what is missing \
         first; \"force\" (--force) begins the change all the same",
        silent.join(", "),
        answered.len(),
        voters.len(),
        voters.len() / 2 + 1,
    ))
}
