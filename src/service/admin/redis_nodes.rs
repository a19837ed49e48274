//! Which nodes serve clients of the Redis protocol now, and where. Clients that know a cluster of servers spread their
//! requests over these nodes.
//!
//! A node that drains says that it serves nowhere, and one that is busy for longer than an answer may take has no clients
//! sent to it.

use std::sync::{Arc, OnceLock};

use mintleaf_raft::{ADDRESS_BYTES_MAX, Handle};

use super::member_answers::{self, MemberAnswers, Question};
use crate::text::address::{PortRule, at_host_of, check_host_port};

/// A node that serves clients of the Redis protocol now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RedisNode {
    /// Its Raft id.
    pub id: u64,
    /// Where clients find it.
    pub address: String,
}

/// What a node knows of such nodes.
#[derive(Debug)]
pub(in crate::service) struct RedisNodes {
    /// Where clients find this node, if it serves the protocol.
    own: OnceLock<String>,
    /// Where clients find each node that is ready.
    answers: MemberAnswers<RedisNode>,
}

impl Default for RedisNodes {
    fn default() -> Self {
        let answers = MemberAnswers::new(Question::WhereRedis, node_in);
        Self { own: OnceLock::new(), answers }
    }
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
    pub(super) fn own_if(&self, is_ready: impl FnOnce() -> bool) -> Option<String> {
        self.own().filter(|_| is_ready()).map(str::to_owned)
    }

    /// The nodes that serve now, by id. `is_ready` says whether this node is ready.
    pub(super) async fn now(
        &self,
        node: &Handle,
        is_ready: impl FnOnce() -> bool,
    ) -> Arc<[RedisNode]> {
        let own = || {
            let address = self.own_if(is_ready)?;
            Some(RedisNode { id: node.node_id(), address })
        };
        self.answers.now(node, own).await
    }
}

/// The node in an answer; `None` also if a node would not give its address.
fn node_in(id: u64, answer: &[u8]) -> Option<RedisNode> {
    let address: String = member_answers::read::<Option<String>>(answer)??;
    let is_short = address.len() <= ADDRESS_BYTES_MAX;
    let is_usable = is_short && check_host_port(&address, PortRule::Real).is_ok();
    is_usable.then_some(RedisNode { id, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_a_client_can_use_is_kept() {
        let of = |address: Option<&str>| {
            node_in(1, &member_answers::answer(&address)).map(|node| node.address)
        };
        assert_eq!(of(Some("a.example:6380")).as_deref(), Some("a.example:6380"));
        let long = format!("{}:1", "a".repeat(300));
        for unusable in [None, Some(""), Some("a"), Some("a:0"), Some("a b:1"), Some(&long)] {
            assert_eq!(of(unusable), None, "{unusable:?}");
        }
        assert_eq!(node_in(1, b""), None);
    }
}
