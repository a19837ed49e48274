//! The small durable values of a node's identity.

use std::future::Future;

use mintleaf_codec as codec;
use mintleaf_storage::{MetaKey, StorageError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::raft_storage::{LogStore, disk_format};
use crate::stop::StopHandle;

/// Format byte of the values.
const FORMAT: u8 = 1;

/// Reads and writes the values. The node stops if it cannot write one.
pub(super) struct Records {
    log: LogStore,
    stop: StopHandle,
}

impl Records {
    pub(super) fn new(log: LogStore, stop: StopHandle) -> Self {
        Self { log, stop }
    }

    pub(super) fn stop_handle(&self) -> &StopHandle {
        &self.stop
    }

    pub(super) fn log(&self) -> &LogStore {
        &self.log
    }

    /// Reads and decodes a value; `what` names it in the error.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        key: MetaKey,
        what: &str,
    ) -> Result<Option<T>, StorageError> {
        let record = self.log.get_meta(key)?.map(|record| codec::decode_as(FORMAT, &record));
        record.transpose().map_err(|error| disk_format::damaged(what, &error))
    }

    /// Encodes a value and queues it for writing at once. The future resolves when it is on disk; a failure stops the
    /// node.
    pub(super) fn write<'a, T: Serialize + ?Sized>(
        &'a self,
        key: MetaKey,
        value: &T,
    ) -> impl Future<Output = Result<(), StorageError>> + Send + use<'a, T> {
        self.write_bytes(key, &codec::encode(FORMAT, value))
    }

    /// Queues an encoded value for writing at once. The future resolves when it is on disk; a failure stops the node.
    pub(super) fn write_bytes(
        &self,
        key: MetaKey,
        value: &[u8],
    ) -> impl Future<Output = Result<(), StorageError>> + Send + use<'_> {
        let put = self.log.put_meta(key, value);
        async move {
            let put = put.await;
            put.inspect_err(|error| self.stop.stop(format!("the storage failed: {error}")))
        }
    }

    /// Writes why the node ends, for its later starts. The node ends in any case, so a failure is only logged.
    pub(super) async fn write_end(&self, key: MetaKey, why: &impl Serialize, failure: &str) {
        if let Err(error) = self.log.put_meta(key, &codec::encode(FORMAT, why)).await {
            tracing::warn!(%error, "{failure}");
        }
    }
}
