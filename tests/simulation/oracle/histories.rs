//! Small histories of sequences, of tags with periods, of registers and of leases. Each breaks one promise, or none,
//! and the judge must find that. Every campaign begins with them, because a judge that finds nothing may be unable to find
//! anything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use mintleaf::service::{LastNumber, LeaseName, Registered};
use mintleaf_core::sequence::{SequenceKey, section_of};
use mintleaf_core::shape::{Leadership, Line, PeriodNumber};
use mintleaf_core::snowflake::{Format, WorkerPool};
use mintleaf_core::state::{
    Actor, Change, Command, PoolWorkers, Raise, Response, State, lease_name,
};
use mintleaf_core::tag::BizTag;

use super::registers::BeforeRegistered;
use super::{Incarnation, Oracle};
use crate::trace::Trace;

const KEY: &str = "room-17";
const DAY_MS: u64 = 86_400_000;
/// The first millisecond of the first day.
const NEW_YEAR_MS: u64 = 1_798_761_600_000;
const FIRST: PeriodNumber = PeriodNumber(20_270_101);
const SECOND: PeriodNumber = PeriodNumber(20_270_102);
const NODES: [Incarnation; 2] =
    [Incarnation { node_id: 1, number: 1 }, Incarnation { node_id: 2, number: 1 }];

/// A history, and words of the complaint that the judge must make; `None` for no complaint.
struct History(&'static str, fn(&Told), Option<&'static str>);

