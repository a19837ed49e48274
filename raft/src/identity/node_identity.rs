//! This node's identity, and the incarnations of its peers' data directories.

use std::sync::Arc;

use mintleaf_storage::{MetaKey, StorageError};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::admission::{self, AdmissionView};
use super::authority::{self, Speaker};
use super::bootstrap_state::BootstrapState;
use super::incarnations::OwnIncarnations;
use super::records::Records;
use super::removal::{Own, RemovalClaims};
use super::seen_incarnations::SeenIncarnations;
use crate::error::StopReason;
use crate::message::{Destination, Header, Incarnation, Origin, Refusal};
use crate::raft_storage::LogStore;
use crate::runtime::{Spawner, to_completion};
use crate::stop::StopHandle;
use crate::types::{Member, NamesLeader, RaftMembership, RaftMetrics, read_metrics};

/// This node's identity. The node stops as soon as its identity is in doubt.
pub(crate) struct NodeIdentity {
    node_id: u64,
    store: u128,
    /// Distinguishes this process from every other.
    boot_nonce: u128,
    /// The incarnations of this store that are on its disk.
    own: Mutex<OwnIncarnations>,
    seen: Mutex<SeenIncarnations>,
    /// Held while a task records an incarnation that no message waits for.
    recording: Arc<tokio::sync::Mutex<()>>,
    bootstrap: Arc<BootstrapState>,
    metrics: Mutex<Option<watch::Receiver<RaftMetrics>>>,
    removal_claims: RemovalClaims,
    records: Arc<Records>,
}

impl NodeIdentity {
    pub(crate) fn load(
        node_id: u64,
        store: u128,
        boot_nonce: u128,
        log: LogStore,
        stop: StopHandle,
    ) -> Result<Self, StorageError> {
        let records = Arc::new(Records::new(log, stop));
        let bootstrap = Arc::new(BootstrapState::load(node_id, boot_nonce, Arc::clone(&records))?);
        let seen = records.read(MetaKey::Members, "the peers' starts")?.unwrap_or_default();
        let own = records.read(MetaKey::Starts, "this store's starts")?.unwrap_or_default();
        Ok(Self {
            node_id,
            store,
            boot_nonce,
            own: Mutex::new(own),
            seen: Mutex::new(SeenIncarnations::on_disk(seen)),
            recording: Arc::default(),
            bootstrap,
            metrics: Mutex::new(None),
            removal_claims: RemovalClaims::default(),
            records,
        })
    }

    /// Begins an incarnation of this store, numbered `floor` or higher. Peers see it only once it is on disk.
    pub(crate) async fn begin_incarnation(&self, floor: u64) -> Result<(), StorageError> {
        let incarnations = self.own.lock().with_next(floor, self.boot_nonce);
        self.records.write(MetaKey::Starts, &incarnations).await?;
        *self.own.lock() = incarnations;
        Ok(())
    }

    /// Gives the identity a view of the membership, once Raft runs.
    pub(crate) fn watch(&self, metrics: watch::Receiver<RaftMetrics>) {
        *self.metrics.lock() = Some(metrics);
    }

    pub(crate) fn node_id(&self) -> u64 {
        self.node_id
    }

    pub(crate) fn store(&self) -> u128 {
        self.store
    }

    /// The cluster that this node belongs to.
    pub(crate) fn cluster(&self) -> Option<u128> {
        self.bootstrap.cluster()
    }

    /// What this store is prepared for, and which cluster it may enter.
    pub(crate) fn bootstrap(&self) -> &Arc<BootstrapState> {
        &self.bootstrap
    }

    pub(crate) fn stop_handle(&self) -> &StopHandle {
        self.records.stop_handle()
    }

    /// The membership in effect here, committed or not (Raft paper, 6: a server uses the latest
    /// configuration in its log).
    pub(crate) fn members(&self) -> Arc<RaftMembership> {
        let metrics = self.metrics.lock();
        let members = metrics
            .as_ref()
            .map(|metrics| read_metrics(metrics, |now| Arc::clone(&now.membership_config)));
        members.unwrap_or_default()
    }

