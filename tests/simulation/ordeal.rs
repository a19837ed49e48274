//! The course of one cluster of a run: clients, faults, and then the healing and the judgement.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::Error;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::clients::Clients;
use crate::faults::Faults;
use crate::machine::{Machine, Serving, Site};
use crate::next_ids::next_ids;
use crate::random::Random;
use crate::scenario::Plan;
use crate::story::Stage;

/// Longest time from the healing until every node serves again.
pub(crate) const HEALING_MAX: Duration = Duration::from_secs(10);
/// Longest time until a new cluster serves, its first election included.
pub(crate) const FORMING_MAX: Duration = Duration::from_secs(10);

/// One cluster of a run.
pub(crate) struct Ordeal {
    pub(crate) site: Arc<Site>,
    pub(crate) machines: Vec<Arc<Machine>>,
    random: Arc<Random>,
    plan: Plan,
    /// Identifies the cluster: the end of the name of each stream of random numbers.
    name: String,
    /// Whether only faults keep a node from having snowflake ids. If worker ids are few, all may be taken.
    pub(crate) snowflakes_expected: bool,
}

impl Ordeal {
    pub(crate) fn new(
        site: Arc<Site>,
        machines: Vec<Arc<Machine>>,
        plan: Plan,
        name: &str,
        snowflakes_expected: bool,
    ) -> Self {
        let random = Arc::new(Random::new(plan.seed, &format!("run{name}")));
        Self { site, machines, random, plan, name: name.to_owned(), snowflakes_expected }
    }

    /// Makes the core of one node slow from now on, if the climate says so.
    pub(crate) fn slow_core(&self) -> Option<JoinHandle<()>> {
        let (node, asleep, awake) = self.site.sky.slow_core()?;
        let machine = Arc::clone(self.machines.iter().find(|one| one.node_id == node)?);
        Some(tokio::spawn(async move {
            loop {
                machine.pause(asleep);
                sleep(asleep + awake).await;
            }
        }))
    }

    /// A stream of random numbers of this cluster.
    fn random(&self, name: &str) -> Random {
        Random::new(self.plan.seed, &format!("{name}{}", self.name))
    }

    /// Clients of this cluster; `name` is that of their stream of random numbers.
    pub(crate) fn clients(&self, name: &str) -> Arc<Clients> {
        let (oracle, trace) = (Arc::clone(&self.site.oracle), Arc::clone(&self.site.trace));
        let has_programs = self.plan.has_programs() && self.site.sky.now().has_faults;
        Clients::new(self.machines.clone(), oracle, trace, self.random(name), has_programs)
    }

    /// Carries out the whole course of the first cluster of a run.
    pub(crate) async fn carry_out(&self) {
        let climate = self.site.sky.now();
        if !climate.has_faults {
            return self.stay_calm().await;
        }
        let clients = self.clients("clients");
        self.serves_within(FORMING_MAX, &clients).await;
        if let Some((_, leader)) = self.leadership() {
            self.site.sky.turn_at(leader);
        }
        match self.plan.story {
            Some(story) => {
                let (site, machines, clients) = (&self.site, &self.machines[..], &clients);
                Stage { site, machines, clients }.play(story).await;
                self.serves_within(HEALING_MAX, clients).await;
                self.judge_the_end(clients).await;
            }
            None => self.suffer(&clients).await,
        }
    }

    /// Crashes every machine, for good.
    pub(crate) fn end(&self) {
        for machine in &self.machines {
            machine.crash();
            machine.retire();
        }
    }

    /// Injects random faults, heals them, and judges the end. Then checks how nodes react to bad data.
    async fn suffer(&self, clients: &Arc<Clients>) {
        let faults = self.go_on(clients, clients.start(), self.plan.seconds).await;
        // The checks below use times of a mild climate.
        if !self.site.sky.now().is_mild() {
            return;
        }
        faults.restore_an_old_image().await;
        self.serves_within(HEALING_MAX, clients).await;
        faults.damage_a_snapshot().await;
        self.serves_within(HEALING_MAX, clients).await;
        self.judge_the_end(clients).await;
    }

    /// Injects random faults for this many seconds, heals them, and judges the end.
    pub(crate) async fn go_on(
        &self,
        clients: &Arc<Clients>,
        running: JoinSet<()>,
        seconds: u64,
    ) -> Faults {
        let (site, machines) = (Arc::clone(&self.site), self.machines.clone());
        let faults = Faults::new(site, machines, self.random("faults"));
        faults.inject(Instant::now() + Duration::from_secs(seconds)).await;
        faults.heal().await;
        if !self.site.sky.now().is_mild() {
            clients.leave_the_floor();
        }
        self.serves_within(HEALING_MAX, clients).await;
        clients.stop();
        drop(running.join_all().await);
        self.judge_the_end(clients).await;
        faults
    }

