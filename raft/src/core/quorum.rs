//! Questions that a quorum answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::Core;
use crate::runtime::in_process;
use crate::types::{Member, RaftMembership, has_quorum};

impl Core {
    /// Asks the other voters in parallel. Returns `true` as soon as a quorum agrees, this node included, and `false`
    /// once all have answered without one. `ask` bounds its own wait.
    pub(crate) async fn quorum_agrees<A>(
        self: &Arc<Self>,
        members: &RaftMembership,
        ask: impl Fn(Arc<Self>, u64, Member) -> A,
    ) -> bool
    where
        A: Future<Output = bool> + Send + 'static,
    {
        let me = self.identity.node_id();
        let mut asked = JoinSet::new();
        for id in members.voter_ids().filter(|id| *id != me).collect::<BTreeSet<u64>>() {
            let Some(member) = members.membership().get_node(&id).cloned() else { continue };
            let answer = ask(Arc::clone(self), id, member);
            asked.spawn(in_process(async move { answer.await.then_some(id) }));
        }
        let mut agreed = BTreeSet::from([me]);
        while !has_quorum(members, &agreed) {
            match asked.join_next().await {
                Some(Ok(Some(id))) => drop(agreed.insert(id)),
                Some(_) => {}
                None => return false,
            }
        }
        true
    }
}
