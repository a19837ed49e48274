//! The cluster as its operators see it: members, levels, clocks, readiness, metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mintleaf_core::state::{Actor, Change, MemberFacts, State};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::{MemberStatus, MembershipError, Role};
use tokio::time::{Instant, sleep};

use super::audit;
use super::cluster_view::{ClusterView, NodeCounts};
use super::headroom::{HeadroomLog, NEAR_END};
use super::member_answers::{self, MemberAnswers, Question};
use super::redis_nodes::{RedisNode, node_in};
use super::worker_view::{ClockView, PoolView, WorkersView};
use crate::access::Tokens;
use crate::limits::GRAB_MAX;
use crate::metrics::{
    ClusterReadings, Exposition, PoolReadings, Readings, SequenceReadings, TagReadings,
};
use crate::replica::Replica;
use crate::service::error::Error;
use crate::service::log_access::{Consistency, refresh};
use crate::service::parts::ServiceParts;
use crate::service::readiness::{OwnReadiness, QuorumLoss, Readiness};
use crate::text::address::at_host_of;

/// A reading of another node's clock is not shown when it is older.
const CLOCK_AGE_MS_MAX: u64 = 5_000;
/// Pause between two looks at a few thousand tags, while all of them are looked at.
const HEADROOM_PAUSE: Duration = Duration::from_millis(10);
/// How long the answer to a change of the membership waits until this node shows the change.
const SHOWN_MAX: Duration = Duration::from_millis(300);

/// Membership, levels and clocks of the cluster, and the health of this node.
pub struct ClusterService {
    pub(in crate::service) parts: ServiceParts,
    pub(in crate::service) own: OwnReadiness,
    /// Where clients of the Redis protocol find this node, if it serves the protocol.
    redis_at: OnceLock<String>,
    /// Where they find each node that is ready.
    redis: MemberAnswers<RedisNode>,
    /// What every member has counted.
    counts: MemberAnswers<(u64, NodeCounts)>,
    /// The tokens of this node's auth file, if it has one.
    tokens: OnceLock<Arc<Tokens>>,
}

/// A node that shall be a member.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// Its Raft id.
    pub id: u64,
    /// Its internal address.
    pub raft: String,
    /// Its client address; `None` when the node itself reports it.
    pub http: Option<String>,
    /// Whether it shall vote once it has caught up. Otherwise it is a learner, even if it voted before.
    pub voter: bool,
    /// Whether the voters change even where too few of them answer for the change to be committed.
    pub force: bool,
}

impl ClusterService {
    pub(in crate::service) fn new(parts: ServiceParts) -> Self {
        let counted = |id, answer: &[u8]| Some((id, member_answers::read(answer)?));
        Self {
            parts,
            own: OwnReadiness::default(),
            redis_at: OnceLock::new(),
            redis: MemberAnswers::new(Question::WhereRedis, node_in),
            counts: MemberAnswers::new(Question::Counts, counted),
            tokens: OnceLock::new(),
        }
    }

    /// The cluster as this node knows it, without asking any other node.
    pub fn view(&self) -> ClusterView {
        let mut view =
            ClusterView::new(&self.parts.replica.node().status(), self.parts.clock.now_ms());
        view.level = self.parts.replica.read(State::level);
        view.auth_file = self.tokens.get().map(|tokens| tokens.fingerprint());
        view.failed_reloads = self.parts.metrics.failed_reloads();
        view.add_clocks(&self.clocks());
        view
    }

    /// The same, with what every member that answers has counted since its start.
    pub async fn view_with_counts(&self) -> ClusterView {
        let own = || Some((self.node_id(), self.own_counts()));
        let counts = self.counts.now(self.parts.replica.node(), own).await;
        let mut view = self.view();
        view.add_counts(&counts);
        view
    }

    fn own_counts(&self) -> NodeCounts {
        let (ids, errors) = self.parts.metrics.ids_and_errors();
        NodeCounts { ids, errors }
    }

    /// This node's Raft id.
    pub fn node_id(&self) -> u64 {
        self.parts.replica.node().node_id()
    }

