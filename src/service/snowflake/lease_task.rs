//! The task that keeps this node in windows: it takes worker ids, renews them in time, takes more
//! under sustained demand, and gives them back.

mod floor_note;

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::snowflake::{SnowflakeSettings, Window};
use mintleaf_core::state::{Command, Response};
use mintleaf_raft::{ProposeError, StopReason};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::clock_reports::ClockReports;
use super::cluster_rules;
use super::lease_status::{LeaseStatus, StatusLog};
use super::snowflakes::Snowflakes;
use super::worker_demand::WorkerDemand;
use crate::machine::clock::Clock;
use crate::replica::Replica;

/// Between two looks at the clock and the windows.
const TURN_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks while callers wait, who wake the task early, or while the clocks of a known leader's voters
/// are not known yet.
const TURN_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// How long a command may take before the next turn begins.
const PROPOSAL_MAX: Duration = Duration::from_secs(2);
/// How long a stop waits for the quorum to take worker ids back.
pub(in crate::service) const RELEASE_MAX: Duration = Duration::from_secs(1);

/// A worker id that the log has granted to this process.
#[derive(Clone, Copy, Debug)]
struct HeldWorkerId {
    worker_id: u16,
    /// Names this one grant: a command about an earlier grant that arrives late cannot touch it.
    nonce: u128,
    /// Where its window begins, as the log knows it.
    floor_ms: u64,
}

/// Names for the grants of one process: the first is random, so that no other process comes near, and
/// each further one is one more.
struct Nonces(u128);

impl Nonces {
    fn draw(&mut self) -> u128 {
        let nonce = self.0;
        self.0 = nonce.wrapping_add(1);
        nonce
    }
}

/// The task and its state.
pub(in crate::service) struct LeaseTask {
    replica: Arc<Replica>,
    snowflakes: Arc<Snowflakes>,
    clock: Arc<dyn Clock>,
    settings: SnowflakeSettings,
    nonces: Nonces,
    /// The worker ids that are held, in order.
    held: Vec<HeldWorkerId>,
    /// Releases of windows that ended at the snowflake floor, until the log has them.
    owed: Vec<Command>,
    demand: WorkerDemand,
    reports: ClockReports,
    status_log: StatusLog,
    jitter: u64,
    renew_at: Instant,
}

impl LeaseTask {
    pub(in crate::service) fn new(
        replica: Arc<Replica>,
        snowflakes: Arc<Snowflakes>,
        clock: Arc<dyn Clock>,
        settings: SnowflakeSettings,
        nonce: u128,
    ) -> Self {
        Self {
            reports: ClockReports { replica: Arc::clone(&replica), clock: Arc::clone(&clock) },
            replica,
            snowflakes,
            clock,
            demand: WorkerDemand::new(&settings),
            status_log: StatusLog::new(settings.format),
            settings,
            nonces: Nonces(nonce),
            held: Vec::new(),
            owed: Vec::new(),
            jitter: nonce as u64,
            renew_at: Instant::now(),
        }
    }

    /// Runs until a stop is asked for, and then returns `None`; or until the node must stop, and then returns the
    /// reason.
    pub(in crate::service) async fn run(
        mut self,
        stopping: oneshot::Receiver<()>,
    ) -> Option<StopReason> {
        tokio::select! {
            why = self.keep() => return Some(why),
            // A sender that is gone asks for a stop as well.
            _ = stopping => {}
        }
        self.release_all().await;
        None
    }

    async fn keep(&mut self) -> StopReason {
        if let Err(why) = cluster_rules::settle(&self.replica, &self.settings).await {
            return StopReason::settings(why);
        }
        let replica = Arc::clone(&self.replica);
        loop {
            let leader = replica.node().leader_id();
            let status = self.turn().await.err().unwrap_or(LeaseStatus::InOrder);
            let clocks_are_unknown = leader.is_some() && self.cluster_now_ms().is_none();
            self.report_status(status);
            let soonest = Instant::now() + TURN_INTERVAL_MIN;
            let called = async {
                tokio::select! {
                    () = self.snowflakes.wanted.notified() => {}
                    () = replica.node().leader_other_than(leader) => {}
                }
                sleep_until(soonest).await;
            };
            let pause = if clocks_are_unknown { TURN_INTERVAL_MIN } else { TURN_INTERVAL };
            let _ = timeout(pause, called).await;
        }
    }

    /// Looks at the clock, the windows and the demand once, and does what is due.
    ///
    /// # Errors
    /// The status that keeps the node from having windows, or soon will.
    async fn turn(&mut self) -> Result<(), LeaseStatus> {
        self.take_note_of_floor().await?;
        let own_ms = self.clock.now_ms();
        let cluster_ms = self.cluster_now_ms().ok_or(LeaseStatus::NoQuorum)?;
        let skew_ms_max = self.settings.max_clock_skew.as_millis();
        if u128::from(own_ms.abs_diff(cluster_ms)) > skew_ms_max {
            self.report_if_due(cluster_ms).await?;
            return Err(LeaseStatus::Skewed { own_ms, cluster_ms });
        }
        self.give_back_out_of_reach().await;
        self.fit_to_demand().await;
        if self.renewal_is_due() {
            self.renew().await?;
        }
        self.acquire_missing().await?;
        self.report_if_due(cluster_ms).await
    }

