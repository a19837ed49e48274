//! How far this node's store has come in bootstrap: what it is prepared for, and which cluster it enters.

use std::sync::Arc;

use mintleaf_storage::{MetaKey, StorageError};
use parking_lot::Mutex;

use super::records::Records;
use crate::message::{Prepare, Prepared, Refusal};
use crate::raft_storage::disk_format;
use crate::runtime::to_completion;
use crate::two_phase_commit::{Accepted, Participant};

/// What a store may enter until it takes part in a cluster, and the cluster that it takes part in.
pub(crate) struct BootstrapState {
    node_id: u64,
    cluster: Mutex<Option<u128>>,
    prepared: Mutex<Option<Prepared>>,
    /// The number that a prepare request has to quote; this node announces it in its handshakes. Every change of
    /// `prepared` and every start replaces the ticket, so a request that was under way at the time prepares no store.
    ticket: Mutex<u128>,
    /// The cluster of the nodes named by `--peers` or `--join`. It is not on disk: the store owes that cluster
    /// nothing.
    invited: Mutex<Option<u128>>,
    /// Held while `prepared` or `cluster` is judged and written, so that neither changes during the other's turn. A
    /// task that holds it runs to completion, because a change goes to disk first and to memory after that.
    changing: tokio::sync::Mutex<()>,
    records: Arc<Records>,
}

impl BootstrapState {
    pub(super) fn load(
        node_id: u64,
        boot_nonce: u128,
        records: Arc<Records>,
    ) -> Result<Self, StorageError> {
        let cluster = taken_part_in(&records)?;
        let record = records.log().get_meta(MetaKey::Prepared)?;
        let prepared = record.map(|record| disk_format::decode_prepared(&record)).transpose();
        let prepared = prepared.map_err(|error| disk_format::damaged("the bond", &error))?;
        Ok(Self {
            node_id,
            cluster: Mutex::new(cluster),
            prepared: Mutex::new(prepared.flatten()),
            ticket: Mutex::new(boot_nonce),
            invited: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            records,
        })
    }

    /// The cluster that this node belongs to.
    pub(crate) fn cluster(&self) -> Option<u128> {
        *self.cluster.lock()
    }

    /// What this store is prepared for.
    pub(crate) fn prepared(&self) -> Option<Prepared> {
        self.prepared.lock().clone()
    }

    /// This node as a participant of bootstrap.
    pub(crate) fn participant(&self) -> Participant {
        let ticket = *self.ticket.lock();
        Participant { cluster: self.cluster(), prepared: self.prepared(), ticket }
    }

    /// The cluster that this node may enter without being prepared for it.
    pub(crate) fn invited(&self) -> Option<u128> {
        *self.invited.lock()
    }

    /// Records the cluster of the nodes that this node's options name. That cluster may add this node.
    pub(crate) fn invite(&self, cluster: Option<u128>) {
        *self.invited.lock() = cluster;
    }

