//! The id service of one node: hands out what the node holds, and sees to it that it holds enough.
//!
//! ```text
//! IdService   what HTTP and the Redis protocol see
//!   table     tag to slot, no lock
//!   taker     takes what slots hold, without a wait
//!     slot    one tag: double buffer, waiting callers; one lock of its own
//!   grabber   the task that grabs, many tags together
//!   snowflakes  the snowflake ids that this node may make; one lock
//!     lease   the task that takes worker ids and renews them
//!     pace    how many worker ids are enough
//! ```
//!
//! The pure rules are in `segment` and `state`; here are the waiting, the locks and the task. Ids
//! are taken under their slot's lock, so one node hands a tag's ids out in increasing order.

mod cluster;
mod error;
mod grabber;
mod lease;
mod pace;
mod slot;
mod snowflakes;
mod table;
mod taker;
mod workers;

use std::ops::Range;
use std::sync::Arc;

use mintleaf_raft::MembershipError;
use mintleaf_storage::planted;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

pub use cluster::{ClusterView, NodeView, Readiness};
pub use error::Error;
pub use lease::Lease;
pub use snowflakes::Snowflakes;
pub use table::TagTable;
pub use taker::Taker;
pub use workers::{ClockView, WorkerView, WorkersView};

use crate::clock::Clock;
use crate::metrics::{Metrics, Mode};
use crate::replica::Replica;
use crate::segment::{BufferView, Segment};
use crate::snowflake::Format;
use crate::state::{Command, Response, State, TagRow};
use crate::tag::{BizTag, ID_END, START_DEFAULT, STEP_DEFAULT};
use grabber::{GRAB_MAX, GrabQueue, Grabber};
use slot::{Shape, Slot, Take, Taken};

/// A reading of another node's clock is not shown when it is older.
const CLOCK_AGE_MS_MAX: u64 = 5_000;
/// How long the answer to a change of the membership waits for the change to be seen here.
const SHOWN_MAX: std::time::Duration = std::time::Duration::from_millis(300);

/// How fresh a read of the tags must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    /// Holds everything acknowledged before the read began; needs the quorum.
    Linearizable,
    /// This node's copy as it is.
    Stale,
}

/// Everything that clients of one node can ask for.
pub struct IdService {
    replica: Arc<Replica>,
    table: Arc<TagTable>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    grabs: GrabQueue,
    snowflakes: Arc<Snowflakes>,
    auto_create: bool,
}

/// Resolves when the service has met a broken invariant, and must not go on.
pub type ServiceTask = JoinHandle<Result<(), tokio::task::JoinError>>;

impl IdService {
    /// Starts the service on the current runtime. The task belongs to the caller: the service
    /// grabs nothing more once it is aborted, and the node must stop when it ends by itself.
    pub fn start(
        replica: Arc<Replica>,
        table: Arc<TagTable>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        snowflakes: Arc<Snowflakes>,
        auto_create: bool,
    ) -> (Self, ServiceTask) {
        let (grabs, asked) = mpsc::unbounded_channel();
        let grabber = Grabber {
            replica: Arc::clone(&replica),
            table: Arc::clone(&table),
            metrics: Arc::clone(&metrics),
            again: grabs.clone(),
        };
        let task = tokio::spawn(Arc::new(grabber).run(asked));
        (Self { replica, table, clock, metrics, grabs, snowflakes, auto_create }, task)
    }

    /// The next id of a tag, if one is held. Never waits; `None` means nothing about the tag.
    #[inline]
    pub fn next_now(&self, tag: &str) -> Option<u64> {
        self.taker().take(tag, 1).map(|ids| ids.start)
    }

