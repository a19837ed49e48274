//! The judge of a run: it compares what every replica applied with what every client was given.
//!
//! All other tests record histories for `mintleaf-check`. This judge is separate from it. It judges while a run
//! goes on, so that a trace ends at the broken promise, and it compares the logs of replicas, which no client
//! sees.

mod handed_out;
pub(crate) mod histories;
mod lines;
mod numbers;
mod registers;
mod snowflakes;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mintleaf_core::encoding::{decode_command, decode_response};
use mintleaf_core::limits::AHEAD_MS_MAX;
use mintleaf_core::shape::{self, PeriodNumber};
use mintleaf_core::snowflake::Format;
use mintleaf_core::specification::{Lines, Step};
use mintleaf_core::state::{Change, Command, Raise, Response, State, lease_name};
use parking_lot::Mutex;

use crate::next_ids::registered_in;
use crate::trace::Trace;
use handed_out::{HandedOut, Snowflakes};
pub(crate) use handed_out::{Name, Part, Worker};
pub(crate) use lines::Period;
use lines::{Line, Reserved};
pub(crate) use registers::{Key, Number};
pub(crate) use witness::{Witness, witnessed};

/// One incarnation of a node: a start of its process.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Incarnation {
    pub(crate) node_id: u64,
    pub(crate) number: u64,
}

impl Incarnation {
    /// The first nonce of this incarnation. The nonces of two incarnations are far apart.
    pub(crate) fn nonce(self) -> u128 {
        (u128::from(self.node_id) << 96) | (u128::from(self.number) << 64)
    }

    fn of_nonce(nonce: u128) -> Self {
        let number = (nonce >> 64) as u64 & 0xffff_ffff;
        Self { node_id: (nonce >> 96) as u64, number }
    }
}

#[derive(Default)]
struct Known {
    /// For each position of the log, a hash of all commands up to it.
    history: Vec<u64>,
    lines: BTreeMap<Name, Line>,
    /// The periods of tags that have any reserved ids.
    periods: BTreeMap<(String, PeriodNumber), Part>,
    /// The windows of nodes and the leases of programs, as the specification allows them, by their names.
    windows: Lines<Worker, u128>,
    leases: Lines<Worker, u128>,
    /// By window, pairs of an event and a floor: a call that begins after the event may be given nothing below the floor.
    floors: BTreeMap<(Worker, u128), Vec<(u64, u64)>>,
    /// The worker ids of pools that programs use without a lease, and the first millisecond of each.
    taken: BTreeMap<Worker, u64>,
    /// When each of them was freed last.
    freed: BTreeMap<Worker, u64>,
    /// No lease of a pool begins below it.
    leases_from_ms: u64,
    /// The snowflake floor.
    floor_ms: u64,
    /// How often a window was bound by a floor.
    floor_events: u64,
    snowflake_highest: BTreeMap<Incarnation, u64>,
    /// For each incarnation, the tags that are frozen in its replica, and the command that froze each.
    frozen: BTreeMap<(Incarnation, String), usize>,
    /// By strict tag or register, the period and the end of the highest ids that any client was given.
    strict: BTreeMap<String, (Period, u64)>,
    /// By sequence and key, the end of the highest numbers that any client was given.
    numbers: BTreeMap<(String, Box<str>), u64>,
    /// The number of each key of a register.
    registered: BTreeMap<Key, Number>,
    /// The keys of registers that a client ever asked for, and what had been answered of the register by then.
    asked: BTreeMap<Key, Number>,
    /// Tags that were ever deleted.
    deleted: BTreeSet<String>,
    /// The latest stamp of a command, in Unix milliseconds.
    clock_ms: u64,
    /// By node, the level that its last process supported.
    levels: BTreeMap<u64, u32>,
}

