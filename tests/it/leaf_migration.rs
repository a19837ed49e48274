//! The migration from a real Leaf to a cluster and back, under load, as `docs/migrating-from-leaf.md` describes
//! it. Every id that any caller got from either system is judged.
//!
//! `scripts/leaf-migration` starts MariaDB, ZooKeeper and Leaf, and passes their addresses in variables.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Api, Cluster, Finished, eventually, mintleaf, pause, secs};

/// The tags that callers ask for. The database has more.
const TAGS: [&str; 4] = ["orders", "users", "shop.cart", "订单"];
/// The least number of ids of each tag in each phase.
const IDS_MIN: usize = 300;
/// Callers of each tag.
const CALLERS: usize = 3;
/// Time between a caller's requests, and after one without an id.
const REST: Duration = Duration::from_millis(2);
const REST_WITHOUT_ID: Duration = Duration::from_millis(10);
/// The longest time without ids, in addition to the steps between freeze and switch. A caller has to repeat its
/// request.
const PAUSE_SLACK: Duration = secs(2);
/// Leaf is asked first, then the cluster, then Leaf again.
const PHASES: usize = 3;

/// A real Leaf, which the script has started.
struct Leaf {
    servers: Vec<SocketAddr>,
    sql: String,
    dump: String,
}

impl Leaf {
    fn there() -> Option<Self> {
        let variable = |name: &str| std::env::var(format!("MINTLEAF_LEAF_{name}")).ok();
        let Some(servers) = variable("SERVERS") else {
            // Not `eprintln!`: the output of a passing test is captured.
            let line = b"SKIPPED: leaf_migration needs a real Leaf; run scripts/leaf-migration\n";
            std::io::stderr().write_all(line).unwrap();
            return None;
        };
        let servers = servers.split(',').map(|server| server.parse().unwrap()).collect();
        Some(Self { servers, sql: variable("SQL").unwrap(), dump: variable("DUMP").unwrap() })
    }

    /// Executes SQL statements in the database; returns their output.
    fn sql(&self, statements: &str) -> String {
        let run = Finished::of(shell(&self.sql).arg(statements));
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    }

    /// The marks of a table, by tag.
    fn marks(&self, table: &str) -> BTreeMap<String, u64> {
        let rows = self.sql(&format!("SELECT biz_tag, max_id FROM {table}"));
        let row = |row: &str| {
            let (tag, mark) = row.split_once('\t').unwrap();
            (tag.to_owned(), mark.parse().unwrap())
        };
        rows.lines().map(row).collect()
    }
}

/// A command line that takes one more word.
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line} \"$@\""), "sh"]);
    command
}

/// One id that a caller got.
struct Got {
    tag: usize,
    id: u64,
    phase: usize,
}

/// By tag and phase: the number of ids, and the longest time between two ids of one caller. The later id
/// decides the phase.
type Seen = BTreeMap<(usize, usize), (usize, Duration)>;

/// Callers that never rest, and record everything.
struct Callers {
    phase: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    /// The observations by tag and phase.
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<Vec<Got>>>,
}

impl Callers {
    /// Starts callers that ask the servers of the current phase.
    fn start(servers: [Vec<SocketAddr>; PHASES]) -> Self {
        let (phase, stopping) = (Arc::default(), Arc::default());
        let mut callers = Self { phase, stopping, seen: Arc::default(), threads: Vec::new() };
        for tag in 0..TAGS.len() {
            for number in 0..CALLERS {
                let servers = servers.clone();
                let phase = Arc::clone(&callers.phase);
                let stopping = Arc::clone(&callers.stopping);
                let seen = Arc::clone(&callers.seen);
                callers.threads.push(thread::spawn(move || {
                    call(tag, number, &servers, &phase, &stopping, &seen)
                }));
            }
        }
        callers
    }

    fn enter(&self, phase: usize) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    /// The longest time that a caller of a tag was without ids on the way into a phase.
    fn gap(&self, tag: usize, phase: usize) -> Duration {
        self.seen.lock().unwrap()[&(tag, phase)].1
    }

    fn await_all_in(&self, phase: usize) {
        eventually("ids of every tag", secs(120), || {
            let seen = self.seen.lock().unwrap();
            let many = |tag| seen.get(&(tag, phase)).is_some_and(|(ids, _)| *ids >= IDS_MIN);
            (0..TAGS.len()).all(many).then_some(())
        });
    }

