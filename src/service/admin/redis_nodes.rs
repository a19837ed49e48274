//! Which nodes serve clients of the Redis protocol now, and where. Clients that know a cluster of servers spread their
//! requests over these nodes.
//!
//! A node that drains says that it serves nowhere, and one that is busy for longer than an answer may take has no clients
//! sent to it.

use mintleaf_raft::ADDRESS_BYTES_MAX;

use super::member_answers;
use crate::text::address::{PortRule, check_host_port};

/// A node that serves clients of the Redis protocol now.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RedisNode {
    /// Its Raft id.
    pub id: u64,
    /// Where clients find it.
    pub address: String,
}

/// The node in an answer; `None` also if a node would not give its address.
pub(super) fn node_in(id: u64, answer: &[u8]) -> Option<RedisNode> {
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
