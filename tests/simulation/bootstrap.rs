//! The bootstrap of a run's cluster, and its faults: founders that exist twice, lists that differ, links that
//! are cut and processes that crash between the steps, and a coordinator whose disk is lost for good. In the
//! end everything is repaired, except for what only an operator may do.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::clients::Clients;
use crate::disk::Disk;
use crate::machine::{Machine, Site};
use crate::net::{Conditions, Prepared};
use crate::random::Random;
use crate::replacement::put_down;

/// Pause between two polls of the machines.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a trap waits for a prepare.
const TRAP_MAX: Duration = Duration::from_secs(3);
/// How long a cluster may take to reach its members.
const TOLD_MAX: Duration = Duration::from_secs(10);
/// How long an operator watches nodes that are prepared for a lost coordinator.
const OPERATOR_MAX: Duration = Duration::from_secs(5);
/// How long a link stays cut, or a process down, at most.
const FAULT_MS_MAX: u64 = 3_000;

/// Bootstraps the cluster of a run.
pub(crate) struct Bootstrap {
    site: Arc<Site>,
    machines: Vec<Arc<Machine>>,
    random: Random,
    seed: u64,
}

impl Bootstrap {
    pub(crate) fn new(site: Arc<Site>, machines: Vec<Arc<Machine>>, seed: u64) -> Self {
        Self { site, machines, random: Random::new(seed, "forming"), seed }
    }

    /// Starts all founders, in half of all runs with faults. Returns the machines of the cluster that
    /// exists in the end.
    pub(crate) async fn carry_out(mut self) -> Vec<Arc<Machine>> {
        if self.random.chance(50) {
            self.start_all().await;
            return self.machines;
        }
        let double = self.random.chance(60).then(|| self.double());
        let mut all = self.machines.clone();
        all.extend(double.clone());
        self.give_lists(&all);
        let watch = self.watch(all.clone());
        let clients = Clients::new(
            all.clone(),
            Arc::clone(&self.site.oracle),
            Arc::clone(&self.site.trace),
            Random::new(self.seed, "clients while forming"),
            false,
        );
        let running = clients.start();
        for machine in &all {
            machine.start();
            sleep(Duration::from_millis(self.random.within(0..300))).await;
        }
        self.trouble(&all).await;
        *self.site.net.conditions.lock() = Conditions::default();
        self.site.trace.note(format_args!("the links are well"));
        if let Some(double) = double {
            self.end_the_double(double).await;
        } else if self.random.chance(30) {
            self.lose_the_coordinator().await;
        }
        watch.abort();
        clients.stop();
        drop(running.join_all().await);
        self.set_right().await;
        self.machines
    }

    /// Starts all founders, without any fault.
    pub(crate) async fn without_trouble(self) -> Vec<Arc<Machine>> {
        self.start_all().await;
        self.machines
    }

    async fn start_all(&self) {
        for machine in &self.machines {
            machine.start();
            sleep(Duration::from_millis(self.random.within(0..300))).await;
        }
    }

    /// A second machine for one of the founders, most often the coordinator.
    fn double(&self) -> Arc<Machine> {
        let last = self.machines.len() as u64;
        let id = if self.random.chance(80) { 1 } else { self.random.within(2..last + 1) };
        let drift = self.random.within(0..201) as i64 - 100;
        let disk = Disk::new(Random::new(self.seed, "disk of the double"));
        self.site.trace.fault("founder twice", format_args!("{id}"));
        Arc::new(self.machines[id as usize - 1].double(drift, disk))
    }

