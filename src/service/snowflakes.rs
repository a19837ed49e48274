//! The snowflake ids of one node: the windows that it holds, and the status of its lease.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::error::Error;
use super::lease_status::LeaseStatus;
use super::readiness::Readiness;
use crate::clock::Clock;
use crate::limits::WINDOW_WAIT_MAX;
use crate::metrics::SnowflakeReadings;
use crate::snowflake::{Format, Generator, Refusal, Window};

/// A wall clock that falls behind the monotonic one by more has stepped back; less is the jitter of
/// reading two clocks.
const STEP_MS_MIN: u64 = 5;
/// How long before the end of the time bits the alarm about it begins.
const LIFETIME_ALARM_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// Hands out the snowflake ids of one process.
///
/// Ids are taken under one lock, so they rise from caller to caller, whatever any clock does.
pub struct Snowflakes {
    format: Format,
    clock: Arc<dyn Clock>,
    generator: Mutex<Generator>,
    status: Mutex<LeaseStatus>,
    /// How far the wall clock was ahead of the monotonic one when a window was last given.
    wall_lead_ms: AtomicI64,
    /// Wakes the lease task when callers wait for a window.
    pub(super) wanted: Notify,
    /// Wakes waiting callers when a window has come or the status has changed.
    changes: watch::Sender<()>,
}

impl Snowflakes {
    pub(super) fn new(format: Format, window_ms: u64, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self {
            format,
            generator: Mutex::new(Generator::new(format, window_ms, seed)),
            status: Mutex::new(LeaseStatus::Starting),
            wall_lead_ms: AtomicI64::new(i64::MIN),
            wanted: Notify::new(),
            changes: watch::Sender::new(()),
            clock,
        }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// The next ids without a gap, up to `count_max`, if they can be had at once.
    #[inline]
    pub(super) fn take_now(&self, count_max: u64) -> Option<Range<u64>> {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().take_some(count_max, clock_ms).ok()
    }

    /// The next `count` ids. Waits a little for a window that is on its way.
    pub(super) async fn take(&self, count: u64) -> Result<Vec<Range<u64>>, Error> {
        self.try_until(|generator, clock_ms| generator.take(count, clock_ms)).await
    }

    /// Whether there is an id to take. Waits a little for a window that is on its way, and takes none.
    pub(super) async fn could_take(&self) -> Result<(), Error> {
        self.try_until(|generator, clock_ms| generator.could_take(clock_ms)).await
    }

    /// Tries again with every window that comes, until the deadline of a caller or a refusal that no
    /// window can change.
    async fn try_until<T>(
        &self,
        attempt: impl Fn(&mut Generator, u64) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + WINDOW_WAIT_MAX;
        let mut changes = self.changes.subscribe();
        loop {
            let clock_ms = self.clock.now_ms();
            let refused = match attempt(&mut self.generator.lock(), clock_ms) {
                Ok(taken) => return Ok(taken),
                Err(refusal) => refusal,
            };
            let may_pass = refused != Refusal::Spent && self.status.lock().is_brief();
            if !may_pass {
                return Err(self.error(refused));
            }
            self.wanted.notify_one();
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return Err(self.error(refused));
            }
        }
    }

    fn error(&self, refusal: Refusal) -> Error {
        match (refusal, self.behind_ms()) {
            (Refusal::Spent, Some(by_ms)) => Error::ClockBehind { by_ms },
            (Refusal::Spent, None) => Error::Overloaded,
            (Refusal::NoWindow, _) => Error::unavailable(self.status.lock().message()),
            (Refusal::Ended, _) => {
                let message = self.status.lock().message();
                Error::unavailable(format!("the time window has ended; {message}"))
            }
        }
    }

    /// How far the clock is behind: behind the ids that were given while it showed more, or behind its
    /// own reading when a window was last given.
    fn behind_ms(&self) -> Option<u64> {
        let clock_ms = self.clock.now_ms();
        let behind_ids_ms = self.generator.lock().too_far_ahead_ms(clock_ms);
        behind_ids_ms.or_else(|| self.stepped_back_ms())
    }

    fn stepped_back_ms(&self) -> Option<u64> {
        let behind_ms = self.wall_lead_ms.load(Relaxed).saturating_sub(self.lead_now_ms());
        u64::try_from(behind_ms).ok().filter(|&ms| ms > STEP_MS_MIN)
    }

