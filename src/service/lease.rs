//! The task that keeps this node in windows: it takes worker ids, renews them in time, takes more
//! under sustained demand, and gives them back.
//!
//! Every process start has a nonce of its own and is given new windows; nothing of them is ever
//! written to disk. A renewal is also the report of the node's clock. Between renewals the leader's task
//! reports the clocks of all nodes every few seconds: a commit is the work of all of them, and one
//! is enough.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_raft::{PeerClock, ProposeError, Status, StopReason};
use mintleaf_storage::planted;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::pace::Pace;
use super::snowflakes::{Snowflakes, Trouble};
use crate::clock::Clock;
use crate::replica::Replica;
use crate::snowflake::{SnowflakeSettings, Window};
use crate::state::{Command, Response, WorkerRow};

/// Between two looks at the clock and the windows.
const TURN_INTERVAL: Duration = Duration::from_millis(500);
/// The same while callers wait, who hurry the task.
const TURN_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// How old the report of its clock may be until the leader reports all clocks. That happens at least
/// every 3 s; this leaves time for a turn and a slow commit.
const REPORT_AGE_MS_MAX: u64 = 2_000;
/// The same until another node concludes that the leader leaves it out, and reports its own.
const OWN_REPORT_AGE_MS_MAX: u64 = 2_400;
/// What the leader heard of a clock longer ago is no report of it.
const READING_AGE_MS_MAX: u64 = 1_000;
/// How long a command may take before the next turn looks again.
const PROPOSAL_MAX: Duration = Duration::from_secs(2);
/// How long a stop waits for the quorum to take worker ids back.
const RELEASE_MAX: Duration = Duration::from_secs(1);
/// The same trouble is logged again after this long.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// A node's hold on its worker ids.
pub struct Lease {
    snowflakes: Arc<Snowflakes>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Option<StopReason>>,
}

impl Lease {
    /// Starts the task on the current runtime, under a random nonce that no process start ever had.
    pub fn start(
        replica: Arc<Replica>,
        clock: Arc<dyn Clock>,
        settings: SnowflakeSettings,
        nonce: u128,
    ) -> Self {
        let random = nonce as u64;
        let snowflakes = Arc::new(Snowflakes::new(
            settings.format,
            settings.window_ms(),
            Arc::clone(&clock),
            random,
        ));
        let keeper = Keeper {
            replica,
            snowflakes: Arc::clone(&snowflakes),
            clock,
            pace: Pace::new(settings.format.layout()),
            settings,
            nonces: Nonces(nonce),
            held: Vec::new(),
            jitter: random,
            renew_at: Instant::now(),
            remind_at: Instant::now(),
        };
        let (stop, stopping) = oneshot::channel();
        Self { snowflakes, stop, task: tokio::spawn(keeper.run(stopping)) }
    }

    /// What the windows are used by.
    pub fn snowflakes(&self) -> Arc<Snowflakes> {
        Arc::clone(&self.snowflakes)
    }

    /// Resolves with the reason when the node must stop.
    pub async fn ended(&mut self) -> StopReason {
        match (&mut self.task).await {
            Ok(Some(why)) => why,
            ended => StopReason::restart(format!("the lease task has ended: {ended:?}")),
        }
    }

    /// Ends the ids of this process start and, if the quorum can be reached soon, gives the worker
    /// ids back: the next holder may go on right above the last id.
    pub async fn release(self) {
        // A task that has ended by itself, with nothing to give back, is not there to be told.
        if self.stop.send(()).is_ok() {
            let _ = timeout(RELEASE_MAX + TURN_INTERVAL, self.task).await;
        }
    }
}

/// A worker id that the log has in this process start's name.
#[derive(Clone, Copy, Debug)]
struct Held {
    worker_id: u16,
    /// Names this one grant: a command about an earlier grant that arrives late cannot touch it.
    nonce: u128,
}

/// Names for the grants of one process start. Random at the start, so that no other start comes near;
/// then one more each time.
struct Nonces(u128);

impl Nonces {
    fn draw(&mut self) -> u128 {
        let nonce = self.0;
        if !planted("one-nonce-for-all-grants") {
            self.0 = nonce.wrapping_add(1);
        }
        nonce
    }
}

