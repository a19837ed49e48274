//! Restores of whole clusters. One copy of a cluster is left: a backup from some time, or the directory of a
//! stopped node. The product makes a new cluster from it, with one node; other nodes join. The old cluster is
//! gone, or continues beside the new one, which is allowed for tags; or some of its nodes are started again by
//! mistake.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mintleaf::replica::restore::{Copy, Plan as Restore, read_copy, restore};
use mintleaf_core::limits::ID_END;
use mintleaf_core::shape::RootKey;
use mintleaf_core::state::{LastNumbers, LineName, Raise, State, TagRow};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::NewCluster;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::clients::{Clients, REGISTER};
use crate::disk::Disk;
use crate::machine::{Machine, Site, back_up};
use crate::net::address;
use crate::next_ids::next_ids;
use crate::oracle::{Name, Part};
use crate::ordeal::{FORMING_MAX, HEALING_MAX, Ordeal};
use crate::random::Random;
use crate::replacement::{put_down, take_in};
use crate::scenario::Plan;

/// The margin above all ids that any line has given. An old cluster that continues beside the new one gives fewer.
const BESIDE_IDS: u64 = 1 << 40;
/// Longest time that a node takes to join without faults.
const JOIN_MAX: Duration = Duration::from_secs(30);
/// How long nodes of the old cluster that are started by mistake run before they are asked for ids.
const MISTAKE: Duration = Duration::from_secs(4);
/// How many tags that are missing in a copy are used right after its restore.
const LACKING_MAX: usize = 40;
/// How long they are asked.
const ASKED: Duration = Duration::from_secs(3);
/// The snowflake floor of a new cluster must lie in the past this soon if the cluster is to give snowflakes
/// during the run.
const FLOOR_AHEAD_MS_MAX: u64 = 1_000;

/// The restores of a run.
pub(crate) struct Restores(Arc<Shelf>);

/// The copies that an operator has.
struct Shelf {
    plan: Plan,
    random: Random,
    dir: PathBuf,
    copies: Mutex<Vec<PathBuf>>,
}

/// A cluster that is being made from a copy.
struct Making<'a> {
    shelf: &'a Shelf,
    old: &'a Ordeal,
    /// The number of the restore in the run, from 1.
    number: u64,
    /// Whether the old cluster continues.
    beside: bool,
}

impl Restores {
    pub(crate) fn new(plan: Plan, dir: &Path) -> Self {
        let (random, dir) = (Random::new(plan.seed, "restores"), dir.join("restores"));
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        Self(Arc::new(Shelf { plan, random, dir, copies: Mutex::default() }))
    }

    /// Takes a copy of some node from time to time.
    pub(crate) fn keep_copying(&self, machines: Vec<Arc<Machine>>) -> JoinHandle<()> {
        let shelf = Arc::clone(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(shelf.random.within(1_000..12_000))).await;
                shelf.copy(shelf.any(&machines));
            }
        })
    }

    /// Restores the cluster once or twice. Returns the last cluster.
    pub(crate) async fn carry_out(&self, first: Ordeal) -> Ordeal {
        let shelf = &*self.0;
        let mut last = first;
        for number in 1..=shelf.random.pick(&[1, 1, 2]) {
            match shelf.restore(&last, number).await {
                Some(next) => last = next,
                None => return last,
            }
            if last.site.trace.is_broken() {
                return last;
            }
        }
        last
    }
}

