//! The snowflake ids of one node: the windows that it holds, and the status of its lease.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use mintleaf_core::snowflake::{Format, Generator, Refusal, Rules, SnowflakeSettings, Window};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::lease_status::LeaseStatus;
use crate::limits::WINDOW_WAIT_MAX;
use crate::machine::clock::Clock;
use crate::metrics::SnowflakeReadings;
use crate::service::error::Error;
use crate::service::readiness::Readiness;

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
    /// The rules of this node's settings, which are the cluster's if it is given windows.
    rules: Rules,
    /// A node is given windows only if its clock is off by no more than this.
    skew_ms_max: u64,
    clock: Arc<dyn Clock>,
    generator: Mutex<Generator>,
    status: Mutex<LeaseStatus>,
    /// How far the wall clock was ahead of the monotonic one when a window was last given.
    wall_lead_ms: AtomicI64,
    /// Wakes the lease task when callers wait for a window.
    pub(in crate::service) wanted: Notify,
    /// Wakes waiting callers when a window has come or the status has changed.
    changes: watch::Sender<()>,
}

impl Snowflakes {
    pub(in crate::service) fn new(
        settings: &SnowflakeSettings,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Self {
        let (format, window_ms) = (settings.format, settings.window_ms());
        Self {
            format,
            rules: settings.rules(),
            skew_ms_max: u64::try_from(settings.max_clock_skew.as_millis()).unwrap_or(u64::MAX),
            generator: Mutex::new(Generator::new(format, window_ms, seed)),
            status: Mutex::new(LeaseStatus::Starting),
            wall_lead_ms: AtomicI64::new(i64::MIN),
            wanted: Notify::new(),
            changes: watch::Sender::new(()),
            clock,
        }
    }

    pub(in crate::service) fn format(&self) -> Format {
        self.format
    }

    pub(in crate::service) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(in crate::service) fn skew_ms_max(&self) -> u64 {
        self.skew_ms_max
    }

    /// The next ids without a gap, up to `count_max`, if they can be had at once.
    #[inline]
    pub(in crate::service) fn take_now(&self, count_max: u64) -> Option<Range<u64>> {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().take_some(count_max, clock_ms).ok()
    }

    /// The next `count` ids. Waits a little for a window that is on its way.
    pub(in crate::service) async fn take(&self, count: u64) -> Result<Vec<Range<u64>>, Error> {
        self.try_until(|generator, clock_ms| generator.take(count, clock_ms)).await
    }

    /// Whether there is an id to take. Waits a little for a window that is on its way, and takes none.
    pub(in crate::service) async fn could_take(&self) -> Result<(), Error> {
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
    pub(in crate::service) fn install(&self, window: Window) {
        let Window { worker_id, floor_ms, fence_ms } = window;
        tracing::debug!(target: "mintleaf::grants", worker_id, floor_ms, fence_ms, "window granted");
        self.generator.lock().install(window);
        self.wall_lead_ms.store(self.lead_now_ms(), Relaxed);
        self.changes.send_replace(());
    }

    /// Stops using a worker id; returns its first unused millisecond. The rest is given back from there on.
    pub(in crate::service) fn give_up(&self, worker_id: u16) -> Option<u64> {
        let unused_from_ms = self.generator.lock().give_up(worker_id)?;
        tracing::debug!(target: "mintleaf::grants", worker_id, unused_from_ms, "window given up");
        Some(unused_from_ms)
    }

    /// Stops using the milliseconds below the snowflake floor; returns the worker ids whose windows lie below it as a
    /// whole, each with its first unused millisecond. The rest is given back from there on.
    pub(in crate::service) fn lift(&self, floor_ms: u64) -> Vec<(u16, u64)> {
        let given_up = self.generator.lock().lift(floor_ms);
        for (worker_id, unused_from_ms) in &given_up {
            tracing::debug!(target: "mintleaf::grants", worker_id, unused_from_ms, "window given up");
        }
        given_up
    }

    pub(in crate::service) fn windows(&self) -> Vec<Window> {
        self.generator.lock().windows().to_vec()
    }

    /// The worker ids whose windows begin too far ahead of the clock.
    pub(in crate::service) fn out_of_reach(&self) -> Vec<u16> {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().out_of_reach(clock_ms)
    }

    /// How many ids this process has handed out.
    pub(in crate::service) fn given(&self) -> u64 {
        self.generator.lock().given()
    }

    /// How long ids go on without another window, in milliseconds.
    pub(in crate::service) fn remaining_ms(&self) -> u64 {
        let clock_ms = self.clock.now_ms();
        self.generator.lock().remaining_ms(clock_ms)
    }

    /// Notes the status of the lease; returns the previous one.
    pub(in crate::service) fn report(&self, status: LeaseStatus) -> LeaseStatus {
        let before = std::mem::replace(&mut *self.status.lock(), status);
        self.changes.send_replace(());
        before
    }

    /// Adds the state of the snowflake ids to a node's readiness. A wrong clock takes the node out of
    /// rotation; a lack of worker ids or of the quorum does not, while it has other ids to give.
    pub(in crate::service) fn add_readiness(&self, readiness: &mut Readiness) {
        let status = self.status.lock().clone();
        let remaining_ms = self.remaining_ms();
        if let Some(by_ms) = self.behind_ms().filter(|_| remaining_ms == 0) {
            readiness.ready = false;
            readiness.reasons.push(format!(
                "snowflake: the clock went back by {by_ms} ms, further than ids may run ahead of it; \
                 they go on when it returns, or at once after a restart of this node"
            ));
        }
        // A caller that was given an id finds the node ready, though the lease task has not reported the window yet.
        let has_started = status == LeaseStatus::Starting && remaining_ms > 0;
        if status == LeaseStatus::InOrder || has_started {
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

    pub(in crate::service) fn readings(&self, cluster_ms: Option<u64>) -> SnowflakeReadings {
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
            end_s: end_ms / 1000,
            lifetime_ends: end_ms < cluster_ms.unwrap_or(now_ms).saturating_add(LIFETIME_ALARM_MS),
        }
    }
}

#[cfg(test)]
mod tests;