    fn lead_now_ms(&self) -> i64 {
        let wall_ms = i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX);
        wall_ms.saturating_sub_unsigned(self.clock.monotonic_ms())
    }

    /// Adds a window that the log gave to this process.
    pub(super) fn install(&self, window: Window) {
        let Window { worker_id, floor_ms, fence_ms } = window;
        tracing::debug!(target: "mintleaf::grants", worker_id, floor_ms, fence_ms, "window granted");
        self.generator.lock().install(window);
        self.wall_lead_ms.store(self.lead_now_ms(), Relaxed);
        self.changes.send_replace(());
    }

    /// Stops using a worker id; answers its first unused millisecond, from which on it is given back.
    pub(super) fn give_up(&self, worker_id: u16) -> Option<u64> {
        let unused_from_ms = self.generator.lock().give_up(worker_id)?;
        tracing::debug!(target: "mintleaf::grants", worker_id, unused_from_ms, "window given up");
        Some(unused_from_ms)
    }

    pub(super) fn windows(&self) -> Vec<Window> {
        self.generator.lock().windows().to_vec()
    }

    /// The worker ids whose windows begin too far ahead of the clock.
    pub(super) fn out_of_reach(&self) -> Vec<u16> {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().out_of_reach(clock_ms)
    }

    /// How many ids this process has handed out.
    pub(super) fn given(&self) -> u64 {
        self.generator.lock().given()
    }

    /// How long ids go on without another window, in milliseconds.
    pub(super) fn remaining_ms(&self) -> u64 {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().remaining_ms(clock_ms)
    }

    /// Notes the status of the lease; answers the one before.
    pub(super) fn report(&self, status: LeaseStatus) -> LeaseStatus {
        let before = std::mem::replace(&mut *self.status.lock(), status);
        self.changes.send_replace(());
        before
    }

    /// Adds the state of the snowflake ids to a node's readiness. A wrong clock takes the node out of
    /// rotation; a lack of worker ids or of the quorum does not, while it has other ids to give.
    pub(super) fn add_readiness(&self, readiness: &mut Readiness) {
        let status = self.status.lock().clone();
        let remaining_ms = self.remaining_ms();
        if let Some(by_ms) = self.behind_ms().filter(|_| remaining_ms == 0) {
            readiness.ready = false;
            readiness.reasons.push(format!(
                "snowflake: the clock went back by {by_ms} ms, further than ids may run ahead of it; \
                 they go on when it returns, or at once after a restart of this node"
            ));
        }
        if status == LeaseStatus::InOrder {
            return;
        }
        readiness.ready &= !matches!(status, LeaseStatus::Starting | LeaseStatus::Skewed { .. });
        let mut reason = format!("snowflake: {}", status.message());
        if remaining_ms > 0 {
            let seconds = remaining_ms / 1000;
            reason.push_str(&format!("; ids go on for {seconds} s with what is held"));
        }
        readiness.reasons.push(reason);
    }

    pub(super) fn readings(&self, cluster_ms: Option<u64>) -> SnowflakeReadings {
        let status = self.status.lock().clone();
        let (now_ms, remaining_ms) = (self.clock.now_ms(), self.remaining_ms());
        let offset = cluster_ms.map(|cluster_ms| i128::from(now_ms) - i128::from(cluster_ms));
        let end_ms = self.format.times_ms().end;
        let worker_ids = self.windows().len() as u64;
        SnowflakeReadings {
            worker_ids,
            remaining_seconds: remaining_ms as f64 / 1000.0,
            clock_offset_ms: offset.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0),
            pool_exhausted: matches!(status, LeaseStatus::NoWorkerFree { .. }),
            clock_skewed: matches!(status, LeaseStatus::Skewed { .. }),
            clock_behind: remaining_ms == 0 && self.behind_ms().is_some(),
            lifetime_ends: end_ms < cluster_ms.unwrap_or(now_ms).saturating_add(LIFETIME_ALARM_MS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snowflake::Layout;

    const START_MS: u64 = 1_800_000_000_000;

    /// Clocks that stand still until they are set.
    #[derive(Default)]
    struct SetClock {
        wall_ms: Mutex<u64>,
        monotonic_ms: Mutex<u64>,
    }

    impl SetClock {
        fn pass(&self, ms: u64) {
            *self.wall_ms.lock() += ms;
            *self.monotonic_ms.lock() += ms;
        }

        fn set(&self, wall_ms: u64) {
            *self.wall_ms.lock() = wall_ms;
        }
    }

    impl Clock for SetClock {
        fn now_ms(&self) -> u64 {
            *self.wall_ms.lock()
        }

        fn monotonic_ms(&self) -> u64 {
            *self.monotonic_ms.lock()
        }
    }

    struct Fixture {
        clock: Arc<SetClock>,
        snowflakes: Arc<Snowflakes>,
    }

    #[test]
    fn a_node_that_gave_ids_from_the_future_is_not_ready_until_then() {
        let clock = Arc::new(SetClock::default());
        clock.set(START_MS + 3_600_000);
        let format = Format::new(Layout::LEAF, 0).unwrap();
        let snowflakes = Snowflakes::new(format, 60_000, Arc::clone(&clock) as _, 1);
        let window = |floor_ms| Window { worker_id: 3, floor_ms, fence_ms: floor_ms + 60_000 };
        snowflakes.install(window(START_MS + 3_600_000));
        assert!(snowflakes.take_now(1).is_some());
        clock.set(START_MS);
        snowflakes.install(Window { worker_id: 4, ..window(START_MS) });
        assert_eq!(snowflakes.take_now(1), None);
        assert_eq!(snowflakes.error(Refusal::Spent), Error::ClockBehind { by_ms: 3_600_000 });
        snowflakes.report(LeaseStatus::InOrder);
        let mut readiness = Readiness { ready: true, reasons: Vec::new() };
        snowflakes.add_readiness(&mut readiness);
        assert!(!readiness.ready, "{readiness:?}");
        clock.set(START_MS + 3_600_000);
        assert!(snowflakes.take_now(1).is_some());
    }

    /// A process that holds worker id 3 for `window_ms`.
    fn holding(window_ms: u64) -> Fixture {
        let clock = Arc::new(SetClock::default());
        clock.set(START_MS);
        let format = Format::new(Layout::LEAF, 0).unwrap();
        let snowflakes = Arc::new(Snowflakes::new(format, u64::MAX, Arc::clone(&clock) as _, 1));
        let fixture = Fixture { clock, snowflakes };
        fixture.grant(window_ms);
        fixture
    }

    impl Fixture {
        fn grant(&self, window_ms: u64) {
            let (floor_ms, fence_ms) = (START_MS, START_MS + window_ms);
            self.snowflakes.install(Window { worker_id: 3, floor_ms, fence_ms });
            self.snowflakes.report(LeaseStatus::InOrder);
        }

        fn readiness(&self) -> Readiness {
            let mut readiness = Readiness { ready: true, reasons: Vec::new() };
            self.snowflakes.add_readiness(&mut readiness);
            readiness
        }
    }

    #[tokio::test]
    async fn a_clock_that_went_back_is_ridden_out_until_the_window_is_spent() {
        let node = holding(100);
        node.clock.pass(90);
        assert!(node.snowflakes.take_now(1).is_some());
        node.clock.set(START_MS - 3_600_000);
        assert!(node.snowflakes.take(8 * 4096).await.is_ok());
        assert!(node.readiness().ready);
        let refused = node.snowflakes.take(3 * 4096).await.unwrap_err();
        assert_eq!(refused, Error::ClockBehind { by_ms: 3_600_090 });
        node.snowflakes.take(4096).await.unwrap();
        assert!(!node.readiness().ready, "{:?}", node.readiness());
        assert!(node.snowflakes.readings(None).clock_behind);
        node.clock.set(START_MS + 100);
        node.grant(200);
        assert!(node.snowflakes.take_now(1).is_some());
        assert!(node.readiness().ready);
    }

    #[tokio::test]
    async fn more_than_a_window_holds_is_overload_while_the_clock_is_right() {
        let node = holding(100);
        let refused = node.snowflakes.take(1_000_000).await.unwrap_err();
        assert_eq!(refused, Error::Overloaded);
        assert!(node.readiness().ready);
    }

    #[tokio::test]
    async fn a_wrong_clock_takes_the_node_out_of_rotation_and_is_named() {
        let node = holding(100);
        node.clock.pass(40);
        node.snowflakes.report(LeaseStatus::Skewed { own_ms: 7, cluster_ms: 9 });
        let Readiness { ready, reasons } = node.readiness();
        assert!(!ready && reasons[0].contains("shows 7 and the median of the cluster's 9"));
        assert!(node.snowflakes.take_now(1).is_some(), "what is held is still good");
        node.clock.set(START_MS + 3_600_000);
        let refused = node.snowflakes.take(1).await.unwrap_err().to_string();
        assert!(refused.contains("shows 7"), "{refused}");
    }

    #[tokio::test]
    async fn a_quorum_that_is_lost_leaves_the_node_ready_and_says_for_how_long() {
        let node = holding(60_000);
        node.clock.pass(20_000);
        node.snowflakes.report(LeaseStatus::NoQuorum);
        let Readiness { ready, reasons } = node.readiness();
        assert!(ready && reasons[0].contains("40 s with what is held"), "{reasons:?}");
        assert_eq!(node.snowflakes.readings(None).worker_ids, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_a_window_that_is_on_its_way() {
        let node = holding(100);
        node.clock.pass(150);
        let waiting = tokio::spawn({
            let snowflakes = Arc::clone(&node.snowflakes);
            async move { snowflakes.take(1).await }
        });
        node.snowflakes.wanted.notified().await;
        node.grant(300);
        assert!(waiting.await.unwrap().is_ok());
        node.clock.pass(300);
        let refused = node.snowflakes.take(1).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_pool_that_is_used_up() {
        let node = holding(100);
        node.clock.pass(150);
        node.snowflakes.report(LeaseStatus::NoWorkerFree { pinned: None, until_ms: 5 });
        let refused = node.snowflakes.take(1).await.unwrap_err().to_string();
        assert!(refused.contains("every worker id is in use"), "{refused}");
        assert!(node.snowflakes.readings(None).pool_exhausted && node.readiness().ready);
    }
}
