//! Keeps the membership in order.

use std::sync::Arc;
use std::time::Duration;

use crate::membership::Membership;

/// Time between two looks at the membership.
const TEND_INTERVAL: Duration = Duration::from_secs(1);

/// Looks after the membership for as long as the node runs: it tells the leader this node's addresses if the
/// membership has others, as after a move to another port or host, ends a change that was cut off, and gets
/// learners to follow.
pub(crate) async fn tend_membership(membership: Arc<Membership>) {
    loop {
        // At once after a start: this node gets no heartbeat until the leader knows where it is.
        membership.tell_addresses().await;
        membership.finish_joint_change().await;
        membership.raise_term_for_learners().await;
        tokio::time::sleep(TEND_INTERVAL).await;
    }
}