impl Shelf {
    fn any<'a>(&self, machines: &'a [Arc<Machine>]) -> &'a Arc<Machine> {
        &machines[self.random.within(0..machines.len() as u64) as usize]
    }

    /// Takes a copy: a backup if the node serves, otherwise its directory. Returns whether there was anything to copy.
    fn copy(&self, machine: &Machine) -> bool {
        let mut copies = self.copies.lock();
        let to = self.dir.join(format!("copy-{}", copies.len()));
        let (kind, taken) = match machine.serving() {
            Some(serving) => ("backup", back_up(&serving, &to)),
            None => ("directory", machine.copy_stopped(&to)),
        };
        let (number, id) = (copies.len(), machine.node_id);
        machine.site.trace.note(format_args!("copy {number} of node {id}: {kind} {taken}"));
        if taken {
            copies.push(to);
        }
        taken
    }

    /// Restores a cluster from a copy, and puts the new cluster through faults.
    async fn restore(&self, old: &Ordeal, number: u64) -> Option<Ordeal> {
        let clients = old.clients("clients before a restore");
        let running = clients.start();
        sleep(Duration::from_millis(self.random.within(200..4_000))).await;
        if self.random.chance(50) {
            self.copy(self.any(&old.machines));
        }
        sleep(Duration::from_millis(self.random.within(200..4_000))).await;
        let making = Making { shelf: self, old, number, beside: self.random.chance(30) };
        old.site.trace.fault("restore", format_args!("{number} beside {}", making.beside));
        if making.beside {
            let made = making.carry_out().await?;
            clients.stop();
            drop(running.join_all().await);
            old.serves_within(HEALING_MAX, &clients).await;
            old.judge_the_end(&clients).await;
            old.end();
            return Some(made);
        }
        self.end_all(&old.machines).await;
        clients.stop();
        drop(running.join_all().await);
        making.carry_out().await
    }

    /// Shuts down every node for good: all at once by a loss of power, or one after the other.
    async fn end_all(&self, machines: &[Arc<Machine>]) {
        if self.random.chance(50) {
            for machine in machines {
                machine.crash();
                machine.retire();
            }
        } else {
            for machine in machines {
                sleep(Duration::from_millis(self.random.within(0..1_000))).await;
                machine.stop_for_good().await;
            }
        }
    }

    /// An existing copy, or a new one of some node. `None` when no node has anything to copy.
    fn source(&self, machines: &[Arc<Machine>]) -> Option<PathBuf> {
        let count = self.copies.lock().len() as u64;
        if count > 0 && self.random.chance(60) {
            return Some(self.copies.lock()[self.random.within(0..count) as usize].clone());
        }
        let first = self.random.within(0..machines.len() as u64) as usize;
        let mut turn = machines.iter().cycle().skip(first).take(machines.len());
        turn.find(|machine| self.copy(machine))?;
        self.copies.lock().last().cloned()
    }
}

