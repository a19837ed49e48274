//! The rounds of a campaign: the faults, and what nodes must and may do about them.
//!
//! | round | a node must | it may |
//! | --- | --- | --- |
//! | power cut: unsynced changes lost, torn or scattered | start and serve | |
//! | power cuts in succession, also during starts | start and serve | |
//! | writes or syncs fail | end with a failure that names it | |
//! | ... then the power is cut | start and serve | refuse, if it was started in between |
//! | reads fail at the start | end with a failure, or serve | refuse, then and later |
//! | a bit flips at rest | serve, or refuse | refuse |
//! | slow syncs | keep all promises | be late while they last |
//!
//! A node *refuses* by ending with a failure that says how it can come back; the campaign then brings it back that way.
//! A flipped bit, or a write of a failed sync that a restart relied on, may show only later. Such a *doubtful* node may
//! refuse in every round until it has been brought back. Only one node is doubtful at a time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use mintleaf_harness::pause;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::cluster::Cluster;
use super::node::{Ended, Node};
use super::report::Report;
use super::{NODES, Options, SERVES_WITHIN};
use crate::cut::Cut;
use crate::disk::Strictness;
use crate::faults::{Failure, Operation, Rule};

/// The time within which a node with a failing disk must end. It notices with its next write, and the load
/// makes it write all the time.
const STOPS_WITHIN: Duration = Duration::from_secs(20);
/// A refusal contains one of these texts, which say how the node can come back.
const WAYS_BACK: [&str; 2] = ["wipe it and join", "join it again"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Cut(Cut),
    CutsInSuccession,
    Failing(Operation),
    FailingReads,
    Flip(&'static str),
    SlowFsync,
}

/// All rounds, with their names and weights.
const ROUNDS: [(&str, Round, u32); 14] = [
    ("power cut: all unsynced is lost", Round::Cut(Cut::Lose), 4),
    ("power cut: the last write is torn", Round::Cut(Cut::Tear), 4),
    ("power cut: unsynced pages are scattered", Round::Cut(Cut::Scatter), 3),
    ("power cuts in succession", Round::CutsInSuccession, 6),
    ("failing syncs", Round::Failing(Operation::Fsync), 4),
    ("failing writes", Round::Failing(Operation::Write), 4),
    ("failing reads at the start", Round::FailingReads, 1),
    ("flipped bit in a checkpoint", Round::Flip("*/log-*/db"), 3),
    ("flipped bit in a checkpoint's page table", Round::Flip("*/log-*/snap*"), 1),
    ("flipped bit in a checkpoint's settings", Round::Flip("*/log-*/conf"), 1),
    ("flipped bit in the write-ahead log", Round::Flip("tail-*"), 2),
    ("flipped bit in the identity", Round::Flip("identity"), 1),
    ("flipped bit in the snapshot", Round::Flip("*/snapshot/current"), 2),
    ("slow syncs", Round::SlowFsync, 2),
];

pub(super) struct Campaign<'a> {
    options: &'a Options,
    pub(super) cluster: Cluster,
    pub(super) random: StdRng,
    pub(super) report: Report,
    /// The node whose disk may be damaged without the node's having noticed.
    pub(super) doubtful: Option<u64>,
}

impl<'a> Campaign<'a> {
    pub(super) fn start(options: &'a Options) -> io::Result<Self> {
        fs::create_dir_all(&options.directory)?;
        let mut random = StdRng::seed_from_u64(options.seed);
        let mut nodes = Vec::new();
        for id in 1..=NODES {
            let either = [Strictness::Strict, Strictness::Journal];
            let chosen = *either.choose(&mut random).unwrap_or(&Strictness::Strict);
            let strictness = options.strictness.unwrap_or(chosen);
            nodes.push(Node::new(id, strictness, options)?);
        }
        let cluster = Cluster::form(nodes, &options.directory)?;
        let report = Report { seed: options.seed, ..Report::default() };
        Ok(Self { options, cluster, random, report, doubtful: None })
    }

    pub(super) fn run(mut self) -> io::Result<Report> {
        for round in 1..=self.options.rounds {
            let began = Instant::now();
            let (name, kind) = self.choose();
            let hit = self.round(kind)?;
            self.note_round(round, name, &hit, began.elapsed());
            if !self.cluster.ledger.violations().is_empty() {
                break;
            }
        }
        self.finish()
    }

    fn finish(mut self) -> io::Result<Report> {
        let all: Vec<u64> = (1..=NODES).collect();
        if self.cluster.ledger.violations().is_empty() {
            self.cluster.judge(&all)?;
        }
        self.report.violations = self.cluster.ledger.violations();
        (self.report.ids, self.report.tags) = self.cluster.ledger.counts();
        if self.cluster.joins_repeated > 0 {
            let what = "ended as another change was in the way of joining".to_owned();
            self.report.answers.insert(what, self.cluster.joins_repeated);
        }
        for node in &mut self.cluster.nodes {
            self.report.caught += node.device().stats().caught;
            if !self.report.violations.is_empty() {
                node.kill();
                node.keep_disk(&self.options.directory)?;
            }
        }
        Ok(self.report)
    }

