//! When each peer last showed a sign of life, and when it last answered this node.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A node counts as reachable for this long after a sign of life, so that an answer about it is at most 2 s old.
const FRESH_MAX: Duration = Duration::from_millis(1_800);

/// When each peer last showed a sign of life, and when it last answered this node.
#[derive(Default)]
pub(crate) struct Reachability(Mutex<BTreeMap<u64, Contact>>);

#[derive(Debug, Clone, Copy, Default)]
struct Contact {
    /// `None` while no process listens at its address.
    heard: Option<Instant>,
    /// When it last showed a sign of life, whether or not a process listens there now.
    last_heard: Option<Instant>,
    /// When it last answered, on a connection that this node opened and the transport keeps.
    answered: Option<Instant>,
}

impl Reachability {
    /// Records a sign of life of a member: a message from the store that the membership names.
    pub(crate) fn heard(&self, node_id: u64) {
        let now = Some(Instant::now());
        let mut contacts = self.0.lock();
        let contact = contacts.entry(node_id).or_default();
        (contact.heard, contact.last_heard) = (now, now);
    }

    /// Records the answer of a member, which is a sign of life too.
    pub(crate) fn answered(&self, node_id: u64) {
        let now = Some(Instant::now());
        self.0.lock().insert(node_id, Contact { heard: now, last_heard: now, answered: now });
    }

    /// Records that no process listens at a member's address.
    pub(crate) fn refused(&self, node_id: u64) {
        if let Some(contact) = self.0.lock().get_mut(&node_id) {
            (contact.heard, contact.answered) = (None, None);
        }
    }

    /// How long ago a member last showed a sign of life; `None` if it has shown none since this node started.
    pub(crate) fn silence(&self, node_id: u64) -> Option<Duration> {
        self.since(node_id, |contact| contact.last_heard)
    }

    /// Whether a member can be reached, as of 2 s ago or later.
    pub(crate) fn is_fresh(&self, node_id: u64) -> bool {
        !self.is_silent_for(node_id, FRESH_MAX)
    }

    /// Whether a member has given no sign of life for `time`.
    pub(crate) fn is_silent_for(&self, node_id: u64, time: Duration) -> bool {
        self.since(node_id, |contact| contact.heard).is_none_or(|silence| silence >= time)
    }

    /// Whether a member has not answered this node for `time`.
    pub(crate) fn has_not_answered_for(&self, node_id: u64, time: Duration) -> bool {
        self.since(node_id, |contact| contact.answered).is_none_or(|silence| silence >= time)
    }

    fn since(&self, node_id: u64, what: impl Fn(&Contact) -> Option<Instant>) -> Option<Duration> {
        self.0.lock().get(&node_id).and_then(what).map(|at| at.elapsed())
    }

    /// Forgets nodes that are no longer members.
    pub(crate) fn keep_only(&self, is_member: impl Fn(u64) -> bool) {
        self.0.lock().retain(|&node_id, _| is_member(node_id));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_counts_for_less_than_two_seconds() {
        let reach = Reachability::default();
        assert!(!reach.is_fresh(2), "never heard");
        reach.heard(2);
        advance(Duration::from_millis(1_700)).await;
        assert!(reach.is_fresh(2));
        advance(Duration::from_millis(200)).await;
        assert!(!reach.is_fresh(2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_member_asks_is_no_answer_of_it() {
        let reach = Reachability::default();
        let time = Duration::from_secs(10);
        assert!(reach.has_not_answered_for(2, time), "never asked");
        reach.answered(2);
        assert!(reach.is_fresh(2) && !reach.has_not_answered_for(2, time));
        advance(time).await;
        reach.heard(2);
        assert!(reach.is_fresh(2) && reach.has_not_answered_for(2, time));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_refuses_connections_is_unreachable_until_it_is_heard_again() {
        let reach = Reachability::default();
        reach.heard(2);
        reach.refused(2);
        assert!(!reach.is_fresh(2));
        assert!(reach.has_not_answered_for(2, Duration::ZERO));
        reach.heard(2);
        assert!(reach.is_fresh(2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_sign_of_life_is_remembered_when_nobody_listens_any_more() {
        let reach = Reachability::default();
        assert_eq!(reach.silence(2), None);
        reach.answered(2);
        advance(Duration::from_secs(30)).await;
        reach.refused(2);
        advance(Duration::from_secs(4)).await;
        assert_eq!(reach.silence(2), Some(Duration::from_secs(34)));
    }
}
