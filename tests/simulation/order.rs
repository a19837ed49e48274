//! The command line of the simulation.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::thread;

use crate::campaign::Campaign;
use crate::golden::{self, Scene};
use crate::oracle::histories;
use crate::scenario::{self, Plan};
use crate::simulated;
use crate::story::Story;
use crate::tally::Tally;

const USAGE: &str = "\
usage: simulate [--seeds A..B] [--minutes N | --hours N] [--seconds S] [--nodes 3|5] [--jobs J]
                [--story NAME] [--climate bad|mild] [--until-broken]
       simulate --seed N [--seconds S] [--nodes 3|5] [--story NAME] [--climate bad|mild]
                [--quiet]                                one run, with its trace
       simulate --traces [--rewrite]    plays every scene and compares its trace with tests/simulation/traces
       simulate --trace NAME            one scene, with its trace";

/// The seeds of a campaign, unless the command line selects others.
const SEEDS: RangeInclusive<u64> = 1..=20;
/// How many simulated seconds of faults a run has.
pub(crate) const SECONDS: u64 = 30;

/// The action on the golden traces.
#[derive(Clone, Copy)]
enum Golden {
    Compare,
    Rewrite,
    /// Play one scene here, and print the contents of its file.
    Play(&'static Scene),
}

/// The command line.
pub(crate) struct Order {
    pub(crate) seeds: RangeInclusive<u64>,
    pub(crate) minutes: Option<u64>,
    one: Option<u64>,
    pub(crate) story: Option<Story>,
    /// Whether the climate of each run is bad; `None` leaves it to the seed.
    pub(crate) bad_climate: Option<bool>,
    pub(crate) seconds: u64,
    pub(crate) nodes: u64,
    pub(crate) jobs: usize,
    traced: bool,
    /// Whether a campaign ends at the first broken promise.
    pub(crate) until_broken: bool,
    golden: Option<Golden>,
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
            bad_climate: None,
            seconds: SECONDS,
            nodes: 0,
            jobs,
            traced: true,
            until_broken: false,
            golden: None,
        };
        let usage = || USAGE.to_owned();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quiet" => order.traced = false,
                "--until-broken" => order.until_broken = true,
                "--traces" => order.golden = Some(Golden::Compare),
                "--rewrite" if order.golden.is_some() => order.golden = Some(Golden::Rewrite),
                _ => order.parse_option(argument, arguments.next().ok_or_else(usage)?)?,
            }
        }
        Ok(order)
    }

    fn parse_option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let usage = || USAGE.to_owned();
        let number = || value.parse::<u64>().map_err(|_| usage());
        match name {
            "--seeds" => {
                let (first, last) = value.split_once("..").ok_or_else(usage)?;
                let bound = |bound: &str| bound.parse::<u64>().map_err(|_| usage());
                self.seeds = bound(first)?..=bound(last)?;
            }
            "--story" => self.story = Some(Story::named(value).ok_or_else(usage)?),
            "--climate" => {
                self.bad_climate = Some(match value {
                    "bad" => true,
                    "mild" => false,
                    _ => return Err(usage()),
                });
            }
            "--trace" => self.golden = Some(Golden::Play(Scene::named(value).ok_or_else(usage)?)),
            "--seed" => self.one = Some(number()?),
            "--minutes" => self.minutes = Some(number()?),
            "--hours" => self.minutes = Some(60 * number()?),
            "--seconds" => self.seconds = number()?,
            "--nodes" => self.nodes = number()?,
            "--jobs" => self.jobs = usize::try_from(number()?.max(1)).unwrap_or(1),
            _ => return Err(usage()),
        }
        Ok(())
    }

    /// Carries out the order. Fails when a promise was broken, a repeated run had another outcome, or a golden
    /// trace differs.
    pub(crate) fn carry_out(self) -> ExitCode {
        match (self.golden, self.one) {
            (Some(Golden::Play(scene)), _) => exit_code(golden::play_here(scene)),
            (Some(Golden::Compare), _) => exit_code(golden::compare_all()),
            (Some(Golden::Rewrite), _) => exit_code(golden::rewrite_all()),
            (None, Some(seed)) => self.run_here(seed),
            (None, None) => {
                // A search for one broken promise, and a story, skip the golden traces and the small histories.
                let compares = !self.until_broken && self.story.is_none();
                let is_golden = !compares || golden::compare_all();
                let is_judge = !compares || histories::judge_all();
                let is_kept = Campaign::new(self).carry_out();
                exit_code(is_golden && is_judge && is_kept)
            }
        }
    }

    fn run_here(&self, seed: u64) -> ExitCode {
        let Self { seconds, nodes, traced, story, bad_climate, .. } = *self;
        let plan = Plan { seed, seconds, nodes, traced, story, bad_climate };
        let (verdict, panics) = simulated::run(seed, async |dir| scenario::run(plan, dir).await);
        panics.iter().for_each(|panic| verdict.trace.violation(panic));
        print!("{}", Tally::of(&verdict).to_text());
        let violations = verdict.trace.violations();
        for what in &violations {
            println!("violation\t{what}");
        }
        exit_code(violations.is_empty())
    }
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
