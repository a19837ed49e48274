//! How replicas agree on commands: a replicated log of opaque commands, behind [`Node`].
//!
//! The modules, from the bottom (knows least) to the top:
//!
//! | module | what it is |
//! | --- | --- |
//! | `error`, `runtime` | The errors of a node; what its tasks run on, and their priority |
//! | `estimate` | How long something takes, estimated the way TCP estimates its round trip |
//! | `state_machine` | [`StateMachine`], the trait that the user of this crate implements |
//! | `leader_requests` | [`LeaderRequests`], the trait that the user of this crate implements so that a leader can answer members' requests |
//! | `transport` | The trait that carries frames between nodes, TCP, and the proof that the other end is the node it claims to be |
//! | `options` | [`Options`], [`Tuning`] and the clock |
//! | `stop` | A handle that lets any part of a node stop the node |
//! | `types` | openraft's type parameters, and the bounds of messages and records |
//! | `message` | All messages between nodes |
//! | `two_phase_commit` | The rules of bootstrap, without I/O |
//! | `given_votes` | The votes that this node may have given, before openraft's metrics show them |
//! | `leadership_transfer` | The state of a leadership transfer, at either end |
//! | `raft_storage` | openraft's storage: log, snapshots, state machine; the formats on disk |
//! | `identity` | Which node this is, what its store is prepared for, whose messages it accepts, which node may send what |
//! | `peers` | What messages show about the peers: clocks, contact, reachability, and how long messages and syncs take |
//! | `client` | Calls to peers, by this node's tasks and by openraft |
//! | `core` | The parts that all tasks share, and the few operations that several tasks need |
//! | `batcher` | Many proposals in one log entry; forwarding to the leader |
//! | `election` | Campaigns, votes and heartbeats |
//! | `bootstrap` | How a new node founds or joins a cluster, and how a restarted member comes back |
//! | `membership` | Changes of the membership, the leader and the level |
//! | `upkeep` | Periodic tasks of every member: probes, releases, incarnations, the membership, and a check whether another node would lead better |
//! | `rpc_handler` | What a node does with its peers' requests |
//! | `node` | [`Node`], which assembles the others, and its [`Handle`] |
//! | `offline` | Reading a stopped node's directory; making the directory of a new cluster's only node |
//! | `specification` | What members of a cluster may say; only for tests |
//! | `simulation` | What a simulated network needs to know about nodes; only with the feature of that name |
//! | `fuzzing` | Entry points to the decoders; only with the feature of that name |
//!
//! **Where to look.** A proposal passes through `node` ([`Handle::propose`]), `core` (the check), `batcher` and
//! `raft_storage` (the log, and the state machine that applies it). If another node leads, `batcher` forwards the
//! proposal to that node, where `rpc_handler` (`propose_for_peer`) passes it through the same check to that node's
//! `batcher`. `rpc_handler` (`vote_for`) judges a request for a vote, then calls `Raft::vote`. openraft's core awaits
//! `save_vote` of the log store in `raft_storage`, and only then does `Raft::vote` return, so a vote is on disk before
//! the node answers. As soon as this node's data directory may not be the one that the cluster takes it for, `identity`
//! stops the node.
//!
//! `DESIGN.md` ends with a glossary of this crate.
//!
//! **Architecture invariant:** this crate is the only user of openraft, and knows nothing about ids, tags or HTTP
//! clients; commands and replies are bytes. `DESIGN.md` gives the reasons.

mod batcher;
mod bootstrap;
mod client;
mod core;
mod election;
mod error;
mod estimate;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod given_votes;
mod identity;
mod leader_requests;
mod leadership_transfer;
mod membership;
mod message;
mod node;
mod offline;
mod options;
mod peers;
mod raft_storage;
mod rpc_handler;
mod runtime;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(any(test, feature = "simulation"))]
pub mod specification;
mod state_machine;
mod stop;
#[cfg(test)]
mod tests;
mod transport;
mod two_phase_commit;
mod types;
mod upkeep;

pub use error::{
    AskError, Delivery, NodeError, NotConfirmed, ProposeError, Rejected, Remedy, StopReason,
};
pub use estimate::overdue;
pub use leader_requests::{LEADER_REQUEST_BYTES_MAX, LeaderRequests};
pub use message::MembershipError;
pub use mintleaf_storage::{SyncReadings, is_data_dir};
pub use node::{Environment, Handle, MemberStatus, Node, PROPOSAL_BYTES_MAX, Role, Status};
pub use offline::{Beginning, NewCluster, OfflineError, StoppedNode, read_stopped};
pub use options::{Clock, Options, PEER_CONNECTIONS_MAX, Tuning};
pub use peers::PeerClock;
pub use runtime::{Pending, lower_priority};
pub use state_machine::{FrozenState, Newer, Release, RestoreError, Stamp, StateMachine};
pub use transport::{
    Credentials, CredentialsError, FrameHandler, Peer, PemBytes, Reply, SECRET_BYTES_MIN,
    SECRETS_MAX, Security, Target, Transport, TransportError, have_it_prove,
};
pub use types::bounds::ADDRESS_BYTES_MAX;