    /// For those who take ids again and again without a wait between.
    #[inline]
    pub fn taker(&self) -> Taker<'_> {
        Taker::new(self)
    }

    /// The next id of a tag. Waits for a segment when none is held.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn next(&self, tag: &str) -> Result<u64, Error> {
        let ranges = self.take(tag, 1).await?;
        ranges.first().map(|range| range.start).ok_or_else(|| Error::unavailable("no id came"))
    }

    /// The next `count` ids of a tag, ascending: exactly that many or none. Waits, in order of
    /// arrival, when fewer are held.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Exhausted`]; [`Error::Unavailable`] when no segment could be
    /// had in time; [`Error::Overloaded`]; [`Error::InvalidArgument`] for an impossible tag.
    pub async fn take(&self, tag: &str, count: u64) -> Result<Vec<Range<u64>>, Error> {
        self.take_as(tag, count, Shape::Ranges).await
    }

    /// The next `count` ids of a tag, 1 or more, in one piece. Ids held below such a piece are
    /// skipped, and so wasted. Waits, in order of arrival, when no piece is long enough.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn take_piece(&self, tag: &str, count: u64) -> Result<Range<u64>, Error> {
        let pieces = self.take_as(tag, count, Shape::Piece).await?;
        pieces.into_iter().next().ok_or_else(|| Error::unavailable("no id came"))
    }

    async fn take_as(&self, tag: &str, count: u64, shape: Shape) -> Result<Vec<Range<u64>>, Error> {
        let deadline = Instant::now() + GRAB_MAX;
        for attempt in 0..2 {
            // A slot closes when its tag is deleted, however long ago that was. Once this node knows all
            // that had happened before, one that closes again was deleted meanwhile.
            if attempt > 0 {
                self.replica.read_barrier(deadline).await?;
            }
            let slot = self.slot(tag, deadline).await?;
            let (take, ask) = slot.take(count, shape);
            if ask {
                self.ask_for_grab(&slot);
            }
            let taken = match take {
                Take::Ids(ranges) => Ok(ranges),
                Take::Wait(answered) => match self.wait(answered, deadline).await {
                    Some(taken) => taken,
                    None => continue,
                },
                Take::Closed => continue,
                Take::Exhausted => Err(Error::Exhausted),
                Take::Overloaded => Err(Error::Overloaded),
            };
            return taken.inspect(|_| self.metrics.ids_handed_out(Mode::Segment, count));
        }
        Err(Error::UnknownTag)
    }

    /// The next snowflake id, if one can be had at once. Never waits.
    #[inline]
    pub fn next_snowflake_now(&self) -> Option<u64> {
        self.take_snowflakes_now(1).map(|ids| ids.start)
    }

    /// The next snowflake ids, if they can be had at once: up to `count_max`, 1 or more, in one
    /// piece. Never waits.
    #[inline]
    pub fn take_snowflakes_now(&self, count_max: u64) -> Option<Range<u64>> {
        let ids = self.snowflakes.take_now(count_max)?;
        self.metrics.ids_handed_out(Mode::Snowflake, ids.end - ids.start);
        Some(ids)
    }

    /// The next snowflake id. Waits a little for a time window that is on its way.
    ///
    /// # Errors
    /// As [`take_snowflakes`](Self::take_snowflakes).
    pub async fn next_snowflake(&self) -> Result<u64, Error> {
        let ranges = self.take_snowflakes(1).await?;
        ranges.first().map(|range| range.start).ok_or_else(|| Error::unavailable("no id came"))
    }

    /// The next `count` snowflake ids, ascending: exactly that many or none. Waits a little for a
    /// time window that is on its way.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while no worker id is held or the time window has ended;
    /// [`Error::ClockBehind`] when the clock went back too far; [`Error::Overloaded`] when ids were
    /// taken faster than the worker ids can make them, for as long as a window.
    pub async fn take_snowflakes(&self, count: u64) -> Result<Vec<Range<u64>>, Error> {
        let taken = self.snowflakes.take(count).await?;
        self.metrics.ids_handed_out(Mode::Snowflake, count);
        Ok(taken)
    }

    /// How the snowflake ids of this cluster are made.
    pub fn snowflake_format(&self) -> Format {
        self.snowflakes.format()
    }

    /// What a slot answers in time; `None` when it was closed.
    async fn wait(
        &self,
        answered: tokio::sync::oneshot::Receiver<Taken>,
        deadline: Instant,
    ) -> Option<Taken> {
        let began = Instant::now();
        let answer = timeout_at(deadline, answered).await;
        self.metrics.waited(began.elapsed().as_secs_f64());
        match answer {
            Ok(taken) => taken.ok(),
            Err(_) => Some(Err(Error::unavailable("no segment could be had in time"))),
        }
    }

    /// Finds or makes the slot of a tag that exists.
    async fn slot(&self, tag: &str, deadline: Instant) -> Result<Arc<Slot>, Error> {
        if let Some(slot) = self.table.pin().get(tag).map(Arc::clone) {
            return Ok(slot);
        }
        let tag = BizTag::parse(tag)?;
        let row = match self.row(&tag) {
            Some(row) => row,
            None => self.find_or_create(&tag, deadline).await?,
        };
        if row.max_id == ID_END {
            return Err(Error::Exhausted);
        }
        let new = || Slot::new(tag.clone(), row.step, Arc::clone(&self.clock));
        let slot = self.table.get_or_insert(&tag, new);
        if planted("segment-reused-after-a-restart") && slot.begin_grab(row.step).is_some() {
            let start = row.max_id.saturating_sub(u64::from(row.step)).max(1);
            slot.install(Segment { start, end: row.max_id.max(2) }, row.step);
        }
        Ok(slot)
    }

    /// A tag that this node's copy does not show may have been created a moment ago elsewhere.
    async fn find_or_create(&self, tag: &BizTag, deadline: Instant) -> Result<TagRow, Error> {
        self.replica.read_barrier(deadline).await?;
        if let Some(row) = self.row(tag) {
            return Ok(row);
        }
        if !self.auto_create {
            return Err(Error::UnknownTag);
        }
        let create = Command::CreateTag {
            tag: tag.clone(),
            step: STEP_DEFAULT,
            start: START_DEFAULT,
            description: String::new(),
        };
        let created = self.replica.propose_all(&[create], deadline).await?;
        match created.into_iter().next() {
            Some(Response::Tag(row)) => Ok(row),
            // Somebody else was first.
            _ => self.tag(tag.as_str(), Read::Linearizable).await,
        }
    }

    fn row(&self, tag: &BizTag) -> Option<TagRow> {
        self.replica.read(|state| state.tag(tag.as_str()))
    }

    // The queue closes only when the node stops; whoever waits is told by its deadline.
    fn ask_for_grab(&self, slot: &Arc<Slot>) {
        let _ = self.grabs.send(Arc::clone(slot));
    }

    /// Creates a tag. One that was deleted goes on above every id it ever had.
    ///
    /// # Errors
    /// [`Error::TagExists`], [`Error::InvalidArgument`]; [`Error::Unavailable`] without a quorum.
    pub async fn create_tag(
        &self,
        tag: BizTag,
        step: u32,
        start: u64,
        description: String,
    ) -> Result<TagRow, Error> {
        self.propose_row(Command::CreateTag { tag, step, start, description }).await
    }

    /// Changes what is given of a tag: all of it, or nothing on an error. A new step takes effect
    /// with the next grab; `max_id` moves forward only.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::Conflict`], [`Error::InvalidArgument`];
    /// [`Error::Unavailable`] without a quorum.
    pub async fn update_tag(
        &self,
        tag: BizTag,
        step: Option<u32>,
        max_id: Option<u64>,
        description: Option<String>,
    ) -> Result<TagRow, Error> {
        self.propose_row(Command::UpdateTag { tag, step, max_id, description }).await
    }

    /// Deletes a tag. Every node that the quorum reaches stops handing its ids out within a second.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Unavailable`] without a quorum.
    pub async fn delete_tag(&self, tag: BizTag) -> Result<(), Error> {
        match self.propose(Command::DeleteTag { tag }).await? {
            Response::Deleted => Ok(()),
            rejection => Err(Error::rejected(&rejection)),
        }
    }

    /// A tag's row.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn tag(&self, tag: &str, read: Read) -> Result<TagRow, Error> {
        self.refresh(read).await?;
        self.replica.read(|state| state.tag(tag)).ok_or(Error::UnknownTag)
    }

    /// Up to `limit` rows in the order of their tags, beginning after `after`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a linearizable read finds no quorum.
    pub async fn tags(
        &self,
        after: Option<&str>,
        limit: usize,
        read: Read,
    ) -> Result<Vec<TagRow>, Error> {
        self.refresh(read).await?;
        Ok(self.replica.read(|state| state.tags_after(after, limit)))
    }

    /// A tag's `max_id` as this node's copy has it; `None` for a tag that it does not know.
    pub fn max_id(&self, tag: &str) -> Option<u64> {
        self.replica.read(|state| state.tag(tag)).map(|row| row.max_id)
    }

    async fn refresh(&self, read: Read) -> Result<(), Error> {
        match read {
            Read::Linearizable => Ok(self.replica.read_barrier(Instant::now() + GRAB_MAX).await?),
            Read::Stale => Ok(()),
        }
    }

    async fn propose_row(&self, command: Command) -> Result<TagRow, Error> {
        match self.propose(command).await? {
            Response::Tag(row) => Ok(row),
            rejection => Err(Error::rejected(&rejection)),
        }
    }

    async fn propose(&self, command: Command) -> Result<Response, Error> {
        command.check()?;
        Ok(self.replica.propose(&command, Instant::now() + cluster::CHANGE_MAX).await?)
    }

    /// What this node holds of up to `limit` tags, in the order of their names.
    pub fn buffers(&self, limit: usize) -> Vec<(BizTag, BufferView)> {
        self.table.views(limit)
    }

    /// What this node knows of the cluster, without asking anybody.
    pub fn cluster(&self) -> ClusterView {
        let mut view = ClusterView::from(self.replica.node().status());
        view.level = self.replica.read(State::level);
        #[cfg(feature = "next-level")]
        self.replica.read(|state| state.note().clone_into(&mut view.note));
        view.add_clocks(&self.clocks());
        view
    }

    /// Raises the level of the cluster to what all its members support.
    ///
    /// # Errors
    /// [`Error::Level`] names who is too old or could not be asked; [`Error::Unavailable`].
    pub async fn raise_level(&self) -> Result<ClusterView, Error> {
        self.replica.node().raise_level().await?;
        self.refresh(Read::Linearizable).await?;
        Ok(self.cluster())
    }

    /// Leaves a note, for tests of levels.
    ///
    /// # Errors
    /// [`Error::Level`] below level 2.
    #[cfg(feature = "next-level")]
    pub async fn leave_note(&self, text: String) -> Result<ClusterView, Error> {
        self.propose(Command::Note { text }).await?;
        self.refresh(Read::Linearizable).await?;
        Ok(self.cluster())
    }

    /// Every worker id that was ever used, and every node's clock, as this node knows them.
    pub fn workers(&self) -> WorkersView {
        let rows = self.replica.read(|state| state.workers());
        WorkersView::new(self.snowflakes.format(), rows, self.clocks(), self.clock.now_ms())
    }

    fn clocks(&self) -> Vec<ClockView> {
        let node = self.replica.node();
        let status = node.status();
        let mut clocks = node.clocks();
        clocks.retain(|clock| clock.age_ms <= CLOCK_AGE_MS_MAX);
        let members = status.members.iter().map(|member| member.id);
        self.replica.read(|state| {
            let clock = |id| ClockView::new(id, status.node_id, &clocks, state.reports().get(&id));
            members.map(clock).collect()
        })
    }

    /// Adds a node and, if `voter`, lets it vote once it has caught up; otherwise it is a learner then, also
    /// if it was a voter.
    ///
    /// # Errors
    /// [`Error::Conflict`] with the present membership, or where no new node is; [`Error::WrongCluster`];
    /// [`Error::Unavailable`], also when it has not caught up yet: ask again.
    pub async fn add_node(
        &self,
        id: u64,
        raft: String,
        http: Option<String>,
        voter: bool,
    ) -> Result<ClusterView, Error> {
        let http = http.unwrap_or_default();
        let node = self.replica.node();
        node.add_member(id, raft, http, voter).await?;
        // So that the answer shows it; where that takes long, it shows what this node knows.
        let _ = node.read_barrier(Instant::now() + SHOWN_MAX).await;
        Ok(self.cluster())
    }

    /// Removes a node, which then stops by itself.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Unavailable`].
    pub async fn remove_node(&self, id: u64) -> Result<(), Error> {
        Ok(self.replica.node().remove_member(id).await?)
    }

    /// Makes a voter the leader.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Unavailable`].
    pub async fn transfer_leader(&self, id: u64) -> Result<(), Error> {
        Ok(self.replica.node().transfer_leader(id).await?)
    }

    /// Whether this node can hand out ids, and what keeps it from it or soon may.
    pub fn readiness(&self) -> Readiness {
        let holds_ids = self.table.holds_ids() || self.snowflakes.remaining_ms() > 0;
        let mut readiness = Readiness::of(&self.replica.node().status(), holds_ids);
        self.snowflakes.judge(&mut readiness);
        readiness
    }

    /// The counters as a page for Prometheus.
    pub fn metrics_page(&self) -> String {
        let node = self.replica.node();
        let levels = self.snowflakes.levels(node.median_now_ms());
        self.metrics.render(&self.cluster(), self.readiness().ready, &levels)
    }

    /// The wall clock, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// This node's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl From<MembershipError> for Error {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::Conflict(detail) => Self::Conflict { detail },
            MembershipError::WrongCluster(detail) => Self::WrongCluster { detail },
            MembershipError::Busy => Self::Conflict { detail: error.to_string() },
            MembershipError::Unknown(_) => Self::NotFound { detail: error.to_string() },
            MembershipError::Level(detail) => Self::Level { detail },
            MembershipError::Unavailable(detail) | MembershipError::NoLeader(detail) => {
                Self::Unavailable { detail }
            }
        }
    }
}
