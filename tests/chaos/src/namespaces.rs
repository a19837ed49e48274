//! Links with root: a network namespace for every node. Packets between them are dropped.

use std::io;
use std::net::IpAddr;

use mintleaf_faultfs::links::{Link, Network};

use crate::links::{Addresses, Links, NodeId, Weather};

const HTTP_PORT: u16 = 8080;
const RESP_PORT: u16 = 6380;
const RAFT_PORT: u16 = 9080;

/// The namespaces of a cluster. Dropping this removes them.
pub(crate) struct Namespaces(Network);

impl Namespaces {
    /// Namespaces for nodes 1 to `nodes`.
    ///
    /// # Errors
    /// When the kernel refuses; see [`mintleaf_faultfs::links::why_not`].
    pub(crate) fn new(nodes: u64) -> io::Result<Self> {
        Network::new(small(nodes)).map(Self)
    }

    fn drive(&self, from: NodeId, to: NodeId, link: Link) {
        let set = || self.0.set(small(from), small(to), link);
        if let Err(error) = tokio::task::block_in_place(set) {
            eprintln!("chaos: the link from {from} to {to} cannot be {link:?}: {error}");
        }
    }
}

impl Links for Namespaces {
    fn addresses(&self, node: NodeId) -> Addresses {
        let ip = IpAddr::V4(self.0.address(small(node)));
        let raft = (ip, RAFT_PORT).into();
        let (http, resp) = ((ip, HTTP_PORT).into(), (ip, RESP_PORT).into());
        Addresses { http, resp, raft, advertised: raft }
    }

    fn enter(&self, node: NodeId) -> Vec<String> {
        self.0.enter(small(node))
    }

    fn set(&self, from: NodeId, to: NodeId, weather: Weather) {
        self.drive(from, to, link(weather));
    }

    fn reset(&self, one: NodeId, other: NodeId) {
        for link in [Link::Reset, Link::Open] {
            self.drive(one, other, link);
            self.drive(other, one, link);
        }
    }
}

/// The effect of weather on packets. There is no delay, and TCP itself drops corrupted packets.
fn link(weather: Weather) -> Link {
    match weather {
        Weather { cut: true, .. } => Link::Cut,
        Weather { loss_percent: percent @ 1.., .. } => Link::Lossy(percent),
        Weather { bytes_per_s: Some(bytes), .. } => Link::Narrow(bytes),
        _ => Link::Open,
    }
}

fn small(node: NodeId) -> u8 {
    u8::try_from(node).expect("nodes are few")
}