impl Making<'_> {
    async fn carry_out(&self) -> Option<Ordeal> {
        let Self { shelf, old, number, beside } = *self;
        let trace = &old.site.trace;
        let source = shelf.source(&old.machines)?;
        let scratch = shelf.dir.join(format!("scratch-{number}"));
        let copy = match read_copy(&source, &scratch, &mut |_| {}) {
            Ok(copy) => copy,
            Err(error) => {
                trace.violation(&format!("a copy cannot be read: {error}"));
                return None;
            }
        };
        let raise = self.raise(&copy.state);
        let made = self.make(copy, &raise).await;
        let (site, machines, rows) = made?;
        let clock_ms = old.site.now_ms();
        let is_due = raise.floor_ms <= clock_ms + FLOOR_AHEAD_MS_MAX;
        let expected = old.snowflakes_expected && is_due && !beside;
        let name = format!(" of cluster {number}");
        let new = Ordeal::new(site, machines, shelf.plan, &name, expected);
        self.check_rows(&new, &rows, &raise);
        let clients = new.clients("clients");
        self.use_what_the_copy_lacks(&new, &rows, &clients).await;
        let running = clients.start();
        for joining in &new.machines[1..] {
            joining.join(new.machines[0].node_id);
            let join = take_in(Arc::clone(joining), new.machines.clone());
            if timeout(JOIN_MAX, join).await.is_err() {
                trace.violation("a node cannot join a restored cluster");
                return None;
            }
        }
        new.serves_within(HEALING_MAX, &clients).await;
        if !beside && shelf.random.chance(40) {
            self.start_the_old_by_mistake(&new, &clients).await;
        }
        let seconds = (shelf.plan.seconds / 3).clamp(5, 20);
        new.go_on(&clients, running, seconds).await;
        Some(new)
    }

    /// How far the state must rise: by as much as any cluster has reserved since the copy, and no id more,
    /// unless the old cluster continues.
    fn raise(&self, state: &State) -> Raise {
        let Self { shelf, old, beside, .. } = *self;
        let oracle = &old.site.oracle;
        let ends = oracle.ends();
        let marks = next_ids(state, ends.keys());
        let mut since: BTreeMap<&str, u64> = BTreeMap::new();
        for (line, end) in &ends {
            let moved = since.entry(&line.0).or_default();
            *moved = end.saturating_sub(marks[line]).max(*moved);
        }
        let margin = if beside { BESIDE_IDS } else { 0 };
        let mut tags = BTreeMap::new();
        if shelf.random.chance(50) {
            // Some tags that the copy knows are listed separately.
            since.retain(|tag, moved| {
                let named = *moved > 0 && state.knows(tag) && shelf.random.chance(50);
                if named {
                    tags.insert(BizTag::parse(tag).expect("a name"), *moved + margin);
                }
                !named
            });
        }
        let all = since.values().max().map_or(0, |moved| *moved) + margin;
        let stopped_ms = old.site.now_ms().max(oracle.clock_ms()).max(state.clock_ms());
        let shown = oracle.highest_snowflake().filter(|_| shelf.random.chance(50));
        let parts = shown.and_then(|id| state.format()?.decode(id));
        let floor_ms = match parts {
            // A first node whose clock is behind would otherwise begin periods at 1 that the old cluster used.
            Some(parts) => (parts.time_ms + 1).max(stopped_ms),
            None => stopped_ms + state.snowflake_window_ms_max(),
        };
        let floor_ms = floor_ms.max(state.snowflake_floor_ms());
        old.site.trace.note(format_args!("raised by {all}, {tags:?}, to {floor_ms}"));
        let lasts = self.lasts(state, &ends, &marks);
        let root = Some(RootKey([9; 32]));
        Raise { all, tags, lasts, floor_ms, leased_before_ms: stopped_ms, root }
    }

    /// The last number of the register, which its owners may know.
    fn lasts(
        &self,
        state: &State,
        ends: &BTreeMap<Name, u64>,
        marks: &BTreeMap<&Name, u64>,
    ) -> BTreeMap<BizTag, LastNumbers> {
        let of = (REGISTER.to_owned(), Part::Whole);
        let end = ends.get(&of).copied().filter(|_| state.knows(REGISTER) && !self.beside);
        // An old cluster may have gone on beside one of before, and further.
        let end = end.filter(|end| *end >= marks[&of] && self.shelf.random.chance(50));
        let tag = BizTag::parse(REGISTER).expect("a name");
        end.map(|end| (tag, [(LineName::Whole, end - 1)].into())).into_iter().collect()
    }

    /// Makes the directory and starts its node. Returns the new cluster's machines, of which the first serves,
    /// and the first ids of the copy's lines.
    async fn make(&self, copy: Copy, raise: &Raise) -> Option<Made> {
        let Self { shelf, old, number, beside } = *self;
        let trace = &old.site.trace;
        let ids = self.node_ids().await;
        let rows = copy.state.tags_after(None, usize::MAX);
        let rows = rows.into_iter().map(|row| (row.tag.as_str().to_owned(), row.max_id)).collect();
        let oracle = Arc::new(old.site.oracle.of_the_restored(&copy.state, raise, beside));
        let site = Arc::new(Site {
            net: Arc::clone(&old.site.net),
            trace: Arc::clone(trace),
            oracle,
            snowflake: old.site.snowflake.clone(),
            turn: old.site.turn.clone(),
            peers: BTreeMap::from([(ids[0], address(ids[0]))]),
            random: Random::new(shelf.plan.seed, &format!("site of cluster {number}")),
            sky: Arc::clone(&old.site.sky),
            disk_latency: old.site.disk_latency,
        });
        let dir = |id: u64| shelf.dir.join(format!("cluster-{number}-node-{id}"));
        let new = NewCluster::prepare(&dir(ids[0])).expect("an empty directory");
        let random_u128 = || u128::from(site.random.next()) << 64 | u128::from(site.random.next());
        let (store, cluster_id) = (random_u128(), random_u128());
        let now_ms = site.now_ms();
        let plan = Restore { raise: raise.clone(), node_id: ids[0], store, cluster_id, now_ms };
        if let Err(error) = restore(new, copy, &plan) {
            trace.violation(&format!("a copy cannot be restored: {error}"));
            return None;
        }
        let machine = |(&id, old): (&u64, &Arc<Machine>)| {
            let disk = Random::new(shelf.plan.seed, &format!("disk {id} of cluster {number}"));
            let disk = Disk::new(disk);
            Arc::new(old.for_cluster(id, Arc::clone(&site), dir(id), disk))
        };
        let machines: Vec<_> = ids.iter().zip(&old.machines).map(machine).collect();
        machines[0].take_over();
        machines[0].start();
        let serves = async {
            while machines[0].serving().is_none() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(FORMING_MAX, serves).await.is_err() {
            let why = machines[0].stops();
            trace.violation(&format!("a restored node does not serve: {why:?}"));
            return None;
        }
        Some((site, machines, rows))
    }

    /// The ids of the new cluster's nodes. Beside an old cluster they differ from the old ids. But the first
    /// node may have the id and the address of an old node, which is shut down for that.
    async fn node_ids(&self) -> Vec<u64> {
        let Self { shelf, old, number, beside } = *self;
        let old_ids: Vec<u64> = old.machines.iter().map(|machine| machine.node_id).collect();
        let first = shelf.random.within(0..old_ids.len() as u64) as usize;
        if !beside {
            let mut ids = old_ids;
            ids.rotate_left(first);
            return ids;
        }
        let mut ids: Vec<u64> = (1..=old_ids.len() as u64).map(|id| 10 * number + id).collect();
        if shelf.random.chance(50) {
            put_down(&old.machines[first]).await;
            old.machines[first].retire();
            ids[0] = old_ids[first];
        }
        ids
    }

    /// Checks that every tag of the copy exists and has risen, and that every line continues above all that was
    /// reserved of it.
    fn check_rows(&self, new: &Ordeal, rows: &BTreeMap<String, u64>, raise: &Raise) {
        let Some(serving) = new.machines[0].serving() else { return };
        let trace = &self.old.site.trace;
        for (tag, max_id) in rows {
            let name = BizTag::parse(tag).expect("a name");
            let by = raise.tags.get(&name).copied().unwrap_or(raise.all);
            let by = if raise.lasts.contains_key(&name) { 0 } else { by };
            let least = max_id.saturating_add(by).min(ID_END);
            let row = serving.replica.read(|state| state.tag(tag));
            // The row of a tag with several lines shows the mark of one, which may not exist yet.
            let has_one_line =
                |row: &TagRow| row.shape.as_ref().is_none_or(|shape| shape.takes_max_id());
            if row.as_ref().is_none_or(|row| has_one_line(row) && row.max_id < least) {
                trace.violation(&format!("{row:?} of {tag} lies below {least} after a restore"));
            }
        }
        let mut ends = self.old.site.oracle.ends();
        ends.retain(|(_, part), _| new.site.oracle.keeps_apart(part));
        let next = serving.replica.read(|state| {
            let next = next_ids(state, ends.keys()).into_iter();
            next.map(|(line, next)| (line.clone(), next)).collect::<Vec<_>>()
        });
        for (line, next) in next {
            let end = ends[&line];
            if next < end {
                trace.violation(&format!("{line:?} goes on at {next} below {end} after a restore"));
            }
        }
    }

    /// Takes ids of tags that the copy lacks because they were deleted before it or made after it.
    async fn use_what_the_copy_lacks(
        &self,
        new: &Ordeal,
        rows: &BTreeMap<String, u64>,
        clients: &Arc<Clients>,
    ) {
        let Some(serving) = new.machines[0].serving() else { return };
        let ends = self.old.site.oracle.ends();
        let mut tags: Vec<&String> = ends.keys().map(|(tag, _)| tag).collect();
        tags.dedup();
        for tag in tags.into_iter().filter(|tag| !rows.contains_key(*tag)).take(LACKING_MAX) {
            clients.use_again(&serving, tag).await;
        }
    }

    /// Starts some nodes of the old cluster again. They call the new cluster's nodes, which have their ids and
    /// addresses. They must not give ids, and must not disturb other nodes.
    async fn start_the_old_by_mistake(&self, new: &Ordeal, clients: &Arc<Clients>) {
        let old = &self.old.machines;
        let count = self.shelf.random.within(1..old.len() as u64 + 1) as usize;
        new.site.trace.fault("old nodes started", format_args!("{count}"));
        for machine in &old[..count] {
            machine.start_by_mistake();
        }
        sleep(MISTAKE).await;
        for machine in &old[..count] {
            let Some(serving) = machine.serving() else { continue };
            let asked = timeout(ASKED, serving.services.ids.take("by mistake", 1)).await;
            if matches!(asked, Ok(Ok(_))) {
                let what = format!("node {} of the old cluster gives ids", machine.node_id);
                new.site.trace.violation(&what);
            }
        }
        new.serves_within(HEALING_MAX, clients).await;
        for machine in &old[..count] {
            machine.retire();
        }
    }
}

/// A new cluster: what its machines share, the machines, and the mark of each tag in the copy.
type Made = (Arc<Site>, Vec<Arc<Machine>>, BTreeMap<String, u64>);
