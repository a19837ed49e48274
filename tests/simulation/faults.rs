//! Random faults, and their healing.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::Actor;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::disk::DiskFault;
use crate::machine::{Machine, Site};
use crate::net::{Conditions, Granted};
use crate::random::Random;
use crate::replacement::{put_down, replace};

/// Longest time from the healing to a leader with a quorum. It usually takes half a second. Timers follow the round trips
/// that nodes have measured, so it takes longer after a network with delays of two seconds: a leader without a quorum is
/// silent for two election timeouts at a time.
const ELECTION_MAX: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time from the failure of a disk to the stop of its node.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Longest time that the replacement of a node takes without faults.
const REPLACEMENT_MAX: Duration = Duration::from_secs(30);
/// The least age of an image of a running node when it is restored. By then its peers have seen a later
/// incarnation of the store.
const IMAGE_AGE_MIN: Duration = Duration::from_secs(6);
/// How long a trap waits for a vote, and how long the candidate is isolated after it.
const TRAP_MAX: Duration = Duration::from_secs(6);
const ISOLATION: Duration = Duration::from_millis(1_500);
/// Longest time until a node that was restored from an old image is refused.
const REFUSAL_MAX: Duration = Duration::from_secs(5);

/// Injects faults into a cluster.
pub(crate) struct Faults {
    site: Arc<Site>,
    machines: Vec<Arc<Machine>>,
    random: Random,
    /// Offsets that clocks have had, so that a clock can be set back to one of them.
    clock_offsets_ms: Mutex<Vec<i64>>,
    /// The node replacement that is under way.
    replacing: Mutex<Option<JoinHandle<()>>>,
}

impl Faults {
    pub(crate) fn new(site: Arc<Site>, machines: Vec<Arc<Machine>>, random: Random) -> Self {
        let (clock_offsets_ms, replacing) = Default::default();
        Self { site, machines, random, clock_offsets_ms, replacing }
    }

    fn any(&self) -> &Arc<Machine> {
        &self.machines[self.random.within(0..self.machines.len() as u64) as usize]
    }

    /// Injects one fault after another until the given time.
    pub(crate) async fn inject(&self, until: Instant) {
        loop {
            let pause = Duration::from_millis(self.random.within(50..2_500));
            if Instant::now() + pause >= until {
                return sleep_until(until).await;
            }
            sleep(pause).await;
            match self.random.within(0..100) {
                0..20 => self.cut(),
                20..32 => self.change_conditions(),
                32..42 => self.calm(),
                42..51 => self.crash(),
                51..54 => self.trap_a_vote(),
                54..56 => self.pause(),
                56..59 => self.crash_all(),
                59..64 => self.stop(),
                64..71 => self.fail_disk(),
                71..86 => self.set_clock(),
                86..91 => self.start_all(),
                91..95 => self.replace_any(),
                _ => self.transfer_leadership(),
            }
        }
    }

    fn cut(&self) {
        let (one, other) = (self.any().node_id, self.any().node_id);
        let conditions = &mut *self.site.net.conditions.lock();
        match self.random.within(0..3) {
            0 => {
                conditions.cut.insert((one, other));
                self.site.trace.fault("one-way cut", format_args!("{one}>{other}"));
            }
            1 => {
                conditions.cut.extend([(one, other), (other, one)]);
                self.site.trace.fault("cut", format_args!("{one}={other}"));
            }
            _ => {
                let others = self.machines.iter().map(|machine| machine.node_id);
                for other in others.filter(|other| *other != one) {
                    conditions.cut.extend([(one, other), (other, one)]);
                }
                self.site.trace.fault("isolation", format_args!("{one}"));
            }
        }
    }

    fn change_conditions(&self) {
        let conditions = &mut *self.site.net.conditions.lock();
        conditions.loss = self.random.pick(&[0, 1, 5, 20, 50]);
        conditions.doubled = self.random.pick(&[0, 5, 30]);
        conditions.flipped = self.random.pick(&[0, 0, 2, 20]);
        conditions.delay_us_max = self.random.pick(&[0, 10_000, 100_000, 400_000, 2_000_000]);
        let Conditions { loss, doubled, flipped, delay_us_max, .. } = *conditions;
        let detail = format_args!(
            "loss {loss}% doubled {doubled}% flipped {flipped}‰ delay {delay_us_max} us"
        );
        self.site.trace.fault("bad network", detail);
    }

    fn calm(&self) {
        *self.site.net.conditions.lock() = Conditions::default();
        self.site.trace.note(format_args!("the network is well"));
    }

    fn crash(&self) {
        let machine = Arc::clone(self.any());
        if !machine.is_up() {
            return;
        }
        let lost = machine.crash();
        self.site.trace.fault("crash", format_args!("{} lost {lost}", machine.node_id));
        self.start_later(machine);
    }

