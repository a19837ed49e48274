//! The limit of open files, and how many of them clients may have.
//!
//! A node that cannot open a file cannot write a snapshot, and has to end. So the descriptors of its log,
//! its snapshots and its internal port are set aside at the start, and clients share what is left. A node of
//! `dev` has fewer peers than one in production may have, and keeps fewer connections open at its internal port, so
//! that three of them fit into the common limit of 1,024.

use std::num::NonZeroUsize;

use mintleaf_raft::PEER_CONNECTIONS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::NodeFailure;
use crate::limits::CONNECTIONS_MAX;
use crate::listener::{ClientCapacity, LEAVING_MAX};

/// Descriptors of a node for its log, its snapshots, its ports and files that are opened for a moment.
const OWN_FILES: usize = 64;
/// Descriptors of a thread that serves clients: those of its runtime.
const WORKER_FILES: usize = 4;
/// Connections that a node opens to its peers, in production.
const OWN_PEER_CONNECTIONS: usize = 64;
/// Connections that a node of `dev` keeps open at its internal port for each of its peers, three times as many as a
/// peer opens when it is busy; and for strangers on this machine besides.
const DEV_CONNECTIONS_PER_PEER: usize = 24;
const DEV_CONNECTIONS_OF_STRANGERS: usize = 32;
/// Connections that a node of `dev` opens to each of its peers.
const DEV_OWN_CONNECTIONS_PER_PEER: usize = 16;
/// Connections of each protocol that are enough for a node of `dev`.
const DEV_CONNECTIONS: usize = 256;
/// Fewer connections of one protocol are of no use.
const CONNECTIONS_MIN: usize = 16;
/// A soft limit that the system may grant even if it does not grant the hard one, as macOS does.
const SOFT_LIMIT_FALLBACK: u64 = 10_240;

/// The nodes of a process whose clients share its descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodes {
    /// How many there are.
    pub(super) count: NonZeroUsize,
    /// Whether they have an internal port.
    pub(super) raft: bool,
    /// Whether they serve the Redis protocol, too.
    pub(super) resp: bool,
}

impl Nodes {
    /// Descriptors that a node needs besides those of its clients.
    fn reserved(self, workers: usize) -> usize {
        let own = match self.count.get() - 1 {
            0 => OWN_PEER_CONNECTIONS,
            peers => DEV_OWN_CONNECTIONS_PER_PEER * peers,
        };
        let raft_port = if self.raft { self.peer_connections_max() + own } else { 0 };
        OWN_FILES + WORKER_FILES * workers + raft_port + self.protocols() * LEAVING_MAX
    }

    /// Connections that each node's internal port keeps open at most, from peers and strangers together.
    pub(super) fn peer_connections_max(self) -> usize {
        match self.count.get() - 1 {
            0 => PEER_CONNECTIONS_MAX,
            peers => DEV_CONNECTIONS_OF_STRANGERS + DEV_CONNECTIONS_PER_PEER * peers,
        }
    }

    fn protocols(self) -> usize {
        if self.resp { 2 } else { 1 }
    }

    /// Connections of each protocol that each node may have where `limit` files may be open.
    fn connections_max(self, workers: usize, limit: usize) -> usize {
        let share = limit / self.count.get();
        let left = share.saturating_sub(self.reserved(workers));
        (left / self.protocols()).min(CONNECTIONS_MAX)
    }

    /// Connections of each protocol that each node should have: as many as are documented, in production.
    fn connections_wanted(self) -> usize {
        let is_dev = self.count.get() > 1 || !self.raft;
        if is_dev { DEV_CONNECTIONS } else { CONNECTIONS_MAX }
    }

    /// The fewest open files that let each node have `connections` connections of each protocol.
    fn files_for(self, workers: usize, connections: usize) -> usize {
        self.count.get() * (self.reserved(workers) + self.protocols() * connections)
    }
}