    /// In some runs, gives some founders a list of founders that differs.
    fn give_lists(&self, all: &[Arc<Machine>]) {
        if !self.random.chance(30) {
            return;
        }
        let peers = &self.site.peers;
        let mut other: BTreeMap<u64, String> = peers.clone();
        let last = peers.len() as u64;
        match self.random.within(0..3) {
            // One founder is left out.
            0 => drop(other.remove(&self.random.within(1..last + 1))),
            // One more is listed, at an address where nothing listens.
            1 => drop(other.insert(last + 1, "node-99:1".to_owned())),
            _ => drop(other.insert(self.random.within(1..last + 1), "node-98:1".to_owned())),
        }
        // One of the nodes on the differing list keeps the common list. Otherwise all nodes on the differing
        // list could form a cluster, and rightly so.
        let listed: Vec<u64> = other.keys().copied().filter(|id| *id <= last).collect();
        let true_to_all = self.random.pick(&listed);
        for machine in all {
            let may = machine.node_id != true_to_all && other.contains_key(&machine.node_id);
            if may && self.random.chance(50) {
                self.site.trace.fault("other list", format_args!("{} {other:?}", machine.host()));
                machine.list(Some(other.clone()));
            }
        }
    }

    /// Checks throughout that there is at most one cluster.
    fn watch(&self, machines: Vec<Arc<Machine>>) -> JoinHandle<()> {
        let trace = Arc::clone(&self.site.trace);
        let seen = Mutex::new(BTreeSet::new());
        tokio::spawn(async move {
            loop {
                for machine in &machines {
                    let Some(serving) = machine.serving() else { continue };
                    let status = serving.replica.node().status();
                    let mut seen = seen.lock();
                    let Some(cluster) = status.cluster_id else { continue };
                    if seen.insert(cluster) {
                        trace.note(format_args!("{} is in {cluster:032x}", machine.host()));
                    }
                    if seen.len() > 1 {
                        trace.violation(&format!("two clusters were formed: {seen:x?}"));
                        return;
                    }
                }
                sleep(LOOK_INTERVAL).await;
            }
        })
    }

    /// Cuts links and crashes processes for some time, at any moment or exactly between the steps.
    async fn trouble(&self, all: &[Arc<Machine>]) {
        let until = Instant::now() + Duration::from_millis(self.random.within(1_000..15_000));
        while Instant::now() < until {
            match self.random.within(0..10) {
                0..3 => self.cut(all),
                3..5 => self.crash(self.random.pick(&all.iter().collect::<Vec<_>>())),
                5..8 => self.spring_a_trap(all).await,
                8 => self.change_conditions(),
                _ => *self.site.net.conditions.lock() = Conditions::default(),
            }
            sleep(Duration::from_millis(self.random.within(10..1_000))).await;
        }
    }

    fn change_conditions(&self) {
        let conditions = &mut *self.site.net.conditions.lock();
        conditions.loss = self.random.pick(&[0, 5, 30]);
        conditions.doubled = self.random.pick(&[0, 30, 60]);
        conditions.delay_us_max = self.random.pick(&[0, 50_000, 400_000, 1_000_000]);
    }

    fn cut(&self, all: &[Arc<Machine>]) {
        let hosts: Vec<u64> = all.iter().map(|machine| machine.host()).collect();
        let (one, other) = (self.random.pick(&hosts), self.random.pick(&hosts));
        self.cut_for_a_while(one, other);
    }

