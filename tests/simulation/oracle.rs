//! What must hold, whatever happened: judged from what every replica applied and from what any
//! client was given.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use mintleaf::encoding::{decode_command, decode_response};
use mintleaf::replica::StateReplica;
use mintleaf::snowflake::Format;
use mintleaf::state::{Command, Response};
use mintleaf_raft::{FrozenState, Newer, Rejected, Release, RestoreError, StateMachine};
use parking_lot::Mutex;

use crate::random::fnv;
use crate::trace::Trace;

/// One process start of one node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Boot {
    pub(crate) node_id: u64,
    pub(crate) number: u64,
}

impl Boot {
    /// The nonce that this process start begins to count from; no two come near each other.
    pub(crate) fn nonce(self) -> u128 {
        (u128::from(self.node_id) << 96) | (u128::from(self.number) << 64)
    }

    fn of_nonce(nonce: u128) -> Self {
        let number = (nonce >> 64) as u64 & 0xffff_ffff;
        Self { node_id: (nonce >> 96) as u64, number }
    }
}

/// A committed interval of ids.
struct Interval {
    end: u64,
    /// Who gave any of it to a client.
    giver: Option<Boot>,
}

/// What is known of one tag.
#[derive(Default)]
struct Line {
    max_id: u64,
    committed: BTreeMap<u64, Interval>,
    /// Ranges that clients were given: start to end.
    given: BTreeMap<u64, u64>,
    /// The end of the highest range that each process has given.
    highest: BTreeMap<Boot, u64>,
}

/// A committed time window of one grant of a worker id.
struct Window {
    floor_ms: u64,
    fence_ms: u64,
    /// One past the latest time that a client saw of it.
    shown_ms: u64,
}

#[derive(Default)]
struct Known {
    /// After each applied command: a hash of it and of all before it.
    history: Vec<u64>,
    lines: BTreeMap<String, Line>,
    /// By worker id, then by the nonce of the grant.
    windows: BTreeMap<u16, BTreeMap<u128, Window>>,
    fences: BTreeMap<u16, u64>,
    snowflakes: BTreeMap<u64, u64>,
    snowflake_highest: BTreeMap<Boot, u64>,
    /// Tags that were ever deleted.
    deleted: BTreeSet<String>,
    ids: u64,
}

/// Judges a run.
pub(crate) struct Oracle {
    trace: Arc<Trace>,
    format: Format,
    known: Mutex<Known>,
}

impl Oracle {
    pub(crate) fn new(trace: Arc<Trace>, format: Format) -> Self {
        Self { trace, format, known: Mutex::default() }
    }