/// Raises the soft limit of open files to the hard one, and shares out what is left for clients. Warns when that is
/// less than each node should have.
///
/// # Errors
/// [`NodeFailure::Usage`] when too few files may be open for a node to work.
pub(super) fn client_capacity(nodes: Nodes) -> Result<ClientCapacity, NodeFailure> {
    let mut capacity = ClientCapacity::default();
    let (workers, limit) = (capacity.workers.get(), raise_limit());
    capacity.connections_max = nodes.connections_max(workers, limit);
    let wanted = |connections| nodes.files_for(workers, connections);
    if capacity.connections_max < CONNECTIONS_MIN {
        return Err(NodeFailure::Usage(format!(
            "only {limit} files may be open, and {} are needed at least, {} for {CONNECTIONS_MAX} client \
             connections: raise LimitNOFILE= of the service, or ulimit -n",
            wanted(CONNECTIONS_MIN),
            wanted(CONNECTIONS_MAX),
        )));
    }
    if capacity.connections_max < nodes.connections_wanted() {
        tracing::warn!(
            open_files_max = limit,
            connections_max = capacity.connections_max,
            "fewer client connections than {} of each protocol fit: set LimitNOFILE={} for the service, or \
             ulimit -n",
            nodes.connections_wanted(),
            wanted(nodes.connections_wanted()),
        );
    }
    Ok(capacity)
}

/// Raises the soft limit as far as it goes; returns how many files may be open now.
fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = maximum.unwrap_or(u64::MAX);
    // The limit is the system's business: where it cannot be raised, it counts as it is.
    let raised = [hard, hard.min(SOFT_LIMIT_FALLBACK)].into_iter().find(|&soft| {
        current.is_none_or(|current| soft <= current)
            || setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum }).is_ok()
    });
    let current = current.unwrap_or(u64::MAX);
    usize::try_from(raised.unwrap_or(current).max(current)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize, raft: bool, resp: bool) -> Nodes {
        Nodes { count: NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN), raft, resp }
    }

    #[test]
    fn clients_share_what_a_node_does_not_need_for_itself() {
        let (one, both) = (nodes(1, true, false), nodes(1, true, true));
        let left = 1_024 - 64 - 8 - PEER_CONNECTIONS_MAX - OWN_PEER_CONNECTIONS;
        assert_eq!(one.connections_max(2, 1_024), left - LEAVING_MAX);
        assert_eq!(both.connections_max(2, 1_024), (left - 2 * LEAVING_MAX) / 2);
        assert_eq!(one.connections_max(2, 1 << 20), CONNECTIONS_MAX);
        assert_eq!(one.connections_max(2, 100), 0);
    }

    #[test]
    fn nodes_of_one_process_share_its_limit() {
        let three = nodes(3, true, true);
        let left = 1_024 - 64 - 8 - three.peer_connections_max() - 2 * 16 - 2 * LEAVING_MAX;
        assert_eq!(three.connections_max(2, 3 * 1_024), left / 2);
        assert!(nodes(3, true, true).connections_max(2, 1_024) > CONNECTIONS_MIN);
        assert!(nodes(1, false, false).connections_max(2, 256) > CONNECTIONS_MIN);
        assert!(nodes(1, false, true).connections_max(2, 1_024) > DEV_CONNECTIONS);
        assert_eq!(nodes(1, true, true).connections_wanted(), CONNECTIONS_MAX);
    }

    #[test]
    fn the_limit_that_is_named_is_the_lowest_that_is_enough() {
        for nodes in [nodes(1, false, false), nodes(1, true, true), nodes(3, true, false)] {
            for connections in [CONNECTIONS_MIN, CONNECTIONS_MAX] {
                let files = nodes.files_for(4, connections);
                assert_eq!(nodes.connections_max(4, files), connections);
                assert_eq!(nodes.connections_max(4, files - 1), connections - 1);
            }
        }
    }
}