    /// Raises the level of the cluster to the highest that all its members support.
    ///
    /// # Errors
    /// [`Error::Level`] names the members that are too old or could not be asked; [`Error::Unavailable`].
    pub async fn raise_level(&self, actor: Actor) -> Result<ClusterView, Error> {
        let from = self.parts.replica.read(State::level);
        let replica = Arc::clone(&self.parts.replica);
        let making = async move {
            replica.node().raise_level().await?;
            // The audit entry names the level, so this node's copy must show the new one.
            let _ = replica.node().read_barrier(Instant::now() + SHOWN_MAX).await;
            Ok(())
        };
        let change = move |replica: &Replica| {
            let to = replica.read(State::level);
            (to > from).then_some(Change::RaiseLevel { from, to })
        };
        audit::carry(&self.parts.replica, actor, making, change).await?;
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        Ok(self.view())
    }

    /// Every worker id that was ever used, and every node's clock, as this node knows them.
    pub fn workers(&self) -> WorkersView {
        let now_ms = self.parts.clock.now_ms();
        let (rules, floor_ms, rows, pools) = self.parts.replica.read(|state| {
            let (rules, floor_ms) = (state.snowflake_rules(), state.snowflake_floor_ms());
            (rules, floor_ms, state.workers(), PoolView::all(state, now_ms))
        });
        let rules = rules.unwrap_or_else(|| self.parts.snowflakes.rules().clone());
        WorkersView::new(&rules, floor_ms, rows, pools, self.clocks(), now_ms)
    }

    fn clocks(&self) -> Vec<ClockView> {
        let node = self.parts.replica.node();
        let status = node.status();
        let mut clocks = node.clocks();
        clocks.retain(|clock| clock.age_ms <= CLOCK_AGE_MS_MAX);
        let members = status.members.iter().map(|member| member.id);
        self.parts.replica.read(|state| {
            let clock = |id| ClockView::new(id, status.node_id, &clocks, state.reports().get(&id));
            members.map(clock).collect()
        })
    }

    /// Adds a node, or changes whether a member votes.
    ///
    /// # Errors
    /// [`Error::Conflict`] with the present membership, when no new node is at the address, or when too few of the
    /// voters that would be left answer; [`Error::WrongCluster`]; [`Error::Unavailable`], also while the node has not
    /// caught up: ask again.
    pub async fn add_node(&self, actor: Actor, member: NewMember) -> Result<ClusterView, Error> {
        let NewMember { id, raft, http, voter, force } = member;
        let http = http.unwrap_or_default();
        let before = member_facts(&self.parts.replica, id);
        let after = MemberFacts { raft: raft.clone(), http: http.clone(), voter };
        let planned = Change::SetNode { id, before: before.clone(), after: after.clone() };
        // What the audit could not record is refused before it begins.
        self.parts.replica.check(&audit::command(&actor, &planned))?;
        let is_as_wanted = before.as_ref().is_some_and(|before| {
            (&before.raft, before.voter) == (&raft, voter) && ["", &before.http].contains(&&*http)
        });
        let replica = Arc::clone(&self.parts.replica);
        let making = async move {
            replica.node().add_member(id, raft, http, voter, force).await?;
            // The answer shows the change; where that would take long, it shows what this node knows.
            let _ = replica.node().read_barrier(Instant::now() + SHOWN_MAX).await;
            Ok(())
        };
        let change = move |replica: &Replica| {
            let after = member_facts(replica, id).unwrap_or(after);
            (!is_as_wanted).then_some(Change::SetNode { id, before, after })
        };
        audit::carry(&self.parts.replica, actor, making, change).await?;
        Ok(self.view())
    }

    /// Removes a node, which then stops by itself. Without `force`, not when too few of the voters that would be left
    /// answer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Unavailable`].
    pub async fn remove_node(&self, actor: Actor, id: u64, force: bool) -> Result<(), Error> {
        let replica = Arc::clone(&self.parts.replica);
        let removal = Change::RemoveNode { id, before: member_facts(&replica, id) };
        // As above.
        replica.check(&audit::command(&actor, &removal))?;
        if id != replica.node().status().node_id {
            let making = async move { replica.node().remove_member(id, force).await };
            return audit::carry(&self.parts.replica, actor, making, |_| Some(removal)).await;
        }
        let making = async move {
            if !force {
                replica.node().ask_voters_without(id).await?;
            }
            let recorded = audit::record(&replica, &actor, &removal, GRAB_MAX).await;
            recorded.map_err(|error| MembershipError::Unavailable(error.to_string()))?;
            replica.node().remove_member(id, force).await
        };
        audit::carry(&self.parts.replica, Actor::default(), making, |_| None).await
    }

