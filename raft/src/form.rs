//! How a cluster forms, how a node joins one, and what a node asks its peers before it starts.
//!
//! Forming: every founder is started with the same list. Each asks all others who they are; only
//! when **all** of them answered that they are new does the founder with the lowest id write the
//! first membership, which names every founder's store. So a founder that lost its data can never
//! found a second cluster beside the first: the others refuse it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::StorageError;
use openraft::ServerState;
use serde::{Deserialize, Serialize};

use crate::error::{NodeError, StopReason};
use crate::guard::{self, Identity, Refusal};
use crate::level::Release;
use crate::members::{Change, MemberError};
use crate::node::Inner;
use crate::transport::{CallError, Request, Response};
use crate::types::Member;

/// Pause between two rounds of asking.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a node looks after the membership.
const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// A node that waits for others says so this often (in rounds).
const ROUNDS_PER_REMINDER: u32 = 25;

/// What a node says of itself before it is heard as a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) from: Identity,
    pub(crate) purpose: Purpose,
}

/// Why a node says hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// It is new and was told to found a cluster of these ids.
    Found { founders: Vec<u64> },
    /// It is new and looks for the cluster it shall join, or was asked to take somebody in.
    Join,
    /// It comes back, with a log up to this index.
    Return { cluster: u128, term: u64, last_log_index: Option<u64> },
}

/// The answer to a [`Hello`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) raft: String,
    pub(crate) http: String,
    /// `None` while the node belongs to no cluster.
    pub(crate) cluster: Option<u128>,
    /// What its build supports.
    pub(crate) release: Release,
}

/// A founder that answered.
type Founder = (u64, Member);

impl Inner {
    /// Judges and answers a hello.
    pub(crate) async fn introduce(&self, hello: &Hello) -> Result<Introduction, Refusal> {
        match (&hello.purpose, self.formed()) {
            (Purpose::Found { founders }, None) => self.check_founders(founders)?,
            (Purpose::Join | Purpose::Return { .. }, None) => {}
            // The cluster was formed while this founder was still asking, or long ago without it.
            (Purpose::Found { .. }, Some(_)) => {
                guard::check_member(&self.local.members(), &hello.from)?;
            }
            (Purpose::Join, Some(_)) => guard::check_joiner(&self.local.members(), &hello.from)?,
            (&Purpose::Return { cluster, term, last_log_index }, Some(ours)) => {
                if cluster != ours {
                    return Err(Refusal::WrongCluster { ours });
                }
                guard::check_member(&self.local.members(), &hello.from)?;
                self.check_log(&hello.from, term, last_log_index)?;
                self.local.meet(&hello.from).await?;
            }
        }
        let Member { raft, http, .. } = self.myself();
        Ok(Introduction { raft, http, cluster: self.formed(), release: self.state.supports() })
    }

    fn check_founders(&self, theirs: &[u64]) -> Result<(), Refusal> {
        let ours: Vec<u64> = self.options.peers.keys().copied().collect();
        if ours == theirs {
            return Ok(());
        }
        let why = format!("this node was started with --peers {ours:?}, the other with {theirs:?}");
        Err(Refusal::Failed(why))
    }

