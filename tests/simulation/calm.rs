//! A run in a bad climate without faults: a cluster forms, keeps its leader, and serves as fast as round trips
//! and syncs allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mintleaf::service::{Actor, TagSpec};
use mintleaf_core::tag::BizTag;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::climate::{Climate, HAND_OVER_MAX};
use crate::machine::{Machine, Serving};
use crate::ordeal::{FORMING_MAX, HEALING_MAX, Ordeal};

const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The shortest time that a cluster is watched after it has formed.
const WATCHED: Duration = Duration::from_secs(60);
/// The same, as a number of changes that are made one after another at one node.
const CHANGES_WATCHED: u32 = 12;
/// How many changes determine the median, at the leader and at each other node: enough that it does not show the lost
/// packets of a link that loses one in a hundred.
const SAMPLES: usize = 7;
/// A concurrent change may wait for the changes that are under way and, at a follower, for the messages that
/// its commit is known by. Each of these waits takes as long as the change itself.
const BEHIND_OTHERS: u32 = 3;
/// Longer than any change may take. Its outcome is unknown then.
const CHANGE_MAX: Duration = Duration::from_secs(60);
/// How many changes all nodes together make in the time of a sync. A follower writes at most 1,024 entries with each
/// sync, those of changes and of clients, so it keeps up with these.
const CHANGES_A_SYNC: u32 = 500;
/// Pause between two plain ids of a node, and the longest time that it may be without one.
const ID_INTERVAL: Duration = Duration::from_millis(100);
const PLAIN: &str = "calm";

/// A term and its leader.
pub(crate) type Leadership = (u64, u64);

impl Ordeal {
    /// Judges a cluster that was just started, without any fault.
    pub(crate) async fn stay_calm(&self) {
        let clients = self.clients("clients");
        self.form().await;
        self.serves_within(FORMING_MAX, &clients).await;
        if self.site.trace.is_broken() {
            return;
        }
        let Some((_, leader)) = self.leadership() else {
            return self.site.trace.violation("every node serves, and none leads");
        };
        let climate = self.site.sky.turn_at(leader);
        self.site.trace.note(format_args!("node {leader} leads in the climate: {climate}"));
        if self.hand_over(climate).await.is_none() {
            let what = format!("node {leader} leads {HAND_OVER_MAX:?} after it alone is bad");
            return self.site.trace.violation(&what);
        }
        // The remaining leader has taken over once a change succeeds.
        let nodes = self.machines.len() as u64;
        sleep(climate.change_max(leader, leader, nodes)).await;
        let Some(before) = self.leadership() else {
            return self.site.trace.violation("no node leads, though nothing goes wrong");
        };
        self.measure(climate, before.1).await;
        let running = clients.start();
        self.press(climate, before).await;
        clients.stop();
        drop(running.join_all().await);
        self.serves_within(HEALING_MAX, &clients).await;
        self.judge_the_end(&clients).await;
    }

    /// Waits until every node reports that it is ready.
    async fn form(&self) {
        let max = self.site.sky.now().forming_max();
        let formed = timeout(max, async {
            for machine in &self.machines {
                while !machine.serving().is_some_and(|one| one.services.cluster.readiness().ready) {
                    sleep(LOOK_INTERVAL).await;
                }
            }
        });
        let formed = formed.await.is_ok();
        self.site.trace.note(format_args!("the cluster has formed: {formed}"));
        if !formed {
            self.site.trace.violation(&format!("the cluster has not formed after {max:?}"));
        }
    }

    /// The latest leadership that any node knows: the term and the leader.
    pub(crate) fn leadership(&self) -> Option<Leadership> {
        let known = self.machines.iter().filter_map(|machine| {
            let status = machine.serving()?.replica.node().status();
            Some((status.term, status.leader_id?))
        });
        known.max()
    }

    /// Waits until a node leads that may lead.
    async fn hand_over(&self, climate: Climate) -> Option<()> {
        let began = Instant::now();
        let handed = timeout(HAND_OVER_MAX, async {
            while !self.leadership().is_some_and(|(_, leader)| climate.may_lead(leader)) {
                sleep(LOOK_INTERVAL).await;
            }
        });
        let handed = handed.await.ok();
        self.site.trace.note(format_args!("a node that may lead does after {:?}", began.elapsed()));
        handed
    }

    /// Makes some changes one after another at each node, and judges their time.
    async fn measure(&self, climate: Climate, leader: u64) {
        for machine in &self.machines {
            let Some(serving) = machine.serving() else { continue };
            let id = machine.node_id;
            let max = climate.change_max(leader, id, self.machines.len() as u64);
            let mut took =
                self.change_some(&serving, climate, leader, &format!("quiet-{id}")).await;
            if !is_quick(&took, max) {
                // Right after the forming, renewed windows and reported clocks may have held up every second change.
                self.site.trace.note(format_args!("changes at node {id}: {took:?}, once more"));
                took = self.change_some(&serving, climate, leader, &format!("again-{id}")).await;
            }
            self.site.trace.note(format_args!("changes at node {id}: {took:?}, at most {max:?}"));
            if !is_quick(&took, max) {
                let what =
                    format!("a change at node {id} takes {took:?} under {leader}, not {max:?}");
                self.site.trace.violation(&what);
            }
        }
    }