/// Judges a cluster of a run.
pub(crate) struct Oracle {
    trace: Arc<Trace>,
    format: Format,
    known: Mutex<Known>,
    /// Shared by this cluster and all clusters that have a common copy with it.
    handed_out: Arc<HandedOut>,
    snowflakes: Arc<Snowflakes>,
    /// Whether its cluster was made from a copy.
    is_restored: bool,
    /// The first times of snowflakes in each cluster of its line of descent that an old cluster continued beside.
    beside_from_ms: Vec<u64>,
}

impl Oracle {
    pub(crate) fn new(trace: Arc<Trace>, format: Format) -> Self {
        let (known, handed_out, snowflakes) = Default::default();
        let (is_restored, beside_from_ms) = (false, Vec::new());
        Self { trace, format, known, handed_out, snowflakes, is_restored, beside_from_ms }
    }

    /// The judge of a cluster that is restored from a copy of this one, or of its copies, and raised. Ids must not
    /// repeat across both clusters. Snowflakes may, and stamps of leases, if the old cluster continues `beside` the new
    /// one.
    pub(crate) fn of_the_restored(&self, copy: &State, raise: &Raise, beside: bool) -> Self {
        let floor_ms = raise.floor_ms;
        let (trace, handed_out) = (Arc::clone(&self.trace), Arc::clone(&self.handed_out));
        let shared = || Arc::clone(&self.snowflakes);
        let snowflakes = if beside { Arc::default() } else { shared() };
        let mut beside_from_ms = self.beside_from_ms.clone();
        beside_from_ms.extend(beside.then_some(floor_ms));
        let before = self.known.lock();
        // The copy may not know a period that the old cluster had moved on to.
        let without_periods = |(tag, (period, end)): (&String, &(Period, u64))| {
            period.is_none().then(|| (tag.clone(), (None, *end)))
        };
        let named = raise.lasts.iter().flat_map(|(tag, lasts)| {
            // Behind its named number a register has no gap.
            lasts.values().map(|last| ((tag.as_str().to_owned(), Part::Whole), Line::behind(*last)))
        });
        let (mut windows, mut leases) = match beside {
            true => <(Lines<_, _>, Lines<_, _>)>::default(),
            false => (before.windows.clone(), before.leases.clone()),
        };
        self.specified(&mut windows, Step::Restore(floor_ms));
        let leases_from_ms = floor_ms.max(raise.leased_before_ms) + AHEAD_MS_MAX;
        self.specified(&mut leases, Step::Restore(leases_from_ms));
        let taken = snowflakes::taken_in(copy, leases_from_ms);
        let known = Known {
            floor_ms,
            windows,
            leases,
            taken,
            freed: BTreeMap::new(),
            leases_from_ms,
            clock_ms: before.clock_ms,
            lines: named.collect(),
            registered: registered_in(copy, before.asked.keys()),
            asked: before.asked.keys().map(|key| (key.clone(), Number::default())).collect(),
            strict: before.strict.iter().filter_map(without_periods).collect(),
            numbers: before.numbers.clone(),
            ..Known::default()
        };
        drop(before);
        let (format, known) = (self.format, Mutex::new(known));
        Self { trace, format, known, handed_out, snowflakes, is_restored: true, beside_from_ms }
    }

    /// The highest snowflake id that a client was given.
    pub(crate) fn highest_snowflake(&self) -> Option<u64> {
        self.snowflakes.highest()
    }

    /// The latest stamp of a command, in Unix milliseconds.
    pub(crate) fn clock_ms(&self) -> u64 {
        self.known.lock().clock_ms
    }

    /// Notes the highest level of the log that the process supports which a node starts.
    pub(crate) fn supports(&self, node_id: u64, level: u32) {
        self.known.lock().levels.insert(node_id, level);
    }

    /// The format of snowflake ids.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The number of ids that clients were given, of commands that were applied, and of steps that were held against the
    /// specification, in all clusters.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let HandedOut { ids, commits, steps, .. } = &*self.handed_out;
        [ids, commits, steps].map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether a tag was ever deleted.
    pub(crate) fn was_deleted(&self, tag: &str) -> bool {
        self.known.lock().deleted.contains(tag)
    }

