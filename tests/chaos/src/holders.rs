//! Programs that lease worker ids of pools and stamp milliseconds by themselves, in processes whose clocks jump and which
//! are stopped for longer than a lease lasts.
//!
//! The judge hears of each millisecond that a program has stamped; two programs never stamp one millisecond of a worker
//! id of a pool. Which ids of it a program makes is its own affair, so no id is reported.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::Method;
use mintleaf_client::{Pool, WorkerLease};
use mintleaf_harness::{Clocks, signal};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::links::NodeId;
use crate::random::Random;

/// How many pools there are. Holders have one after the other.
const POOLS: u64 = 5;
/// How many of ten holders of a pool have a worker id at a time: the others wait, so that worker ids change hands.
const OF_TEN: u64 = 9;
/// How many holders share a process.
const OF_A_PROCESS: u64 = 25;
/// The number of the first process's clock. Those of nodes are below.
const FIRST_CLOCK: u64 = 1_000;
const LEASE_SECONDS: u32 = 5;
/// How often a holder stamps with one lease before it gives the rest back.
const TURNS: std::ops::RangeInclusive<u64> = 20..=400;
/// How long a holder does nothing between two turns, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 10..=90;
/// How long a holder waits that got no worker id.
const AGAIN: Duration = Duration::from_millis(200);
/// How many milliseconds a holder stamps in a turn.
const STAMPS: u64 = 4;
/// How many ids a generator with the usual layout makes of a millisecond.
const IDS_OF_A_STAMP: u64 = 4_096;
/// How long a process is left alone between two troubles, and how long it is stopped, in milliseconds.
const CALM_MS: std::ops::RangeInclusive<u64> = 300..=3_000;
const STOP_MS: std::ops::RangeInclusive<u64> = 100..=8_000;
/// If no program has stamped with a pool for this long, all its worker ids rest, because the clocks of most nodes once ran
/// ahead. The pool gets more worker ids then.
const BARREN: Duration = Duration::from_secs(40);
/// How long pools may take to be made before anything is broken.
const MAKING_MAX: Duration = Duration::from_secs(20);
/// Longer than a change of a pool takes.
const CHANGE_WITHIN: Duration = Duration::from_secs(10);
/// How many broken promises are printed.
const TOLD_MAX: usize = 20;

/// What a process of holders is started with.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// The nodes
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<String>,
    /// How many holders
    #[arg(long)]
    holders: u64,
    /// The seed of what they do
    #[arg(long)]
    seed: u64,
}

/// Lets holders work until the process is killed.
///
/// # Errors
/// When there can be no client.
pub(crate) async fn work(options: &Options) -> Result<bool, String> {
    let client = mintleaf_client::Client::builder().endpoints(options.nodes.clone()).build();
    let client = client.map_err(|error| error.to_string())?;
    let mut holders = JoinSet::new();
    for at in 0..options.holders {
        let random = Random::new(options.seed, &format!("holder {at}"));
        holders.spawn(hold(client.clone(), pool(at % POOLS), random));
    }
    holders.join_all().await;
    Ok(true)
}

fn pool(at: u64) -> String {
    format!("holders-{at}")
}

/// One program: leases, stamps for a while, gives back.
async fn hold(client: mintleaf_client::Client, pool: String, mut random: Random) {
    loop {
        let asked = Pool::new(&*pool).seconds(LEASE_SECONDS);
        let Ok(lease) = client.lease_worker(asked).await else {
            sleep(AGAIN).await;
            continue;
        };
        println!("leased {pool}");
        let mut next_ms = lease.from_ms();
        for _ in 0..random.within(TURNS) {
            sleep(Duration::from_millis(random.within(PAUSE_MS))).await;
            next_ms = stamp(&lease, next_ms);
            if lease.is_lost() {
                println!("lost {pool}");
                // What it had before stays its own.
                let mut before_ms = 0;
                while before_ms < next_ms {
                    before_ms = next_ms;
                    next_ms = stamp(&lease, next_ms);
                }
                break;
            }
        }
        lease.close().await;
    }
}