    fn crash_all(&self) {
        for machine in &self.machines {
            let lost = machine.crash();
            self.site.trace.note(format_args!("node {} down, lost {lost}", machine.node_id));
            self.start_later(Arc::clone(machine));
        }
        self.site.trace.fault("crash of all", format_args!(""));
    }

    /// Crashes a voter as soon as its vote has arrived, isolates the candidate, and restarts the former leader
    /// at the same moment. A voter that forgot its vote would vote a second time.
    fn trap_a_vote(&self) {
        let serving = self.machines.iter().find_map(|machine| machine.serving());
        let leader_id = serving.and_then(|serving| serving.services.cluster.view().leader_id);
        let leader = self.machines.iter().find(|machine| Some(machine.node_id) == leader_id);
        let Some(leader) = leader.cloned() else { return };
        self.site.trace.fault("vote trap", format_args!("leader {}", leader.node_id));
        leader.crash();
        let granted = self.site.net.next_vote();
        let (site, machines) = (Arc::clone(&self.site), self.machines.clone());
        tokio::spawn(async move {
            if let Ok(Ok(Granted { voter, candidate })) = timeout(TRAP_MAX, granted).await {
                site.trace.note(format_args!("the vote of {voter} for {candidate} is lost"));
                let others = machines.iter().map(|machine| machine.node_id);
                let links = others.flat_map(|other| [(candidate, other), (other, candidate)]);
                site.net.conditions.lock().cut.extend(links);
                let voter = machines.iter().find(|machine| machine.node_id == voter);
                if let Some(voter) = voter {
                    voter.disk.lose_unsynced();
                    voter.crash();
                    voter.start();
                }
                leader.start();
                sleep(ISOLATION).await;
                site.net.conditions.lock().cut.clear();
            } else {
                leader.start();
            }
        });
    }

    /// Pauses a node, for less than an election takes or for much longer.
    fn pause(&self) {
        let (machine, ms) = (self.any(), self.random.pick(&[300, 1_500, 4_000, 15_000]));
        if machine.pause(Duration::from_millis(ms)) {
            self.site.trace.fault("pause", format_args!("{} for {ms} ms", machine.node_id));
        }
    }

    fn stop(&self) {
        let machine = self.any();
        if machine.stop() {
            self.site.trace.fault("clean stop", format_args!("{}", machine.node_id));
        }
    }

    fn start_later(&self, machine: Arc<Machine>) {
        let later = Duration::from_millis(self.random.within(50..6_000));
        tokio::spawn(async move {
            sleep(later).await;
            machine.start();
        });
    }

    fn start_all(&self) {
        self.machines.iter().for_each(Machine::start);
    }

    /// Makes a disk fail, and checks that its node stops soon after.
    fn fail_disk(&self) {
        let machine = Arc::clone(self.any());
        let Some(serving) = machine.serving() else { return };
        machine.resume();
        let fault = self.random.pick(&[DiskFault::Sync, DiskFault::Full]);
        machine.disk.fail(fault);
        let kind = if fault == DiskFault::Sync { "sync error" } else { "disk full" };
        self.site.trace.fault(kind, format_args!("{}", machine.node_id));
        let (trace, mut ended) = (Arc::clone(&self.site.trace), serving.ended);
        tokio::spawn(async move {
            while !machine.disk.has_failed() && !*ended.borrow() {
                sleep(Duration::from_millis(10)).await;
            }
            let max = machine.site.sky.now().stretch(STOP_MAX);
            if timeout(max, ended.wait_for(|ended| *ended)).await.is_err() {
                let id = machine.node_id;
                trace.violation(&format!("node {id} goes on though its disk has failed"));
            }
        });
    }

    /// Sets a clock by a little, by a lot, or to about an offset that a clock had before, so that used
    /// milliseconds come again.
    fn set_clock(&self) {
        let machine = self.any();
        let now_ms = machine.clock.offset();
        let step_ms = |range| {
            let ms = self.random.within(range) as i64;
            if self.random.chance(50) { -ms } else { ms }
        };
        let mut seen = self.clock_offsets_ms.lock();
        seen.push(now_ms);
        let offset_ms = match self.random.within(0..10) {
            0..4 => now_ms + step_ms(1..100),
            4..6 => now_ms + step_ms(1..5_000),
            6 => now_ms + step_ms(1..400 * 24 * 3_600_000),
            7 => 0,
            _ => self.random.pick(&seen) + step_ms(0..10),
        };
        machine.clock.set_offset(offset_ms);
        let detail = format_args!("{} from {now_ms} to {offset_ms} ms", machine.node_id);
        self.site.trace.fault("clock set", detail);
    }