    fn cut_for_a_while(&self, one: u64, other: u64) {
        let links = if self.random.chance(50) {
            vec![(one, other), (other, one)]
        } else {
            vec![(one, other)]
        };
        self.site.trace.fault("cut while forming", format_args!("{links:?}"));
        self.site.net.conditions.lock().cut.extend(links.clone());
        let (site, ms) = (Arc::clone(&self.site), self.random.within(50..FAULT_MS_MAX));
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            site.net.conditions.lock().cut.retain(|link| !links.contains(link));
        });
    }

    fn crash(&self, machine: &Arc<Machine>) {
        if !machine.is_up() {
            return;
        }
        if self.random.chance(50) {
            machine.disk.lose_unsynced();
        }
        machine.crash();
        self.site.trace.fault("crash while forming", format_args!("{}", machine.host()));
        let (machine, ms) = (Arc::clone(machine), self.random.within(0..FAULT_MS_MAX));
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            machine.start();
        });
    }

    /// Waits until a founder has answered a prepare. Then the coordinator or the founder crashes, or both
    /// do, or the link between them is cut, before or after the answer has arrived.
    async fn spring_a_trap(&self, all: &[Arc<Machine>]) {
        let Ok(Ok(offered)) = timeout(TRAP_MAX, self.site.net.next_prepare()).await else { return };
        let Prepared { coordinator, founder } = offered;
        self.site.trace.fault("trap while forming", format_args!("{offered:?}"));
        sleep(Duration::from_micros(self.random.within(0..20_000))).await;
        let struck = match self.random.within(0..4) {
            0 => vec![coordinator],
            1 => vec![founder],
            2 => vec![coordinator, founder],
            _ => {
                self.cut_for_a_while(coordinator, founder);
                Vec::new()
            }
        };
        for machine in all.iter().filter(|machine| struck.contains(&machine.host())) {
            self.crash(machine);
        }
    }

    /// Ends one of the two machines of a node for good. If there is a cluster, the machine that it names
    /// stays.
    async fn end_the_double(&mut self, double: Arc<Machine>) {
        let at = double.node_id as usize - 1;
        let first = Arc::clone(&self.machines[at]);
        self.let_it_be_told(&[&first, &double]).await;
        for machine in [&first, &double] {
            put_down(machine).await;
        }
        // A prepared disk is not lost here, because the coordinator may be committing it right now.
        let claim =
            |machine: &Machine| (machine.disk.has_taken_part(), machine.bound_to().is_some());
        let double_stays = match claim(&double).cmp(&claim(&first)) {
            Ordering::Equal => self.random.chance(50),
            order => order.is_gt(),
        };
        let gone = if double_stays { &first } else { &double };
        self.site.trace.fault("double ends", format_args!("{}", gone.host()));
        gone.retire();
        if double_stays {
            double.take_the_place();
            self.machines[at] = double;
        }
    }

    /// If there is a cluster or is about to be one, waits until it has reached one of the two machines of
    /// a node.
    async fn let_it_be_told(&self, two: &[&Arc<Machine>]) {
        self.machines.iter().chain(two.iter().copied()).for_each(Machine::start);
        let is_formed = || self.machines.iter().any(|machine| machine.disk.has_taken_part());
        let is_bound = || two.iter().any(|machine| machine.bound_to().is_some());
        let until = Instant::now() + TOLD_MAX;
        while (is_formed() || is_bound())
            && !two.iter().any(|machine| machine.disk.has_taken_part())
            && Instant::now() < until
        {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Loses the disk of the first founder, unless another founder has voted or has log entries by then.
    async fn lose_the_coordinator(&self) {
        let [coordinator, others @ ..] = &self.machines[..] else { return };
        put_down(coordinator).await;
        // Messages that it has sent arrive within this time.
        sleep(Duration::from_secs(3)).await;
        put_down(coordinator).await;
        if !others.iter().any(|machine| machine.disk.has_taken_part()) {
            self.site.trace.fault("coordinator lost", format_args!(""));
            coordinator.lose_everything();
        }
    }

    /// Gives all founders the same list and starts them. Then an operator deletes data directories that
    /// are prepared for a lost coordinator, as the nodes themselves advise, and does nothing else.
    async fn set_right(&self) {
        for machine in &self.machines {
            if machine.list(None) {
                put_down(machine).await;
            }
            machine.start();
        }
        let until = Instant::now() + OPERATOR_MAX;
        while Instant::now() < until {
            sleep(LOOK_INTERVAL).await;
            for machine in &self.machines {
                if self.is_bound_for_good(machine) {
                    put_down(machine).await;
                }
                // The node may have been released before it went down.
                if self.is_bound_for_good(machine) {
                    self.site.trace.fault("bound for good", format_args!("{}", machine.node_id));
                    machine.lose_everything();
                }
                machine.start();
            }
        }
    }

    fn is_bound_for_good(&self, machine: &Machine) -> bool {
        let present =
            |store: u128| self.machines.iter().any(|machine| machine.store() == Some(store));
        machine.bound_to().is_some_and(|store| !present(store))
    }
}