const HISTORIES: [History; 33] = [
    History(
        "a key goes on above the section's mark after a failover, and counts for itself",
        |told| {
            told.section(1..6, 1);
            told.numbers(0, KEY, 1..4);
            told.section(6..11, 2);
            told.numbers(1, KEY, 6..8);
            told.section(11..16, 2);
            told.numbers(1, KEY, 8..13);
        },
        None,
    ),
    History(
        "a sequence goes on at its old number after a failover",
        |told| {
            told.section(1..6, 1);
            told.numbers(0, KEY, 1..4);
            told.section(6..11, 2);
            told.numbers(1, KEY, 6..8);
            told.numbers(0, KEY, 4..5);
        },
        Some("gave 4..5 of room-17 after 8"),
    ),
    History(
        "two calls at once are given one number",
        |told| {
            told.section(1..6, 1);
            told.numbers_since(0, 0, KEY, 1..3);
            told.numbers_since(1, 0, KEY, 2..4);
        },
        Some("2..4 was given before"),
    ),
    History(
        "two calls at once are given numbers the other way round",
        |told| {
            told.section(1..6, 1);
            told.numbers_since(0, 0, KEY, 3..4);
            told.numbers_since(1, 0, KEY, 1..3);
        },
        None,
    ),
    History(
        "numbers reach over the end of what one leadership reserved",
        |told| {
            told.section(1..6, 1);
            told.section(6..11, 2);
            told.numbers(1, KEY, 4..8);
        },
        Some("no leadership has reserved all of it"),
    ),
    History(
        "a number that nobody reserved",
        |told| {
            told.section(1..6, 1);
            told.numbers(0, KEY, 6..7);
        },
        Some("no leadership has reserved all of it"),
    ),
    History(
        "a section is reserved twice",
        |told| {
            told.section(1..6, 1);
            told.section(1..6, 2);
        },
        Some("1..6 is reserved, and the mark is 6"),
    ),
    History(
        "a section jumps",
        |told| {
            told.section(1..6, 1);
            told.section(7..12, 1);
        },
        Some("7..12 is reserved, and the mark is 6"),
    ),
    History(
        "the last number is said to be an earlier one",
        |told| {
            told.section(1..6, 1);
            told.numbers(0, KEY, 1..4);
            told.last(Some(3));
            told.last(Some(2));
        },
        Some("is said of room-17"),
    ),
    History(
        "each period begins at 1",
        |told| {
            told.period(FIRST, 1..11, DAY_MS - 1);
            told.ids(0, FIRST, 1..4);
            told.period(SECOND, 1..11, DAY_MS);
            told.ids(0, SECOND, 1..4);
            told.period(FIRST, 11..21, DAY_MS + 1_999);
            told.ids(1, FIRST, 11..12);
        },
        None,
    ),
    History(
        "a period begins again at 1",
        |told| {
            told.period(FIRST, 1..11, DAY_MS - 1);
            told.period(SECOND, 1..11, DAY_MS);
            told.period(FIRST, 1..11, DAY_MS - 1);
        },
        Some("1..11 is reserved, and the mark is 11"),
    ),
    History(
        "a period begins above 1",
        |told| told.period(FIRST, 11..21, 5),
        Some("11..21 is reserved, and the mark is 1"),
    ),
    History(
        "a period is given two seconds after its end",
        |told| told.period(FIRST, 1..11, DAY_MS + 2_000),
        Some("were reserved at"),
    ),
    History(
        "a pair of period and id is given twice",
        |told| {
            told.period(FIRST, 1..11, 5);
            told.ids(0, FIRST, 1..4);
            told.ids(1, FIRST, 3..5);
        },
        Some("3..5 was given before"),
    ),
    History(
        "ids of a period that nobody reserved",
        |told| told.ids(0, FIRST, 1..2),
        Some("were given and none was reserved"),
    ),
    History(
        "ids of one process fall within a period",
        |told| {
            told.period(FIRST, 1..11, 5);
            told.ids(0, FIRST, 4..5);
            told.ids(0, FIRST, 1..2);
        },
        Some("gave 1..2 after 5"),
    ),
    History(
        "a strict tag goes back to an earlier period",
        |told| {
            told.period(FIRST, 1..11, 5);
            told.strict_ids(0, FIRST, 1..4);
            told.period(SECOND, 1..11, DAY_MS);
            told.strict_ids(1, SECOND, 1..2);
            told.strict_ids(0, FIRST, 4..5);
        },
        Some("gave ids of Some(PeriodNumber(20270101)) after"),
    ),
    History(
        "a restored cluster gives numbers and periods of before",
        |told| {
            told.section(1..6, 1);
            told.numbers(0, KEY, 1..4);
            told.period(FIRST, 1..11, 5);
            let restored = told.restored(false);
            restored.section(4..9, 3);
            restored.numbers(0, KEY, 4..5);
            restored.period(FIRST, 11..21, 5);
        },
        Some("4..9 was reserved before"),
    ),
    History(
        "two clusters that go on beside each other begin the day after tomorrow at 1",
        |told| {
            let restored = told.restored(true);
            let third = PeriodNumber(20_270_103);
            for (cluster, node) in [(told, 0), (&restored, 1)] {
                cluster.period(third, 1..11, 2 * DAY_MS);
                cluster.ids(node, third, 1..4);
            }
        },
        None,
    ),
    History(
        "a register numbers keys without a gap, and finds them again",
        |told| {
            told.register("a", 1, true);
            let late = told.asks("b");
            told.told("a", 1, true, told.asks("a"));
            told.register("b", 2, true);
            told.told("b", 2, true, late);
            told.register("a", 1, false);
            told.told("a", 1, false, told.asks("a"));
        },
        None,
    ),
    History(
        "a register leaves a number out",
        |told| {
            told.register("a", 1, true);
            told.register("b", 3, true);
        },
        Some("leaves a gap, 2 is the next"),
    ),
    History(
        "a key is numbered again",
        |told| {
            told.register("a", 1, true);
            told.register("a", 2, true);
        },
        Some("has Some((None, 1)), and got (None, 2)"),
    ),
    History(
        "a caller is answered a number that its key does not have",
        |told| {
            told.register("a", 1, true);
            told.told("a", 2, false, told.asks("a"));
        },
        Some("says Some((None, 2)) of a, which has Some((None, 1))"),
    ),
    History(
        "a key that was asked for later has a lower number",
        |told| {
            told.register("a", 1, true);
            told.register("b", 2, true);
            told.told("b", 2, false, told.asks("b"));
            told.told("a", 1, false, told.asks("a"));
        },
        Some("gave a (None, 1) after (None, 3)"),
    ),
    History(
        "a lease ends, another program has the worker id, and the rest of a third lease goes back",
        |told| {
            told.lease(1, 10..20);
            told.stamps(1, 12..20);
            told.lease(2, 20..30);
            told.stamps(2, 20..23);
            told.give_back(2, 23);
            told.lease(3, 23..33);
            told.stamps(3, 23..24);
            told.stamps(1, 10..12);
        },
        None,
    ),
    History(
        "a worker id is leased again too early",
        |told| {
            told.lease(1, 10..20);
            told.lease(2, 19..29);
        },
        Some("it begins below the mark"),
    ),
    History(
        "a program stamps past the end of its lease",
        |told| {
            told.lease(1, 10..20);
            told.stamps(1, 19..21);
        },
        Some("outside of the grant"),
    ),
    History(
        "a program gives back what it has stamped",
        |told| {
            told.lease(1, 10..20);
            told.stamps(1, 12..16);
            told.give_back(1, 15);
        },
        Some("used numbers are given back"),
    ),
    History(
        "a worker id is leased, taken, freed and leased again",
        |told| {
            told.lease(1, 10..20);
            told.takes(true, 20);
            told.stamps(1, 10..20);
            told.takes(true, 25);
            told.takes(false, 30);
            told.lease(2, 30..40);
            told.stamps(2, 30..31);
        },
        None,
    ),
    History(
        "a worker id is taken while it is leased",
        |told| {
            told.lease(1, 10..20);
            told.takes(true, 19);
        },
        Some("taken at 19, leased up to 20"),
    ),
    History(
        "a worker id is leased while it is taken",
        |told| {
            told.takes(true, 10);
            told.lease(1, 20..30);
        },
        Some("leased while programs use it without a lease"),
    ),
    History(
        "a lease begins before its worker id was freed",
        |told| {
            told.takes(true, 10);
            told.takes(false, 20);
            told.lease(1, 19..29);
        },
        Some("19 below 20"),
    ),
    History(
        "a restored cluster leases what an old lease may cover",
        |told| {
            told.lease(1, 10..20);
            let floor_ms = NEW_YEAR_MS + 3 * DAY_MS / 4;
            told.restored(false).lease(2, floor_ms..floor_ms + 10);
        },
        Some("it begins below the floor"),
    ),
];

