//! Many runs: one process for each seed, as many at a time as there are cores, and their total.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::order::{Order, SECONDS};
use crate::story::Story;
use crate::tally::Tally;

/// The runs that begin every campaign: seed, seconds or a story, and the reason.
const PINNED: &str = include_str!("pinned");
/// Every seed that is a multiple of this is run twice and must give the same trace.
const RERUN: u64 = 10;
/// How many violations of one seed are printed.
const COMPLAINTS_MAX: usize = 3;

/// One run of a campaign.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    seconds: u64,
    story: Option<Story>,
    bad_climate: Option<bool>,
}

impl Run {
    /// The run of a line of [`PINNED`].
    fn pinned(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let (seed, second) = (words.next().map(str::parse), words.next().unwrap_or_default());
        match (seed, second.parse(), Story::named(second)) {
            (Some(Ok(seed)), Ok(seconds), None) => {
                Self { seed, seconds, story: None, bad_climate: None }
            }
            (Some(Ok(seed)), _, story @ Some(_)) => {
                Self { seed, seconds: SECONDS, story, bad_climate: None }
            }
            _ => panic!("a pin is a seed, seconds or a story, and a reason: {line}"),
        }
    }

    /// The arguments that repeat it; `nodes` is 0 where the seed decides.
    fn arguments(self, nodes: u64) -> Vec<String> {
        let mut options = vec![("--seed", self.seed), ("--seconds", self.seconds)];
        if nodes > 0 {
            options.push(("--nodes", nodes));
        }
        let options =
            options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
        let story = self.story.into_iter().flat_map(|story| ["--story", story.name()]);
        let climate = self.bad_climate.map(|bad| if bad { "bad" } else { "mild" });
        let climate = climate.into_iter().flat_map(|name| ["--climate", name]);
        options.chain(story.chain(climate).map(str::to_owned)).collect()
    }
}

/// Many seeds.
pub(crate) struct Campaign {
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
    pub(crate) fn new(order: Order) -> Self {
        // A search for one broken promise skips the pinned runs.
        let lines = PINNED.lines().filter(|line| !line.starts_with('#') && !order.until_broken);
        let (pinned, began) = (lines.map(Run::pinned).collect(), Instant::now());
        let (begun, broken, sum) = Default::default();
        Self { order, began, pinned, begun, broken, sum }
    }

    /// Carries out every run. Returns whether all promises were kept and every repeated run had the same outcome.
    pub(crate) fn carry_out(self) -> bool {
        thread::scope(|scope| {
            for _ in 0..self.order.jobs {
                scope.spawn(|| self.work());
            }
        });
        self.report();
        self.broken() == 0
    }

    fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    fn work(&self) {
        while let Some(run) = self.next() {
            let tally = self.carry_out_one(run);
            if run.seed.is_multiple_of(RERUN) && self.carry_out_one(run).hash != tally.hash {
                self.complain(run, &tally, "it came out differently when it was run again");
            }
            // One broken promise breaks many more.
            for what in tally.violations.iter().take(COMPLAINTS_MAX) {
                self.complain(run, &tally, what);
            }
            let mut sum = self.sum.lock();
            sum.0 += 1;
            sum.1.add(&tally);
        }
    }

    /// The next run, unless the campaign is over.
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
        let Order { seconds, story, bad_climate, .. } = self.order;
        (!over).then_some(Run { seed, seconds, story, bad_climate })
    }

    /// Carries out a run in a separate process, because counters that live as long as a process, such as task
    /// ids, must not affect the next run.
    fn carry_out_one(&self, run: Run) -> Tally {
        let executable = std::env::current_exe().expect("this program has a path");
        let output = Command::new(executable)
            .args(run.arguments(self.order.nodes))
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

    fn complain(&self, run: Run, tally: &Tally, what: &str) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        let again = run.arguments(self.order.nodes).join(" ");
        let climate = &tally.climate;
        println!("seed {} ({climate}): {what}\n    scripts/simulate {again}", run.seed);
    }

    fn report(&self) {
        let (seeds, sum) = &*self.sum.lock();
        let hours = sum.count("simulated ms") as f64 / 3_600_000.0;
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        println!(
            "{seeds} seeds ({} in a bad climate), {hours:.2} simulated hours in {minutes:.2} minutes \
             ({:.0} a minute), {} ids, {} commits",
            sum.count("bad climates"),
            hours / minutes,
            sum.count("ids"),
            sum.count("commits")
        );
        println!(
            "held to the specifications: {} grants, {} messages ({} not judged whole)",
            sum.count("steps"),
            sum.count("messages"),
            sum.count("unjudged")
        );
        let faults = sum.faults().map(|(kind, count)| format!("{kind} {count}"));
        println!("faults: {}", faults.collect::<Vec<_>>().join(", "));
        println!("violations: {}", self.broken());
    }
}
