//! What this node's store is promised to, and which cluster it enters.

use mintleaf_storage::{MetaKey, StorageError, codec, planted};
use parking_lot::Mutex;

use super::{FORMAT, Local, read};
use crate::bond::{Accepted, Bond, Offer, Standing};
use crate::guard::Refusal;
use crate::records;
use crate::store::LogStore;

/// The part of [`Local`] that matters until this node takes part in a cluster.
pub(super) struct Promises {
    bond: Mutex<Option<Bond>>,
    /// Quoted by offers. Spent, and followed by another, with every change of the bond and every
    /// start: an offer that was on its way meanwhile binds nobody.
    ticket: Mutex<u128>,
    /// The cluster that those belong to whom this node was told to ask.
    invited: Mutex<Option<u128>>,
    /// Held while a bond or a cluster is judged and written: each excludes the other.
    changing: tokio::sync::Mutex<()>,
}

impl Promises {
    pub(super) fn load(log: &LogStore, boot_nonce: u128) -> Result<Self, StorageError> {
        let bond = log.get_meta(MetaKey::Bond)?.map(|record| Bond::decode(&record)).transpose();
        let bond = bond.map_err(|error| records::damaged("the bond", &error))?;
        let (invited, changing) = Default::default();
        let (bond, ticket) = (Mutex::new(bond.flatten()), Mutex::new(boot_nonce));
        Ok(Self { bond, ticket, invited, changing })
    }

    fn spend_ticket(&self) {
        let mut ticket = self.ticket.lock();
        *ticket = ticket.wrapping_add(1);
    }
}

/// The cluster that a store has taken part in. One that it only wrote down, and then neither voted nor
/// took an entry in, is forgotten with a restart: it owes that cluster nothing, and another may
/// have been formed since.
pub(super) fn taken_part_in(log: &LogStore) -> Result<Option<u128>, StorageError> {
    let vote = log.get_meta(MetaKey::Vote)?.map(|vote| records::decode_vote(&vote)).transpose();
    let vote = vote.map_err(|error| records::damaged("the vote", &error))?;
    let voted = vote.is_some_and(|vote| vote.leader_id.term > 0);
    if voted || log.holds_entries() {
        read(log, MetaKey::Cluster, "the cluster id")
    } else {
        Ok(None)
    }
}

impl Local {
    /// What this store is bound to.
    pub(crate) fn bond(&self) -> Option<Bond> {
        self.promises.bond.lock().clone()
    }

    /// How this node stands towards clusters that are still to be formed.
    pub(crate) fn standing(&self) -> Standing {
        let ticket = *self.promises.ticket.lock();
        Standing { cluster: self.cluster(), bond: self.bond(), ticket }
    }

    /// The cluster that this node may enter unbound.
    pub(crate) fn invited(&self) -> Option<u128> {
        *self.promises.invited.lock()
    }

    /// Lets this node be taken in by a cluster, one of whose members it was told to ask.
    pub(crate) fn invite(&self, cluster: Option<u128>) {
        *self.promises.invited.lock() = cluster;
    }

    /// Binds this store as a coordinator asks, or says why not. On disk on return.
    pub(crate) async fn bind(&self, founders: &str, offer: Offer) -> Result<(), Refusal> {
        let _changing = self.promises.changing.lock().await;
        match self.standing().judge(self.node_id, founders, &offer)? {
            Accepted::Already => Ok(()),
            Accepted::Now => {
                let Bond { cluster, coordinator, .. } = offer.bond;
                self.keep(Some(offer.bond)).await.map_err(as_refusal)?;
                let cluster = format_args!("{cluster:032x}");
                tracing::info!(%cluster, coordinator, "is bound to a cluster that is being formed");
                Ok(())
            }
        }
    }

    /// Binds this store to a cluster that it is about to form itself. `false`: it entered another
    /// meanwhile, or is bound.
    pub(crate) async fn bind_itself(&self, bond: Bond) -> Result<bool, StorageError> {
        let _changing = self.promises.changing.lock().await;
        let Standing { cluster, bond: bound, .. } = self.standing();
        let free = cluster.is_none() && bound.is_none();
        if free {
            self.keep(Some(bond)).await?;
        }
        Ok(free)
    }

    /// Ends a bond, as the store says that gave the cluster id up; this store, if it coordinates.
    pub(crate) async fn release(&self, cluster: u128, by: u128) -> Result<(), Refusal> {
        let _changing = self.promises.changing.lock().await;
        let ends = self.bond().is_some_and(|bond| bond.ends_with(cluster, by));
        if self.cluster().is_some() || !ends {
            // What would bind it may come behind its release.
            self.promises.spend_ticket();
            return Ok(());
        }
        tracing::info!(cluster = %format_args!("{cluster:032x}"), "is not bound any more");
        self.keep(None).await.map_err(as_refusal)
    }

    async fn keep(&self, bond: Option<Bond>) -> Result<(), StorageError> {
        self.promises.spend_ticket();
        let given_up = bond.is_none() && planted("id-given-up-in-memory");
        if !given_up && !planted("bond-not-on-disk") {
            self.put(MetaKey::Bond, &Bond::encode(bond.as_ref())).await?;
        }
        *self.promises.bond.lock() = bond;
        Ok(())
    }

    /// Makes this node take part in a cluster, for good once it has voted or holds an entry.
    /// `false`: it is bound to another, or entered another meanwhile.
    pub(crate) async fn enter(&self, cluster: u128) -> Result<bool, StorageError> {
        let _changing = self.promises.changing.lock().await;
        let Standing { cluster: entered, bond, .. } = self.standing();
        if let Some(entered) = entered {
            return Ok(entered == cluster);
        }
        if bond.is_some_and(|bond| bond.cluster != cluster) && !planted("any-cluster-entered") {
            return Ok(false);
        }
        self.put(MetaKey::Cluster, &codec::encode(FORMAT, &cluster)).await?;
        *self.cluster.lock() = Some(cluster);
        tracing::info!(cluster = %format_args!("{cluster:032x}"), "belongs to a cluster now");
        Ok(true)
    }
}

fn as_refusal(error: StorageError) -> Refusal {
    Refusal::Failed(error.to_string())
}