/// Judges all of them. Returns whether the judge's verdict on each is right.
pub(crate) fn judge_all() -> bool {
    let mut misjudged = 0;
    for History(name, tell, broken) in &HISTORIES {
        let trace = Arc::new(Trace::new(false));
        let format = Format::LEAF;
        tell(&Told(Oracle::new(Arc::clone(&trace), format)));
        let said = trace.violations();
        let is_right = match broken {
            // One broken promise may break more.
            Some(words) => said.first().is_some_and(|first| first.contains(words)),
            None => said.is_empty(),
        };
        if !is_right {
            misjudged += 1;
            println!("the judge says of \"{name}\": {said:?}, and not {broken:?}");
        }
    }
    let count = HISTORIES.len();
    match misjudged {
        0 => println!("{count} small histories are judged as they must be"),
        _ => println!("{misjudged} of {count} small histories are misjudged"),
    }
    misjudged == 0
}

/// The cluster of a history.
struct Told(Oracle);

impl Told {
    fn committed(&self, line: Line, by: Option<Leadership>, ids: Range<u64>, now_ms: u64) {
        let tag = BizTag::parse("tag").expect("a tag");
        let command = Command::GrabLine { tag, size: 1, line, by };
        let reply = Response::Segment { start: ids.start, end: ids.end, step: 1 };
        self.0.committed(&mut self.0.known.lock(), NEW_YEAR_MS + now_ms, command, reply);
    }

    /// The section of the key gets an interval in this term.
    fn section(&self, numbers: Range<u64>, term: u64) {
        let leader = NODES[(1 + term as usize) % 2];
        let (node_id, nonce) = (leader.node_id, leader.nonce());
        let section = section_of(SequenceKey::parse(KEY).expect("a key"));
        self.committed(
            Line::Section(section),
            Some(Leadership { node_id, nonce, term }),
            numbers,
            0,
        );
    }

    /// A day gets an interval, `now_ms` milliseconds after the first day began.
    fn period(&self, number: PeriodNumber, ids: Range<u64>, now_ms: u64) {
        let start_ms = NEW_YEAR_MS + u64::from(number.0 - FIRST.0) * DAY_MS;
        let line = Line::Period { number, start_ms, end_ms: start_ms + DAY_MS };
        self.committed(line, None, ids, now_ms);
    }

