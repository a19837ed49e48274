//! Snowflake ids: the worker ids that this node holds, and the windows of time that it may stamp.
//!
//! ```text
//! snowflakes        the ids that this node may make now; one lock
//!   lease_status    whether anything keeps the node from having windows
//! lease             the node's hold on its worker ids
//!   lease_task      the task that takes worker ids and renews them
//!     cluster_rules   whether the settings are the cluster's
//!     worker_demand   how many worker ids are enough
//!     clock_reports   reports of clocks to the log
//! ```

mod clock_reports;
mod cluster_rules;
pub(super) mod lease;
mod lease_status;
mod lease_task;
pub(super) mod snowflakes;
mod worker_demand;
