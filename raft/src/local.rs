//! What a node knows of itself and of its peers' data directories.

mod promises;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::{MetaKey, StorageError, codec, planted};
use openraft::RaftMetrics;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clocks::Clocks;
use crate::contact::{Contact, may_send};
use crate::error::StopReason;
use crate::guard::{self, Header, Identity, Kind, Refusal, Target, View};
use crate::options::Clock;
use crate::records::{self, StartsRecord};
use crate::starts::{OwnStarts, Start};
use crate::store::LogStore;
use crate::types::{Member, RaftLogId, RaftMembership};
use promises::Promises;

/// Format byte of the small values kept here.
const FORMAT: u8 = 1;

/// This node's own facts. The first doubt about them stops the node.
pub(crate) struct Local {
    node_id: u64,
    store: u128,
    /// Tells this process from every other.
    boot_nonce: u128,
    /// The starts of this store that are on its disk.
    own: Mutex<OwnStarts>,
    log: LogStore,
    cluster: Mutex<Option<u128>>,
    promises: Promises,
    /// Latest start seen of every peer's store; on disk before anything is answered to it.
    seen: Mutex<BTreeMap<u128, Start>>,
    metrics: Mutex<Option<watch::Receiver<RaftMetrics<u64, Member>>>>,
    doubt: watch::Sender<Option<StopReason>>,
    clock: Arc<dyn Clock>,
    clocks: Clocks,
    contact: Contact,
    /// Longest election timeout of followers: a leader without a quorum for so long is on its own.
    election_max: Duration,
}

impl Local {
    pub(crate) fn load(
        node_id: u64,
        store: u128,
        boot_nonce: u128,
        log: LogStore,
        clock: Arc<dyn Clock>,
        election_max: Duration,
    ) -> Result<Self, StorageError> {
        let cluster = promises::taken_part_in(&log)?;
        let promises = Promises::load(&log, boot_nonce)?;
        let StartsRecord(seen) =
            read(&log, MetaKey::Members, "the peers' starts")?.unwrap_or_default();
        let own = read(&log, MetaKey::Starts, "this store's starts")?.unwrap_or_default();
        Ok(Self {
            node_id,
            store,
            boot_nonce,
            own: Mutex::new(own),
            log,
            cluster: Mutex::new(cluster),
            promises,
            seen: Mutex::new(seen),
            metrics: Mutex::new(None),
            doubt: watch::Sender::new(None),
            clock,
            clocks: Clocks::default(),
            contact: Contact::default(),
            election_max,
        })
    }

    /// Begins a start of this store, numbered `floor` or higher. Peers hear of it once it is on disk.
    pub(crate) async fn begin_start(&self, floor: u64) -> Result<(), StorageError> {
        let starts = self.own.lock().with_next(floor, self.boot_nonce);
        self.put(MetaKey::Starts, &codec::encode(FORMAT, &starts)).await?;
        *self.own.lock() = starts;
        Ok(())
    }

    /// Lets the guard see the membership, once Raft runs.
    pub(crate) fn watch(&self, metrics: watch::Receiver<RaftMetrics<u64, Member>>) {
        *self.metrics.lock() = Some(metrics);
    }

    pub(crate) fn node_id(&self) -> u64 {
        self.node_id
    }

    pub(crate) fn store(&self) -> u128 {
        self.store
    }

    pub(crate) fn cluster(&self) -> Option<u128> {
        *self.cluster.lock()
    }