    fn stop(self) -> Vec<Got> {
        self.stopping.store(true, Ordering::SeqCst);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

fn call(
    tag: usize,
    number: usize,
    servers: &[Vec<SocketAddr>; PHASES],
    phase: &AtomicUsize,
    stopping: &AtomicBool,
    seen: &Mutex<Seen>,
) -> Vec<Got> {
    // Leaf takes the part after the last dot for a file extension.
    let encoded = crate::harness::encoded(TAGS[tag]);
    let paths = [format!("{encoded}.x"), encoded].map(|key| format!("/api/segment/get/{key}"));
    let mut got = Vec::new();
    let mut last = Instant::now();
    let mut turn = number;
    while !stopping.load(Ordering::SeqCst) {
        let now = phase.load(Ordering::SeqCst);
        let of_leaf = now != 1;
        let path = &paths[usize::from(!(of_leaf && TAGS[tag].contains('.')))];
        let server = servers[now][turn % servers[now].len()];
        turn += 1;
        let answer = Api(server).try_get(path).ok().filter(|answer| answer.status == 200);
        let Some(id) = answer.and_then(|answer| answer.text().parse().ok()) else {
            pause(REST_WITHOUT_ID);
            continue;
        };
        got.push(Got { tag, id, phase: now });
        let mut seen = seen.lock().unwrap();
        let (ids, longest) = seen.entry((tag, now)).or_default();
        (*ids, *longest) = (*ids + 1, last.elapsed().max(*longest));
        drop(seen);
        last = Instant::now();
        pause(REST);
    }
    got
}

/// Callers of snowflakes of one system.
fn snowflakes(servers: Vec<SocketAddr>, stopping: &Arc<AtomicBool>) -> JoinHandle<Vec<u64>> {
    let stopping = Arc::clone(stopping);
    thread::spawn(move || {
        let mut ids = Vec::new();
        let mut turn = 0;
        while !stopping.load(Ordering::SeqCst) {
            turn += 1;
            let answer = Api(servers[turn % servers.len()]).try_get("/api/snowflake/get/any").ok();
            let answer = answer.filter(|answer| answer.status == 200);
            ids.extend(answer.and_then(|answer| answer.text().parse::<u64>().ok()));
            pause(REST);
        }
        ids
    })
}

#[test]
fn from_a_real_leaf_to_a_cluster_and_back_no_id_comes_twice() {
    let Some(leaf) = Leaf::there() else { return };
    let mut cluster = mintleaf().prepare(3, &["--snowflake-workers", "512-1023"]);
    cluster.start_all();
    cluster.await_ready();
    let ours: Vec<SocketAddr> = cluster.targets().into_iter().map(|(_, http)| http).collect();

    let stopping = Arc::default();
    let flakes = [
        snowflakes(leaf.servers.clone(), &stopping),
        snowflakes(leaf.servers.clone(), &stopping),
        snowflakes(ours.clone(), &stopping),
        snowflakes(ours.clone(), &stopping),
    ];
    let callers = Callers::start([leaf.servers.clone(), ours, leaf.servers.clone()]);
    callers.await_all_in(0);

    let (frozen, paused) = moves_in(&leaf, &cluster, &callers);
    callers.await_all_in(1);
    for (tag, name) in TAGS.iter().enumerate() {
        let gap = callers.gap(tag, 1);
        println!(
            "leaf-migration: {name}: without ids for {gap:?} at most, of {paused:?} from freeze to switch"
        );
        assert!(
            gap <= paused + PAUSE_SLACK,
            "{name}: {gap:?} without ids, {paused:?} was to be expected"
        );
    }

    let back = moves_back(&leaf, &cluster, &callers);
    callers.await_all_in(2);

    stopping.store(true, Ordering::SeqCst);
    judge(&callers.stop(), &frozen, &back);
    let [leaf_1, leaf_2, ours_1, ours_2] = flakes.map(|thread| thread.join().unwrap());
    let (of_leaf, of_ours) = (leaf_1.len() + leaf_2.len(), ours_1.len() + ours_2.len());
    assert!(of_leaf > 0 && of_ours > 0, "{of_leaf} and {of_ours} snowflakes");
    let all = [leaf_1, leaf_2, ours_1, ours_2].concat();
    let worker = |id: u64| id >> 12 & 1023;
    assert!(all[..of_leaf].iter().all(|id| worker(*id) < 512));
    assert!(all[of_leaf..].iter().all(|id| worker(*id) >= 512));
    let distinct: HashSet<u64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "a snowflake id came twice");
    println!(
        "leaf-migration: {of_leaf} snowflakes of Leaf and {of_ours} of the cluster, none twice"
    );
}

/// Freezes Leaf's table, imports it and makes the callers use the cluster. Returns the frozen marks, and how
/// long that took.
fn moves_in(
    leaf: &Leaf,
    cluster: &Cluster,
    callers: &Callers,
) -> (BTreeMap<String, u64>, Duration) {
    let began = Instant::now();
    leaf.sql("RENAME TABLE leaf_alloc TO leaf_alloc_frozen");
    let dump = Finished::of(shell(&leaf.dump).arg("leaf_alloc_frozen"));
    assert_eq!(dump.code, Some(0), "{dump:?}");
    let file = cluster.dir().join("leaf_alloc.sql");
    std::fs::write(&file, dump.stdout).unwrap();
    let import = |args: &[&str]| {
        let url = format!("http://{}", cluster.targets()[1].1);
        let mut command = mintleaf().command();
        let run = Finished::of(command.arg("import").arg(&file).args(["--url", &url]).args(args));
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    println!("leaf-migration: {}", import(&[]).lines().last().unwrap());
    callers.enter(1);
    let paused = began.elapsed();

    let frozen = leaf.marks("leaf_alloc_frozen");
    assert!(import(&["--dry-run"]).contains("created: 0, would be raised: 0"));
    for (tag, mark) in &frozen {
        let row = cluster.api(1).get(&format!("/v1/tags/{}", crate::harness::encoded(tag))).ok();
        let ours: u64 = row["max_id"].as_str().unwrap().parse().unwrap();
        assert!(ours >= *mark, "{tag}: {ours} lies below Leaf's {mark}");
    }
    (frozen, paused)
}

/// Freezes the tags, writes their marks into Leaf's table, and renames the table back. Returns those marks.
fn moves_back(leaf: &Leaf, cluster: &Cluster, callers: &Callers) -> BTreeMap<String, u64> {
    let mut marks = BTreeMap::new();
    for tag in leaf.marks("leaf_alloc_frozen").into_keys() {
        let path = format!("/v1/tags/{}", crate::harness::encoded(&tag));
        let row = cluster.api(1).patch(&path, &json!({ "frozen": true })).ok();
        marks.insert(tag, row["max_id"].as_str().unwrap().parse().unwrap());
    }
    // Every node learns of it within a second.
    for node in cluster.ids() {
        eventually("frozen tags", secs(5), || {
            let path = format!("/v1/segment/{}", TAGS[0]);
            (cluster.api(node).get(&path).status == 423).then_some(())
        });
    }
    for (tag, mark) in &marks {
        leaf.sql(&format!(
            "UPDATE leaf_alloc_frozen SET max_id = GREATEST(max_id, {mark}) WHERE biz_tag = '{tag}'"
        ));
    }
    leaf.sql("RENAME TABLE leaf_alloc_frozen TO leaf_alloc");
    callers.enter(2);
    marks
}

/// Checks that no id came twice, and that each system kept to its side of the marks.
fn judge(got: &[Got], frozen: &BTreeMap<String, u64>, back: &BTreeMap<String, u64>) {
    for (tag, name) in TAGS.iter().enumerate() {
        let of_tag = || got.iter().filter(|got| got.tag == tag);
        let mut seen = HashSet::new();
        let twice: Vec<u64> = of_tag().map(|got| got.id).filter(|id| !seen.insert(*id)).collect();
        assert!(twice.is_empty(), "{name}: given twice: {twice:?}");
        let count = |phase| of_tag().filter(|got| got.phase == phase).count();
        println!(
            "leaf-migration: {name}: {} ids of Leaf, {} of the cluster, {} of Leaf again",
            count(0),
            count(1),
            count(2)
        );
        assert!(
            (0..PHASES).all(|phase| count(phase) >= IDS_MIN),
            "{name}: too few ids to judge by"
        );
        let (leaf_end, our_end) = (frozen[*name], back[*name]);
        for Got { id, phase, .. } in of_tag() {
            let kept = match phase {
                0 => *id < leaf_end,
                1 => (leaf_end..our_end).contains(id),
                // Leaf still held ids from before the freeze.
                _ => *id < leaf_end || *id >= our_end,
            };
            assert!(kept, "{name}: {id} in phase {phase}, with marks at {leaf_end} and {our_end}");
        }
    }
}
