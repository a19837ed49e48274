//! Wall clocks that jump, on one node and on all, while processes are also killed and paused.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::windows::Figures;
use super::{HOUR_MS, Random, TEN_YEARS_MS, Windows, await_id, bounce, off_by_ms};
use crate::harness::{Cluster, Load, WallClocks, from_env, mintleaf, ms, secs};

const JUMPS_MS: [i64; 6] = [-1, -10, -3_000, -HOUR_MS, HOUR_MS, TEN_YEARS_MS];
const STROBE_MS: i64 = 250;
/// The longest trial of one cluster. A cluster whose clocks were repeatedly years ahead has no worker ids left,
/// so a longer run takes several clusters.
const EPISODE_MAX: Duration = secs(120);

/// A cluster under load whose clocks the test controls.
struct Trial {
    cluster: Cluster,
    clocks: WallClocks,
    load: Load,
    windows: Windows,
    faults: BTreeMap<&'static str, u64>,
}

impl Trial {
    /// A cluster under load; `None` if clocks cannot be set.
    fn start(name: &str, window: &str) -> Option<Self> {
        let mut cluster = mintleaf().prepare(3, &["--snowflake-window", window]);
        let clocks = WallClocks::of(&mut cluster, name)?;
        cluster.start_all();
        let load = Load::of_snowflakes(&cluster.targets(), 2);
        load.await_more(100);
        let (windows, faults) = (Windows::default(), BTreeMap::new());
        Some(Self { cluster, clocks, load, windows, faults })
    }

    fn shift(&self, ids: &[u64], by_ms: i64) {
        ids.iter().for_each(|&id| self.clocks.shift(id, by_ms));
    }

    /// Moves clocks back and forth.
    fn strobe(&self, ids: &[u64], lasts: Duration) {
        let began = Instant::now();
        let mut by_ms = STROBE_MS;
        while began.elapsed() < lasts {
            self.shift(ids, by_ms);
            thread::sleep(ms(7));
            by_ms = -by_ms;
        }
        self.shift(ids, 0);
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Ends the load and judges all ids.
    fn end(mut self) -> (Figures, BTreeMap<&'static str, u64>) {
        let history = self.load.stop();
        self.windows.note(&self.cluster);
        (self.windows.judge(history), self.faults)
    }
}

/// Makes each jump, forward and back, with a restart in between and one afterwards.
fn jump_with(mut trial: Trial, whose: impl Fn(usize) -> Vec<u64>) {
    for (turn, by_ms) in JUMPS_MS.into_iter().enumerate() {
        let ids = whose(turn);
        trial.shift(&ids, by_ms);
        thread::sleep(ms(500));
        bounce(&mut trial.cluster, ids[0]);
        thread::sleep(ms(600));
        trial.windows.note(&trial.cluster);
        trial.shift(&ids, 0);
        thread::sleep(ms(200));
        for &id in &ids {
            bounce(&mut trial.cluster, id);
        }
        for &id in &ids {
            await_right_time(&trial.cluster, id);
        }
    }
    trial.strobe(&whose(0), ms(1_000));
    let (figures, _) = trial.end();
    assert!(figures.ids > 10_000 && figures.starts >= 3 + JUMPS_MS.len() as u64, "{figures}");
    println!("figures jumps={} strobes=1 {figures}", JUMPS_MS.len());
}

#[test]
fn jumps_of_one_clock_repeat_no_id() {
    let Some(trial) = Trial::start("jumps_of_one_clock", "2s") else { return };
    let ids = trial.cluster.ids();
    jump_with(trial, |turn| vec![ids[turn % ids.len()]]);
}

#[test]
fn jumps_of_all_clocks_repeat_no_id() {
    let Some(trial) = Trial::start("jumps_of_all_clocks", "60s") else { return };
    let ids = trial.cluster.ids();
    jump_with(trial, |turn| {
        let mut ids = ids.clone();
        ids.rotate_left(turn % 3);
        ids
    });
}

/// Makes random faults at random times, from a seed.
#[test]
fn random_faults_of_clocks_and_processes_repeat_no_id() {
    let mut random = Random::seeded();
    let mut left = secs(from_env("MINTLEAF_CLOCK_SECONDS", 7));
    while !left.is_zero() {
        let lasts = left.min(EPISODE_MAX);
        left -= lasts;
        let window = random.one_of(&["1s", "3s", "60s"]);
        let Some(trial) = Trial::start("random_faults_of_clocks", window) else { return };
        let (figures, faults) = episode(trial, &mut random, lasts);
        let faults: Vec<_> = faults.iter().map(|(name, count)| format!("{name}={count}")).collect();
        println!("figures seconds={} {} {figures}", lasts.as_secs(), faults.join(" "));
    }
}

fn episode(
    mut trial: Trial,
    random: &mut Random,
    lasts: Duration,
) -> (Figures, BTreeMap<&'static str, u64>) {
    let began = Instant::now();
    while began.elapsed() < lasts {
        let fault = strike(&mut trial, random);
        trial.count(fault);
        thread::sleep(ms(random.below(700)));
        trial.windows.note(&trial.cluster);
    }
    // The clocks are correct again. A process that showed times far ahead is restarted, so that its ids are
    // correct too.
    let ids = trial.cluster.ids();
    trial.shift(&ids, 0);
    ids.iter().for_each(|&id| trial.cluster.kill(id));
    ids.iter().for_each(|&id| trial.cluster.start_node(id));
    for id in ids {
        await_right_time(&trial.cluster, id);
    }
    trial.end()
}

/// Waits until a node gives ids. It has just started, so they must show the correct time at once.
fn await_right_time(cluster: &Cluster, id: u64) {
    let off_ms = off_by_ms(await_id(cluster.api(id)));
    assert!(off_ms < 2_000, "node {id} is {off_ms} ms off");
}

/// Makes one fault, and returns its name.
fn strike(trial: &mut Trial, random: &mut Random) -> &'static str {
    let all = trial.cluster.ids();
    let victim = random.one_of(&all);
    let jump_ms = random.one_of(&JUMPS_MS);
    match random.below(13) {
        0..=2 => {
            trial.shift(&[victim], jump_ms);
            "jump_of_one"
        }
        3 => {
            trial.shift(&all, jump_ms);
            "jump_of_all"
        }
        4 => {
            trial.strobe(&[victim], ms(200 + random.below(800)));
            "strobe_of_one"
        }
        5 => {
            trial.strobe(&all, ms(200 + random.below(800)));
            "strobe_of_all"
        }
        6 => {
            bounce(&mut trial.cluster, victim);
            "restart"
        }
        7 => {
            trial.cluster.kill(victim);
            trial.shift(&[victim], jump_ms);
            trial.cluster.start_node(victim);
            "restart_with_jump"
        }
        8 => {
            all.iter().for_each(|&id| bounce(&mut trial.cluster, id));
            "restart_of_all"
        }
        9 => {
            trial.cluster.process(victim).signal("TERM");
            trial.cluster.ended(victim, secs(15));
            trial.cluster.start_node(victim);
            "clean_restart"
        }
        10 => {
            trial.cluster.process(victim).signal("STOP");
            trial.shift(&[victim], jump_ms);
            thread::sleep(ms(random.below(4_000)));
            trial.cluster.process(victim).signal("CONT");
            "pause_with_jump"
        }
        _ => {
            trial.shift(&all, 0);
            "all_right"
        }
    }
}