    /// Makes some changes one after another at a node. Returns how long they took, the shortest time first.
    async fn change_some(
        &self,
        serving: &Serving,
        climate: Climate,
        leader: u64,
        name: &str,
    ) -> Vec<Duration> {
        let mut took = Vec::new();
        for number in 0..SAMPLES {
            let began = Instant::now();
            if change(serving, &format!("{name}-{number}")).await {
                took.push(began.elapsed());
            }
            // Writes that are still under way elsewhere must not count for the next change.
            sleep(climate.change_max(leader, leader, self.machines.len() as u64)).await;
        }
        took.sort_unstable();
        took
    }

    /// Watches the leadership while every node makes changes and gives ids.
    async fn press(&self, climate: Climate, before: Leadership) {
        let nodes = self.machines.len() as u64;
        let slowest = (1..=nodes).map(|at| climate.change_max(before.1, at, nodes)).max();
        let watched = WATCHED.max(slowest.unwrap_or_default() * CHANGES_WATCHED);
        let until = Instant::now() + watched;
        let mut working = JoinSet::new();
        let done: Vec<Arc<AtomicU64>> = self.machines.iter().map(|_| Arc::default()).collect();
        let pace =
            LOOK_INTERVAL.max(climate.slowest_sync() * self.machines.len() as u32 / CHANGES_A_SYNC);
        for (machine, done) in self.machines.iter().zip(&done) {
            working.spawn(make_changes(Arc::clone(machine), until, pace, Arc::clone(done)));
            working.spawn(give_ids(Arc::clone(machine), until));
        }
        while Instant::now() < until {
            sleep(LOOK_INTERVAL).await;
            if let Some(now) = self.leadership().filter(|now| *now != before) {
                let what =
                    format!("{before:?} became {now:?} (term, leader) though nothing goes wrong");
                self.site.trace.violation(&what);
                break;
            }
        }
        working.abort_all();
        for (machine, done) in self.machines.iter().zip(&done) {
            let (id, done) = (machine.node_id, done.load(Ordering::Relaxed));
            let each = climate.change_max(before.1, id, nodes) * BEHIND_OTHERS;
            let least = watched.as_micros() / each.as_micros();
            self.site.trace.note(format_args!("{done} changes at node {id} in {watched:?}"));
            if u128::from(done) < least && !self.site.trace.is_broken() {
                let what = format!("{done} changes at node {id} in {watched:?}, not {least}");
                self.site.trace.violation(&what);
            }
        }
    }
}

/// Whether the median of these times is within `max`. An attempt without an answer counts as one that took longer.
fn is_quick(took: &[Duration], max: Duration) -> bool {
    took.get(SAMPLES / 2).is_some_and(|median| *median <= max)
}

/// Makes one change; false when it was not acknowledged.
async fn change(serving: &Serving, name: &str) -> bool {
    let tag = BizTag::parse(name).expect("a possible name");
    let (actor, spec) = (Actor::default(), TagSpec { step: Some(10), ..TagSpec::default() });
    let made = serving.process.run(serving.services.tags.create(&actor, tag, spec));
    matches!(timeout(CHANGE_MAX, made).await, Ok(Ok(_)))
}

/// Makes one change after another, with a pause of `pace` between two.
async fn make_changes(machine: Arc<Machine>, until: Instant, pace: Duration, done: Arc<AtomicU64>) {
    for number in 0.. {
        if Instant::now() >= until {
            return;
        }
        let Some(serving) = machine.serving() else { return };
        if change(&serving, &format!("pressed-{}-{number}", machine.node_id)).await {
            done.fetch_add(1, Ordering::Relaxed);
        }
        // A refusal may come at once.
        sleep(pace).await;
    }
}

/// Takes ids from what a node holds. Once it holds some, it must always hold some.
async fn give_ids(machine: Arc<Machine>, until: Instant) {
    let Some(serving) = machine.serving() else { return };
    while serving.process.run(serving.services.ids.take(PLAIN, 1)).await.is_err() {
        sleep(ID_INTERVAL).await;
    }
    let mut next = Instant::now();
    while next < until {
        next += ID_INTERVAL;
        sleep_until(next).await;
        if serving.services.ids.next_now(PLAIN).is_none() {
            let what = format!("node {} holds no plain id any more", machine.node_id);
            return machine.site.trace.violation(&what);
        }
    }
}