    /// The cluster's time as this node knows it: the median of the voters' clocks.
    fn cluster_now_ms(&self) -> Option<u64> {
        self.replica.node().median_now_ms()
    }

    /// Whether about half a window has passed, or ids run out sooner because callers took more than the
    /// time brings.
    fn renewal_is_due(&self) -> bool {
        let low_ms = self.settings.window.as_millis() / 3;
        let low = u128::from(self.snowflakes.remaining_ms()) < low_ms;
        !self.held.is_empty() && (low || self.renew_at <= Instant::now())
    }

    /// Renews everything that is held and reports the clock, together.
    async fn renew(&mut self) -> Result<(), LeaseStatus> {
        let window_ms = self.settings.window_ms();
        let renew = |&HeldWorkerId { worker_id, nonce, .. }| Command::RenewWorker {
            worker_id,
            nonce,
            window_ms,
        };
        let mut commands: Vec<Command> = self.held.iter().map(renew).collect();
        commands.push(self.reports.own());
        let responses = self.propose_all(&commands).await?;
        self.renew_at = Instant::now() + self.until_renewal();
        let held = std::mem::take(&mut self.held);
        let mut outcome = Ok(());
        for (held, response) in held.into_iter().zip(responses) {
            outcome = self.go_on(held, response).and(outcome);
        }
        outcome
    }

    /// Goes on with a worker id as the log answered a command about its window.
    fn go_on(&mut self, held: HeldWorkerId, answered: Response) -> Result<(), LeaseStatus> {
        match answered {
            Response::Window { worker_id, floor_ms, fence_ms } => {
                self.install(Window { worker_id, floor_ms, fence_ms }, held.nonce);
            }
            Response::NotHolder => {
                let worker_id = held.worker_id;
                tracing::warn!(worker_id, "the worker id went to another meanwhile");
            }
            // This node learns of the floor soon, takes note of it, and is given more.
            Response::BelowFloor { .. } => {
                self.held.push(held);
                self.renew_at = Instant::now();
            }
            Response::OutOfTime => {
                self.held.push(held);
                return Err(LeaseStatus::OutOfTime);
            }
            other => return Err(self.mixed_up("a command about a held window", &other)),
        }
        Ok(())
    }

    /// About half a window, at random, so that nodes that started together do not renew together for
    /// ever.
    fn until_renewal(&mut self) -> Duration {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = (self.jitter >> 40) as f64 / (1u64 << 24) as f64;
        self.settings.window.mul_f64(0.40 + 0.15 * random)
    }

