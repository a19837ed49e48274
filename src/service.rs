//! The services of one node: they hand out what the node holds, and see to it that it holds enough.
//!
//! ```text
//! ids           IdService: ids of tags, and snowflake ids
//!   availability  whether ids could be had, without taking any
//!   held_ids    takes ids that are buffered, without a wait
//!   taken       ids that were taken, as a face shows them
//!   single_ids  ids for requests that came together, of one id each
//!   cluster_time  the time that selects the period
//!   warm_start  holds ids again of the tags that were hot before a restart
//!     hot_tags  which those are
//!   slot_table  tag to slot, no lock
//!     slot      one tag: double buffer, waiting callers; has its own lock
//!       rate_limit  how many ids of it may be handed out now
//!     first_segments  what is heard of tags whose first segment has no slot yet
//!     shaped    the tags that are not plain: which line is drawn from now, and a slot for each
//!   grabber     the task that grabs, many tags together
//!   ordered     what only the leader hands out: strict tags and sequences
//!   sequences   numbers of keys
//!     sequence_limits   how many of them may be handed out now
//!   snowflakes  the snowflake ids that this node may make; one lock
//! lease         the node's hold on its worker ids
//!   lease_task  the task that takes worker ids and renews them
//!     cluster_rules   whether the settings are the cluster's
//!     worker_demand   how many worker ids are enough
//!     clock_reports   reports of clocks to the log
//!     lease_status    whether anything keeps the node from having windows
//! tags          TagService: create, read, change, delete
//!   tag_buffers   what this node holds of them
//! tag_creation  creates tags, as long as there is a place for another name
//!   first_uses  how fast a node creates tags on first use
//! tag_import    takes over the tags of another system
//! notes         how nodes take note of a change before it is answered
//! audit         AuditService: who changed what; has changes recorded that the state does not make
//! backup        BackupService: the whole state, written while the node goes on
//! cluster       ClusterService: membership, levels, clocks, readiness, metrics
//!   headroom      what the log says of a tag that is nearly used up
//!   readiness     whether the node can hand out ids, and why not
//!   snowflake_floor   raises the floor under all snowflake ids
//!   cluster_view, worker_view   what clients read of them
//! ```
//!
//! The pure rules are in `segment` and `state`; the waiting, the locks and the tasks are here. Ids are
//! taken under their slot's lock, so one node hands a tag's ids out in increasing order.

mod audit;
mod availability;
mod backup;
mod clock_reports;
mod cluster;
mod cluster_rules;
mod cluster_time;
mod cluster_view;
mod error;
mod first_segments;
mod first_uses;
mod grabber;
mod headroom;
mod held_ids;
mod hot_tags;
mod ids;
mod lease;
mod lease_status;
mod lease_task;
mod log_access;
mod notes;
mod ordered;
mod rate_limit;
mod readiness;
mod sequence_limits;
mod sequences;
mod shaped;
mod single_ids;
mod slot;
mod slot_table;
mod snowflake_floor;
mod snowflakes;
mod tag_buffers;
mod tag_creation;
mod tag_import;
mod tag_shape;
mod tags;
mod taken;
#[cfg(test)]
pub(crate) mod tests;
mod warm_start;
mod worker_demand;
mod worker_view;

use std::sync::Arc;

pub use audit::{AuditPart, AuditService};
pub use backup::{BackupPieces, BackupService};
pub use cluster::{ClusterService, NewMember};
pub use cluster_view::{ClusterView, NodeView};
pub use error::Error;
pub use grabber::ServiceTask;
pub use headroom::HeadroomLog;
pub use held_ids::HeldIds;
pub use hot_tags::HotTags;
pub use ids::IdService;
pub use lease::Lease;
pub use log_access::Consistency;
pub use readiness::Readiness;
pub use sequences::{KeyName, KeyRequest, LastNumber};
pub use single_ids::SingleIds;
pub use slot::SlotStatus;
pub use slot_table::SlotTable;
pub use snowflake_floor::SnowflakeFloor;
pub use snowflakes::Snowflakes;
pub use tag_buffers::{HoldingsPage, TagHolding};
pub use tag_creation::TagSpec;
pub use tag_import::{ImportOutcomes, Imported, TagToImport};
pub use tag_shape::ShapeSpec;
pub use tags::{TagChange, TagService};
pub use taken::TakenIds;
pub use worker_view::{ClockView, WorkerView, WorkersView};