    fn transfer_leadership(&self) {
        let (asked, target) = (self.any(), self.any().node_id);
        let Some(serving) = asked.serving() else { return };
        self.site.trace.fault("handover", format_args!("to {target}"));
        tokio::spawn(async move {
            // The transfer may fail because of other faults.
            drop(
                timeout(
                    Duration::from_secs(5),
                    serving.services.cluster.transfer_leader(Actor::default(), target),
                )
                .await,
            );
        });
    }

    /// Replaces a node, unless a replacement is under way.
    fn replace_any(&self) {
        let mut replacing = self.replacing.lock();
        if replacing.as_ref().is_none_or(JoinHandle::is_finished) {
            let target = Arc::clone(self.any());
            self.site.trace.fault("replacement", format_args!("{}", target.node_id));
            *replacing = Some(tokio::spawn(replace(target, self.machines.clone())));
        }
    }

    /// Ends every fault.
    pub(crate) async fn heal(&self) {
        self.site.net.disarm();
        self.calm();
        for machine in &self.machines {
            machine.disk.heal();
            machine.resume();
            machine.clock.set_offset(self.random.within(0..1_000) as i64 - 500);
            machine.start();
        }
        self.site.trace.note(format_args!("healed"));
        self.elect().await;
        let replacing = self.replacing.lock().take();
        if let Some(replacing) = replacing {
            self.finish(replacing).await;
        }
    }

    /// Checks that a node with a quorum leads soon.
    async fn elect(&self) {
        let healed = Instant::now();
        let leads = |machine: &Arc<Machine>| {
            let status = machine.serving()?.replica.node().status();
            (status.leader_id == Some(machine.node_id)).then_some(())
        };
        let max = self.site.sky.now().stretch(ELECTION_MAX);
        let elected = timeout(max, async {
            while !self.machines.iter().any(|machine| leads(machine).is_some()) {
                sleep(LOOK_INTERVAL).await;
            }
        });
        if elected.await.is_err() {
            let what = format!("no node leads {max:?} after all faults have ended");
            self.site.trace.violation(&what);
        }
        let took_ms = healed.elapsed().as_millis();
        self.site.trace.note(format_args!("a node leads after {took_ms} ms"));
    }

    async fn finish(&self, replacing: JoinHandle<()>) {
        let max = self.site.sky.now().stretch(REPLACEMENT_MAX);
        if timeout(max, replacing).await.is_err() {
            self.site.trace.violation("a node cannot be replaced, though nothing is wrong");
        }
    }

    /// Restores one node from an image of its disk. The image was taken some time before the node went down,
    /// while it was running or not. The node's peers must refuse it, even if it is started many times before it
    /// meets them.
    pub(crate) async fn restore_an_old_image(&self) {
        let machine = self.any();
        let was_running = self.random.chance(50);
        if !was_running {
            put_down(machine).await;
        }
        let backup = machine.backup();
        machine.start();
        sleep(IMAGE_AGE_MIN).await;
        put_down(machine).await;
        machine.restore(backup);
        let starts_alone = self.random.within(0..4);
        let detail = format_args!("{} running {was_running} alone {starts_alone}", machine.node_id);
        self.site.trace.fault("old image", detail);
        for _ in 0..starts_alone {
            self.start_alone(machine).await;
        }
        let before = machine.stops().len();
        machine.start();
        sleep(REFUSAL_MAX).await;
        let refused = machine.stops().iter().skip(before).any(|why| why.contains("wipe"));
        if !refused || machine.serving().is_some() {
            let id = machine.node_id;
            self.site.trace.violation(&format!("node {id} runs on an old image"));
        }
        self.finish(tokio::spawn(replace(Arc::clone(machine), self.machines.clone()))).await;
    }

    /// Changes a bit of one node's snapshot. The node must refuse to start.
    pub(crate) async fn damage_a_snapshot(&self) {
        let machine = self.any();
        put_down(machine).await;
        if !machine.damage_snapshot(self.random.next()) {
            return machine.start();
        }
        self.site.trace.fault("bit flipped in a snapshot", format_args!("{}", machine.node_id));
        machine.start();
        sleep(REFUSAL_MAX).await;
        if machine.serving().is_some() {
            let id = machine.node_id;
            self.site.trace.violation(&format!("node {id} runs on a damaged snapshot"));
        }
        self.finish(tokio::spawn(replace(Arc::clone(machine), self.machines.clone()))).await;
    }

    /// Starts an isolated node, and stops it again.
    async fn start_alone(&self, machine: &Arc<Machine>) {
        let others = self.machines.iter().map(|other| other.node_id);
        let id = machine.node_id;
        let links =
            others.filter(|other| *other != id).flat_map(|other| [(id, other), (other, id)]);
        self.site.net.conditions.lock().cut.extend(links);
        machine.start();
        sleep(Duration::from_millis(self.random.within(500..4_000))).await;
        put_down(machine).await;
        self.calm();
    }
}
