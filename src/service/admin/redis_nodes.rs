//! Which nodes serve clients of the Redis protocol now, and where. Clients that know a cluster of servers spread their
//! requests over these nodes.
//!
//! A node asks the others when a client asks it, so no message is sent while no client asks. A node that drains says so,
//! and one that is gone does not answer. The last result is kept for a moment.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mintleaf_codec as codec;
use mintleaf_raft::{ADDRESS_BYTES_MAX, Handle, MemberStatus};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::text::address::{PortRule, at_host_of, check_host_port};

/// For how long other clients get the same answer: however many ask, the members are asked 20 times a second at most.
const SHARED_MAX: Duration = Duration::from_millis(50);
/// Time that a member gets to answer, besides two round trips; all of it together is at most [`ANSWER_MAX`]. A node
/// that is busy for longer has no clients sent to it.
const ANSWER_MIN: Duration = Duration::from_millis(400);
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// A member of a release that supports only lower levels is not asked: it would end the connection.
const LEVEL_MIN: u32 = 3;

/// The format of a [`Question`] and of its answer, in their first bytes.
const FORMAT: u8 = 3;

/// What one node asks of another.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Question {
    /// Where clients of the Redis protocol find you; nowhere, unless you are ready.
    WhereRedis,
}

/// A node that serves clients of the Redis protocol now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RedisNode {
    /// Its Raft id.
    pub id: u64,
    /// Where clients find it.
    pub address: String,
}

/// What a node knows of such nodes.
#[derive(Debug, Default)]
pub(in crate::service) struct RedisNodes {
    /// Where clients find this node, if it serves the protocol.
    own: OnceLock<String>,
    /// The nodes that the last look has found, and when it began.
    last: Mutex<Option<(Instant, Arc<[RedisNode]>)>>,
}

impl RedisNodes {
    /// Records that clients of the Redis protocol find this node at `advertised`, or else at this port of the host of
    /// its HTTP address. The first record stays.
    pub(super) fn serve_at(&self, advertised: Option<&str>, http: &str, port: u16) {
        let address = || advertised.map_or_else(|| at_host_of(http, port), str::to_owned);
        self.own.get_or_init(address);
    }

    /// Where clients find this node, ready or not.
    pub(super) fn own(&self) -> Option<&str> {
        self.own.get().map(String::as_str)
    }

    /// Where clients find this node, if it is ready.
    fn own_if(&self, is_ready: impl FnOnce() -> bool) -> Option<String> {
        self.own().filter(|_| is_ready()).map(str::to_owned)
    }

    /// The nodes that serve now, by id. `is_ready` says whether this node is ready.
    pub(super) async fn now(
        &self,
        node: &Handle,
        is_ready: impl FnOnce() -> bool,
    ) -> Arc<[RedisNode]> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        let began = Instant::now();
        if let Some((began, nodes)) = &*last
            && *began + SHARED_MAX >= asked
        {
            return Arc::clone(nodes);
        }
        let mut nodes = ask_all(node).await;
        let own = self.own_if(is_ready);
        nodes.extend(own.map(|address| RedisNode { id: node.node_id(), address }));
        nodes.sort_unstable_by_key(|node| node.id);
        let nodes: Arc<[RedisNode]> = nodes.into();
        *last = Some((began, Arc::clone(&nodes)));
        nodes
    }

    /// The answer to another node's question; `None` if it is another question.
    pub(super) fn answer(
        &self,
        request: &[u8],
        is_ready: impl FnOnce() -> bool,
    ) -> Option<Vec<u8>> {
        let Question::WhereRedis = codec::decode_as(FORMAT, request).ok()?;
        Some(codec::encode(FORMAT, &self.own_if(is_ready)))
    }
}

/// Asks every other member that may answer.
async fn ask_all(node: &Handle) -> Vec<RedisNode> {
    let (status, mut asked) = (node.status(), JoinSet::new());
    let others = status.members.iter().filter(|member| member.id != status.node_id);
    for member in others.filter(|member| may_answer(member)) {
        let within = ANSWER_MIN + 2 * member.round_trip.unwrap_or_default();
        asked.spawn(ask(node.clone(), member.id, Instant::now() + within.min(ANSWER_MAX)));
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// Whether a member can be reached, and is not known to run a release that has no answer.
fn may_answer(member: &MemberStatus) -> bool {
    let release = member.release.as_ref();
    member.reachable && release.is_none_or(|release| release.level >= LEVEL_MIN)
}

/// Asks one member.
async fn ask(node: Handle, id: u64, deadline: Instant) -> Option<RedisNode> {
    let question = codec::encode(FORMAT, &Question::WhereRedis);
    let answer = node.ask_member(id, question, deadline).await.ok()?;
    address_in(&answer).map(|address| RedisNode { id, address })
}

/// The address in an answer; `None` also if it is no address that a node would give.
fn address_in(answer: &[u8]) -> Option<String> {
    let address: String = codec::decode_as::<Option<String>>(FORMAT, answer).ok()??;
    let is_short = address.len() <= ADDRESS_BYTES_MAX;
    (is_short && check_host_port(&address, PortRule::Real).is_ok()).then_some(address)
}

#[cfg(test)]
mod tests {
    use mintleaf_raft::{Release, Role};

    use super::*;

    fn member(reachable: bool, level: Option<u32>) -> MemberStatus {
        MemberStatus {
            id: 2,
            raft: String::new(),
            http: String::new(),
            role: Role::Voter,
            matched_index: None,
            reachable,
            silence: None,
            round_trip: None,
            sync: None,
            release: level.map(|level| Release { level, version: String::new() }),
            zone: None,
        }
    }

    #[test]
    fn a_member_of_an_older_release_is_not_asked() {
        assert!(may_answer(&member(true, Some(LEVEL_MIN))) && may_answer(&member(true, None)));
        assert!(!may_answer(&member(true, Some(LEVEL_MIN - 1))));
        assert!(!may_answer(&member(false, Some(LEVEL_MIN))));
    }

    #[test]
    fn only_an_address_that_a_client_can_use_is_kept() {
        let of = |address: Option<&str>| address_in(&codec::encode(FORMAT, &address));
        assert_eq!(of(Some("a.example:6380")).as_deref(), Some("a.example:6380"));
        let long = format!("{}:1", "a".repeat(300));
        for unusable in [None, Some(""), Some("a"), Some("a:0"), Some("a b:1"), Some(&long)] {
            assert_eq!(of(unusable), None, "{unusable:?}");
        }
        assert_eq!(address_in(b""), None);
        assert_eq!(address_in(&codec::encode(FORMAT - 1, &Some("a:1"))), None);
    }
}