pub use mintleaf_core::state::{Actor, AuditEntry, Fact, Facts, Protection, TagRow};

use mintleaf_core::sequence::Counters;

use crate::connection::answer_budget::AnswerBudget;
use crate::machine::clock::Clock;
use crate::metrics::Metrics;
use crate::replica::{DrawKey, Replica};
use cluster_time::ClusterTime;
use grabber::Grabber;
use ordered::{Ordered, OrderedParts, SharedLedger};
use tag_creation::TagCreation;

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
    /// The memory of answers that clients have not read yet.
    pub answers: Arc<AnswerBudget>,
}

/// Everything that the services of a node need.
pub struct ServiceParts {
    /// The replicated log and the state that it made.
    pub replica: Arc<Replica>,
    /// The slots of tags; it listens to the log's deletions.
    pub table: Arc<SlotTable>,
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// The node's counters.
    pub metrics: Arc<Metrics>,
    /// The snowflake ids that the node's lease covers.
    pub snowflakes: Arc<Snowflakes>,
    /// Whether an unknown tag is created on first use.
    pub auto_create_tags: bool,
    /// Most names of tags that the cluster shall know, deleted ones included.
    pub tags_max: u64,
    /// Bytes for the counters of sequences, while the node leads.
    pub sequence_memory: usize,
    /// Names this process start in the log: no start of any node ever had the same.
    pub nonce: u128,
    /// Random, and known to this process alone.
    pub secret: u128,
    /// Draws the keys of hidden ids, below the level that makes them of a root key.
    pub draw_key: DrawKey,
}

impl Services {
    /// Starts the services on the current runtime. The task belongs to the caller: the services grab
    /// nothing more once it is dropped, and the node must stop when it ends by itself.
    pub fn start(parts: ServiceParts) -> (Self, ServiceTask) {
        let ServiceParts {
            replica,
            table,
            clock,
            metrics,
            snowflakes,
            auto_create_tags,
            tags_max,
            sequence_memory,
            draw_key,
            nonce,
            secret,
        } = parts;
        let (grabs, grabber) =
            Grabber::start(Arc::clone(&replica), Arc::clone(&table), Arc::clone(&metrics));
        let secret = [secret as u64, (secret >> 64) as u64];
        let ledger = SharedLedger::new(Counters::new(sequence_memory, secret));
        table.drop_held_from(ledger.clone());
        let (counters, held) = (ledger.clone(), ledger.clone());
        let (ordered, engine) = Ordered::start(OrderedParts {
            replica: Arc::clone(&replica),
            clock: Arc::clone(&clock),
            metrics: Arc::clone(&metrics),
            ledger,
            nonce,
        });
        notes::answer_members(&replica, &ordered);
        let task = ServiceTask { grabs: grabber, ordered: engine };
        let creation =
            TagCreation::new(Arc::clone(&replica), Arc::clone(&clock), tags_max, draw_key);
        let creation = Arc::new(creation);
        let tags = TagService {
            replica: Arc::clone(&replica),
            table: Arc::clone(&table),
            ordered: held,
            clock: Arc::clone(&clock),
            creation: Arc::clone(&creation),
            recent: Default::default(),
        };
        let answers = AnswerBudget::new(Arc::clone(&metrics));
        let cluster = ClusterService {
            replica: Arc::clone(&replica),
            table: Arc::clone(&table),
            ordered: counters,
            snowflakes: Arc::clone(&snowflakes),
            clock: Arc::clone(&clock),
            metrics: Arc::clone(&metrics),
            own: Default::default(),
            tags_max,
        };
        let backup =
            BackupService::new(Arc::clone(&replica), Arc::clone(&clock), Arc::clone(&metrics));
        let audit = AuditService { replica: Arc::clone(&replica) };
        let creation = auto_create_tags.then_some(creation);
        let cluster_time = ClusterTime::new(Arc::clone(&clock));
        let ids = IdService {
            replica,
            table,
            clock,
            cluster_time,
            metrics,
            grabs,
            ordered,
            sequence_limits: Default::default(),
            snowflakes,
            creation,
        };
        let (ids, tags, cluster) = (Arc::new(ids), Arc::new(tags), Arc::new(cluster));
        let (audit, backup) = (Arc::new(audit), Arc::new(backup));
        (Self { ids, tags, cluster, audit, backup, answers }, task)
    }
}