    /// The membership in effect here, committed or not.
    pub(crate) fn members(&self) -> Arc<RaftMembership> {
        let metrics = self.metrics.lock();
        metrics
            .as_ref()
            .map(|metrics| Arc::clone(&metrics.borrow().membership_config))
            .unwrap_or_default()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            node_id: self.node_id,
            store: self.store,
            start: self.start(),
            members_index: self.member_since(),
        }
    }

    /// Whether the membership in effect names this store under this id.
    pub(crate) fn knows(&self, node_id: u64, store: u128) -> bool {
        guard::names(&self.members(), node_id, store)
    }

    /// Log index of the membership in effect, when it holds this very store.
    fn member_since(&self) -> Option<u64> {
        let members = self.members();
        let listed = members.membership().get_node(&self.node_id)?;
        if listed.store == self.store { members.log_id().map(|id| id.index) } else { None }
    }

    /// The head of a message to a member of a cluster.
    pub(crate) fn header(&self, cluster: u128, to: u64, member: &Member) -> Header {
        let start_seen = self.seen.lock().get(&member.store).copied();
        let to = Target { node_id: to, store: member.store, start_seen };
        let clock_ms = self.clock.now_ms();
        let median_ms = self.leads().then(|| self.median_ms());
        Header { cluster, from: self.identity(), to, clock_ms, median_ms }
    }

    /// The peers' clocks.
    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The times of the last contact with the leader, or with its followers.
    pub(crate) fn contact(&self) -> &Contact {
        &self.contact
    }

    /// How long no quorum has answered this node as the leader of `term`.
    pub(crate) fn without_quorum_for(&self, term: u64, now: Instant) -> Duration {
        self.contact.leads(term, now);
        self.contact.without_quorum_for(self.node_id, &self.members(), now)
    }

    /// Whether this node, leading in `term`, sends at the moment.
    pub(crate) fn may_send(&self, term: u64, now: Instant) -> bool {
        may_send(self.without_quorum_for(term, now), self.election_max)
    }

    /// The end of this node's log.
    pub(crate) fn last_log_id(&self) -> Option<RaftLogId> {
        self.log.last_log_id().ok().flatten()
    }

    fn leads(&self) -> bool {
        let metrics = self.metrics.lock();
        let leader = metrics.as_ref().and_then(|metrics| metrics.borrow().current_leader);
        leader == Some(self.node_id)
    }

    /// The median of the voters' clocks, as far as this node has read them.
    pub(crate) fn median_ms(&self) -> u64 {
        let members = self.members();
        let learners = members.membership().learner_ids().filter(|_| planted("learner-counted"));
        let counted = members.voter_ids().chain(learners);
        self.clocks.median_ms(self.node_id, self.clock.now_ms(), counted)
    }

    /// The cluster's time: taken here by the leader, told by it to the others.
    pub(crate) fn cluster_now_ms(&self) -> Option<u64> {
        if self.leads() { Some(self.median_ms()) } else { self.clocks.told_median_ms() }
    }

    /// Judges a message, and itself by what the sender has seen of this store.
    pub(crate) async fn admit(&self, header: &Header, kind: Kind) -> Result<(), Refusal> {
        if header.to.store == self.store
            && self.cluster().is_none_or(|ours| ours == header.cluster)
            && let Some(seen) = header.to.start_seen
            && self.is_belied(seen).await
        {
            // Not the refusal of a stale start: it would say that the sender's own data is in doubt.
            let why = "this node runs on an older copy of its data directory, and stops";
            return Err(Refusal::Failed(why.to_owned()));
        }
        self.judge(header, kind)?;
        if self.cluster().is_none() && kind != Kind::Forming {
            let entered = self.enter(header.cluster).await;
            if !entered.map_err(|error| Refusal::Failed(error.to_string()))? {
                return Err(Refusal::Failed("it has been bound to another cluster".to_owned()));
            }
        }
        self.meet(&header.from).await
    }

    fn judge(&self, header: &Header, kind: Kind) -> Result<(), Refusal> {
        let (me, members) = (self.identity(), self.members());
        let seen = self.seen.lock();
        let (cluster, bond, invited) = (self.cluster(), self.bond(), self.invited());
        let view =
            View { me, cluster, bond: bond.as_ref(), invited, members: &members, starts: &seen };
        guard::admit(&view, header, kind)
    }

    /// Writes a value; a node whose storage fails at it stops.
    async fn put(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        let put = self.log.put_meta(key, value).await;
        put.inspect_err(|error| self.stop(format!("the storage failed: {error}")))
    }

    /// Remembers the start of a store that was never seen before, and later ones of the same process;
    /// refuses an older copy. Another process is not taken on trust: see [`Local::note`].
    pub(crate) async fn meet(&self, from: &Identity) -> Result<(), Refusal> {
        let known = self.seen.lock().get(&from.store).copied();
        match known {
            Some(seen) if !from.start.is_same_process(seen) => {
                guard::check_start(&self.seen.lock(), from)
            }
            known => self.note(known, from).await,
        }
    }

    /// Refuses a process that is new on a store that was seen before. It may run on an older copy of
    /// it, which it knows better itself, once it is told what was seen.
    pub(crate) fn check_vouched(&self, from: &Identity) -> Result<(), Refusal> {
        match self.seen.lock().get(&from.store) {
            Some(&seen) if !from.start.is_same_process(seen) => Err(Refusal::Restarted { seen }),
            _ => Ok(()),
        }
    }

    /// Whether a peer has seen a start that this store never made. Then this is an older copy of it,
    /// and the node stops.
    pub(crate) async fn is_belied(&self, seen: Start) -> bool {
        let belied = self.own.lock().belie(seen);
        if belied {
            let refusal = Refusal::StaleStart { seen: seen.number };
            self.stop_as_refused(&refusal, refusal.to_string()).await;
        }
        belied
    }

    /// The current start.
    pub(crate) fn start(&self) -> Start {
        let none_yet = Start { number: 0, nonce: self.boot_nonce };
        self.own.lock().current().unwrap_or(none_yet)
    }

    /// Remembers on disk a start of a peer's store; refuses an older copy of it.
    ///
    /// `told` is the last start seen, as the peer was told: it answers to that, and vouches for it, only
    /// when that was one of its own, so that this one comes after it. If another has been seen meanwhile,
    /// the peer is still to be told of that.
    pub(crate) async fn note(&self, told: Option<Start>, from: &Identity) -> Result<(), Refusal> {
        let record = {
            let mut seen = self.seen.lock();
            guard::check_start(&seen, from)?;
            let known = seen.get(&from.store).copied();
            let same = known.filter(|&known| from.start.is_same_process(known));
            if same.is_some_and(|known| from.start.number <= known.number) {
                return Ok(());
            }
            if same.is_none() && known != told {
                let why = "another start of its data directory was seen meanwhile";
                return Err(Refusal::Failed(why.to_owned()));
            }
            seen.insert(from.store, from.start);
            self.forget_strangers(&mut seen, from.store);
            StartsRecord(seen.clone())
        };
        let record = codec::encode(FORMAT, &record);
        let noted = self.put(MetaKey::Members, &record).await;
        noted.map_err(|error| Refusal::Failed(error.to_string()))
    }

    /// Keeps the list as short as the membership: stores that left it are refused by that.
    fn forget_strangers(&self, seen: &mut BTreeMap<u128, Start>, newest: u128) {
        const STRANGERS_MAX: usize = 64;
        if seen.len() > STRANGERS_MAX {
            let members = self.members();
            let is_member = |store| members.nodes().any(|(_, member)| member.store == store);
            seen.retain(|&store, _| store == newest || is_member(store));
        }
    }

    /// Stops this node for good: it was removed, and is told so again should it be started.
    pub(crate) async fn stop_as_removed(&self, members_index: u64) {
        let record = codec::encode(FORMAT, &members_index);
        if let Err(error) = self.log.put_meta(MetaKey::Removed, &record).await {
            tracing::warn!(%error, "cannot note on disk that this node was removed");
        }
        self.stop(StopReason::operator(Refusal::Removed { members_index }.to_string()));
    }

    /// Stops this node because it was refused. What is wrong with its data is wrong for good, though
    /// its peers may not see it again: another start would count past the one they know.
    pub(crate) async fn stop_as_refused(&self, refusal: &Refusal, why: String) {
        if refusal.is_about_data() {
            let record = codec::encode(FORMAT, &why);
            if let Err(error) = self.log.put_meta(MetaKey::Refused, &record).await {
                tracing::warn!(%error, "cannot note on disk that this node was refused");
            }
        }
        self.stop(StopReason::operator(why));
    }

    /// Why this store must not take part any more, if it learned so in an earlier start.
    pub(crate) fn ended_before(&self) -> Result<Option<StopReason>, StorageError> {
        let refused: Option<String> = read(&self.log, MetaKey::Refused, "the note of refusal")?;
        let members_index = read(&self.log, MetaKey::Removed, "the note of removal")?;
        let removed = members_index.map(|members_index| Refusal::Removed { members_index });
        let why = refused.or(removed.map(|refusal| refusal.to_string()));
        Ok(why.map(StopReason::operator))
    }

    /// Stops this node because its build does not support the level of the cluster. Only another build
    /// can go on.
    pub(crate) fn stop_as_outdated(&self, why: &impl ToString) {
        self.stop(StopReason::operator(why.to_string()));
    }

    /// Why this node must stop, if it must.
    pub(crate) fn reason_to_stop(&self) -> Option<StopReason> {
        self.doubt.borrow().clone()
    }

    /// Stops this node for the reason given; only the first reason is kept.
    pub(crate) fn stop(&self, why: impl Into<StopReason>) {
        let why = why.into();
        self.doubt.send_if_modified(|doubt| {
            let first = doubt.is_none();
            if first {
                *doubt = Some(why);
            }
            first
        });
    }

    /// Whether this node must stop.
    pub(crate) fn must_stop(&self) -> bool {
        self.doubt.borrow().is_some()
    }

    /// Resolves with the reason once this node must stop.
    pub(crate) async fn stopped(&self) -> StopReason {
        let mut doubt = self.doubt.subscribe();
        let reason = doubt.wait_for(Option::is_some).await.map(|reason| reason.clone());
        reason.ok().flatten().unwrap_or_else(|| StopReason::restart("the node has ended"))
    }
}

/// Stops the node when what holds it is dropped by a panic.
pub(crate) struct StopOnPanic(pub(crate) Arc<Local>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("a task of the node panicked; see the message above".to_owned());
        }
    }
}

fn read<T: DeserializeOwned>(
    log: &LogStore,
    key: MetaKey,
    what: &str,
) -> Result<Option<T>, StorageError> {
    let record = log.get_meta(key)?.map(|record| codec::decode_as(FORMAT, &record));
    record.transpose().map_err(|error| records::damaged(what, &error))
}

#[cfg(test)]
mod tests;