    /// How many ids clients were given, and how many commands were applied.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let known = self.known.lock();
        (known.ids, known.history.len() as u64)
    }

    /// Whether a tag was ever deleted.
    pub(crate) fn was_deleted(&self, tag: &str) -> bool {
        self.known.lock().deleted.contains(tag)
    }

    /// How far each tag's committed watermark has come.
    pub(crate) fn max_ids(&self) -> BTreeMap<String, u64> {
        let known = self.known.lock();
        known.lines.iter().map(|(tag, line)| (tag.clone(), line.max_id)).collect()
    }

    /// Judges the command that a replica applied as its `position`th: every replica must apply the
    /// same, and answer the same, at every position.
    fn applied(&self, position: usize, hash: u64, command: &[u8], reply: &[u8]) {
        let mut known = self.known.lock();
        match known.history.get(position) {
            Some(&first) if first == hash => {}
            Some(_) => self.broken(format_args!("replicas differ at command {position}")),
            None if position == known.history.len() => {
                known.history.push(hash);
                self.committed(&mut known, command, reply);
            }
            None => self.broken(format_args!("command {position} was applied before its turn")),
        }
    }

    /// Judges a snapshot that a replica took in.
    fn restored(&self, position: usize, hash: u64) {
        let expected = position.checked_sub(1).map(|last| self.known.lock().history[last]);
        if expected.unwrap_or(0) != hash {
            self.broken(format_args!("a snapshot after command {position} differs"));
        }
    }

    fn broken(&self, what: std::fmt::Arguments<'_>) {
        self.trace.violation(&what.to_string());
    }

    fn committed(&self, known: &mut Known, command: &[u8], reply: &[u8]) {
        let command = decode_command(command).expect("a command");
        let reply = decode_response(reply).expect("a response");
        self.trace.note(format_args!("commit {} {command:?} {reply:?}", known.history.len()));
        match (command, reply) {
            (Command::DeleteTag { tag }, Response::Deleted) => {
                known.deleted.insert(tag.as_str().to_owned());
            }
            (Command::Grab { tag, .. }, Response::Segment { start, end, .. }) => {
                let line = known.lines.entry(tag.as_str().to_owned()).or_default();
                if start < line.max_id || end <= start {
                    let max_id = line.max_id;
                    self.broken(format_args!("{tag:?}: {start}..{end} below the mark {max_id}"));
                }
                line.max_id = end;
                line.committed.insert(start, Interval { end, giver: None });
            }
            (_, Response::Tag(row)) => {
                let line = known.lines.entry(row.tag.as_str().to_owned()).or_default();
                if row.max_id < line.max_id {
                    self.broken(format_args!("the mark of {row:?} was {}", line.max_id));
                }
                line.max_id = row.max_id;
            }
            (
                Command::AcquireWorker { nonce, node_id, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let fence = known.fences.insert(worker_id, fence_ms).unwrap_or(0);
                if floor_ms < fence || Boot::of_nonce(nonce).node_id != node_id {
                    self.broken(format_args!("worker {worker_id}: {floor_ms} below {fence}"));
                }
                let window = Window { floor_ms, fence_ms, shown_ms: 0 };
                known.windows.entry(worker_id).or_default().insert(nonce, window);
            }
            (
                Command::RenewWorker { nonce, .. },
                Response::Window { worker_id, floor_ms, fence_ms },
            ) => {
                let fence = known.fences.insert(worker_id, fence_ms).unwrap_or(0);
                let window = known.windows.get_mut(&worker_id).and_then(|all| all.get_mut(&nonce));
                match window {
                    Some(held) if held.floor_ms == floor_ms && held.fence_ms == fence => {
                        held.fence_ms = fence_ms.max(fence);
                    }
                    _ => self.broken(format_args!("worker {worker_id}: renewed by a stranger")),
                }
            }
            (Command::ReleaseWorker { worker_id, nonce, unused_from_ms }, Response::Noted) => {
                self.released(known, worker_id, nonce, unused_from_ms);
            }
            _ => {}
        }
    }

    fn released(&self, known: &mut Known, worker_id: u16, nonce: u128, unused_from_ms: u64) {
        let windows = known.windows.get_mut(&worker_id);
        let Some(window) = windows.and_then(|all| all.get_mut(&nonce)) else {
            return self.broken(format_args!("worker {worker_id}: released by a stranger"));
        };
        window.fence_ms = unused_from_ms.clamp(window.floor_ms, window.fence_ms);
        if window.shown_ms > window.fence_ms {
            self.broken(format_args!("worker {worker_id}: times were shown past the release"));
        }
        known.fences.insert(worker_id, window.fence_ms);
    }

    /// The end of the highest ids of a tag that a process has given so far; later calls must come
    /// out above it. `None` for a tag stands for snowflakes.
    pub(crate) fn highest(&self, boot: Boot, tag: Option<&str>) -> u64 {
        let known = self.known.lock();
        let highest = match tag {
            Some(tag) => known.lines.get(tag).and_then(|line| line.highest.get(&boot)),
            None => known.snowflake_highest.get(&boot),
        };
        highest.copied().unwrap_or(0)
    }

    /// Judges ids of a tag that a client was given by a call before which the process' highest was
    /// `floor`.
    pub(crate) fn given(&self, boot: Boot, tag: &str, ranges: &[Range<u64>], floor: u64) {
        let known = &mut *self.known.lock();
        let line = known.lines.entry(tag.to_owned()).or_default();
        self.check_order(boot, tag, ranges, floor);
        for range in ranges {
            known.ids += range.end - range.start;
            self.check_once(tag, &mut line.given, range);
            match line.committed.range_mut(..=range.start).next_back() {
                Some((_, interval)) if range.end <= interval.end => {
                    let giver = *interval.giver.get_or_insert(boot);
                    if giver != boot {
                        self.broken(format_args!(
                            "{tag}: {range:?} was given by {boot:?}, and its interval is {giver:?}'s"
                        ));
                    }
                }
                _ => self.broken(format_args!("{tag}: {range:?} was given and not committed")),
            }
            let highest = line.highest.entry(boot).or_default();
            *highest = range.end.max(*highest);
        }
    }

    /// The same for snowflake ids.
    pub(crate) fn given_snowflakes(&self, boot: Boot, ranges: &[Range<u64>], floor: u64) {
        let known = &mut *self.known.lock();
        self.check_order(boot, "snowflake", ranges, floor);
        for range in ranges {
            known.ids += range.end - range.start;
            self.check_once("snowflake", &mut known.snowflakes, range);
            let parts = self.format.decode(range.start).expect("an id of this format");
            let windows = known.windows.get_mut(&parts.worker_id).map(BTreeMap::iter_mut);
            let own = windows.into_iter().flatten().find(|(nonce, window)| {
                Boot::of_nonce(**nonce) == boot
                    && (window.floor_ms..window.fence_ms).contains(&parts.time_ms)
            });
            match own {
                Some((_, window)) => window.shown_ms = window.shown_ms.max(parts.time_ms + 1),
                None => self.broken(format_args!("{boot:?} gave {parts:?} outside of its windows")),
            }
            let highest = known.snowflake_highest.entry(boot).or_default();
            *highest = range.end.max(*highest);
        }
    }

    fn check_order(&self, boot: Boot, what: &str, ranges: &[Range<u64>], floor: u64) {
        let mut last = floor;
        for range in ranges {
            if range.start < last {
                self.broken(format_args!("{what}: {boot:?} gave {range:?} after {last}"));
            }
            last = range.end;
        }
    }

    fn check_once(&self, what: &str, given: &mut BTreeMap<u64, u64>, range: &Range<u64>) {
        let before = given.range(..range.end).next_back();
        if before.is_some_and(|(_, &end)| end > range.start) || range.start == 0 {
            self.broken(format_args!("{what}: {range:?} was given before, in part or whole"));
        }
        given.insert(range.start, range.end);
    }
}