    /// Takes the worker ids that are missing.
    async fn acquire_missing(&mut self) -> Result<(), LeaseStatus> {
        if !self.settings.worker_ids.is_empty() {
            return self.acquire_pinned().await;
        }
        while self.held.len() < self.demand.wanted() {
            match self.acquire(None).await {
                Ok(()) => {}
                // The worker ids that are held must do for a while.
                Err(LeaseStatus::NoWorkerFree { .. }) if !self.held.is_empty() => {
                    self.demand.refused(self.held.len());
                }
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// Takes each of the configured worker ids that it can get.
    async fn acquire_pinned(&mut self) -> Result<(), LeaseStatus> {
        let mut outcome = Ok(());
        for worker_id in self.settings.worker_ids.clone() {
            if !self.held.iter().any(|held| held.worker_id == worker_id) {
                outcome = self.acquire(Some(worker_id)).await.and(outcome);
            }
        }
        outcome
    }

    async fn acquire(&mut self, worker_id: Option<u16>) -> Result<(), LeaseStatus> {
        let (node_id, nonce, window_ms) =
            (self.node_id(), self.nonces.draw(), self.settings.window_ms());
        let command = Command::AcquireWorker { node_id, nonce, worker_id, window_ms };
        match self.propose(command).await? {
            Response::Window { worker_id, floor_ms, fence_ms } => {
                tracing::info!(worker_id, floor_ms, fence_ms, "holding a worker id");
                let is_first = self.held.is_empty();
                if is_first {
                    self.renew_at = Instant::now() + self.until_renewal();
                }
                self.install(Window { worker_id, floor_ms, fence_ms }, nonce);
                if is_first {
                    // A node whose clock was wrong is ready again before the rest of this turn.
                    self.report_status(LeaseStatus::InOrder);
                }
                Ok(())
            }
            Response::NoWorkerFree { free_from_ms } => {
                Err(LeaseStatus::NoWorkerFree { pinned: worker_id, until_ms: free_from_ms })
            }
            Response::BelowFloor { floor_ms } => Err(LeaseStatus::FloorAhead { floor_ms }),
            Response::OutOfTime => Err(LeaseStatus::OutOfTime),
            other => Err(self.mixed_up("an acquisition", &other)),
        }
    }

    fn install(&mut self, window: Window, nonce: u128) {
        self.snowflakes.install(window);
        let Window { worker_id, floor_ms, .. } = window;
        self.held.retain(|held| held.worker_id != worker_id);
        self.held.push(HeldWorkerId { worker_id, nonce, floor_ms });
        self.held.sort_unstable_by_key(|held| held.worker_id);
    }

    /// Wants one worker id more under sustained demand, and gives one back when it is idle.
    async fn fit_to_demand(&mut self) {
        let now_ms = self.clock.monotonic_ms();
        self.demand.observe(now_ms, self.snowflakes.given(), self.held.len());
        let pinned = !self.settings.worker_ids.is_empty();
        if pinned || self.held.len() <= self.demand.wanted() {
            return;
        }
        let Some(held) = self.held.pop() else { return };
        if let Some(release) = self.end_use(held) {
            tracing::info!(held.worker_id, "giving back a worker id that is not needed");
            // If the release is lost, the worker id is free once its fence has passed.
            let _ = self.propose(release).await;
        }
    }

    /// Gives back windows that begin further ahead than ids may run: the log gave them while the
    /// cluster's clocks were ahead, and they are of no use until that time has come.
    async fn give_back_out_of_reach(&mut self) {
        let out_of_reach = self.snowflakes.out_of_reach();
        let (gone, kept): (Vec<HeldWorkerId>, Vec<HeldWorkerId>) =
            self.held.drain(..).partition(|held| out_of_reach.contains(&held.worker_id));
        self.held = kept;
        for held in gone {
            tracing::warn!(held.worker_id, "giving back a window of the future: clocks were ahead");
            if let Some(release) = self.end_use(held) {
                // If the release is lost, the worker id rests until its fence has passed.
                let _ = self.propose(release).await;
            }
        }
    }

    /// Ends the use of a worker id for good; returns the release to propose afterwards.
    fn end_use(&self, held: HeldWorkerId) -> Option<Command> {
        let HeldWorkerId { worker_id, nonce, .. } = held;
        let unused_from_ms = self.snowflakes.give_up(worker_id)?;
        Some(Command::ReleaseWorker { worker_id, nonce, unused_from_ms })
    }

    async fn release_all(&mut self) {
        let held = std::mem::take(&mut self.held);
        let mut releases = std::mem::take(&mut self.owed);
        releases.extend(held.into_iter().filter_map(|held| self.end_use(held)));
        // Windows of worker ids that the log has given to others end too: nothing comes after a release.
        for window in self.snowflakes.windows() {
            self.snowflakes.give_up(window.worker_id);
        }
        if releases.is_empty() {
            return;
        }
        let deadline = Instant::now() + RELEASE_MAX;
        if let Err(error) = self.replica.propose_all(&releases, deadline).await {
            tracing::info!(%error, "worker ids could not be given back; they expire by themselves");
        }
    }

    async fn report_if_due(&self, cluster_ms: u64) -> Result<(), LeaseStatus> {
        let reports = self.reports.due(cluster_ms);
        if reports.is_empty() {
            return Ok(());
        }
        self.propose_all(&reports).await.map(drop)
    }

    /// Makes the node stop. Until then, nothing is added to what it holds.
    fn mixed_up(&self, what: &str, response: &Response) -> LeaseStatus {
        self.replica.mixed_up(what, response);
        LeaseStatus::NoQuorum
    }

    fn node_id(&self) -> u64 {
        self.replica.node().status().node_id
    }

    fn deadline(&self) -> Instant {
        self.replica.deadline(PROPOSAL_MAX)
    }

    /// Proposes one command, which is applied at most once.
    async fn propose(&self, command: Command) -> Result<Response, LeaseStatus> {
        let proposed = self.replica.propose(&command, self.deadline()).await;
        proposed.map_err(|error| unanswered(&error))
    }

    /// Proposes commands. The log may apply each of them twice.
    async fn propose_all(&self, commands: &[Command]) -> Result<Vec<Response>, LeaseStatus> {
        let proposed = self.replica.propose_all(commands, self.deadline()).await;
        proposed.map_err(|error| unanswered(&error))
    }

    /// Passes the status on to callers, and logs it when an operator has to know.
    fn report_status(&mut self, status: LeaseStatus) {
        let is_new = self.snowflakes.windows().is_empty();
        let status = match status {
            LeaseStatus::NoQuorum if is_new => LeaseStatus::Starting,
            status => status,
        };
        let before = self.snowflakes.report(status.clone());
        let remaining_s = self.snowflakes.remaining_ms() / 1000;
        self.status_log.note(&before, &status, remaining_s);
    }
}

fn unanswered(error: &ProposeError) -> LeaseStatus {
    tracing::debug!(%error, "a command about worker ids was not carried out");
    LeaseStatus::NoQuorum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grant_has_a_name_of_its_own() {
        let mut nonces = Nonces(u128::MAX - 1);
        let drawn: Vec<u128> = (0..4).map(|_| nonces.draw()).collect();
        assert_eq!(drawn, [u128::MAX - 1, u128::MAX, 0, 1]);
    }
}
