//! The network between nodes, as the nemesis sees it: what one node sends to another can be held, delayed or
//! corrupted, separately for each direction.

use std::fmt;
use std::net::SocketAddr;

/// A node's Raft id.
pub(crate) type NodeId = u64;

/// What happens to everything that one node sends to another. The default is fine weather.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Weather {
    /// Nothing arrives, and the sender gets no error.
    pub(crate) cut: bool,
    /// Everything is delayed by this many milliseconds.
    pub(crate) delay_ms: u64,
    /// Everything is delayed further, by a random time up to this.
    pub(crate) jitter_ms: u64,
    /// The most bytes that pass in a second; `None`: no limit.
    pub(crate) bytes_per_s: Option<u64>,
    /// This percentage of the packets is lost.
    pub(crate) loss_percent: u8,
    /// One bit is flipped in this percentage of the chunks that are read.
    pub(crate) corrupt_percent: u32,
}

impl Weather {
    pub(crate) const CUT: Self = Self {
        cut: true,
        delay_ms: 0,
        jitter_ms: 0,
        bytes_per_s: None,
        loss_percent: 0,
        corrupt_percent: 0,
    };

    /// This weather on top of a climate.
    pub(crate) fn within(self, climate: Self) -> Self {
        Self {
            cut: self.cut || climate.cut,
            delay_ms: self.delay_ms + climate.delay_ms,
            jitter_ms: self.jitter_ms + climate.jitter_ms,
            bytes_per_s: self.bytes_per_s.into_iter().chain(climate.bytes_per_s).min(),
            loss_percent: self.loss_percent.max(climate.loss_percent),
            corrupt_percent: self.corrupt_percent.max(climate.corrupt_percent),
        }
    }
}

impl fmt::Display for Weather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        if self.cut {
            said.push("cut".to_owned());
        }
        if self.delay_ms > 0 {
            said.push(format!("delay {} ms", self.delay_ms));
        }
        if self.jitter_ms > 0 {
            said.push(format!("jitter up to {} ms", self.jitter_ms));
        }
        if let Some(rate) = self.bytes_per_s {
            said.push(format!("{rate} bytes/s"));
        }
        if self.loss_percent > 0 {
            said.push(format!("lose {} %", self.loss_percent));
        }
        if self.corrupt_percent > 0 {
            said.push(format!("corrupt {} %", self.corrupt_percent));
        }
        f.write_str(&if said.is_empty() { "fine".to_owned() } else { said.join(", ") })
    }
}

/// All links of a cluster.
pub(crate) trait Links: Send + Sync {
    /// Where a node listens for its clients and its peers, and the address that it advertises to peers.
    fn addresses(&self, node: NodeId) -> Addresses;

    /// The start of a command line that runs the rest of it at a node's place in the network.
    fn enter(&self, node: NodeId) -> Vec<String>;

    /// Changes the weather of what `from` sends to `to`.
    fn set(&self, from: NodeId, to: NodeId, weather: Weather);

    /// Changes the climate of what `from` sends to `to`, on top of which weather comes and goes. Only links
    /// that are streams have a climate.
    fn settle(&self, _from: NodeId, _to: NodeId, _climate: Weather) {}

    /// Resets the connections between two nodes, in both directions.
    fn reset(&self, one: NodeId, other: NodeId);
}

/// The addresses of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The address for clients. These connections are never disturbed.
    pub(crate) http: SocketAddr,
    /// The address for clients of the Redis protocol. It is not disturbed either.
    pub(crate) resp: SocketAddr,
    /// The address that the node binds for its peers.
    pub(crate) raft: SocketAddr,
    /// The address that it advertises to its peers.
    pub(crate) advertised: SocketAddr,
}