/// Stamps a few milliseconds from what the clock shows, or above those of before if the clock went back. Returns the first
/// one above all that were stamped.
#[allow(clippy::disallowed_methods, reason = "libfaketime moves the clock of this process")]
fn stamp(lease: &WorkerLease, next_ms: u64) -> u64 {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start_ms = next_ms.max(clock.as_millis() as u64);
    let may = (start_ms..start_ms + STAMPS).take_while(|ms| lease.may_stamp(*ms));
    let end_ms = start_ms + may.count() as u64;
    if start_ms == end_ms {
        return next_ms;
    }
    println!("stamped {} {} {start_ms} {end_ms}", lease.pool(), lease.worker_id());
    end_ms
}

/// What programs stamped.
#[derive(Default)]
struct Stamped {
    /// By pool and worker id, a bit for each millisecond: the key is the millisecond of the lowest bit divided by 64.
    stamps: HashMap<(String, u32), BTreeMap<u64, u64>>,
    milliseconds: u64,
    leases: u64,
    lost: u64,
    /// When a millisecond of each pool was last stamped.
    fertile: HashMap<String, Instant>,
    broken: Vec<String>,
}

impl Stamped {
    /// Takes in a line of a process.
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["leased", _] => self.leases += 1,
            ["lost", _] => self.lost += 1,
            ["stamped", pool, worker_id, start_ms, end_ms] => {
                let number = |word: &str| word.parse::<u64>().expect("a number");
                let worker = (pool.to_owned(), number(worker_id) as u32);
                self.stamp(worker, number(start_ms)..number(end_ms));
            }
            _ => self.broken.push(format!("a holder said {line:?}")),
        }
    }

    fn stamp(&mut self, worker: (String, u32), stamps: Range<u64>) {
        self.fertile.insert(worker.0.clone(), Instant::now());
        self.milliseconds += stamps.end - stamps.start;
        for ms in stamps {
            let word = self.stamps.entry(worker.clone()).or_default().entry(ms / 64).or_default();
            if *word >> (ms % 64) & 1 == 1 && self.broken.len() < TOLD_MAX {
                let (pool, id) = &worker;
                self.broken
                    .push(format!("two programs stamped {ms} with worker id {id} of {pool}"));
            }
            *word |= 1 << (ms % 64);
        }
    }
}

/// Running processes of holders.
pub(crate) struct Holders {
    stamped: Arc<Mutex<Stamped>>,
    tasks: JoinSet<()>,
    count: u64,
}

impl Holders {
    /// Makes the pools, and starts processes with `count` holders.
    ///
    /// # Errors
    /// When a pool cannot be made, or a process cannot be started.
    pub(crate) async fn start(
        client: &Client,
        nodes: &[NodeId],
        count: u64,
        clocks: Option<&Clocks>,
        seed: u64,
    ) -> Result<Self, String> {
        let size = (count / POOLS * OF_TEN / 10).max(1);
        let deadline = Instant::now() + MAKING_MAX;
        for at in 0..POOLS {
            while !set(client, nodes, at, size).await {
                if Instant::now() > deadline {
                    return Err(format!("the pool {} cannot be made", pool(at)));
                }
                sleep(AGAIN).await;
            }
        }
        let (stamped, mut tasks) = (Arc::<Mutex<Stamped>>::default(), JoinSet::new());
        let urls: Vec<String> = nodes.iter().map(|id| client.url(*id)).collect();
        for number in 0..count.div_ceil(OF_A_PROCESS) {
            let holders = OF_A_PROCESS.min(count - number * OF_A_PROCESS);
            let child = spawn(&urls, holders, clocks, (seed, number))?;
            let random = Random::new(seed, &format!("trouble {number}"));
            tasks.spawn(follow(child, clocks.cloned(), number, random, Arc::clone(&stamped)));
        }
        tasks.spawn(tend(client.clone(), nodes.to_vec(), size, Arc::clone(&stamped)));
        Ok(Self { stamped, tasks, count })
    }

    /// Kills all holders. Returns what they did in words, and the promises that were broken.
    pub(crate) async fn conclude(mut self) -> (String, Vec<String>) {
        self.tasks.shutdown().await;
        let mut stamped = self.stamped.lock();
        let Stamped { stamps, milliseconds, leases, lost, .. } = &*stamped;
        let told = format!(
            "{} holders stamped {milliseconds} milliseconds, up to {} ids, with {} worker ids in {leases} leases, of \
             which {lost} were lost",
            self.count,
            milliseconds * IDS_OF_A_STAMP,
            stamps.len()
        );
        let nothing = (*milliseconds == 0).then(|| "holders stamped nothing".to_owned());
        let mut broken = std::mem::take(&mut stamped.broken);
        broken.extend(nothing);
        (told, broken)
    }
}

