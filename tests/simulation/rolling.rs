//! Nodes that are upgraded one after the other, under load. Each drains, stops, and starts with a build that
//! supports the next level; some go back to the previous build. The level rises once every node supports it,
//! and not before.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, Error};
use mintleaf_core::state::{LEVEL_MAX, State};
use tokio::time::{Instant, sleep, timeout};

use crate::clients::Clients;
use crate::machine::{Machine, Serving};
use crate::ordeal::{HEALING_MAX, Ordeal};
use crate::random::Random;

/// The level that the later build supports and the earlier one does not.
const NEXT_LEVEL: u32 = LEVEL_MAX + 1;
/// How long a node drains, and how long it is watched.
const DRAIN: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_millis(4_500);
/// How long a node that drains may lead. Voters may elect it, and a transfer that was asked for earlier may make it the
/// leader: it hands that over as well.
const LEADS_MAX: Duration = Duration::from_secs(2);
/// The longest time until a node that was stopped serves again.
const BACK_MAX: Duration = Duration::from_secs(15);
/// The longest time of one request to raise the level, and of all of them together once all nodes support it.
const RAISE_MAX: Duration = Duration::from_secs(5);
const RAISED_MAX: Duration = Duration::from_secs(15);
/// The time within which a build that is too old must refuse its data.
const REFUSAL_MAX: Duration = Duration::from_secs(5);
/// The longest time of a grab at a node while another one drains. A slow disk may delay it.
const GRAB_MAX: Duration = Duration::from_secs(4);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Upgrades every node of a running cluster, and raises its level.
pub(crate) async fn roll(cluster: &Ordeal, random: &Random) {
    let clients = cluster.clients("clients while nodes roll");
    let running = clients.start();
    let delay_us_max = random.pick(&[0, 0, 10_000]);
    cluster.site.net.conditions.lock().delay_us_max = delay_us_max;
    Roll { cluster, clients: &clients, random }.carry_out().await;
    cluster.site.net.conditions.lock().delay_us_max = 0;
    cluster.serves_within(HEALING_MAX, &clients).await;
    clients.stop();
    drop(running.join_all().await);
    cluster.judge_the_end(&clients).await;
}

struct Roll<'a> {
    cluster: &'a Ordeal,
    clients: &'a Clients,
    random: &'a Random,
}