/// The state of the task.
struct Keeper {
    replica: Arc<Replica>,
    snowflakes: Arc<Snowflakes>,
    clock: Arc<dyn Clock>,
    settings: SnowflakeSettings,
    nonces: Nonces,
    /// By worker id.
    held: Vec<Held>,
    pace: Pace,
    jitter: u64,
    renew_at: Instant,
    remind_at: Instant,
}

impl Keeper {
    /// Runs until it is told to stop, or else until the node must stop, and answers why.
    async fn run(mut self, stopping: oneshot::Receiver<()>) -> Option<StopReason> {
        tokio::select! {
            why = self.keep() => return Some(why),
            // A sender that is gone asks for the same.
            _ = stopping => {}
        }
        self.release_all().await;
        None
    }

    async fn keep(&mut self) -> StopReason {
        if let Err(why) = self.settle_format().await {
            return StopReason::settings(why);
        }
        if planted("window-reused-after-a-restart") {
            self.resume_windows();
        }
        loop {
            let trouble = self.turn().await.err().unwrap_or(Trouble::None);
            self.tell(trouble);
            sleep(TURN_INTERVAL_MIN).await;
            tokio::select! {
                () = sleep(TURN_INTERVAL) => {}
                () = self.snowflakes.wanted.notified() => {}
            }
        }
    }

    /// Goes on with the windows of the process before: only a planted bug does.
    fn resume_windows(&mut self) {
        let (rows, me) = (self.replica.read(|state| state.workers()), self.node_id());
        for row in rows.into_iter().filter(|row| row.node_id == me) {
            let WorkerRow { worker_id, floor_ms, fence_ms, .. } = row;
            self.install(Window { worker_id, floor_ms, fence_ms }, row.nonce.unwrap_or(0));
        }
    }

    /// Makes sure that this node makes ids as its cluster does. What was once settled stays, so
    /// this node's copy of the state will do.
    async fn settle_format(&self) -> Result<(), String> {
        let own = self.settings.format;
        loop {
            let known = self.replica.read(|state| state.format());
            let settled = match known {
                Some(format) => Some(format),
                None => match self.propose(Command::FixFormat { format: own }).await {
                    Ok(Response::Format { format }) => Some(format),
                    _ => None,
                },
            };
            match settled {
                Some(format) if format == own => return Ok(()),
                Some(format) => {
                    return Err(format!(
                        "this node is configured for snowflake ids of {own}, and its cluster makes \
                         them of {format}: start it with --snowflake-layout {} and \
                         --snowflake-epoch-ms {}",
                        format.layout(),
                        format.epoch_ms()
                    ));
                }
                None => sleep(TURN_INTERVAL).await,
            }
        }
    }