    fn note_round(&mut self, round: u64, name: &str, hit: &[u64], took: Duration) {
        println!("round {round} ({took:.1?}): {name}, nodes {hit:?}");
        let name = format!("{name}, {}", scope(hit));
        *self.report.rounds.entry(name).or_default() += 1;
    }

    fn choose(&mut self) -> (&'static str, Round) {
        let wanted =
            |name: &str| self.options.only.as_deref().is_none_or(|part| name.contains(part));
        let rounds: Vec<_> = ROUNDS.iter().filter(|(name, ..)| wanted(name)).collect();
        let chosen = rounds.choose_weighted(&mut self.random, |(.., weight)| *weight);
        let (name, round, _) = **chosen.unwrap_or(&&ROUNDS[0]);
        (name, round)
    }

    /// Injects faults, heals them, and judges. Returns the nodes that were hit.
    fn round(&mut self, round: Round) -> io::Result<Vec<u64>> {
        let load = self.cluster.load();
        pause(Duration::from_millis(self.random.gen_range(100..1500)));
        let hit = match round {
            Round::Cut(cut) => self.power_cut(cut)?,
            Round::CutsInSuccession => self.cuts_in_succession()?,
            Round::Failing(operation) => self.failing(operation)?,
            Round::FailingReads => self.failing_reads()?,
            Round::Flip(pattern) => self.flip(pattern)?,
            Round::SlowFsync => self.slow_fsync(),
        };
        self.heal()?;
        drop(load);
        let asked = self.random.gen_range(1..=NODES);
        self.cluster.judge(&[asked])?;
        Ok(hit)
    }

    fn failing(&mut self, operation: Operation) -> io::Result<Vec<u64>> {
        let victims = self.victims();
        let failure = if self.random.gen_bool(0.5) { Failure::Eio } else { Failure::Enospc };
        let patterns = [None, None, Some("db"), Some("tail-*")];
        let pattern = patterns.choose(&mut self.random).copied().flatten();
        let once = self.random.gen_bool(0.5);
        // Without a quorum hardly anything is written, so the counter would never reach a later call.
        let nth_max = if victims.len() == 1 { 30 } else { 3 };
        for &id in &victims {
            let nth = once.then(|| self.random.gen_range(1..=nth_max));
            let pattern = pattern.map(str::to_owned);
            self.cluster.node(id).device().fail(Rule { operation, failure, nth, pattern });
        }
        for &id in &victims {
            match self.cluster.node(id).await_end(STOPS_WITHIN) {
                Some(ended) => self.judge_stop(id, &ended, failure.text()),
                None if self.cluster.node(id).device().stats().failed == 0 => {
                    self.answer("went on: nothing was written where it would have failed");
                    self.cluster.node(id).kill();
                }
                // sled is written to only when the write-ahead log is full, which takes a quorum.
                None if victims.len() > 1 && pattern != Some("tail-*") => {
                    self.answer("went on: what failed was not needed yet");
                    self.cluster.node(id).kill();
                }
                None => self.violate(id, "went on although its disk had failed"),
            }
        }
        self.after_failure(&victims)?;
        Ok(victims)
    }

    /// Cuts the power together with the failure, or first lets the node start and rely on what a failed sync
    /// left in memory. The latter happens only to a single node, because its data may turn out to be damaged.
    fn after_failure(&mut self, victims: &[u64]) -> io::Result<()> {
        let believes = match *victims {
            [only] if self.may_doubt(only) => self.random.gen_bool(0.5),
            _ => false,
        };
        for &id in victims {
            self.cluster.node(id).device().heal();
        }
        if believes {
            self.doubtful = Some(victims[0]);
            self.start_again(victims, true)?;
            pause(Duration::from_millis(self.random.gen_range(200..800)));
        }
        self.cut(victims, Cut::Lose);
        self.start_again(victims, believes)
    }

    fn failing_reads(&mut self) -> io::Result<Vec<u64>> {
        let id = self.doubtable();
        let nth = self.random.gen_bool(0.5).then(|| self.random.gen_range(1..=60));
        let node = self.cluster.node(id);
        node.kill();
        let (operation, failure) = (Operation::Read, Failure::Eio);
        node.device().fail(Rule { operation, failure, nth, pattern: None });
        node.start()?;
        let ended = node.await_ready_or_end(SERVES_WITHIN);
        node.device().heal();
        match ended {
            Some(ended) if ended.said.contains(failure.text()) => {
                self.judge_stop(id, &ended, failure.text());
            }
            // sled treats a read error as the end of its log.
            Some(ended) => self.judge_refusal(id, &ended),
            None => {}
        }
        self.start_again(&[id], true)?;
        Ok(vec![id])
    }