    /// Whether this node leads, as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leader() == Some(self.node_id)
    }

    /// The leader as far as this node knows; it may be gone by now.
    pub(crate) fn leader(&self) -> Option<u64> {
        let metrics = self.metrics.lock();
        metrics.as_ref().and_then(|metrics| read_metrics(metrics, |now| now.leader()))
    }

    /// This node as the origin of a message.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            node_id: self.node_id,
            store: self.store,
            incarnation: self.incarnation(),
            members_index: self.member_since(),
        }
    }

    /// Whether the membership in effect names this store under this id.
    pub(crate) fn knows(&self, node_id: u64, store: u128) -> bool {
        authority::names(&self.members(), node_id, store)
    }

    /// Log index of the membership in effect, if it names this very store.
    fn member_since(&self) -> Option<u64> {
        let members = self.members();
        let listed = members.membership().get_node(&self.node_id)?;
        if listed.store == self.store { members.log_id().map(|id| id.index) } else { None }
    }

    /// The destination of a message to a member.
    pub(crate) fn destination(&self, to: u64, member: &Member) -> Destination {
        let incarnation_seen = self.seen.lock().latest(member.store);
        Destination { node_id: to, store: member.store, incarnation_seen }
    }

    /// Judges a message, which has to come from `speaker`. Also judges this node itself by what the sender has seen
    /// of its store.
    pub(crate) async fn admit(&self, header: &Header, speaker: Speaker) -> Result<(), Refusal> {
        if header.to.store == self.store
            && self.cluster().is_none_or(|ours| ours == header.cluster)
            && let Some(seen) = header.to.incarnation_seen
            && self.is_contradicted(seen, &header.from).await
        {
            // Refusing it as a stale incarnation would say that the sender's own data is in doubt.
            let why = "this node's data directory never had the start that was seen of it";
            return Err(Refusal::Failed(why.to_owned()));
        }
        self.judge(header, speaker)?;
        if self.cluster().is_none() && !speaker.is_of_no_cluster() {
            let entered = self.bootstrap.enter(header.cluster).await;
            if !entered.map_err(|error| Refusal::Failed(error.to_string()))? {
                return Err(Refusal::Failed("it has been bound to another cluster".to_owned()));
            }
        }
        Ok(())
    }

    fn judge(&self, header: &Header, speaker: Speaker) -> Result<(), Refusal> {
        let (me, members) = (self.origin(), self.members());
        let seen = self.seen.lock().latest(header.from.store);
        let (cluster, prepared) = (self.cluster(), self.bootstrap.prepared());
        let view = AdmissionView {
            me,
            cluster,
            prepared: prepared.as_ref(),
            invited: self.bootstrap.invited(),
            members: &members,
            seen,
        };
        admission::admit(&view, header, speaker)
    }

    /// Records the incarnation of a store that was never seen before, and later ones of the same process; refuses an
    /// older copy. Another process on a known store first has to confirm what was seen: see
    /// [`NodeIdentity::record_incarnation`]. For a stranger whose memory this node does not rely on, nothing is
    /// recorded, so it cannot cause writes to this node's disk.
    pub(crate) async fn observe_incarnation(
        &self,
        from: &Origin,
        speaker: Speaker,
    ) -> Result<(), Refusal> {
        let known = self.seen.lock().latest(from.store);
        match known {
            Some(seen) if !from.incarnation.is_same_process(seen) => {
                admission::check_incarnation(known, from)
            }
            None if !speaker.is_relied_on() && !self.knows(from.node_id, from.store) => Ok(()),
            known => self.record_incarnation(known, from).await,
        }
    }

    /// Does the same for a request that waits for no disk. Returns whether the incarnation is on disk already.
    pub(crate) fn observe_in_passing(self: &Arc<Self>, from: &Origin) -> Result<bool, Refusal> {
        let known = self.seen.lock().latest(from.store);
        match known {
            Some(seen) if !from.incarnation.is_same_process(seen) => {
                admission::check_incarnation(known, from).map(|()| false)
            }
            known => self.note_incarnation(known, from),
        }
    }

    /// [`NodeIdentity::record_incarnation`] for a message that waits for no disk, because nothing that must outlive
    /// this process rests on it. The incarnation of a member is noted in memory and written by a task, one at a time.
    /// Returns whether it is on disk already.
    pub(crate) fn note_incarnation(
        self: &Arc<Self>,
        told: Option<Incarnation>,
        from: &Origin,
    ) -> Result<bool, Refusal> {
        {
            let mut seen = self.seen.lock();
            check_told(seen.latest(from.store), told, from)?;
            if seen.is_on_disk(from) {
                return Ok(true);
            }
            let members = self.members();
            if !authority::names(&members, from.node_id, from.store) {
                return Ok(false);
            }
            // An older copy is refused from here on, before the record is on disk.
            seen.record(from, |store| members.nodes().any(|(_, member)| member.store == store));
        }
        if let Ok(turn) = Arc::clone(&self.recording).try_lock_owned() {
            let (identity, from) = (Arc::clone(self), *from);
            Spawner::current().spawn(async move {
                // If this is refused or fails, so will the next message that has to wait for it.
                let _ = identity.record_incarnation(told, &from).await;
                drop(turn);
            });
        }
        Ok(false)
    }

    /// Refuses a process that is new on a store that was seen before. The process may run on an older copy of the
    /// store, and finds that out itself once it gets the incarnation that was seen.
    pub(crate) fn check_confirmed(&self, from: &Origin) -> Result<(), Refusal> {
        match self.seen.lock().latest(from.store) {
            Some(seen) if !from.incarnation.is_same_process(seen) => {
                Err(Refusal::Restarted { seen })
            }
            _ => Ok(()),
        }
    }

    /// Whether `by` has seen an incarnation that this store never had. If so, this is an older copy of the store and
    /// must not take part. The node stops if `by` is a member; a stranger cannot stop it.
    pub(crate) async fn is_contradicted(&self, seen: Incarnation, by: &Origin) -> bool {
        let contradicted = self.own.lock().is_contradicted_by(seen);
        if contradicted && self.knows(by.node_id, by.store) {
            let refusal = Refusal::StaleIncarnation { seen: seen.number };
            self.stop_as_refused(&refusal, refusal.to_string()).await;
        }
        contradicted
    }

    /// The current incarnation of this store.
    pub(crate) fn incarnation(&self) -> Incarnation {
        let none_yet = Incarnation { number: 0, nonce: self.boot_nonce };
        self.own.lock().current().unwrap_or(none_yet)
    }

    /// Records on disk an incarnation of a peer's store; refuses an older copy of the store.
    ///
    /// `told` is the last incarnation seen, as this node reported it to the peer. The peer confirms it only if its store
    /// had that incarnation, so the present one comes after it. If another incarnation was seen since, that one has to be
    /// reported to the peer first.
    pub(crate) async fn record_incarnation(
        &self,
        told: Option<Incarnation>,
        from: &Origin,
    ) -> Result<(), Refusal> {
        let written = {
            let mut seen = self.seen.lock();
            check_told(seen.latest(from.store), told, from)?;
            // An incarnation that is known but not on disk yet is written again: the answer to the first request may
            // still be waiting for the disk.
            if seen.is_on_disk(from) {
                return Ok(());
            }
            let members = self.members();
            seen.record(from, |store| members.nodes().any(|(_, member)| member.store == store));
            // Several threads call peers. The write is queued under the list's lock, so that no older list replaces
            // this one on disk.
            self.records.write(MetaKey::Members, &seen.to_write())
        };
        written.await.map_err(|error| Refusal::Failed(error.to_string()))?;
        self.seen.lock().written(from);
        Ok(())
    }

    /// Rewrites the peers' incarnations unchanged, to measure another sync.
    ///
    /// # Errors
    /// The storage failed, which has stopped the node.
    pub(crate) async fn try_disk(&self) -> Result<(), StorageError> {
        let written = {
            let seen = self.seen.lock();
            self.records.write(MetaKey::Members, &seen.to_write())
        };
        written.await
    }

    /// Counts a member's claim that this node was removed or replaced by the membership at `members_index`, and
    /// returns whether this node now believes it. A claim is out of date if it concerns a membership that names this
    /// node, or an earlier one.
    pub(crate) fn believes_removal(&self, by: &Origin, members_index: u64) -> bool {
        if self.member_since() >= Some(members_index) {
            return false;
        }
        let Some(now) =
            self.metrics.lock().as_ref().map(|metrics| read_metrics(metrics, Clone::clone))
        else {
            return false;
        };
        let (leader, last_log_index) = (now.leader(), now.last_log_index);
        let members = &now.membership_config;
        let own = Own { node_id: self.node_id, members, leader, last_log_index };
        self.removal_claims.count(&own, by.node_id, members_index)
    }

    /// Stops this node for good because it was removed. Later starts end with the same reason.
    pub(crate) async fn stop_as_removed(&self, members_index: u64) {
        let records = Arc::clone(&self.records);
        to_completion(async move {
            let failure = "cannot note on disk that this node was removed";
            records.write_end(MetaKey::Removed, &members_index, failure).await;
            let why = Refusal::Removed { members_index }.to_string();
            records.stop_handle().stop(StopReason::operator(why));
        })
        .await;
    }

    /// Stops this node because it was refused. Doubt about its data is written down: peers may not notice it again,
    /// because the next incarnation counts past the one that they know.
    pub(crate) async fn stop_as_refused(&self, refusal: &Refusal, why: String) {
        let (records, is_about_data) = (Arc::clone(&self.records), refusal.is_about_data());
        to_completion(async move {
            if is_about_data {
                let failure = "cannot note on disk that this node was refused";
                records.write_end(MetaKey::Refused, &why, failure).await;
            }
            records.stop_handle().stop(StopReason::operator(why));
        })
        .await;
    }

    /// Why this store must no longer take part, if an earlier start found out.
    pub(crate) fn ended_before(&self) -> Result<Option<StopReason>, StorageError> {
        let refused: Option<String> = self.records.read(MetaKey::Refused, "the note of refusal")?;
        let members_index = self.records.read(MetaKey::Removed, "the note of removal")?;
        let removed = members_index.map(|members_index| Refusal::Removed { members_index });
        let why = refused.or(removed.map(|refusal| refusal.to_string()));
        Ok(why.map(StopReason::operator))
    }
}

/// Refuses an older copy of a store. Also refuses a new process if `told`, the incarnation that was reported to it as
/// the last one seen, is no longer the last one seen.
fn check_told(
    known: Option<Incarnation>,
    told: Option<Incarnation>,
    from: &Origin,
) -> Result<(), Refusal> {
    admission::check_incarnation(known, from)?;
    let is_same = known.is_some_and(|known| from.incarnation.is_same_process(known));
    if !is_same && known != told {
        let why = "another start of its data directory was seen meanwhile";
        return Err(Refusal::Failed(why.to_owned()));
    }
    Ok(())
}