impl Roll<'_> {
    async fn carry_out(&self) {
        let mut later: Vec<Arc<Machine>> = self.cluster.machines.clone();
        while !later.is_empty() {
            let machine = later.swap_remove(self.random.within(0..later.len() as u64) as usize);
            self.replace_build(&machine, NEXT_LEVEL).await;
            if !later.is_empty() {
                self.raise_in_vain().await;
            }
            if !later.is_empty() && self.random.chance(30) {
                self.replace_build(&machine, LEVEL_MAX).await;
                later.push(machine);
            }
        }
        self.raise().await;
        self.start_the_old_build().await;
    }

    /// Stops a node, usually by draining it, and starts it with a build that supports `level`.
    async fn replace_build(&self, machine: &Arc<Machine>, level: u32) {
        let (id, trace) = (machine.node_id, &self.cluster.site.trace);
        let before = machine.serving().map(|serving| serving.incarnation);
        machine.install(level);
        if self.random.chance(80) {
            trace.fault("drain", format_args!("{id}, then level {level}"));
            self.drain(machine).await;
        } else {
            trace.fault("crash for another build", format_args!("{id}, then level {level}"));
            machine.crash();
            machine.start();
        }
        let is_back = async {
            loop {
                let now = machine.serving().map(|serving| serving.incarnation);
                if now.is_some() && now != before {
                    return;
                }
                sleep(LOOK_INTERVAL).await;
            }
        };
        if timeout(BACK_MAX, is_back).await.is_err() {
            let why = machine.stops();
            trace.violation(&format!("node {id} does not come back with level {level}: {why:?}"));
        }
    }

    /// Drains a node. It must hand leadership over, and all other nodes must continue to serve.
    async fn drain(&self, machine: &Arc<Machine>) {
        let Some(serving) = machine.serving() else { return machine.start() };
        let id = machine.node_id;
        machine.drain(DRAIN);
        let status = || serving.replica.node().status();
        let leads = || !*serving.ended.borrow() && status().leader_id == Some(id);
        let serves = async {
            loop {
                self.grab_elsewhere(id).await;
                sleep(LOOK_INTERVAL).await;
            }
        };
        let mut leads_since = None;
        let hands_over = async {
            loop {
                leads_since = leads().then(|| leads_since.unwrap_or_else(Instant::now));
                sleep(LOOK_INTERVAL).await;
            }
        };
        let _ = timeout(WATCHED, async { tokio::join!(serves, hands_over) }).await;
        if leads_since.is_some_and(|since| since.elapsed() > LEADS_MAX) && leads() {
            let what = format!("node {id} is about to end and leads: {:?}", status().members);
            self.cluster.site.trace.violation(&what);
        }
    }

    /// Takes an id of a new tag at every node but one. The caller repeats the request, because the service lets
    /// it wait for only two seconds.
    async fn grab_elsewhere(&self, id: u64) {
        for machine in self.cluster.machines.iter().filter(|machine| machine.node_id != id) {
            let Some(serving) = machine.serving() else { continue };
            let tag = format!("rolled-{}", self.random.next());
            let grab = async {
                loop {
                    match self.clients.take(&serving, &tag, 1).await {
                        Err(Error::Unavailable(_)) => sleep(LOOK_INTERVAL).await,
                        outcome => return outcome,
                    }
                }
            };
            let outcome = timeout(GRAB_MAX, grab).await;
            if !matches!(outcome, Ok(Ok(()))) {
                let what = format!(
                    "node {} grabs nothing within {GRAB_MAX:?} while {id} drains: {outcome:?}",
                    machine.node_id
                );
                return self.cluster.site.trace.violation(&what);
            }
        }
    }

    fn any_serving(&self) -> Option<Serving> {
        let machines = &self.cluster.machines;
        let first = self.random.within(0..machines.len() as u64) as usize;
        let mut turn = machines.iter().cycle().skip(first).take(machines.len());
        turn.find_map(|machine| machine.serving())
    }

    async fn ask_to_raise(&self) -> Option<Result<(), Error>> {
        let serving = self.any_serving()?;
        let raised = serving.services.cluster.raise_level(Actor::default());
        let answer = timeout(RAISE_MAX, raised).await.ok()?.map(drop);
        self.cluster.site.trace.note(format_args!("the level shall rise: {answer:?}"));
        Some(answer)
    }

    /// Asks for the next level while some node does not support it. The judge knows of each command that raises it.
    async fn raise_in_vain(&self) {
        // A cluster that began below the level of its build may still rise to that level.
        let _ = self.ask_to_raise().await;
        let levels = self.cluster.machines.iter().filter_map(|machine| machine.serving());
        if levels.map(|one| one.replica.read(State::level)).any(|level| level == NEXT_LEVEL) {
            self.cluster.site.trace.violation("a level was raised that some node does not support");
        }
    }

    /// Asks for the next level, which every node supports, until it is there at every node.
    async fn raise(&self) {
        let has_risen = |machine: &Arc<Machine>| {
            machine.serving().is_some_and(|one| one.replica.read(State::level) == NEXT_LEVEL)
        };
        let raised = timeout(RAISED_MAX, async {
            while !matches!(self.ask_to_raise().await, Some(Ok(()))) {
                sleep(LOOK_INTERVAL).await;
            }
            while !self.cluster.machines.iter().all(has_risen) {
                sleep(LOOK_INTERVAL).await;
            }
        });
        if raised.await.is_err() {
            let what = "the level does not rise, though every node supports the next one";
            self.cluster.site.trace.violation(what);
        }
    }

    /// Starts one node with the previous build, by mistake. The build must not run on a log that it may not understand.
    async fn start_the_old_build(&self) {
        let machines = &self.cluster.machines;
        let machine = &machines[self.random.within(0..machines.len() as u64) as usize];
        let (id, trace) = (machine.node_id, &self.cluster.site.trace);
        trace.fault("build too old", format_args!("{id}"));
        let before = machine.stops().len();
        machine.install(LEVEL_MAX);
        machine.crash();
        machine.start();
        sleep(REFUSAL_MAX).await;
        let refused = machine.stops().iter().skip(before).any(|why| why.contains("level"));
        if !refused {
            let why = machine.stops();
            trace.violation(&format!("node {id} does not refuse a level above its own: {why:?}"));
        }
        machine.install(NEXT_LEVEL);
        machine.crash();
        machine.start();
    }
}
