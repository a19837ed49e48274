//! Clients, which ask any node, time out, hang up and try again.

mod holders;
mod registers;
mod shaped;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mintleaf::service::{Actor, Consistency, Error, TagChange, TagSpec};
use mintleaf_core::snowflake::IdParts;
use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::machine::{Machine, Serving};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::scenario::SKEW_MS_MAX;
use crate::trace::Trace;
pub(crate) use registers::REGISTER;

const CLIENTS: u64 = 4;
/// How many programs ask registers and how many lease worker ids, in runs with programs.
const CALLERS: u64 = 3;
const HOLDERS: u64 = 5;
/// Tags that all clients take ids from.
const TAGS: [&str; 3] = ["orders", "users", "events"];

/// How far ahead of the true time a client raises the snowflake floor. A node with shorter windows has to wait
/// for the same time.
const FLOOR_AHEAD_MS_MAX: u64 = 2_000;

/// What a client may expect of a tag that it created and that no other client changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Promise {
    /// The creation was acknowledged, and no client has asked for the deletion.
    There,
    /// The tag was deleted, or the outcome of a change is unknown. A request that the network repeats
    /// may create the tag again.
    Unknown,
}

/// The clients of a run.
pub(crate) struct Clients {
    machines: Vec<Arc<Machine>>,
    oracle: Arc<Oracle>,
    trace: Arc<Trace>,
    random: Random,
    /// Whether programs ask registers and lease worker ids, besides all else.
    has_programs: bool,
    promises: Mutex<BTreeMap<String, Promise>>,
    /// Whether the snowflake floor is raised no more.
    leaves_the_floor: AtomicBool,
    stopping: AtomicBool,
}

/// The outcome of a call.
type Outcome = Result<(), Error>;

impl Clients {
    pub(crate) fn new(
        machines: Vec<Arc<Machine>>,
        oracle: Arc<Oracle>,
        trace: Arc<Trace>,
        random: Random,
        has_programs: bool,
    ) -> Arc<Self> {
        let (promises, leaves_the_floor, stopping) = Default::default();
        Arc::new(Self {
            machines,
            oracle,
            trace,
            random,
            has_programs,
            promises,
            leaves_the_floor,
            stopping,
        })
    }