/// A replica whose every step is judged.
pub(crate) struct Witness {
    state: Arc<StateReplica>,
    oracle: Arc<Oracle>,
    /// How many commands it has applied, and the hash of them all.
    applied: Mutex<(usize, u64)>,
}

impl Witness {
    pub(crate) fn new(state: Arc<StateReplica>, oracle: Arc<Oracle>) -> Self {
        Self { state, oracle, applied: Mutex::default() }
    }
}

impl StateMachine for Witness {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        self.state.check(command)
    }

    fn supports(&self) -> Release {
        self.state.supports()
    }

    fn needs(&self) -> Release {
        self.state.needs()
    }

    fn raising(&self, to: u32) -> Vec<u8> {
        self.state.raising(to)
    }

    fn apply(&self, now_ms: u64, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let reply = self.state.apply(now_ms, command)?;
        let mut applied = self.applied.lock();
        let (position, hash) = *applied;
        let hash = fnv(fnv(fnv(hash, &now_ms.to_be_bytes()), command), &reply);
        self.oracle.applied(position, hash, command, &reply);
        *applied = (position + 1, hash);
        Ok(reply)
    }

    fn freeze(&self) -> FrozenState {
        let (position, hash) = *self.applied.lock();
        let state = self.state.freeze();
        Box::new(move |out: &mut dyn Write| {
            out.write_all(&(position as u64).to_be_bytes())?;
            out.write_all(&hash.to_be_bytes())?;
            state(out)
        })
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let (mut position, mut hash) = ([0; 8], [0; 8]);
        from.read_exact(&mut position)?;
        from.read_exact(&mut hash)?;
        let applied = (u64::from_be_bytes(position) as usize, u64::from_be_bytes(hash));
        self.oracle.restored(applied.0, applied.1);
        *self.applied.lock() = applied;
        self.state.restore(from)
    }
}