    /// Makes a voter the leader.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Unavailable`].
    pub async fn transfer_leader(&self, actor: Actor, id: u64) -> Result<(), Error> {
        let replica = Arc::clone(&self.parts.replica);
        let from = replica.node().status().leader_id;
        let making = async move { replica.node().transfer_leader(id).await };
        let change = move |_: &Replica| {
            (from != Some(id)).then_some(Change::TransferLeader { from, to: id })
        };
        audit::carry(&self.parts.replica, actor, making, change).await
    }

    /// Whether this node can hand out ids, and what keeps it from doing so or soon may.
    pub fn readiness(&self) -> Readiness {
        let mut readiness = self.readiness_for_ids();
        self.own.add_to(&mut readiness);
        readiness
    }

    fn readiness_for_ids(&self) -> Readiness {
        let holds_ids = self.parts.snowflakes.remaining_ms() > 0
            || self.parts.table.holds_ids(self.parts.clock.monotonic_ms());
        let mut readiness = Readiness::of(&self.parts.replica.node().status(), holds_ids);
        self.parts.snowflakes.add_readiness(&mut readiness);
        readiness
    }

    /// Whether nothing but [`Services::warm_start`](super::Services::warm_start) keeps clients away.
    pub(in crate::service) fn is_ready_but_for_warming(&self) -> bool {
        self.readiness_for_ids().ready
    }

    /// Why there is no quorum, in words: which voters are missing, since when, and where to read what to do. `None`
    /// while this node knows a leader, reaches enough voters, or belongs to no cluster.
    pub fn quorum_loss(&self) -> Option<String> {
        let status = self.parts.replica.node().status();
        QuorumLoss::without_leader(&status).map(|loss| loss.with_advice())
    }

    /// Takes this node out of rotation for good, because it is about to end.
    pub fn begin_draining(&self) {
        self.own.begin_draining();
    }

    /// Has the view name the auth file that these tokens come from. The first ones stay.
    pub(crate) fn show_tokens(&self, tokens: Arc<Tokens>) {
        self.tokens.get_or_init(|| tokens);
    }

    /// Records that clients of the Redis protocol find this node at `advertised`, or else at this port of the host of
    /// its HTTP address. The first record stays.
    pub(crate) fn serve_redis_at(&self, advertised: Option<&str>, http: &str, port: u16) {
        let address = || advertised.map_or_else(|| at_host_of(http, port), str::to_owned);
        self.redis_at.get_or_init(address);
    }

    /// Where clients of the Redis protocol find this node, ready or not.
    pub(crate) fn redis_address(&self) -> Option<&str> {
        self.redis_at.get().map(String::as_str)
    }

    /// The nodes that serve clients of the Redis protocol now, by id.
    pub(crate) async fn redis_nodes(&self) -> Arc<[RedisNode]> {
        let own =
            || Some(RedisNode { id: self.node_id(), address: self.redis_address_if_ready()? });
        self.redis.now(self.parts.replica.node(), own).await
    }

    fn redis_address_if_ready(&self) -> Option<String> {
        self.redis_address().filter(|_| self.readiness().ready).map(str::to_owned)
    }

    /// The answer to a question that another member asks for its clients; `None` if it asks something else.
    pub(super) fn answer_member(&self, request: &[u8]) -> Option<Vec<u8>> {
        Some(match member_answers::question(request)? {
            Question::WhereRedis => member_answers::answer(&self.redis_address_if_ready()),
            Question::Counts => member_answers::answer(&self.own_counts()),
        })
    }

