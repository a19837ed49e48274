//! Many runs: one process for each seed, as many at a time as there are cores, and the sum of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, RngSeed};

use crate::scenario::{self, Plan, Verdict};
use crate::story::Story;

const USAGE: &str = "\
usage: simulate [--seeds A..B] [--minutes N | --hours N] [--seconds S] [--nodes 3|5] [--jobs J]
                [--story NAME] [--until-broken]
       simulate --seed N [--seconds S] [--nodes 3|5] [--story NAME] [--quiet]   one run, with its trace";

/// Runs that every campaign begins with: seed, seconds or a story, and why it is kept.
const PINNED: &str = include_str!("pinned");
/// What runs when nothing else is asked for.
const SEEDS: RangeInclusive<u64> = 1..=20;
const SECONDS: u64 = 30;
/// One in so many seeds is run twice, and must come out the same.
const RERUN: u64 = 10;
/// Violations that are shown of one seed.
const COMPLAINTS_MAX: usize = 3;
/// A run in which simulated time stands still for so long, of real time, has failed.
const SPIN_MAX: Duration = Duration::from_secs(20);

/// What is asked for on the command line.
pub(crate) struct Order {
    seeds: RangeInclusive<u64>,
    minutes: Option<u64>,
    one: Option<u64>,
    story: Option<Story>,
    seconds: u64,
    nodes: u64,
    jobs: usize,
    traced: bool,
    /// Whether the first broken promise ends a campaign.
    until_broken: bool,
}

impl Order {
    /// Reads the command line.
    ///
    /// # Errors
    /// The usage.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut order = Self {
            seeds: SEEDS,
            minutes: None,
            one: None,
            story: None,
            seconds: SECONDS,
            nodes: 0,
            jobs,
            traced: true,
            until_broken: false,
        };
        let usage = || USAGE.to_owned();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--quiet" {
                order.traced = false;
                continue;
            }
            if argument == "--until-broken" {
                order.until_broken = true;
                continue;
            }
            let value = arguments.next().ok_or_else(usage)?;
            let number = || value.parse::<u64>().map_err(|_| USAGE.to_owned());
            match argument.as_str() {
                "--seeds" => {
                    let (first, last) = value.split_once("..").ok_or_else(usage)?;
                    let bound = |bound: &str| bound.parse::<u64>().map_err(|_| USAGE.to_owned());
                    order.seeds = bound(first)?..=bound(last)?;
                }
                "--story" => order.story = Some(Story::named(value).ok_or_else(usage)?),
                "--seed" => order.one = Some(number()?),
                "--minutes" => order.minutes = Some(number()?),
                "--hours" => order.minutes = Some(60 * number()?),
                "--seconds" => order.seconds = number()?,
                "--nodes" => order.nodes = number()?,
                "--jobs" => order.jobs = usize::try_from(number()?.max(1)).unwrap_or(1),
                _ => return Err(usage()),
            }
        }
        Ok(order)
    }

    /// Does it; fails when a promise was broken or a run came out differently.
    pub(crate) fn carry_out(self) -> ExitCode {
        match self.one {
            Some(seed) => self.run_here(seed),
            None => Campaign::new(self).carry_out(),
        }
    }

    fn run_here(&self, seed: u64) -> ExitCode {
        let Self { seconds, nodes, traced, story, .. } = *self;
        let plan = Plan { seed, seconds, nodes, traced, story };
        let verdict = simulate(plan);
        print!("{}", Tally::of(&verdict).to_text());
        let violations = verdict.trace.violations();
        for what in &violations {
            println!("violation\t{what}");
        }
        if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// The runs that are kept; a hunt for one broken promise does without them.
    fn pinned(&self) -> Vec<Run> {
        let lines = PINNED.lines().filter(|line| !line.starts_with('#') && !self.until_broken);
        let run = |line: &str| {
            let mut words = line.split_whitespace();
            let (seed, second) = (words.next().map(str::parse), words.next().unwrap_or_default());
            match (seed, second.parse(), Story::named(second)) {
                (Some(Ok(seed)), Ok(seconds), None) => Run { seed, seconds, story: None },
                (Some(Ok(seed)), _, story @ Some(_)) => Run { seed, seconds: SECONDS, story },
                _ => panic!("a pin is a seed, seconds or a story, and a reason: {line}"),
            }
        };
        lines.map(run).collect()
    }

    /// The arguments that repeat a run.
    fn arguments(&self, run: Run) -> Vec<String> {
        let mut options = vec![("--seed", run.seed), ("--seconds", run.seconds)];
        if self.nodes > 0 {
            options.push(("--nodes", self.nodes));
        }
        let options =
            options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
        let story = run.story.into_iter().flat_map(|story| ["--story", story.name()]);
        options.chain(story.map(str::to_owned)).collect()
    }
}

/// One run of a campaign.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    seconds: u64,
    story: Option<Story>,
}

/// Runs one seed in this process.
fn simulate(plan: Plan) -> Verdict {
    let dir = tempfile::Builder::new().prefix("mintleaf-simulation-").tempdir_in(scratch());
    let dir = dir.expect("a scratch directory can be made");
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&plan.seed.to_be_bytes()))
        .build();
    let pulse = Arc::new(AtomicU64::new(0));
    watch_for_spins(plan.seed, Arc::clone(&pulse));
    let panics = count_panics();
    let verdict = runtime.expect("a runtime").block_on(async {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                pulse.fetch_add(1, Ordering::Relaxed);
            }
        });
        scenario::run(plan, dir.path()).await
    });
    for panic in panics.lock().drain(..) {
        verdict.trace.violation(&panic);
    }
    verdict
}