    /// Waits until every node that was not shut down for good gives ids of both kinds and changes a tag. The
    /// climate extends the limit.
    pub(crate) async fn serves_within(&self, limit: Duration, clients: &Arc<Clients>) {
        let climate = self.site.sky.now();
        let (limit, began) = (climate.stretch(limit), Instant::now());
        let turn = self.site.trace.now_ms();
        let asked =
            self.machines.iter().filter(|machine| !machine.is_retired()).map(|machine| Asked {
                site: Arc::clone(&self.site),
                machine: Arc::clone(machine),
                clients: Arc::clone(clients),
                random: Arc::clone(&self.random),
                turn,
                snowflakes_expected: self.snowflakes_expected,
            });
        // In a bad climate one node after another would take as many times as long.
        let all = async {
            if climate.is_mild() {
                for one in asked {
                    one.until_it_serves().await;
                }
            } else {
                asked.map(Asked::until_it_serves).collect::<JoinSet<()>>().join_all().await;
            }
        };
        if timeout(limit, all).await.is_err() {
            let waiting: Vec<String> = self.machines.iter().map(|one| describe(one)).collect();
            let what = format!("not every node serves after {limit:?}: {}", waiting.join("; "));
            self.site.trace.violation(&what);
        }
        let took_ms = began.elapsed().as_millis();
        self.site.trace.note(format_args!("all serve after {took_ms} ms"));
    }

    /// Checks that every node reads what was acknowledged, and that every watermark is where it was
    /// committed.
    pub(crate) async fn judge_the_end(&self, clients: &Clients) {
        let trace = &self.site.trace;
        for machine in &self.machines {
            let Some(serving) = machine.serving() else { continue };
            // Grabs that are under way may raise a watermark after the read.
            let max_ids = self.site.oracle.max_ids();
            if let Err(error) = self.read_in_the_end(clients, &serving).await {
                trace.violation(&format!("node {} cannot be read: {error}", machine.node_id));
                // The node's state may lag behind, so it shows nothing about what was acknowledged.
                continue;
            }
            let behind = serving.replica.read(|state| {
                let next = next_ids(state, max_ids.keys());
                next.into_iter().find(|(line, next)| *next < max_ids[*line])
            });
            if let Some((line, next)) = behind {
                let what = format!("{line:?} goes on at {next} below {}", max_ids[line]);
                trace.violation(&what);
            }
        }
    }

    /// Reads at a node. A read on a slow disk may take longer than a client waits, and is repeated for as long as the
    /// climate calls for.
    async fn read_in_the_end(&self, clients: &Clients, serving: &Serving) -> Result<(), Error> {
        let climate = self.site.sky.now();
        let until = Instant::now() + climate.stretch(Duration::ZERO);
        loop {
            let outcome = clients.check_promises(serving).await;
            if outcome.is_ok() || Instant::now() >= until {
                return outcome;
            }
            // A refusal may come at once.
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A node that is asked for ids until it gives them.
struct Asked {
    site: Arc<Site>,
    machine: Arc<Machine>,
    clients: Arc<Clients>,
    random: Arc<Random>,
    /// Distinguishes this question from those before.
    turn: u64,
    snowflakes_expected: bool,
}

impl Asked {
    async fn until_it_serves(self) {
        while !self.serves().await {
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn serves(&self) -> bool {
        let Self { site, machine, clients, turn, .. } = self;
        let Some(serving) = machine.serving() else { return false };
        let reasons = serving.services.cluster.readiness().reasons;
        if reasons.iter().any(|reason| reason.contains("after a restart of this node")) {
            // The node has given ids from the future, its clock has been set back, and it asks for a restart.
            site.trace.note(format_args!("node {} asks for a restart", machine.node_id));
            machine.crash();
            machine.start();
            return false;
        }
        // In a bad climate the first id of a line may take longer than a client waits. The next attempt finds it.
        let (tag, key) = match site.sky.now().is_mild() {
            true => (format!("healed-{}", self.random.next()), None),
            false => {
                let name = format!("healed-{}-{turn}", machine.node_id);
                (name.clone(), Some(name))
            }
        };
        // The tags may have been left frozen or deleted.
        let shaped = clients.take_shaped(&serving, key).await;
        let plain = clients.take(&serving, &tag, 1).await;
        let flakes = match plain.is_ok() && shaped.is_ok() {
            true => clients.take_snowflakes(&serving, 1).await,
            false => Ok(()),
        };
        let served = [plain, shaped, flakes.or_else(|why| self.excuse(why))];
        if let Some(Err(why)) = served.iter().find(|outcome| outcome.is_err()) {
            let id = machine.node_id;
            site.trace.note(format_args!("node {id} does not serve yet: {why}"));
        }
        served.iter().all(Result::is_ok)
    }

    /// If worker ids are few, all may be taken.
    fn excuse(&self, why: Error) -> Result<(), Error> {
        if self.snowflakes_expected { Err(why) } else { Ok(()) }
    }
}

fn describe(machine: &Machine) -> String {
    let known = machine.serving().map(|serving| {
        let status = serving.replica.node().status();
        let logs = (status.last_log_index, status.last_applied_index, status.purged_index);
        (serving.services.cluster.readiness(), status.leader_id, status.term, logs)
    });
    format!("node {} up {} {known:?}", machine.node_id, machine.is_up())
}
