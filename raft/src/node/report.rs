//! Log lines about the leader and the other members, for an operator who reads them the next day: one line for each
//! change that lasted, and none for a change that lasted only a moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::status::known_leader;
use crate::core::Core;

/// How often the peers are checked. A change of the leader is seen at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A cluster without a leader for this long is reported: an election takes less.
const LEADERLESS_AFTER: Duration = Duration::from_secs(2);
/// A member that was silent for this long counts as lost. A restart may take less, and is then not reported.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Logs who leads, and which members are lost or back, as long as the node runs.
pub(super) async fn report(core: Arc<Core>) {
    let mut changes = core.raft.server_metrics();
    let mut leaders = LeaderLog { me: core.identity.node_id(), shown: None, lost: None };
    let mut peers = PeerLog { me: leaders.me, known: BTreeMap::new(), lost: BTreeMap::new() };
    loop {
        let now = core.metrics(Clone::clone);
        let leader = known_leader(&core, &now).map(|id| (id, now.current_term));
        if leaders.note(leader, Instant::now()) {
            core.leader_changes.fetch_add(1, Relaxed);
        }
        // A node that has not been let in yet has no peers to lose.
        if core.cluster().is_some() {
            let silences = core
                .others()
                .into_iter()
                .map(|(id, member)| (id, (member.raft, core.heard.reachability().silence(id))));
            peers.note(&silences.collect(), Instant::now());
        }
        tokio::select! {
            runs = changes.changed() => if runs.is_err() { return },
            () = sleep_until(core.next_look(LOOK_INTERVAL)) => {}
        }
    }
}

/// What was reported about the leader.
struct LeaderLog {
    me: u64,
    /// The leader that was reported last, and its term.
    shown: Option<(u64, u64)>,
    /// Since when no leader is known, and whether that was reported.
    lost: Option<(Instant, bool)>,
}

impl LeaderLog {
    /// Records the current leader and its term. Returns whether another leader took over.
    fn note(&mut self, leader: Option<(u64, u64)>, now: Instant) -> bool {
        let Some((id, term)) = leader else {
            let (since, told) = self.lost.get_or_insert((now, false));
            if !*told && now.saturating_duration_since(*since) >= LEADERLESS_AFTER {
                *told = true;
                tracing::warn!(node = self.me, "no leader is known");
            }
            return false;
        };
        let lost = self.lost.take();
        if self.shown == Some((id, term)) && lost.is_none_or(|(_, told)| !told) {
            return false;
        }
        let leaderless_ms = lost.map_or(0, |(since, _)| whole_ms(now, since));
        if id == self.me {
            tracing::info!(node = self.me, term, leaderless_ms, "this node leads now");
        } else {
            tracing::info!(node = self.me, leader = id, term, leaderless_ms, "node {id} leads now");
        }
        let before = self.shown.replace((id, term));
        before.is_some_and(|before| before != (id, term))
    }
}

/// What was reported about the other members.
struct PeerLog {
    me: u64,
    /// Since when this node knows each member. The silence of a member that was never heard begins then.
    known: BTreeMap<u64, Instant>,
    /// Since when each lost member has been silent.
    lost: BTreeMap<u64, Instant>,
}

impl PeerLog {
    /// Records each member's address, and how long the member has been silent if it was ever heard.
    fn note(&mut self, members: &BTreeMap<u64, (String, Option<Duration>)>, now: Instant) {
        let me = self.me;
        self.lost.retain(|id, _| members.contains_key(id));
        self.known.retain(|id, _| members.contains_key(id));
        for (&id, (raft, heard)) in members {
            let known = *self.known.entry(id).or_insert(now);
            let silence = heard.unwrap_or_else(|| now.saturating_duration_since(known));
            if silence >= LOST_AFTER {
                self.lost.entry(id).or_insert_with(|| {
                    let since_start = heard.is_none();
                    tracing::warn!(
                        node = me,
                        peer = id,
                        raft,
                        since_start,
                        "lost contact with node {id}"
                    );
                    now.checked_sub(silence).unwrap_or(now)
                });
            } else if let Some(since) = self.lost.remove(&id) {
                tracing::info!(
                    node = me,
                    peer = id,
                    raft,
                    lost_ms = whole_ms(now, since),
                    "node {id} is back"
                );
            }
        }
    }
}

fn whole_ms(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_leader_that_is_known_again_took_over_from_nobody() {
        let start = Instant::now();
        let mut log = LeaderLog { me: 1, shown: None, lost: None };
        assert!(!log.note(None, start));
        assert!(!log.note(Some((2, 5)), start), "the first one");
        assert!(!log.note(None, start) && !log.note(None, start + ms(2_000)));
        assert_eq!(log.lost, Some((start, true)));
        assert!(!log.note(Some((2, 5)), start + ms(2_100)), "the same one");
        assert!(log.note(Some((2, 6)), start + ms(2_200)), "elected again");
        assert!(log.note(Some((1, 7)), start + ms(2_300)));
        assert_eq!((log.shown, log.lost), (Some((1, 7)), None));
    }

    #[test]
    fn a_member_is_lost_after_two_seconds_and_forgotten_when_it_is_none_any_more() {
        let since = Instant::now();
        let mut log = PeerLog { me: 1, known: BTreeMap::new(), lost: BTreeMap::new() };
        let members =
            |silence: Option<u64>| BTreeMap::from([(2, ("b:9080".to_owned(), silence.map(ms)))]);
        log.note(&BTreeMap::new(), since);
        log.note(&members(None), since + ms(500));
        log.note(&members(None), since + ms(2_499));
        assert_eq!(log.lost.len(), 0, "it was not heard, but is no member for long");
        log.note(&members(None), since + ms(2_500));
        assert_eq!(log.lost, BTreeMap::from([(2, since + ms(500))]));
        log.note(&members(Some(0)), since + ms(5_000));
        assert_eq!(log.lost.len(), 0);
        log.note(&members(Some(2_500)), since + ms(9_000));
        assert_eq!(log.lost, BTreeMap::from([(2, since + ms(6_500))]));
        log.note(&BTreeMap::new(), since + ms(9_100));
        assert_eq!(log.lost.len(), 0);
    }
}
