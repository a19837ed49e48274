//! The services of one node: they hand out what the node holds, and see to it that it holds enough.
//!
//! ```text
//! error, log_access, readiness   what all of them share
//! refusals        which tags refused their callers lately, and which is nearest to its end
//! grabs           carries grabs out: proposes them, reads and records what they brought
//! local           what this node holds of a tag by itself
//! leader          what only the leader hands out: ids of strict tags, numbers of keys
//! source          what the ids of one tag are taken from: its slot, or the lines of a shaped tag
//! tag_table       tag to source, no lock; passes every change of a tag on
//! grabber         the task that grabs, many tags together
//! held_ids        takes ids that are buffered, without a wait
//! snowflake       the snowflake ids that this node may make
//! parts           everything that the services need: the log, the table, the clock, the metrics, the settings
//! admin           what operators and administrators ask: tags, cluster, audit, backup
//! pools           PoolService: worker ids for programs, leased
//! ids             IdService: ids of tags, numbers of keys, snowflake ids
//! warm_start      holds ids again of the tags that were hot before a restart
//!   hot_tags      which those are
//! ```
//!
//! Modules import downwards only, that is from those above them here. The pure rules are in `mintleaf_core`; the
//! waiting, the locks and the tasks are here. Ids are taken under their slot's lock, so one node hands a tag's ids out
//! in increasing order.

mod admin;
mod error;
mod grabber;
mod grabs;
mod held_ids;
mod hot_tags;
mod ids;
mod leader;
mod local;
mod log_access;
mod parts;
mod pools;
mod readiness;
mod refusals;
mod registers;
mod snowflake;
mod source;
mod tag_table;
mod taken;
#[cfg(test)]
pub(crate) mod tests;
mod warm_start;

use std::sync::Arc;

pub use admin::audit::{AuditPart, AuditService};
pub use admin::backup::{BackupPieces, BackupService};
pub use admin::cluster::{ClusterService, NewMember};
pub use admin::cluster_view::{ClusterView, NodeView};
pub use admin::headroom::HeadroomLog;
pub use admin::redis_nodes::RedisNode;
pub use admin::shape_spec::ShapeSpec;
pub use admin::snowflake_floor::SnowflakeFloor;
pub use admin::tag_buffers::{HoldingsPage, TagHolding};
pub use admin::tag_creation::TagSpec;
pub use admin::tag_import::{ImportOutcomes, Imported, TagToImport};
pub use admin::tags::{TagChange, TagService};
pub use admin::worker_view::{ClockView, PoolView, WorkerView, WorkersView};
pub use error::Error;
pub use grabber::ServiceTask;
pub use held_ids::HeldIds;
pub use hot_tags::HotTags;
pub use ids::IdService;
pub use leader::keys::{KeyName, KeyRequest, LastNumber};
pub use local::slot::SlotStatus;
pub use log_access::Consistency;
pub use parts::{JsonNumbers, ServiceParts, ServiceSettings};
pub use pools::{LEASE_SECONDS_MAX, LeaseName, LeasedWorker, PoolPage, PoolService};
pub use readiness::Readiness;
pub use refusals::{Refusal, RefusedFor};
pub use registers::{RegisterPage, Registered};
pub use snowflake::lease::Lease;
pub use snowflake::snowflakes::Snowflakes;
pub use tag_table::TagTable;
pub use taken::{NOT_CONSECUTIVE, SingleIds, TakenIds};

pub use mintleaf_core::state::{Actor, AuditEntry, Fact, Facts, Protection, TagRow};

use crate::connection::answer_budget::AnswerBudget;
use admin::member_requests::answer_members;
use admin::tag_creation::TagCreation;
use grabber::Grabber;
use leader::{LeaderParts, LeaderQueue};
use local::cluster_time::ClusterTime;

/// The services of one node, one for each kind of caller; cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// Ids of tags, and snowflake ids.
    pub ids: Arc<IdService>,
    /// Creating, reading, changing and deleting tags.
    pub tags: Arc<TagService>,
    /// Membership, levels, clocks, readiness, metrics.
    pub cluster: Arc<ClusterService>,
    /// The audit of admin changes.
    pub audit: Arc<AuditService>,
    /// Backups of the whole state.
    pub backup: Arc<BackupService>,
    /// Worker ids for programs.
    pub pools: Arc<PoolService>,
    /// The memory of answers that clients have not read yet.
    pub answers: Arc<AnswerBudget>,
    /// What clients of Leaf's paths get for an id above 2^53 - 1.
    pub json_numbers: JsonNumbers,
}

impl Services {
    /// Starts the services on the current runtime. The task belongs to the caller: the services grab
    /// nothing more once it is dropped, and the node must stop when it ends by itself.
    pub fn start(parts: ServiceParts) -> (Self, ServiceTask) {
        let (grabs, grabber) = Grabber::start(&parts);
        let (leader, engine) = LeaderQueue::start(LeaderParts {
            replica: Arc::clone(&parts.replica),
            clock: Arc::clone(&parts.clock),
            metrics: Arc::clone(&parts.metrics),
            ledger: Arc::clone(parts.table.ledger()),
            nonce: parts.nonce,
        });
        let task = ServiceTask { grabs: grabber, leader: engine };
        let cluster = Arc::new(ClusterService::new(parts.clone()));
        answer_members(&cluster, &leader);
        let creation = Arc::new(TagCreation::new(parts.clone()));
        let tags = TagService {
            parts: parts.clone(),
            creation: Arc::clone(&creation),
            recent: Default::default(),
        };
        let ids = IdService {
            parts: parts.clone(),
            cluster_time: ClusterTime::new(Arc::clone(&parts.clock)),
            grabs,
            leader,
            creation: parts.settings.auto_create_tags.then_some(creation),
        };
        let services = Self {
            ids: Arc::new(ids),
            tags: Arc::new(tags),
            cluster,
            audit: Arc::new(AuditService { replica: Arc::clone(&parts.replica) }),
            backup: Arc::new(BackupService::new(parts.clone())),
            pools: Arc::new(PoolService { parts: parts.clone() }),
            answers: AnswerBudget::new(Arc::clone(&parts.metrics)),
            json_numbers: parts.settings.json_numbers,
        };
        (services, task)
    }
}
