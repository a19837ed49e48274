//! What operators and administrators ask of a node.
//!
//! ```text
//! tags            TagService: create, read, change, delete
//!   tag_buffers   what this node holds of them
//! tag_creation    creates tags, as long as there is a place for another name
//!   first_uses    how fast a node creates tags on first use
//!   shape_spec    the shape of a new tag, checked
//! tag_import      takes over the tags of another system
//! notes           how nodes take note of a change before it is answered
//! audit           AuditService: who changed what; has changes recorded that the state does not make
//! backup          BackupService: the whole state, written while the node goes on
//! cluster         ClusterService: membership, levels, clocks, readiness, metrics
//!   headroom      the log's warning about a tag that is nearly used up
//!   member_answers  what every member answers to a question of a client
//!   redis_nodes   which nodes serve the Redis protocol now, and where
//!   snowflake_floor   raises the floor under all snowflake ids
//!   cluster_view, worker_view   what clients read of them
//! member_requests  what other members ask of this node
//! ```

pub(super) mod audit;
pub(super) mod backup;
pub(super) mod cluster;
pub(super) mod cluster_view;
mod first_uses;
pub(super) mod headroom;
mod member_answers;
pub(super) mod member_requests;
pub(super) mod notes;
pub(super) mod redis_nodes;
pub(super) mod shape_spec;
pub(super) mod snowflake_floor;
pub(super) mod tag_buffers;
pub(super) mod tag_creation;
pub(super) mod tag_import;
pub(super) mod tags;
pub(super) mod worker_view;