    fn flip(&mut self, pattern: &'static str) -> io::Result<Vec<u64>> {
        let id = self.doubtable();
        let seed = self.random.r#gen();
        let node = self.cluster.node(id);
        node.kill();
        if node.device().flip(Some(pattern), seed).is_none() {
            self.answer("had no such file yet");
        } else {
            self.doubtful = Some(id);
        }
        self.start_again(&[id], true)?;
        Ok(vec![id])
    }

    fn slow_fsync(&mut self) -> Vec<u64> {
        let victims = self.victims();
        let delay = Duration::from_millis(self.random.gen_range(50..1500));
        for &id in &victims {
            self.cluster.node(id).device().slow_fsync(delay);
        }
        pause(Duration::from_secs(4));
        victims
    }

    /// One node, two, or all.
    pub(super) fn victims(&mut self) -> Vec<u64> {
        let count = *[1, 1, 2, 3].choose(&mut self.random).unwrap_or(&1);
        let mut ids: Vec<u64> = (1..=NODES).collect();
        ids.shuffle(&mut self.random);
        ids.truncate(count);
        ids
    }

    /// A node that may refuse: the doubtful one, if there is one, so that no two nodes may.
    fn doubtable(&mut self) -> u64 {
        let any = self.random.gen_range(1..=NODES);
        self.doubtful.unwrap_or(any)
    }

    fn may_doubt(&self, id: u64) -> bool {
        self.doubtful.is_none_or(|doubtful| doubtful == id)
    }

    /// Starts nodes again. Nodes that refuse, and may, are brought back once the others run.
    pub(super) fn start_again(&mut self, ids: &[u64], may_refuse: bool) -> io::Result<()> {
        for &id in ids {
            let node = self.cluster.node(id);
            if !node.runs() {
                node.start()?;
            }
        }
        for &id in ids {
            let Some(ended) = self.cluster.node(id).await_ready_or_end(SERVES_WITHIN) else {
                continue;
            };
            if !may_refuse && self.doubtful != Some(id) {
                self.violate(id, &format!("did not start again: {}", ended.why()));
                continue;
            }
            self.judge_refusal(id, &ended);
            match self.cluster.rejoin(id) {
                Ok(()) => self.answer("came back by wiping and joining"),
                Err(why) => self.violate(id, &format!("could not come back: {why}")),
            }
            self.doubtful = self.doubtful.filter(|&doubtful| doubtful != id);
        }
        Ok(())
    }

    /// Ends all faults. Then every node must serve in time, without help.
    fn heal(&mut self) -> io::Result<()> {
        for id in 1..=NODES {
            let node = self.cluster.node(id);
            node.device().heal();
            let joined_late = node.start_if_busy()?;
            let ended = node.ended();
            self.cluster.joins_repeated += u64::from(joined_late);
            if let Some(ended) = ended {
                self.violate(id, &format!("ended for no reason: {}", ended.why()));
            }
            let node = self.cluster.node(id);
            if !node.runs() {
                node.start()?;
            }
        }
        match self.cluster.all_serve(SERVES_WITHIN) {
            Some(took) => self.report.recoveries.push(took),
            None => {
                let ended = self.ended_nodes();
                self.cluster.ledger.violation(format!(
                    "not all nodes serve {SERVES_WITHIN:?} after all was healed{ended}"
                ));
            }
        }
        Ok(())
    }

    fn ended_nodes(&mut self) -> String {
        let ended = self.cluster.nodes.iter_mut().filter_map(|node| Some((node.id, node.ended()?)));
        ended.map(|(id, ended)| format!("; node {id} ended: {}", ended.why())).collect()
    }

    /// Judges the end of a node with a failed disk: it must be a failure that names the error.
    fn judge_stop(&mut self, id: u64, ended: &Ended, expected: &str) {
        self.judge_panics(ended);
        if ended.status.success() || ended.status.code().is_none() {
            self.violate(id, &format!("ended with {} after its disk failed", ended.status));
        } else if !ended.said.contains(expected) {
            self.violate(id, &format!("ended without saying {expected:?}: {}", ended.why()));
        } else {
            self.answer(&format!("stopped: {expected}"));
        }
    }

    fn judge_refusal(&mut self, id: u64, ended: &Ended) {
        self.judge_panics(ended);
        let tells = WAYS_BACK.iter().any(|way| ended.said.contains(way));
        if ended.status.success() || ended.status.code().is_none() || !tells {
            let status = ended.status;
            self.violate(id, &format!("refused with {status} and no way back: {}", ended.why()));
        } else {
            self.answer("refused, and said how it comes back");
        }
    }

    fn judge_panics(&mut self, ended: &Ended) {
        if ended.said.contains("panicked at") {
            self.answer("panicked on its way out");
        }
    }

    fn answer(&mut self, what: &str) {
        *self.report.answers.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn violate(&mut self, id: u64, what: &str) {
        self.cluster.ledger.violation(format!("node {id} {what}"));
    }
}

fn scope(ids: &[u64]) -> String {
    let names: BTreeMap<usize, &str> = [(1, "one node"), (2, "two nodes")].into();
    (*names.get(&ids.len()).unwrap_or(&"all nodes")).to_owned()
}
