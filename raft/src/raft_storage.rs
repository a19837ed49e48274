//! openraft's storage traits over `mintleaf_storage`: the log, the snapshots and the state machine.

pub(crate) mod disk_format;
mod durable_snapshot;
mod log_store;
mod replay;
mod state_machine_adapter;
mod sync_pace;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use durable_snapshot::{DurableSnapshot, DurableSnapshotReader};
pub(crate) use log_store::{LogObserver, LogStore};
pub(crate) use replay::Replay;
pub(crate) use state_machine_adapter::{StateMachineAdapter, stamp_of};
pub(crate) use sync_pace::SyncPace;