/// Makes a pool, or has it grow, through any node.
async fn set(client: &Client, nodes: &[NodeId], at: u64, size: u64) -> bool {
    let path = format!("/v1/pools/{}", pool(at));
    let body = json!({ "workers": format!("0-{}", size - 1) });
    for &node in nodes {
        let asked = client.ask(node, Method::PUT, &path, Some(&body), CHANGE_WITHIN).await;
        if asked.is_ok_and(|answer| answer.status == 200) {
            return true;
        }
    }
    false
}

/// Has barren pools grow.
async fn tend(client: Client, nodes: Vec<NodeId>, size: u64, stamped: Arc<Mutex<Stamped>>) {
    let mut sizes = [size; POOLS as usize];
    loop {
        sleep(BARREN / 8).await;
        for (at, grown) in (0..).zip(&mut sizes) {
            let last = stamped.lock().fertile.get(&pool(at)).copied();
            if last.is_some_and(|last| last.elapsed() > BARREN) {
                *grown += size;
                if set(&client, &nodes, at, *grown).await {
                    stamped.lock().fertile.insert(pool(at), Instant::now());
                }
            }
        }
    }
}

fn spawn(
    urls: &[String],
    holders: u64,
    clocks: Option<&Clocks>,
    (seed, number): (u64, u64),
) -> Result<Child, String> {
    let told = |error: std::io::Error| format!("holders cannot be started: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(told)?);
    command.args(["hold", "--nodes", &urls.join(",")]);
    command.args(["--holders", &holders.to_string(), "--seed", &(seed ^ number << 32).to_string()]);
    if let Some(clocks) = clocks {
        clocks.shift(FIRST_CLOCK + number, 0).map_err(told)?;
        command.envs(clocks.environment(FIRST_CLOCK + number));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(told)
}

/// Reads what a process says, and troubles it.
async fn follow(
    mut child: Child,
    clocks: Option<Clocks>,
    number: u64,
    random: Random,
    stamped: Arc<Mutex<Stamped>>,
) {
    let pid = child.id().expect("it was just started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let hear = async {
        while let Ok(Some(line)) = lines.next_line().await {
            stamped.lock().hear(&line);
        }
    };
    tokio::select! {
        () = hear => stamped.lock().broken.push(format!("process {number} of holders ended")),
        () = trouble(pid, clocks, number, random) => {}
    }
}

/// Stops a process for a while or sets its clock, for ever.
async fn trouble(pid: u32, clocks: Option<Clocks>, number: u64, mut random: Random) {
    loop {
        sleep(Duration::from_millis(random.within(CALM_MS))).await;
        if random.chance(30) {
            send(pid, "STOP").await;
            sleep(Duration::from_millis(random.within(STOP_MS))).await;
            send(pid, "CONT").await;
            continue;
        }
        // Mostly within the time of a lease, so that there is something to stamp.
        let reach_ms = *random.pick(&[0, 50, 1_000, 5_000, 5_000, 8_000, 60_000, 3_600_000]);
        let by_ms = random.within(0..=reach_ms) as i64;
        let by_ms = if random.chance(50) { by_ms } else { -by_ms };
        // A clock that cannot be set stays as it is.
        let _ = clocks.as_ref().map(|clocks| clocks.shift(FIRST_CLOCK + number, by_ms));
    }
}

async fn send(pid: u32, name: &str) {
    let mut kill = Command::from(signal(pid, name));
    // The process may have been killed meanwhile.
    let _ = kill.stderr(Stdio::null()).status().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_that_was_stamped_twice_is_told() {
        let mut stamped = Stamped::default();
        stamped.hear("stamped holders-1 7 60 68");
        stamped.hear("stamped holders-1 7 68 70");
        stamped.hear("stamped holders-1 8 60 68");
        stamped.hear("stamped holders-2 7 60 68");
        assert!(stamped.broken.is_empty(), "{:?}", stamped.broken);
        stamped.hear("stamped holders-1 7 69 71");
        assert_eq!(stamped.broken, ["two programs stamped 69 with worker id 7 of holders-1"]);
        assert_eq!(stamped.milliseconds, 28);
    }
}