    /// Hands leadership to the voter that follows most closely, of those that do not decline: nodes that stop at the same
    /// time do not hand it back and forth. Nothing happens when this node does not lead, or reaches no such voter.
    /// Returns which node leads then.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Unavailable`]; this node leads on, or an election is under way.
    pub async fn hand_over(&self) -> Result<Option<u64>, Error> {
        self.parts.replica.node().decline_leadership();
        let status = self.parts.replica.node().status();
        if status.leader_id != Some(status.node_id) {
            return Ok(None);
        }
        let me = status.node_id;
        let fit = |member: &&MemberStatus| {
            member.id != me && member.role == Role::Voter && member.reachable && !member.declines
        };
        let successor = status.members.iter().filter(fit).max_by_key(|member| member.matched_index);
        let Some(id) = successor.map(|member| member.id) else { return Ok(None) };
        self.parts.replica.node().transfer_leader(id).await?;
        Ok(Some(id))
    }

    /// The counters as a page for Prometheus.
    pub fn metrics_page(&self, exposition: Exposition) -> String {
        let node = self.parts.replica.node();
        let status = node.status();
        let (tags, names) =
            self.parts.replica.read(|state| (state.len() as u64, state.names() as u64));
        let loaded = self.parts.table.loaded() as u64;
        let cluster = ClusterReadings {
            snapshot_index: status.snapshot_index.unwrap_or(0),
            leader_changes: status.leader_changes,
            quorum_reachable: QuorumLoss::of(&status).is_none(),
            ..ClusterReadings::from(&self.view())
        };
        let now = Readings {
            ready: self.readiness().ready,
            draining: self.own.is_draining(),
            cluster,
            snowflake: self.parts.snowflakes.readings(node.median_now_ms()),
            tags: TagReadings {
                tags,
                loaded,
                names,
                names_max: self.parts.settings.tags_max,
                register_keys: self.parts.replica.read(|state| state.register_keys()),
                register_keys_max: self.parts.settings.register_keys_max,
                reserved: self.parts.table.reserved(),
            },
            pools: self.parts.replica.read(|state| {
                let pools = PoolView::all(state, self.parts.clock.now_ms());
                PoolReadings {
                    workers: pools.iter().map(|pool| u64::from(pool.size)).sum(),
                    leased: pools.iter().map(|pool| pool.leased as u64).sum(),
                }
            }),
            sequences: self.sequence_readings(),
            syncs: node.sync_times(),
        };
        self.parts.metrics.render(now, exposition)
    }

    fn sequence_readings(&self) -> SequenceReadings {
        let ledger = self.parts.table.ledger().lock();
        let counters = ledger.counters();
        SequenceReadings {
            keys: counters.keys_held(),
            keys_forgotten: counters.keys_forgotten(),
            memory: counters.memory(),
        }
    }

    /// Finds how much is left of the tag that is nearest to its end, for the metrics and the log. It looks at a few
    /// thousand tags at a time, so that applying does not wait for it, and at none if no tag has changed since the last
    /// look.
    pub async fn look_for_headroom(&self, log: &mut HeadroomLog) {
        if !log.begin(self.parts.replica.tag_changes()) {
            return;
        }
        let (mut lowest, mut after): (Option<(f64, BizTag)>, Option<BizTag>) = (None, None);
        loop {
            let page = self
                .parts
                .replica
                .read(|state| state.headroom_after(after.as_ref().map(BizTag::as_str)));
            let is_lower =
                |found: &(f64, BizTag)| lowest.as_ref().is_none_or(|(it, _)| found.0 < *it);
            lowest = page.lowest.filter(is_lower).or(lowest);
            let Some(next) = page.next else { break };
            after = Some(next);
            sleep(HEADROOM_PAUSE).await;
        }
        self.parts.metrics.lowest_headroom(lowest.as_ref().map_or(1.0, |(ratio, _)| *ratio));
        log.note(lowest.as_ref().map(|(ratio, tag)| (*ratio, tag.as_str())));
        self.parts.table.refusals().set_nearest(lowest.filter(|(left, _)| *left < NEAR_END));
    }
}

/// What the audit says of a member, as far as this node knows it.
fn member_facts(replica: &Replica, id: u64) -> Option<MemberFacts> {
    let status = replica.node().status();
    status.members.iter().find(|member| member.id == id).map(audit::member_facts)
}
