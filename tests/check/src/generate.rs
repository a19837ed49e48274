//! Correct histories, generated from a seed: for tests, and to measure the checker.
//!
//! The generator simulates a small service, one effect after the other. The times of each operation lie around
//! its effect. So operations overlap, and yet an order explains them.

use std::collections::VecDeque;

use crate::history::{
    Admin, Call, Fault, Flakes, Grant, Healed, Ids, Interval, Layout, Outcome, Record, Release,
    Row, Text, Window,
};

const NODES: u64 = 3;
const CLIENTS: u64 = 64;
/// Tags that ids are taken from.
const TAGS: u64 = 40;
/// The number of tags that are created, changed and deleted: one for this many operations.
const LEDGER_EVERY: u64 = 10_000;
const STEP: u64 = 1000;
/// Ids in one request.
const COUNT: u64 = 10;
/// Effects are this far apart. The times of an operation differ from its effect by at most `SPREAD_NS`.
const GAP_NS: u64 = 10_000;
const SPREAD_NS: u64 = 200_000;
const EPOCH_MS: u64 = 1_288_834_974_657;
/// The wall clock when the monotonic clock was 0.
const WALL_MS: u64 = 1_700_000_000_000;
const WINDOW_MS: u64 = 1_000;
const LAYOUT: Layout = Layout { epoch_ms: EPOCH_MS, worker_bits: 10, sequence_bits: 12 };
/// A node is restarted after this many operations, each time with a fault and a healing.
const RESTART_EVERY: u64 = 40_000;

/// The lines of a clean history; see [`clean`].
#[derive(Debug)]
pub struct Lines {
    random: u64,
    now_ns: u64,
    left: u64,
    done: u64,
    free_ns: Vec<u64>,
    nodes: Vec<Node>,
    /// `max_id` of each tag that ids are taken from.
    marks: Vec<u64>,
    /// The row of each tag that is created, changed and deleted.
    ledgers: Vec<Option<(u32, u64)>>,
    workers: u16,
    ready: VecDeque<Record<'static>>,
}

#[derive(Debug, Default)]
struct Node {
    boot: u64,
    /// What is held of each tag.
    segments: Vec<Interval>,
    worker: u16,
    window: Interval,
    /// The last snowflake id, 0 before the first.
    last: u64,
}

/// A history of `operations` requests, with the grants, windows and faults around them. The same seed gives the
/// same history.
pub fn clean(seed: u64, operations: u64) -> Lines {
    let mut lines = Lines {
        random: seed,
        now_ns: 1_000_000_000,
        left: operations,
        done: 0,
        free_ns: vec![0; CLIENTS as usize],
        nodes: (0..NODES).map(|_| Node::default()).collect(),
        marks: vec![1; TAGS as usize],
        ledgers: vec![None; 1 + (operations / LEDGER_EVERY) as usize],
        workers: 0,
        ready: VecDeque::from([Record::Layout(LAYOUT)]),
    };
    for node in 1..=NODES {
        lines.start(node);
    }
    lines
}

impl Iterator for Lines {
    type Item = Record<'static>;

    fn next(&mut self) -> Option<Record<'static>> {
        while self.ready.is_empty() && self.left > 0 {
            self.left -= 1;
            self.done += 1;
            self.operate();
        }
        self.ready.pop_front()
    }
}

impl Lines {
    fn operate(&mut self) {
        self.now_ns += GAP_NS;
        if self.done.is_multiple_of(RESTART_EVERY) {
            self.restart();
        }
        let node = 1 + self.below(NODES);
        match self.below(100) {
            0..90 => self.take(node),
            90..98 => self.stamp(node),
            98..99 => self.read_mark(node),
            _ => self.administer(node),
        }
    }

    fn start(&mut self, node: u64) {
        let worker = self.workers % 1024;
        self.workers += 1;
        let state = &mut self.nodes[node as usize - 1];
        let window = (self.now_ns / 1_000_000 + WALL_MS, 0);
        *state = Node { boot: state.boot + 1, worker, window, ..Node::default() };
        state.segments = vec![(0, 0); TAGS as usize];
        self.renew(node);
    }

    fn restart(&mut self) {
        let node = 1 + self.below(NODES);
        let what = Text::from(format!("restart of node {node}"));
        let (inv, ret) = (self.now_ns, Some(self.now_ns + 5 * GAP_NS));
        self.ready.push_back(Record::Fault(Fault { what, inv, ret }));
        if self.below(2) == 0 {
            self.release(node);
        }
        self.now_ns += 10 * GAP_NS;
        self.start(node);
        self.ready.push_back(Record::Healed(Healed { at: self.now_ns }));
    }

    fn release(&mut self, node: u64) {
        let (boot, at) = (self.boot(node), self.now_ns);
        let Node { worker, last, window, .. } = self.nodes[node as usize - 1];
        let from_ms = if last == 0 { window.0 } else { (last >> 22) + EPOCH_MS + 1 };
        self.ready.push_back(Record::Release(Release { worker, node, boot, at, from_ms }));
    }

    fn renew(&mut self, node: u64) {
        let (boot, at) = (self.boot(node), self.now_ns);
        let state = &mut self.nodes[node as usize - 1];
        state.window.1 = at / 1_000_000 + WALL_MS + WINDOW_MS;
        let (worker, w) = (state.worker, state.window);
        self.ready.push_back(Record::Window(Window { worker, node, boot, at, w }));
    }