    /// Starts all clients.
    pub(crate) fn start(self: &Arc<Self>) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(Arc::clone(self).run());
        }
        if self.has_programs {
            for _ in 0..CALLERS {
                clients.spawn(Arc::clone(self).call_registers());
            }
            for _ in 0..HOLDERS {
                clients.spawn(Arc::clone(self).lease_workers());
            }
        }
        clients
    }

    /// Makes the clients raise the snowflake floor no more. A node needs two commits after each raise until it has a
    /// window again, and on very slow disks that takes longer than the time to the next raise.
    pub(crate) fn leave_the_floor(&self) {
        self.leaves_the_floor.store(true, Ordering::Relaxed);
    }

    /// Makes the clients end after their current calls.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    async fn run(self: Arc<Self>) {
        while !self.is_stopping() {
            if let Some(serving) = self.any_serving().await {
                self.wait(&serving, self.call(&serving)).await;
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// A node, a moment from now; `None` if it does not serve then.
    async fn any_serving(&self) -> Option<Serving> {
        sleep(Duration::from_micros(self.random.within(1_000..80_000))).await;
        let machine = &self.machines[self.random.within(0..self.machines.len() as u64) as usize];
        machine.serving()
    }

    /// Waits for the answer to a call, for a while or until the node ends.
    async fn wait<T>(&self, serving: &Serving, call: impl Future<Output = T>) -> Option<T> {
        let patience = Duration::from_millis(self.random.within(20..3_000));
        let mut ended = serving.ended.clone();
        let call = timeout(patience, serving.process.run(call));
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => None,
            answer = call => answer.ok(),
        }
    }

    async fn call(&self, serving: &Serving) {
        let tag = self.random.pick(&TAGS);
        let count = if self.random.chance(20) { self.random.within(2..3_000) } else { 1 };
        let (what, outcome) = match self.random.within(0..142) {
            0..20 => ("next", self.next(serving, tag)),
            20..55 => ("take", self.take(serving, tag, count).await),
            55..70 => ("next snowflake", self.next_snowflake(serving)),
            70..84 => ("take snowflakes", self.take_snowflakes(serving, count).await),
            84..89 => ("create", self.create(serving).await),
            89..92 => ("delete", self.delete(serving).await),
            92..94 => ("delete shared", self.delete_shared(serving, tag).await),
            94..97 => ("update", self.update(serving, tag).await),
            97..98 => ("protect", self.protect(serving, tag).await),
            98 if !self.leaves_the_floor.load(Ordering::Relaxed) => {
                ("raise the floor", self.raise_floor(serving).await)
            }
            98..100 => ("read", self.read(serving).await),
            100..115 => ("strict", self.strict(serving, count).await),
            115..130 => ("sequence", self.sequence(serving).await),
            _ => ("periods", self.periods(serving, count).await),
        };
        let incarnation = serving.incarnation;
        match outcome {
            Ok(()) => {
                self.trace.note(format_args!("client {what} {tag} {count} at {incarnation:?}"));
            }
            Err(error) => {
                self.trace.note(format_args!("client {what} {tag} at {incarnation:?}: {error}"));
            }
        }
    }

    fn next(&self, serving: &Serving, tag: &str) -> Outcome {
        let before = self.oracle.highest_of(serving.incarnation, tag);
        let frozen_since = self.oracle.frozen_since(serving.incarnation, tag);
        if let Some(id) = serving.services.ids.next_now(tag) {
            let range = id..id + 1;
            self.oracle.check_thawed(serving.incarnation, tag, frozen_since);
            let (by, ranges) = (serving.incarnation, std::slice::from_ref(&range));
            self.oracle.given(by, (tag, None), ranges, &before);
        }
        Ok(())
    }

    /// Takes ids of a tag; the oracle judges them.
    pub(crate) async fn take(&self, serving: &Serving, tag: &str, count: u64) -> Outcome {
        let before = self.oracle.highest_of(serving.incarnation, tag);
        let frozen_since = self.oracle.frozen_since(serving.incarnation, tag);
        let ranges = serving.services.ids.take(tag, count).await?.numbers;
        self.oracle.check_thawed(serving.incarnation, tag, frozen_since);
        self.check_count(&ranges, count);
        self.oracle.given(serving.incarnation, (tag, None), &ranges, &before);
        Ok(())
    }

    fn next_snowflake(&self, serving: &Serving) -> Outcome {
        let before = self.oracle.before_snowflakes(serving.incarnation);
        if let Some(id) = serving.services.ids.next_snowflake_now() {
            let range = id..id + 1;
            self.oracle.given_snowflakes(serving.incarnation, std::slice::from_ref(&range), before);
        }
        Ok(())
    }

    /// Takes snowflake ids; the oracle judges them.
    pub(crate) async fn take_snowflakes(&self, serving: &Serving, count: u64) -> Outcome {
        let before = self.oracle.before_snowflakes(serving.incarnation);
        let ranges = serving.services.ids.take_snowflakes(count).await?;
        self.check_count(&ranges, count);
        self.oracle.given_snowflakes(serving.incarnation, &ranges, before);
        Ok(())
    }

    /// Raises the snowflake floor to a time around now. From then on the oracle judges what is given.
    async fn raise_floor(&self, serving: &Serving) -> Outcome {
        let time_ms = (self.machines[0].site.now_ms() + FLOOR_AHEAD_MS_MAX)
            .saturating_sub(self.random.within(0..10_000));
        let id = self.oracle.format().encode(IdParts { time_ms, worker_id: 0, sequence: 0 });
        let cluster = &serving.services.cluster;
        let raised = cluster.raise_snowflake_floor(&Actor::default(), id, true).await?;
        let now_ms = serving.replica.node().median_now_ms().unwrap_or(0);
        self.oracle.floor_acknowledged(raised.floor_ms, now_ms, SKEW_MS_MAX);
        Ok(())
    }

    fn check_count(&self, ranges: &[std::ops::Range<u64>], count: u64) {
        let given: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if given != count {
            self.trace.violation(&format!("{given} ids were given where {count} were asked for"));
        }
    }

    async fn create(&self, serving: &Serving) -> Outcome {
        let name = format!("tag-{:08x}", self.random.next() as u32);
        let tag = BizTag::parse(&name).expect("a possible name");
        let step = self.random.within(1..100) as u32;
        self.promises.lock().insert(name.clone(), Promise::Unknown);
        serving
            .services
            .tags
            .create(&Actor::default(), tag, TagSpec { step: Some(step), ..TagSpec::default() })
            .await?;
        self.promises.lock().insert(name, Promise::There);
        Ok(())
    }

    async fn delete(&self, serving: &Serving) -> Outcome {
        let name = {
            let mut promises = self.promises.lock();
            let there: Vec<String> = promises
                .iter()
                .filter(|(_, promise)| **promise == Promise::There)
                .map(|(name, _)| name.clone())
                .collect();
            if there.is_empty() {
                return Ok(());
            }
            let name = there[self.random.within(0..there.len() as u64) as usize].clone();
            promises.insert(name.clone(), Promise::Unknown);
            name
        };
        let tag = BizTag::parse(&name).expect("a name");
        let deleted = serving.services.tags.delete(&Actor::default(), tag).await;
        // If the network delivered the request twice, the second one finds the tag deleted.
        if deleted == Err(Error::UnknownTag) && !self.oracle.was_deleted(&name) {
            self.trace.violation(&format!("the acknowledged tag {name} is not known"));
        }
        deleted
    }

    /// Deletes a tag that other clients take ids from. The next take creates it again.
    async fn delete_shared(&self, serving: &Serving, tag: &str) -> Outcome {
        let tag = BizTag::parse(tag).expect("a name");
        serving.services.tags.delete(&Actor::default(), tag).await
    }

    async fn update(&self, serving: &Serving, tag: &str) -> Outcome {
        let step = Some(self.random.within(1..2_000) as u32);
        let forward = self.random.chance(30);
        let max_id = self.oracle.max_id(tag).map(|max_id| max_id + 1_000);
        let max_id = max_id.filter(|_| forward);
        let tag = BizTag::parse(tag).expect("a name");
        serving
            .services
            .tags
            .update(&Actor::default(), tag, TagChange { step, max_id, ..TagChange::default() })
            .await
            .map(drop)
    }

    /// Freezes a tag for a while, or limits its rate. Usually this ends within a second or two.
    async fn protect(&self, serving: &Serving, tag: &str) -> Outcome {
        let tag = BizTag::parse(tag).expect("a name");
        let rate_limit = self.random.chance(30).then(|| self.random.within(1..10_000) as u32);
        let strict =
            TagChange { rate_limit: Some(rate_limit), frozen: Some(true), ..TagChange::default() };
        let tags = &serving.services.tags;
        tags.update(&Actor::default(), tag.clone(), strict).await?;
        sleep(Duration::from_millis(self.random.within(1..1_000))).await;
        let frozen = Some(false);
        tags.update(&Actor::default(), tag, TagChange { frozen, ..TagChange::default() })
            .await
            .map(drop)
    }

    /// Reads every tag, and checks that each acknowledged tag is there.
    async fn read(&self, serving: &Serving) -> Outcome {
        let before = self.promises.lock().clone();
        let (tags, consistency) = (&serving.services.tags, Consistency::Linearizable);
        let (mut rows, mut after) = (Vec::new(), None::<BizTag>);
        loop {
            let from = after.as_ref().map(BizTag::as_str);
            let page = tags.page("", from, usize::MAX, |_| true, consistency).await?;
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // A tag may be missing if a client requested its deletion during the read.
        let after = self.promises.lock().clone();
        for (name, promise) in &before {
            let listed = rows.iter().any(|row| row.tag.as_str() == name);
            let kept = after.get(name) == Some(promise);
            if *promise == Promise::There && kept && !listed {
                self.trace.violation(&format!("{name} was acknowledged and is not listed"));
            }
        }
        Ok(())
    }

    /// Reads once more, at a healed node, and lists the registers.
    pub(crate) async fn check_promises(&self, serving: &Serving) -> Outcome {
        self.read(serving).await?;
        self.check_registers(serving).await
    }
}
