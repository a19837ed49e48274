//! How a cluster forms, how a node joins one, and what a node asks its peers before it starts.
//!
//! `found.rs` has what founders do; here is how nodes introduce themselves to each other.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_storage::StorageError;
use serde::{Deserialize, Serialize};

use crate::bond::{Bond, Standing, check_lists};
use crate::error::{NodeError, StopReason};
use crate::guard::{self, Identity, Refusal};
use crate::level::Release;
use crate::members::{Change, MemberError};
use crate::node::Inner;
use crate::transport::{CallError, Request, Response};
use crate::types::{Member, RaftVote};

/// Pause between two rounds of asking.
pub(crate) const ROUND_INTERVAL: Duration = Duration::from_millis(200);
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
    /// The cluster that the asker belongs to, or is about to enter.
    pub(crate) cluster: Option<u128>,
    pub(crate) purpose: Purpose,
}

/// Why a node says hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// It is new and was told to found a cluster of these, as `--peers` lists them, in order.
    Found { founders: String },
    /// It is new and looks for the cluster it shall join, or was asked to take somebody in.
    Join,
}

/// The answer to a [`Hello`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) raft: String,
    pub(crate) http: String,
    /// `None` while the node belongs to no cluster.
    pub(crate) cluster: Option<u128>,
    /// What its store is bound to, while that cluster is still to be formed.
    pub(crate) bond: Option<Bond>,
    /// To be quoted by who wants to bind it.
    pub(crate) ticket: u128,
    /// What its membership says of the asker's id.
    pub(crate) asker: Known,
    /// What its build supports.
    pub(crate) release: Release,
}

/// What a membership says of an id and a data directory that go together, says who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Known {
    /// No member has the id.
    No,
    /// It names this very directory.
    AsSuch,
    /// It names another one. Which is not told to who asks.
    Otherwise,
}

impl Inner {
    /// Judges and answers a hello. Whoever asks may be of another cluster, so the answer says what is known
    /// here, and no refusal of it may end the asker.
    pub(crate) fn introduce(&self, hello: &Hello) -> Result<Introduction, Refusal> {
        let (ours, invited) = (self.formed(), self.local.invited());
        if let (Some(ours), Some(theirs)) = (ours.or(invited), hello.cluster)
            && ours != theirs
        {
            return Err(Refusal::WrongCluster { ours });
        }
        match &hello.purpose {
            Purpose::Found { founders } if ours.is_none() => {
                check_lists(&self.founders(), founders)?;
            }
            Purpose::Join if ours.is_none() => self.check_invited(hello.cluster)?,
            Purpose::Found { .. } | Purpose::Join => {}
        }
        let Member { raft, http, .. } = self.myself();
        let Standing { bond, ticket, .. } = self.local.standing();
        let release = self.state.supports();
        let asker = match self.member(hello.from.node_id) {
            None => Known::No,
            Some(known) if known.store == hello.from.store => Known::AsSuch,
            Some(_) => Known::Otherwise,
        };
        Ok(Introduction { raft, http, cluster: ours, bond, ticket, asker, release })
    }

    /// Refuses a cluster that would take this new node in, where it waits for another: taken in by
    /// whoever mistakes its address, it would be missing where it is waited for.
    fn check_invited(&self, cluster: Option<u128>) -> Result<(), Refusal> {
        if let Some(bond) = self.local.bond() {
            return Err(bond.refusal());
        }
        let waits_for_founders = self.options.join.is_none() && self.local.invited() != cluster;
        if cluster.is_some() && waits_for_founders {
            let why = "it was started with --peers, to form a cluster; --join is for entering one";
            return Err(Refusal::Failed(why.to_owned()));
        }
        Ok(())
    }

    /// Judges a member that comes back, by what it has forgotten.
    pub(crate) fn welcome_back(
        &self,
        from: &Identity,
        vote: &RaftVote,
        last_log_index: Option<u64>,
    ) -> Result<(), Refusal> {
        guard::check_member(&self.local.members(), from)?;
        self.check_log(from, vote, last_log_index)
    }

    // The leader knows how far every follower's log reached; a shorter one has lost entries. Unless
    // the follower has seen a later leader, maybe of the same term: that one may have cut its log back.
    fn check_log(
        &self,
        from: &Identity,
        vote: &RaftVote,
        last_log_index: Option<u64>,
    ) -> Result<(), Refusal> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if metrics.vote < *vote {
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
        let vote = self.raft.metrics().borrow().vote;
        for (id, member) in self.others() {
            let request = Request::Return { vote, last_log_index: last };
            match self.client.call(id, &member, request, HELLO_TIMEOUT).await {
                Ok(_) => {}
                Err(CallError::Refused { .. }) if self.local.must_stop() => return,
                Err(error @ CallError::Refused { .. }) => {
                    tracing::warn!(node = id, %error, "a member does not take this node back");
                }
                Err(error) => tracing::debug!(node = id, %error, "not asked"),
            }
        }
    }

    pub(crate) async fn say_hello(
        &self,
        address: &str,
        purpose: Purpose,
    ) -> Result<(Identity, Introduction), CallError> {
        let cluster = self.local.cluster();
        let hello = Hello { from: self.local.identity(), cluster, purpose };
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
        if let Some(bond) = self.local.bond() {
            return Err(format!("this node cannot join: {}", bond.refusal()));
        }
        self.local.invite(Some(cluster));
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
        match self.change_now(add).await {
            Ok(()) => tracing::info!(node = me, "told the cluster this node's new addresses"),
            Err(error) => tracing::debug!(node = me, %error, "new addresses are not known yet"),
        }
    }
}

/// Looks after the membership: ends a change that was cut off, gets learners to follow, and tells the leader this node's
/// addresses when the membership has others, as after a move to another port or host.
pub(crate) async fn tend_membership(inner: Arc<Inner>) {
    loop {
        // At once after a start: until the leader knows where this node is, it hears no heartbeat.
        inner.tell_addresses().await;
        inner.finish_joint_change().await;
        inner.outgrow_learners().await;
        tokio::time::sleep(TEND_INTERVAL).await;
    }
}

impl From<StorageError> for NodeError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