    /// Takes ids of a tag, first from the buffered segment and then from a new one.
    fn take(&mut self, node: u64) {
        let tag = self.below(TAGS) * self.below(TAGS) / TAGS;
        let (key, boot) = (Text::from(format!("tag-{tag}")), self.boot(node));
        let mut missing = if self.below(10) == 0 { 1 + self.below(100) } else { COUNT };
        let mut r: Vec<Interval> = Vec::new();
        while missing > 0 {
            let held = &mut self.nodes[node as usize - 1].segments[tag as usize];
            if held.0 == held.1 {
                let mark = &mut self.marks[tag as usize];
                *held = (*mark, *mark + STEP);
                *mark += STEP;
                let (at, boot, r) = (self.now_ns, boot.clone(), vec![*held]);
                self.ready.push_back(Record::Grant(Grant { key: key.clone(), node, boot, at, r }));
            }
            let taken = missing.min(held.1 - held.0);
            r.push((held.0, held.0 + taken));
            held.0 += taken;
            missing -= taken;
        }
        let call = self.call(node);
        if call.out != Outcome::Ok {
            r.clear();
        }
        self.ready.push_back(Record::Ids(Ids { call, key, r }));
    }

    /// Takes snowflake ids of the current millisecond.
    fn stamp(&mut self, node: u64) {
        let now_ms = self.now_ns / 1_000_000 + WALL_MS;
        if now_ms + WINDOW_MS / 2 > self.nodes[node as usize - 1].window.1 {
            self.renew(node);
        }
        let count = 1 + self.below(4);
        let state = &mut self.nodes[node as usize - 1];
        let first = ((now_ms - EPOCH_MS) << 22) | u64::from(state.worker) << 12;
        let start = first.max(state.last + 1);
        state.last = start + count - 1;
        let call = self.call(node);
        let r = if call.out == Outcome::Ok { vec![(start, start + count)] } else { Vec::new() };
        self.ready.push_back(Record::Flakes(Flakes { call, r }));
    }

    /// Reads a tag that ids are taken from.
    fn read_mark(&mut self, node: u64) {
        let tag = self.below(TAGS);
        let max_id = Some(self.marks[tag as usize]);
        let row = Row { max_id, ..row((STEP as u32, 0)) };
        let call = self.call(node);
        let row = (call.out == Outcome::Ok).then_some(row);
        let key = Text::from(format!("tag-{tag}"));
        self.ready.push_back(Record::Read(Admin { call, key, row, seen: None, stale: false }));
    }

    /// Changes or reads a tag, or is refused.
    fn administer(&mut self, node: u64) {
        let ledger = self.below(self.ledgers.len() as u64) as usize;
        let before = self.ledgers[ledger];
        let written = Some((1 + self.below(9) as u32, self.done));
        let action = match self.below(6) {
            0 | 1 => Action::Create,
            2 | 3 => Action::Update,
            4 => Action::Delete,
            _ => Action::Read,
        };
        let (after, refusal) = match (action, before) {
            (Action::Create, Some(_)) => (before, Some("tag_exists")),
            (Action::Update | Action::Delete, None) => (before, Some("unknown_tag")),
            (Action::Create | Action::Update, _) => (written, None),
            (Action::Delete, _) => (None, None),
            (Action::Read, _) => (before, None),
        };
        let mut call = self.call(node);
        if call.out == Outcome::Ok || self.below(2) == 0 {
            self.ledgers[ledger] = after;
        }
        if let (Outcome::Ok, Some(code)) = (call.out, refusal) {
            (call.out, call.code) = (Outcome::Fail, Some(Text::from(code)));
        }
        let shown = after.filter(|_| call.out == Outcome::Ok).map(row);
        let row = match action {
            Action::Create | Action::Update => written.map(row),
            Action::Delete => None,
            Action::Read => shown.clone(),
        };
        let seen = shown.filter(|_| matches!(action, Action::Create | Action::Update));
        let key = Text::from(format!("ledger-{ledger}"));
        self.ready.push_back(action.record(Admin { call, key, row, seen, stale: false }));
    }

    /// A request of an idle client, around the current time.
    fn call(&mut self, node: u64) -> Call<'static> {
        let any = self.below(CLIENTS);
        let mut clients = (0..CLIENTS).map(|offset| (any + offset) % CLIENTS);
        let free = clients.find(|&p| self.free_ns[p as usize] < self.now_ns);
        let p = free.expect("fewer operations overlap than there are clients");
        let inv = self.now_ns - self.below(SPREAD_NS);
        let inv = inv.max(self.free_ns[p as usize] + 1);
        let ret = self.now_ns + self.below(SPREAD_NS);
        self.free_ns[p as usize] = ret;
        let (out, ret) = match self.below(100) {
            0 => (Outcome::Info, Some(ret)),
            1 => (Outcome::Info, None),
            _ => (Outcome::Ok, Some(ret)),
        };
        Call { p: p as u32, node, boot: self.boot(node), inv, ret, out, code: None }
    }

    fn boot(&self, node: u64) -> Option<Text<'static>> {
        Some(Text::from(format!("{node}-{}", self.nodes[node as usize - 1].boot)))
    }

    /// A random number below `bound`: SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy)]
enum Action {
    Create,
    Update,
    Delete,
    Read,
}

impl Action {
    fn record(self, admin: Admin<'static>) -> Record<'static> {
        match self {
            Self::Create => Record::Create(admin),
            Self::Update => Record::Update(admin),
            Self::Delete => Record::Delete(admin),
            Self::Read => Record::Read(admin),
        }
    }
}

fn row((step, text): (u32, u64)) -> Row<'static> {
    let description = Some(Text::from(format!("text {text}")));
    Row { step: Some(step), description, max_id: None }
}