    /// Judges the command that a replica applied as its `position`th. Every replica must apply the same
    /// command, and return the same reply, at every position.
    fn applied(&self, position: usize, hash: u64, now_ms: u64, command: &[u8], reply: &[u8]) {
        let mut known = self.known.lock();
        known.clock_ms = known.clock_ms.max(now_ms);
        match known.history.get(position) {
            Some(&first) if first == hash => {}
            Some(_) => self.broken(format_args!("replicas differ at command {position}")),
            None if position == known.history.len() => {
                known.history.push(hash);
                self.handed_out.commits.fetch_add(1, Ordering::Relaxed);
                let (command, reply) = (decode_command(command), decode_response(reply));
                let (command, reply) = (command.expect("a command"), reply.expect("a response"));
                self.committed(&mut known, now_ms, command, reply);
            }
            None => self.broken(format_args!("command {position} was applied before its turn")),
        }
    }

    /// Judges a snapshot that a replica installed.
    fn restored(&self, position: usize, hash: u64) {
        let expected = position.checked_sub(1).map(|last| self.known.lock().history[last]);
        if expected.unwrap_or(0) != hash {
            self.broken(format_args!("a snapshot after command {position} differs"));
        }
    }

    fn broken(&self, what: std::fmt::Arguments<'_>) {
        self.trace.violation(&what.to_string());
    }

    fn committed(&self, known: &mut Known, now_ms: u64, command: Command, reply: Response) {
        self.trace.note(format_args!("commit {} {command:?} {reply:?}", known.history.len()));
        match (command, reply) {
            (Command::Administer { change: Change::DeleteTag { tag }, .. }, Response::Deleted) => {
                known.deleted.insert(tag.as_str().to_owned());
            }
            (
                Command::Grab { tag, .. },
                reply @ (Response::Segment { .. } | Response::BoundedSegment { .. }),
            ) => {
                let Some((ids, _)) = reply.segment() else { return };
                let (tag, line, by) = (tag.as_str(), shape::Line::Whole, None);
                self.reserved(known, Reserved { tag, line, by, ids, now_ms });
            }
            (
                Command::GrabLine { tag, line, by, .. },
                reply @ (Response::Segment { .. } | Response::BoundedSegment { .. }),
            ) => {
                let Some((ids, _)) = reply.segment() else { return };
                let tag = tag.as_str();
                self.reserved(known, Reserved { tag, line, by, ids, now_ms });
            }
            (_, Response::Tag(row)) => self.row_shown(known, &row, None),
            (_, Response::ShapedTag { row, shape }) => self.row_shown(known, &row, Some(&*shape)),
            (_, Response::BoundedTag { row, shape, .. }) => {
                self.row_shown(known, &row, shape.as_deref());
            }
            (
                Command::Register { tag, key, line, .. },
                Response::Registered { number, period, is_new },
            ) => {
                let of = (tag.as_str().to_owned(), key);
                self.registered(known, of, line, ((period, number), is_new, now_ms));
            }
            (
                Command::Administer {
                    change: Change::SetPool { pool, .. } | Change::DeletePool { pool },
                    ..
                },
                Response::Pool { after, .. },
            ) => self.pool_changed(known, now_ms, &pool, after),
            (Command::Administer { .. }, Response::Floor { before_ms, floor_ms }) => {
                if before_ms != known.floor_ms {
                    self.broken(format_args!("the floor {} was {before_ms}", known.floor_ms));
                }
                self.specified(&mut known.windows, Step::Floor(floor_ms));
                known.floor_ms = floor_ms;
            }
            (Command::RaiseLevel { to, .. }, _) => {
                let too_old = known.levels.iter().find(|(_, supported)| **supported < to);
                if let Some((node_id, supported)) = too_old {
                    self.broken(format_args!(
                        "the level rose to {to}, and node {node_id} supports {supported}"
                    ));
                }
            }
            (command, reply) => self.window_committed(known, command, reply),
        }
    }