    /// Looks once whether all is well, and does what can be done about it.
    async fn turn(&mut self) -> Result<(), Trouble> {
        let own_ms = self.clock.now_ms();
        let cluster_ms = self.cluster_now_ms().ok_or(Trouble::NoQuorum)?;
        let skew_ms_max = self.settings.max_clock_skew.as_millis();
        if u128::from(own_ms.abs_diff(cluster_ms)) > skew_ms_max {
            self.report_if_due(cluster_ms).await?;
            return Err(Trouble::Skewed { own_ms, cluster_ms });
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

    /// Half a window is gone, by any clock or because more was asked for than time has passed.
    fn renewal_is_due(&self) -> bool {
        let low_ms = self.settings.window.as_millis() / 3;
        let low = u128::from(self.snowflakes.remaining_ms()) < low_ms;
        !self.held.is_empty() && (low || self.renew_at <= Instant::now())
    }

    /// Renews everything that is held and reports the clock, together.
    async fn renew(&mut self) -> Result<(), Trouble> {
        let window_ms = self.settings.window_ms();
        let renew =
            |&Held { worker_id, nonce }| Command::RenewWorker { worker_id, nonce, window_ms };
        let mut commands: Vec<Command> = self.held.iter().map(renew).collect();
        commands.push(self.report());
        let responses = self.propose_all(&commands).await?;
        self.renew_at = Instant::now() + self.until_renewal();
        let held = std::mem::take(&mut self.held);
        let mut outcome = Ok(());
        for (held, response) in held.into_iter().zip(responses) {
            match response {
                Response::Window { worker_id, floor_ms, fence_ms } => {
                    self.install(Window { worker_id, floor_ms, fence_ms }, held.nonce);
                }
                Response::NotHolder => {
                    let worker_id = held.worker_id;
                    tracing::warn!(worker_id, "the worker id went to another meanwhile");
                }
                Response::OutOfTime => {
                    self.held.push(held);
                    outcome = Err(Trouble::OutOfTime);
                }
                other => panic!("a renewal was answered with {other:?}"),
            }
        }
        outcome
    }

    /// About half a window, so that nodes that started together do not renew together for ever.
    fn until_renewal(&mut self) -> Duration {
        self.jitter = self.jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = (self.jitter >> 40) as f64 / (1u64 << 24) as f64;
        self.settings.window.mul_f64(0.40 + 0.15 * random)
    }

    /// Takes the worker ids that are missing.
    async fn acquire_missing(&mut self) -> Result<(), Trouble> {
        if !self.settings.worker_ids.is_empty() {
            return self.acquire_pinned().await;
        }
        while self.held.len() < self.pace.wanted() {
            match self.acquire(None).await {
                Ok(()) => {}
                // One more would have been welcome; what is held must do for a while.
                Err(Trouble::NoWorkerFree { .. }) if !self.held.is_empty() => {
                    self.pace.refused(self.held.len());
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Takes each of the worker ids that this node was told to use, as far as it can.
    async fn acquire_pinned(&mut self) -> Result<(), Trouble> {
        let mut outcome = Ok(());
        for worker_id in self.settings.worker_ids.clone() {
            if !self.held.iter().any(|held| held.worker_id == worker_id) {
                outcome = self.acquire(Some(worker_id)).await.and(outcome);
            }
        }
        outcome
    }

    async fn acquire(&mut self, worker_id: Option<u16>) -> Result<(), Trouble> {
        let (node_id, nonce, window_ms) =
            (self.node_id(), self.nonces.draw(), self.settings.window_ms());
        let command = Command::AcquireWorker { node_id, nonce, worker_id, window_ms };
        match self.propose(command).await? {
            Response::Window { worker_id, floor_ms, fence_ms } => {
                tracing::info!(worker_id, floor_ms, fence_ms, "holding a worker id");
                if self.held.is_empty() {
                    self.renew_at = Instant::now() + self.until_renewal();
                }
                self.install(Window { worker_id, floor_ms, fence_ms }, nonce);
                Ok(())
            }
            Response::NoWorkerFree { free_from_ms } => {
                Err(Trouble::NoWorkerFree { pinned: worker_id, until_ms: free_from_ms })
            }
            Response::OutOfTime => Err(Trouble::OutOfTime),
            other => panic!("an acquisition was answered with {other:?}"),
        }
    }

    fn install(&mut self, window: Window, nonce: u128) {
        self.snowflakes.install(window);
        self.held.retain(|held| held.worker_id != window.worker_id);
        self.held.push(Held { worker_id: window.worker_id, nonce });
        self.held.sort_unstable_by_key(|held| held.worker_id);
    }

    /// Wants one worker id more under sustained demand, and gives one back when it is idle.
    async fn fit_to_demand(&mut self) {
        let now_ms = self.clock.monotonic_ms();
        self.pace.observe(now_ms, self.snowflakes.given(), self.held.len());
        let pinned = !self.settings.worker_ids.is_empty();
        if pinned || self.held.len() <= self.pace.wanted() {
            return;
        }
        let Some(held) = self.held.pop() else { return };
        if let Some(release) = self.end_use(held) {
            tracing::info!(held.worker_id, "giving back a worker id that is not needed");
            // Should it not arrive, the worker id is free once its fence has passed.
            let _ = self.propose(release).await;
        }
    }

    /// Gives back windows that begin further ahead than ids may run: they were given while the
    /// clocks of the cluster were ahead, and are of no use before they are there again.
    async fn give_back_out_of_reach(&mut self) {
        let out_of_reach = self.snowflakes.out_of_reach();
        let (gone, kept): (Vec<Held>, Vec<Held>) =
            self.held.drain(..).partition(|held| out_of_reach.contains(&held.worker_id));
        self.held = kept;
        for held in gone {
            tracing::warn!(held.worker_id, "giving back a window of the future: clocks were ahead");
            if let Some(release) = self.end_use(held) {
                // Should it not arrive, the worker id rests until its fence has passed.
                let _ = self.propose(release).await;
            }
        }
    }

    /// Ends the use of a worker id, for good, before that is told to the log.
    fn end_use(&self, held: Held) -> Option<Command> {
        let Held { worker_id, nonce } = held;
        let unused_from_ms = self.snowflakes.give_up(worker_id)?;
        Some(Command::ReleaseWorker { worker_id, nonce, unused_from_ms })
    }

    async fn release_all(&mut self) {
        let held = std::mem::take(&mut self.held);
        let releases: Vec<Command> =
            held.into_iter().filter_map(|held| self.end_use(held)).collect();
        // What is not held in the log any more ends too: nothing comes after a release.
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

    async fn report_if_due(&self, cluster_ms: u64) -> Result<(), Trouble> {
        let status = self.replica.node().status();
        let leads = status.leader_id == Some(status.node_id);
        let age_ms_max = if leads { REPORT_AGE_MS_MAX } else { OWN_REPORT_AGE_MS_MAX };
        let last = self.replica.read(|state| state.reports().get(&status.node_id).copied());
        // The cluster's time may have gone back since.
        let age_ms = last.map(|report| report.stamped_ms.abs_diff(cluster_ms));
        if age_ms.is_some_and(|age_ms| age_ms < age_ms_max) {
            return Ok(());
        }
        let mut reports = vec![self.report()];
        if leads {
            reports.extend(self.reports_of_others(&status));
        }
        self.propose_all(&reports).await.map(drop)
    }

    /// What the other members' clocks show, as far as they were heard just now.
    fn reports_of_others(&self, status: &Status) -> Vec<Command> {
        let own_ms = self.clock.now_ms();
        let mut clocks = self.replica.node().clocks();
        clocks.retain(|clock| clock.age_ms <= READING_AGE_MS_MAX);
        clocks.retain(|clock| status.members.iter().any(|member| member.id == clock.node_id));
        let report = |clock: PeerClock| Command::ReportClock {
            node_id: clock.node_id,
            clock_ms: own_ms.saturating_add_signed(clock.offset_ms),
        };
        clocks.into_iter().map(report).collect()
    }

    fn report(&self) -> Command {
        Command::ReportClock { node_id: self.node_id(), clock_ms: self.clock.now_ms() }
    }

    fn node_id(&self) -> u64 {
        self.replica.node().status().node_id
    }

    /// One command, applied at most once.
    async fn propose(&self, command: Command) -> Result<Response, Trouble> {
        let proposed = self.replica.propose(&command, Instant::now() + PROPOSAL_MAX).await;
        proposed.map_err(|error| unanswered(&error))
    }

    /// Commands that may be applied twice.
    async fn propose_all(&self, commands: &[Command]) -> Result<Vec<Response>, Trouble> {
        let proposed = self.replica.propose_all(commands, Instant::now() + PROPOSAL_MAX).await;
        proposed.map_err(|error| unanswered(&error))
    }

    /// Passes on how things are, and logs what an operator has to know: changes, and reminders.
    fn tell(&mut self, trouble: Trouble) {
        let is_new = self.snowflakes.windows().is_empty();
        let trouble = match trouble {
            Trouble::NoQuorum if is_new => Trouble::Starting,
            trouble => trouble,
        };
        let before = self.snowflakes.tell(trouble.clone());
        let changed = std::mem::discriminant(&before) != std::mem::discriminant(&trouble);
        if !changed && self.remind_at > Instant::now() {
            return;
        }
        self.remind_at = Instant::now() + REMINDER_INTERVAL;
        let remaining_s = self.snowflakes.remaining_ms() / 1000;
        match &trouble {
            Trouble::None if changed => tracing::info!(remaining_s, "snowflake ids are in order"),
            Trouble::None | Trouble::Starting => {}
            Trouble::Skewed { own_ms, cluster_ms } => tracing::error!(
                own_ms,
                cluster_ms,
                remaining_s,
                "this node's clock is wrong: it is given no worker id until it is right"
            ),
            Trouble::NoQuorum => tracing::warn!(remaining_s, "no quorum renews the worker ids"),
            Trouble::NoWorkerFree { .. } => {
                tracing::error!(remaining_s, "no worker id: {}", trouble.told());
            }
            Trouble::OutOfTime => tracing::error!(
                remaining_s, format = %self.settings.format,
                "snowflake ids cannot show the cluster's time any more"
            ),
        }
    }
}

fn unanswered(error: &ProposeError) -> Trouble {
    tracing::debug!(%error, "a command about worker ids was not carried out");
    Trouble::NoQuorum
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