    /// Numbers are given to a call that began after all earlier calls had been answered.
    fn numbers(&self, node: usize, key: &str, numbers: Range<u64>) {
        self.numbers_since(node, self.0.highest_number("tag", key), key, numbers);
    }

    fn numbers_since(&self, node: usize, floor: u64, key: &str, numbers: Range<u64>) {
        self.0.given_numbers(NODES[node], ("tag", key), &numbers, floor);
    }

    fn last(&self, number: Option<u64>) {
        let floor = self.0.highest_number("tag", KEY);
        self.0.told_of_last(("tag", KEY), LastNumber { number, is_exact: true }, floor);
    }

    fn ids(&self, node: usize, period: PeriodNumber, ids: Range<u64>) {
        let before: BTreeMap<_, _> = self.0.highest_of(NODES[node], "tag");
        self.0.given(NODES[node], ("tag", Some(period)), std::slice::from_ref(&ids), &before);
    }

    fn strict_ids(&self, node: usize, period: PeriodNumber, ids: Range<u64>) {
        let (of, before) = (("tag", Some(period)), self.0.highest_answered("tag"));
        self.0.given_in_strict_order(NODES[node], of, std::slice::from_ref(&ids), before);
    }

    /// A command gives the key of a register this number, or finds it.
    fn register(&self, key: &str, number: u64, is_new: bool) {
        let (tag, line) = (BizTag::parse("tag").expect("a tag"), Line::Whole);
        let command = Command::Register { tag, key: key.into(), line, keys_max: 100 };
        let reply = Response::Registered { number, period: None, is_new };
        self.0.committed(&mut self.0.known.lock(), NEW_YEAR_MS, command, reply);
    }

    fn asks(&self, key: &str) -> BeforeRegistered {
        self.0.asked_for("tag", key)
    }

    /// A caller is answered.
    fn told(&self, key: &str, number: u64, is_new: bool, before: BeforeRegistered) {
        let (text, is_formatted) = (number.to_string(), false);
        let told = Registered { number, period: None, text, is_formatted, is_new };
        self.0.told_number(NODES[0], ("tag", key), &told, before);
    }

    /// A worker id is leased for these milliseconds, and `name` names the lease.
    fn lease(&self, name: u128, ms: Range<u64>) {
        let (pool, nonce) = (BizTag::parse("pool").expect("a name"), lease_name(name, ms.start));
        let command =
            Command::LeaseWorker { pool, nonce, holder: "a program".into(), window_ms: 10 };
        let reply = Response::Window { worker_id: 7, floor_ms: ms.start, fence_ms: ms.end };
        self.0.committed(&mut self.0.known.lock(), NEW_YEAR_MS, command, reply);
    }

    /// The only worker id of the pool is taken, or freed.
    fn takes(&self, is_taken: bool, now_ms: u64) {
        let pool = BizTag::parse("pool").expect("a name");
        let workers: WorkerPool = "7".parse().expect("a worker id");
        let taken = is_taken.then(|| workers.clone());
        let change = Change::SetPool { pool, workers: workers.clone(), taken: Some(taken.clone()) };
        let reply = Response::Pool { before: None, after: Some(PoolWorkers { workers, taken }) };
        let command = Command::Administer { actor: Actor::default(), change };
        self.0.committed(&mut self.0.known.lock(), now_ms, command, reply);
    }

    fn stamps(&self, nonce: u128, ms: Range<u64>) {
        let pool = BizTag::parse("pool").expect("a name");
        self.0.stamped(&pool, LeaseName { worker_id: 7, nonce }, &ms);
    }

    fn give_back(&self, nonce: u128, unused_from_ms: u64) {
        let pool = BizTag::parse("pool").expect("a name");
        let command = Command::GiveBackLease { pool, worker_id: 7, nonce, unused_from_ms };
        self.0.committed(&mut self.0.known.lock(), NEW_YEAR_MS, command, Response::Noted);
    }

    /// The cluster that was made from a copy on the evening of the first day.
    fn restored(&self, beside: bool) -> Self {
        let raise = Raise { floor_ms: NEW_YEAR_MS + 3 * DAY_MS / 4, ..Raise::default() };
        Self(self.0.of_the_restored(&State::default(), &raise, beside))
    }
}