    /// Judges a command about the window of a worker id, a node's own or a leased one.
    fn window_committed(&self, known: &mut Known, command: Command, reply: Response) {
        match (command, reply) {
            (
                Command::AcquireWorker { nonce, node_id, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                if Incarnation::of_nonce(nonce).node_id != node_id {
                    self.broken(format_args!("worker {worker_id}: granted to a stranger"));
                }
                let (line, numbers) = (Worker::own(worker_id), floor_ms..fence_ms);
                self.specified(&mut known.windows, Step::Grant { line, grant: nonce, numbers });
            }
            (
                Command::LeaseWorker { pool, nonce, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let (line, numbers) = (Worker::of(&pool, worker_id), floor_ms..fence_ms);
                self.leased(known, &line, Some(floor_ms));
                let grant = lease_name(nonce, floor_ms);
                self.specified(&mut known.leases, Step::Grant { line, grant, numbers });
            }
            (
                Command::RenewWorker { nonce, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let (line, numbers) = (Worker::own(worker_id), floor_ms..fence_ms);
                self.specified(&mut known.windows, Step::Extend { line, grant: nonce, numbers });
            }
            (
                Command::RenewLease { pool, nonce, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let (line, numbers) = (Worker::of(&pool, worker_id), floor_ms..fence_ms);
                self.leased(known, &line, None);
                self.specified(&mut known.leases, Step::Extend { line, grant: nonce, numbers });
            }
            (Command::ReleaseWorker { worker_id, nonce, unused_from_ms }, Response::Noted) => {
                let (line, grant, unused_from) = (Worker::own(worker_id), nonce, unused_from_ms);
                self.specified(&mut known.windows, Step::GiveBack { line, grant, unused_from });
            }
            (
                Command::GiveBackLease { pool, worker_id, nonce, unused_from_ms },
                Response::Noted,
            ) => {
                let (line, unused_from) = (Worker::of(&pool, worker_id), unused_from_ms);
                let step = Step::GiveBack { line, grant: nonce, unused_from };
                self.specified(&mut known.leases, step);
            }
            (
                Command::LiftWindow { nonce, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => self.lifted(known, (Worker::own(worker_id), nonce), floor_ms..fence_ms),
            _ => {}
        }
    }

    /// Notes the `position`th command that an incarnation's replica applied, if it froze or thawed a tag.
    fn note_frozen(&self, incarnation: Incarnation, position: usize, command: &[u8], reply: &[u8]) {
        let Ok(Command::Administer { change, .. }) = decode_command(command) else { return };
        let Some(tag) = change.tag() else { return };
        let at = (incarnation, tag.as_str().to_owned());
        let mut known = self.known.lock();
        let reply = decode_response(reply).expect("a response");
        match reply.row() {
            Some(row) if row.protection.frozen => {
                known.frozen.entry(at).or_insert(position);
            }
            Some(_) => drop(known.frozen.remove(&at)),
            None if reply == Response::Deleted => drop(known.frozen.remove(&at)),
            None => {}
        }
    }

    /// The command that froze a tag in an incarnation's replica, if the tag is frozen there.
    pub(crate) fn frozen_since(&self, incarnation: Incarnation, tag: &str) -> Option<usize> {
        self.known.lock().frozen.get(&(incarnation, tag.to_owned())).copied()
    }

    /// Judges a call that gave ids of a tag. `frozen_since` is from before the call.
    pub(crate) fn check_thawed(&self, by: Incarnation, tag: &str, frozen_since: Option<usize>) {
        if frozen_since.is_some() && self.frozen_since(by, tag) == frozen_since {
            self.broken(format_args!("{by:?} gave ids of {tag}, which it knew to be frozen"));
        }
    }
}
