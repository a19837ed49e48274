//! Keeps the membership in order.

use std::sync::Arc;
use std::time::Duration;

use crate::membership::Membership;

/// How often the membership is checked.
const TEND_INTERVAL: Duration = Duration::from_secs(1);

/// Looks after the membership as long as the node runs. It sends the leader this node's addresses if the membership
/// has others, for example after a move to another port or host. It also finishes a change that was cut off, and gets
/// learners to follow.
pub(crate) async fn tend_membership(membership: Arc<Membership>) {
    loop {
        // Done immediately after a start: this node gets no heartbeat until the leader knows its address.
        membership.tell_addresses().await;
        membership.finish_change().await;
        membership.raise_term_for_learners().await;
        tokio::time::sleep_until(membership.core().next_look(TEND_INTERVAL)).await;
    }
}