    /// Prepares this store at a coordinator's request, or returns the reason for refusing. The record is on disk on
    /// return.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        founders: &str,
        request: Prepare,
    ) -> Result<(), Refusal> {
        let (this, founders) = (Arc::clone(self), founders.to_owned());
        to_completion(async move { this.judge_and_prepare(&founders, request).await }).await
    }

    async fn judge_and_prepare(&self, founders: &str, request: Prepare) -> Result<(), Refusal> {
        let _changing = self.changing.lock().await;
        match self.participant().judge(self.node_id, founders, &request)? {
            Accepted::Already => Ok(()),
            Accepted::Now => {
                let Prepared { cluster, coordinator, .. } = request.prepared;
                self.write(Some(request.prepared)).await.map_err(as_refusal)?;
                let cluster = format_args!("{cluster:032x}");
                tracing::info!(%cluster, coordinator, "is bound to a cluster that is being formed");
                Ok(())
            }
        }
    }

    /// Prepares this store for a cluster that this node coordinates itself. Returns `false` if the node has entered
    /// another cluster by then or is prepared already.
    pub(crate) async fn prepare_itself(
        self: &Arc<Self>,
        prepared: Prepared,
    ) -> Result<bool, StorageError> {
        let this = Arc::clone(self);
        to_completion(async move { this.prepare_if_free(prepared).await }).await
    }

    async fn prepare_if_free(&self, prepared: Prepared) -> Result<bool, StorageError> {
        let _changing = self.changing.lock().await;
        let Participant { cluster, prepared: before, .. } = self.participant();
        let free = cluster.is_none() && before.is_none();
        if free {
            self.write(Some(prepared)).await?;
        }
        Ok(free)
    }

    /// Frees this store from a cluster id that the store `by` has aborted. If this node coordinates, `by` is this
    /// store itself.
    pub(crate) async fn abort(self: &Arc<Self>, cluster: u128, by: u128) -> Result<(), Refusal> {
        let this = Arc::clone(self);
        to_completion(async move { this.abort_if_prepared(cluster, by).await }).await
    }

    async fn abort_if_prepared(&self, cluster: u128, by: u128) -> Result<(), Refusal> {
        let _changing = self.changing.lock().await;
        let ends = self.prepared().is_some_and(|own| own.may_be_aborted(cluster, by));
        if self.cluster().is_some() || !ends {
            // The prepare request of an aborted id may arrive after the abort.
            self.spend_ticket();
            return Ok(());
        }
        tracing::info!(cluster = %format_args!("{cluster:032x}"), "is not bound any more");
        self.write(None).await.map_err(as_refusal)
    }

    async fn write(&self, prepared: Option<Prepared>) -> Result<(), StorageError> {
        self.spend_ticket();
        let record = disk_format::encode_prepared(prepared.as_ref());
        self.records.write_bytes(MetaKey::Prepared, &record).await?;
        *self.prepared.lock() = prepared;
        Ok(())
    }

    fn spend_ticket(&self) {
        let mut ticket = self.ticket.lock();
        *ticket = ticket.wrapping_add(1);
    }

    /// Makes this node take part in a cluster, for good once it has voted or holds an entry. Returns `false` if the
    /// node is prepared for another cluster, or has entered another one by then.
    pub(crate) async fn enter(self: &Arc<Self>, cluster: u128) -> Result<bool, StorageError> {
        let this = Arc::clone(self);
        to_completion(async move { this.enter_if_free(cluster).await }).await
    }

    async fn enter_if_free(&self, cluster: u128) -> Result<bool, StorageError> {
        let _changing = self.changing.lock().await;
        let Participant { cluster: entered, prepared, .. } = self.participant();
        if let Some(entered) = entered {
            return Ok(entered == cluster);
        }
        if prepared.is_some_and(|prepared| prepared.cluster != cluster) {
            return Ok(false);
        }
        self.records.write(MetaKey::Cluster, &cluster).await?;
        *self.cluster.lock() = Some(cluster);
        tracing::info!(cluster = %format_args!("{cluster:032x}"), "belongs to a cluster now");
        Ok(true)
    }
}

/// The cluster that a store has taken part in. A start forgets a cluster whose id the store wrote down without voting
/// or accepting an entry in it: the store owes that cluster nothing, and another cluster may have been created since.
fn taken_part_in(records: &Records) -> Result<Option<u128>, StorageError> {
    let log = records.log();
    let vote = log.get_meta(MetaKey::Vote)?.map(|vote| disk_format::decode_vote(&vote)).transpose();
    let vote = vote.map_err(|error| disk_format::damaged("the vote", &error))?;
    let voted = vote.is_some_and(|vote| vote.leader_id.term > 0);
    if voted || log.holds_entries() {
        records.read(MetaKey::Cluster, "the cluster id")
    } else {
        Ok(None)
    }
}

fn as_refusal(error: StorageError) -> Refusal {
    Refusal::Failed(error.to_string())
}