    // The leader knows how far every follower's log reached; a shorter one has lost entries. Unless
    // the follower has seen a later term: its log may have been cut back by that term's leader.
    fn check_log(
        &self,
        from: &Identity,
        term: u64,
        last_log_index: Option<u64>,
    ) -> Result<(), Refusal> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if metrics.current_term < term {
            return Ok(());
        }
        let matched = metrics.replication.as_ref().and_then(|all| *all.get(&from.node_id)?);
        match matched {
            Some(matched) if last_log_index < Some(matched.index) => {
                Err(Refusal::LostLog { acknowledged: matched.index })
            }
            _ => Ok(()),
        }
    }

    /// Asks the other members whether they still know this store, before it takes part. Peers that
    /// do not answer are left out: a whole cluster may be starting.
    pub(crate) async fn announce_return(&self, last: Option<u64>) {
        let Some(cluster) = self.local.cluster() else { return };
        let term = self.raft.metrics().borrow().current_term;
        let purpose = Purpose::Return { cluster, term, last_log_index: last };
        for member in self.others().values() {
            let answered = self.say_hello(&member.raft, purpose.clone()).await;
            if let Err(CallError::Refused { refusal, .. }) = answered
                && refusal.is_fatal()
            {
                return;
            }
        }
    }

    pub(crate) async fn say_hello(
        &self,
        address: &str,
        purpose: Purpose,
    ) -> Result<(Identity, Introduction), CallError> {
        let hello = Hello { from: self.local.identity(), purpose };
        let answer = self.client.hello(address, Request::Hello(hello), HELLO_TIMEOUT).await?;
        match answer {
            (from, Response::Hello(introduction)) => Ok((from, introduction)),
            _ => Err(CallError::Lost {
                address: address.to_owned(),
                reason: "answered something else than was asked".to_owned(),
            }),
        }
    }

    /// Makes this new node a member, as the options say; returns once it is one.
    pub(crate) async fn enter_cluster(self: Arc<Self>) -> Result<(), NodeError> {
        match &self.options.join {
            Some(seed) => self.join(seed).await,
            None => self.found().await,
        }
    }

    async fn found(&self) -> Result<(), NodeError> {
        let mut round = 0_u32;
        loop {
            if self.formed().is_some() {
                return Ok(());
            }
            let missing = match self.ask_founders().await {
                Ok(founders) if self.founds_first(&founders) => {
                    return self.write_first_membership(founders).await;
                }
                Ok(_) => "the founder with the lowest id".to_owned(),
                Err(missing) => missing,
            };
            round += 1;
            if round.is_multiple_of(ROUNDS_PER_REMINDER) {
                tracing::info!(%missing, "waiting for the cluster to form");
            }
            tokio::time::sleep(ROUND_INTERVAL).await;
        }
    }

    fn founds_first(&self, founders: &BTreeMap<u64, Member>) -> bool {
        founders.keys().next() == Some(&self.local.node_id())
    }

    /// Everybody on the list, or who is missing and why.
    async fn ask_founders(&self) -> Result<BTreeMap<u64, Member>, String> {
        let mut founders = BTreeMap::from([(self.local.node_id(), self.myself())]);
        for (&id, address) in &self.options.peers {
            if id != self.local.node_id() {
                founders.extend([self.ask_founder(id, address).await?]);
            }
        }
        Ok(founders)
    }

    async fn ask_founder(&self, id: u64, address: &str) -> Result<Founder, String> {
        let founders = self.options.peers.keys().copied().collect();
        let answered = self.say_hello(address, Purpose::Found { founders }).await;
        let (from, introduction) = answered.map_err(|error| format!("node {id}: {error}"))?;
        if from.node_id != id {
            return Err(format!(
                "node {} answered at {address}, which --peers gives to node {id}",
                from.node_id
            ));
        }
        if introduction.cluster.is_some() {
            return Err(format!("node {id} belongs to a cluster already; waiting to be let in"));
        }
        let Introduction { raft, http, .. } = introduction;
        Ok((id, Member { raft, http, store: from.store }))
    }

    async fn write_first_membership(
        &self,
        founders: BTreeMap<u64, Member>,
    ) -> Result<(), NodeError> {
        let cluster = cluster_id(&founders);
        self.local.enter(cluster).await?;
        tracing::info!(founders = ?founders.keys().collect::<Vec<_>>(), "forming the cluster");
        self.raft.initialize(founders).await.map_err(NodeError::raft)
    }

    async fn join(&self, seed: &str) -> Result<(), NodeError> {
        let mut round = 0_u32;
        loop {
            if self.formed().is_some() {
                return Ok(());
            }
            let waiting_for = match self.ask_to_join(seed).await {
                Ok(()) => "the leader's first message".to_owned(),
                Err(why) => why,
            };
            if round.is_multiple_of(ROUNDS_PER_REMINDER) {
                tracing::info!(%waiting_for, seed, "joining the cluster");
            }
            round += 1;
            tokio::time::sleep(ROUND_INTERVAL).await;
        }
    }

    async fn ask_to_join(&self, seed: &str) -> Result<(), String> {
        let (from, introduction) =
            self.say_hello(seed, Purpose::Join).await.map_err(|error| error.to_string())?;
        let Some(cluster) = introduction.cluster else {
            return Err(format!("{seed} belongs to no cluster itself yet"));
        };
        let seed_member = Member { raft: seed.to_owned(), http: String::new(), store: from.store };
        let Member { raft, http, store } = self.myself();
        let (id, release) = (self.local.node_id(), Some(self.state.supports()));
        let add = Change::Add { id, raft, http, voter: false, store: Some(store), release };
        let change = Request::Change(add);
        let answer =
            self.client.call_as(cluster, from.node_id, &seed_member, change, JOIN_TIMEOUT).await;
        match answer {
            Ok(Response::Changed(Ok(()))) => Ok(()),
            Ok(Response::Changed(Err(error @ MemberError::Conflict(_)))) => {
                self.local.stop(StopReason::operator(format!("cannot join: {error}")));
                Err(error.to_string())
            }
            Ok(Response::Changed(Err(MemberError::Level(why)))) => {
                self.local.stop_as_outdated(&format!("cannot join: {why}"));
                Err(why)
            }
            Ok(Response::Changed(Err(error))) => Err(error.to_string()),
            Ok(_) => Err("answered something else than was asked".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn tell_addresses(self: &Arc<Self>) {
        let (me, myself) = (self.local.node_id(), self.myself());
        let known = self.member(me).filter(|known| known.store == myself.store);
        if known.is_none_or(|known| known == myself) {
            return;
        }
        let Member { raft, http, store } = myself;
        let store = Some(store);
        let add = Change::Add { id: me, raft, http, voter: false, store, release: None };
        match self.change(add).await {
            Ok(()) => tracing::info!(node = me, "told the cluster this node's new addresses"),
            Err(error) => tracing::debug!(node = me, %error, "new addresses are not known yet"),
        }
    }

    /// Elects a lone voter at once: nobody else could win, so there is no timeout to wait out.
    pub(crate) async fn elect_if_alone(&self) {
        let (alone, leading) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            let voters: Vec<u64> = metrics.membership_config.voter_ids().collect();
            (voters == [self.local.node_id()], metrics.state == ServerState::Leader)
        };
        if alone
            && !leading
            && let Err(error) = self.raft.trigger().elect().await
        {
            tracing::warn!(%error, "cannot start an election");
        }
    }
}

/// Looks after the membership: ends a change that was cut off, and tells the leader this node's
/// addresses when the membership has others, as after a move to another port or host.
pub(crate) async fn tend_membership(inner: Arc<Inner>) {
    loop {
        // At once after a start: until the leader knows where this node is, it hears no heartbeat.
        inner.tell_addresses().await;
        inner.finish_joint_change().await;
        tokio::time::sleep(TEND_INTERVAL).await;
    }
}

/// A name for the cluster that every founder derives alike: no two sets of fresh stores share one.
fn cluster_id(founders: &BTreeMap<u64, Member>) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let bytes = founders
        .iter()
        .flat_map(|(id, member)| id.to_be_bytes().into_iter().chain(member.store.to_be_bytes()));
    // FNV-1a over ids and stores: the stores are random already, so mixing them is enough.
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

impl From<StorageError> for NodeError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_after_its_founders_stores() {
        let founders = |stores: [u128; 2]| {
            let member = |store| Member { store, ..Member::default() };
            BTreeMap::from([(1, member(stores[0])), (2, member(stores[1]))])
        };
        assert_eq!(cluster_id(&founders([7, 8])), cluster_id(&founders([7, 8])));
        assert_ne!(cluster_id(&founders([7, 8])), cluster_id(&founders([8, 7])));
        assert_ne!(cluster_id(&founders([7, 8])), cluster_id(&founders([7, 9])));
    }
}
