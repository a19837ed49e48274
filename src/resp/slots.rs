//! The slots of a Redis cluster, and how replies show which node has which.
//!
//! Every node serves every tag, so slots only tell clients where to send what. They are shared out evenly over the
//! nodes that serve now. A client whose picture is out of date reaches a node that serves it all the same.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::reply::Reply;
use crate::service::RedisNode;

/// How many slots there are.
pub(super) const SLOTS: u16 = 16_384;
/// Bytes of a line of `CLUSTER NODES`, with room to spare for a long address.
const LINE_BYTES: usize = 160;

/// A reply that shows the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotsView {
    /// `CLUSTER SLOTS`.
    Slots,
    /// `CLUSTER SHARDS`.
    Shards,
    /// `CLUSTER NODES`.
    Nodes,
    /// `CLUSTER INFO`.
    Info,
}

/// The name of a node: 40 hexadecimal digits, as Redis has them.
pub(super) fn node_name(id: u64) -> String {
    format!("{id:040x}")
}

/// The slot of a key: CRC16 (XMODEM) of it, or of what stands in its first pair of braces.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let from = 1 + key.iter().position(|&byte| byte == b'{')?;
        let length = key[from..].iter().position(|&byte| byte == b'}')?;
        (length > 0).then(|| &key[from..from + length])
    };
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let add = |crc: u16, byte: &u8| (0..8).fold(crc ^ u16::from(*byte) << 8, step);
    tag().unwrap_or(key).iter().fold(0, add) % SLOTS
}

/// The slots of each node: contiguous ranges in the order of the nodes.
fn shared_out(nodes: &[RedisNode]) -> Vec<(&RedisNode, RangeInclusive<u16>)> {
    let count = nodes.len().min(usize::from(SLOTS));
    let begin = |at: usize| (usize::from(SLOTS) * at / count) as u16;
    let shares = nodes.iter().take(count).enumerate();
    shares.map(|(at, node)| (node, begin(at)..=begin(at + 1) - 1)).collect()
}

/// Host and port of an address, the host without brackets.
fn parts(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or_default())
}

impl SlotsView {
    /// Writes the reply of the node `own`: its id, and its address if it has one. `nodes` are those that serve now.
    pub(super) fn write(
        self,
        nodes: &[RedisNode],
        own: (u64, Option<&str>),
        reply: &mut Reply<'_>,
    ) {
        let shares = shared_out(nodes);
        match self {
            Self::Slots => {
                reply.array(shares.len());
                shares.into_iter().for_each(|(node, slots)| write_slots(node, slots, reply));
            }
            Self::Shards => {
                reply.array(shares.len());
                shares.into_iter().for_each(|(node, slots)| write_shard(node, slots, reply));
            }
            Self::Nodes => reply.bulk(lines(&shares, own).as_bytes()),
            Self::Info => reply.bulk(info(shares.len()).as_bytes()),
        }
    }
}

fn write_slots(node: &RedisNode, slots: RangeInclusive<u16>, reply: &mut Reply<'_>) {
    let (host, port) = parts(&node.address);
    reply.array(3);
    reply.integer((*slots.start()).into());
    reply.integer((*slots.end()).into());
    reply.array(4);
    reply.bulk(host.as_bytes());
    reply.integer(port.into());
    reply.bulk(node_name(node.id).as_bytes());
    reply.array(0);
}

fn write_shard(node: &RedisNode, slots: RangeInclusive<u16>, reply: &mut Reply<'_>) {
    let (host, port) = parts(&node.address);
    let name = node_name(node.id);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer((*slots.start()).into());
    reply.integer((*slots.end()).into());
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    for (key, value) in [
        ("id", name.as_str()),
        ("ip", host),
        ("endpoint", host),
        ("role", "master"),
        ("health", "online"),
    ] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (key, value) in [("port", port), ("replication-offset", 0)] {
        reply.bulk(key.as_bytes());
        reply.integer(value.into());
    }
}

/// A line for each node that serves, and one for the node that answers.
fn lines(
    shares: &[(&RedisNode, RangeInclusive<u16>)],
    (own, address): (u64, Option<&str>),
) -> String {
    let mut text = String::with_capacity((1 + shares.len()) * LINE_BYTES);
    let mut line = |id: u64, address: &str, slots: Option<&RangeInclusive<u16>>| {
        let (host, port) = parts(address);
        let (name, myself) = (node_name(id), if id == own { "myself," } else { "" });
        let slots =
            slots.map_or(String::new(), |slots| format!(" {}-{}", slots.start(), slots.end()));
        let _ =
            writeln!(text, "{name} {host}:{port}@{port} {myself}master - 0 0 1 connected{slots}");
    };
    for (node, slots) in shares {
        line(node.id, &node.address, Some(slots));
    }
    if let Some(address) = address
        && shares.iter().all(|(node, _)| node.id != own)
    {
        line(own, address, None);
    }
    text
}

fn info(nodes: usize) -> String {
    let (state, slots) = if nodes > 0 { ("ok", SLOTS) } else { ("fail", 0) };
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\ncluster_size:{nodes}\r\n\
         cluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u64) -> Vec<RedisNode> {
        (1..=count).map(|id| RedisNode { id, address: format!("host-{id}:6380") }).collect()
    }

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` of Redis 7 answers.
        for (key, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("a{foo}{bar}", 12_182),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn every_slot_belongs_to_exactly_one_node_however_many_there_are() {
        for count in (1..=9).chain([100, 16_384, 16_385]) {
            let nodes = nodes(count);
            let shares = shared_out(&nodes);
            let lengths: Vec<usize> = shares.iter().map(|(_, slots)| slots.len()).collect();
            let slots: Vec<u16> = shares.into_iter().flat_map(|(_, slots)| slots).collect();
            assert!(slots.into_iter().eq(0..SLOTS), "{count}");
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{count}");
        }
        assert!(shared_out(&[]).is_empty());
    }

    #[test]
    fn an_address_loses_its_brackets() {
        assert_eq!(parts("[fd00::1]:6380"), ("fd00::1", 6380));
        assert_eq!(parts("a.example:1"), ("a.example", 1));
    }

    #[test]
    fn a_node_that_serves_no_longer_shows_itself_without_slots() {
        let (nodes, mut out) = (nodes(1), Vec::new());
        let mut reply = Reply { out: &mut out, resp3: false };
        SlotsView::Nodes.write(&nodes, (2, Some("[::1]:7")), &mut reply);
        let text = String::from_utf8(out).unwrap();
        let own = format!("{} ::1:7@7 myself,master - 0 0 1 connected\n", node_name(2));
        let other = format!("{} host-1:6380@6380 master - 0 0 1 connected 0-16383\n", node_name(1));
        assert!(text.contains(&own) && text.contains(&other), "{text}");
    }
}