/// Where nothing has to reach a real disk, if there is such a place.
fn scratch() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Nothing in a node may panic, whatever happens.
fn count_panics() -> Arc<Mutex<Vec<String>>> {
    let panics = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        noted.lock().push(panic.to_string());
    }));
    panics
}

fn watch_for_spins(seed: u64, pulse: Arc<AtomicU64>) {
    thread::spawn(move || {
        let (_never, timer) = mpsc::channel::<()>();
        let mut seen = 0;
        loop {
            let _ = timer.recv_timeout(SPIN_MAX);
            let now = pulse.load(Ordering::Relaxed);
            if now == seen {
                println!("violation\tsimulated time stands still in seed {seed}");
                std::process::exit(3);
            }
            seen = now;
        }
    });
}

/// Counts of one run, or of many.
#[derive(Default)]
struct Tally {
    hash: u64,
    counts: BTreeMap<String, u64>,
    violations: Vec<String>,
}

impl Tally {
    fn of(verdict: &Verdict) -> Self {
        let (hash, lines) = verdict.trace.digest();
        let mut counts = BTreeMap::from([
            ("ids".to_owned(), verdict.ids),
            ("commits".to_owned(), verdict.commits),
            ("simulated ms".to_owned(), verdict.simulated_ms),
            ("lines".to_owned(), lines),
        ]);
        for (kind, count) in verdict.trace.faults() {
            counts.insert(format!("fault {kind}"), count);
        }
        Self { hash, counts, violations: Vec::new() }
    }

    fn to_text(&self) -> String {
        let mut text = format!("trace\t{:016x}\n", self.hash);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "count\t{name}\t{count}");
        }
        text
    }

    /// Reads what a child process printed.
    fn parse(text: &str) -> Self {
        let mut tally = Self::default();
        for line in text.lines() {
            let mut fields = line.split('\t');
            match (fields.next(), fields.next(), fields.next()) {
                (Some("trace"), Some(hash), _) => {
                    tally.hash = u64::from_str_radix(hash, 16).unwrap_or(0);
                }
                (Some("count"), Some(name), Some(count)) => {
                    tally.counts.insert(name.to_owned(), count.parse().unwrap_or(0));
                }
                (Some("violation"), Some(what), _) => tally.violations.push(what.to_owned()),
                _ => {}
            }
        }
        tally
    }

    fn add(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name.clone()).or_default() += count;
        }
    }
}

/// Many seeds.
struct Campaign {
    order: Order,
    began: Instant,
    pinned: Vec<Run>,
    /// How many runs have begun.
    begun: AtomicU64,
    /// How many promises were broken.
    broken: AtomicU64,
    sum: Mutex<(u64, Tally)>,
}

impl Campaign {
    fn new(order: Order) -> Self {
        let (pinned, began) = (order.pinned(), Instant::now());
        let (begun, broken, sum) = Default::default();
        Self { order, began, pinned, begun, broken, sum }
    }

    fn carry_out(self) -> ExitCode {
        thread::scope(|scope| {
            for _ in 0..self.order.jobs {
                scope.spawn(|| self.work());
            }
        });
        self.report();
        if self.broken() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    fn work(&self) {
        while let Some(run) = self.next() {
            let tally = self.carry_out_one(run);
            if run.seed.is_multiple_of(RERUN) && self.carry_out_one(run).hash != tally.hash {
                self.complain(run, "it came out differently when it was run again");
            }
            // One that is broken breaks many more.
            for what in tally.violations.iter().take(COMPLAINTS_MAX) {
                self.complain(run, what);
            }
            let mut sum = self.sum.lock();
            sum.0 += 1;
            sum.1.add(&tally);
        }
    }

    /// The next run, unless it is over.
    fn next(&self) -> Option<Run> {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if let Some(run) = usize::try_from(begun).ok().and_then(|at| self.pinned.get(at)) {
            return Some(*run);
        }
        let seed = self.order.seeds.start() + begun - self.pinned.len() as u64;
        let over = match self.order.minutes {
            Some(minutes) => self.began.elapsed() >= Duration::from_secs(60 * minutes),
            None => seed > *self.order.seeds.end(),
        };
        let over = over || (self.order.until_broken && self.broken() > 0);
        let Order { seconds, story, .. } = self.order;
        (!over).then_some(Run { seed, seconds, story })
    }

    /// Carries a run out in a process of its own: what it leaves behind in this one, such as numbers
    /// of tasks, must not reach the next.
    fn carry_out_one(&self, run: Run) -> Tally {
        let executable = std::env::current_exe().expect("this program has a path");
        let output = Command::new(executable)
            .args(self.order.arguments(run))
            .arg("--quiet")
            .output()
            .expect("this program can be run");
        let mut tally = Tally::parse(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() && tally.violations.is_empty() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            tally.violations.push(format!("it ended with {}: {stderr}", output.status));
        }
        tally
    }

    fn complain(&self, run: Run, what: &str) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        let again = self.order.arguments(run).join(" ");
        println!("seed {}: {what}\n    scripts/simulate {again}", run.seed);
    }

    fn report(&self) {
        let (seeds, sum) = &*self.sum.lock();
        let count = |name: &str| sum.counts.get(name).copied().unwrap_or(0);
        let hours = count("simulated ms") as f64 / 3_600_000.0;
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        println!(
            "{seeds} seeds, {hours:.2} simulated hours in {minutes:.2} minutes ({:.0} a minute), \
             {} ids, {} commits",
            hours / minutes,
            count("ids"),
            count("commits")
        );
        let faults = sum.counts.iter().filter_map(|(name, count)| {
            name.strip_prefix("fault ").map(|kind| format!("{kind} {count}"))
        });
        println!("faults: {}", faults.collect::<Vec<_>>().join(", "));
        println!("violations: {}", self.broken());
    }
}
