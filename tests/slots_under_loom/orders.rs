//! The threads that meet at a slot and at the table of tags, and what must hold in every order.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::sync::{Arc, Mutex};
use loom::thread;
use mintleaf_core::segment::Segment;
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;

use super::error::Error;
use super::local::slot::{Arrangement, Slot, TakeOutcome};
use super::source::Source;
use super::tag_table::TagTable;
use crate::machine::clock::Clock;
use crate::replica::TagListener;

/// The largest number of preemptions in the orders that are explored.
const PREEMPTIONS_MAX: usize = 3;
/// Ids of a grab.
const STEP: u32 = 3;

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now_ms(&self) -> u64 {
        1_000
    }

    fn monotonic_ms(&self) -> u64 {
        1_000
    }
}

/// A slot, and the log that it grabs from.
struct Node {
    slot: Slot,
    /// The first id that is not reserved.
    mark: Mutex<u64>,
    /// How many of the next grabs fail.
    failing: Mutex<u32>,
}

impl Node {
    /// A node that holds the first ids of a tag.
    fn new(failing: u32) -> Arc<Self> {
        let slot = Slot::new(name(), Steps::from(STEP), std::sync::Arc::new(Noon));
        let slot = slot.with_segment(Segment { start: 1, end: 3 }, Steps::from(STEP));
        Arc::new(Self { slot, mark: Mutex::new(3), failing: Mutex::new(failing) })
    }

    /// Grabs for as long as the slot asks for it, as the task of grabs does.
    fn grab(&self, mut asked: bool) {
        while asked {
            let Some(size) = self.slot.begin_grab(Steps::from(STEP)) else { return };
            let fails = {
                let mut failing = self.failing.lock().expect("a count");
                let fails = *failing > 0;
                *failing -= u32::from(fails);
                fails
            };
            asked = if fails {
                self.slot.grab_failed()
            } else {
                let mut mark = self.mark.lock().expect("a mark");
                let start = *mark;
                *mark += u64::from(size);
                let segment = Segment { start, end: *mark };
                drop(mark);
                self.slot.install(segment, Steps::from(STEP))
            };
        }
    }

    /// Takes up to `count` ids without waiting.
    fn take_some(&self, count: u64) -> Vec<u64> {
        let (ids, asked) = self.slot.take_some(count);
        self.grab(asked);
        ids.into_iter().flatten().collect()
    }

    /// Takes ids, and waits for them. Returns what may arrive later.
    fn take(&self, count: u64, arrangement: Arrangement) -> Taken {
        let (outcome, asked) = self.slot.take(count, arrangement);
        self.grab(asked);
        match outcome {
            TakeOutcome::Ids(ranges) => Taken::Now(ranges),
            TakeOutcome::Wait(answer) => Taken::Later(answer),
            TakeOutcome::Closed => Taken::Closed,
            TakeOutcome::Refused(why) => panic!("{why:?}"),
        }
    }
}

enum Taken {
    Now(Vec<Range<u64>>),
    Later(tokio::sync::oneshot::Receiver<Result<Vec<Range<u64>>, Error>>),
    Closed,
}

impl Taken {
    /// The ids, once no thread runs any more; `None` of a slot that was closed.
    fn ids(self) -> Option<Vec<u64>> {
        let ranges = match self {
            Self::Now(ranges) => ranges,
            Self::Later(mut answer) => match answer.try_recv() {
                Ok(answer) => answer.expect("a waiting caller is not refused"),
                Err(tokio::sync::oneshot::error::TryRecvError::Closed) => return None,
                Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {
                    panic!("a caller waits, and no grab is under way")
                }
            },
            Self::Closed => return None,
        };
        Some(ranges.into_iter().flatten().collect())
    }
}

/// No id was given twice, and each that was reserved was given or is held.
fn check(node: &Node, given: &[u64]) {
    let different: BTreeSet<u64> = given.iter().copied().collect();
    assert_eq!(different.len(), given.len(), "an id twice: {given:?}");
    let end = *node.mark.lock().expect("a mark");
    let mut held = Vec::new();
    while let (Some(ids), _) = node.slot.take_some(u64::MAX) {
        held.extend(ids);
    }
    let all: BTreeSet<u64> = held.iter().chain(given).copied().collect();
    assert_eq!(all.len(), held.len() + given.len(), "given {given:?} and held {held:?}");
    assert!(all.iter().copied().eq(1..end), "of 1..{end}: given {given:?}, held {held:?}");
}

/// Callers that take what there is, while the second segment is installed.
fn takers_share_what_is_held_while_a_segment_arrives() {
    let node = Node::new(0);
    let takers: Vec<_> = [2, 1]
        .map(|count| {
            let node = Arc::clone(&node);
            thread::spawn(move || [node.take_some(count), node.take_some(2)].concat())
        })
        .into();
    let given: Vec<u64> = takers.into_iter().flat_map(|one| one.join().expect("ids")).collect();
    check(&node, &given);
}

/// Two callers need more ids than the slot holds, and the first grab fails. One of them takes a run without a gap.
fn waiting_callers_are_all_served(failing: u32) {
    let node = Node::new(failing);
    let ranges = thread::spawn({
        let node = Arc::clone(&node);
        move || node.take(3, Arrangement::Ranges)
    });
    let more = thread::spawn({
        let node = Arc::clone(&node);
        move || node.take(4, Arrangement::Ranges)
    });
    let some = node.take_some(1);
    let callers = [ranges, more].map(|caller| caller.join().expect("a caller"));
    let [ranges, more] = callers.map(|taken| taken.ids().expect("ids"));
    assert_eq!((ranges.len(), more.len()), (3, 4));
    check(&node, &[some, ranges, more].concat());
}

/// A mark is raised over the held ids while a segment arrives: no call that begins later gets an id below.
fn nothing_below_a_raised_mark_is_given_afterwards() {
    const RAISED: u64 = 5;
    let node = Node::new(0);
    let taker = thread::spawn({
        let node = Arc::clone(&node);
        move || [node.take_some(2), node.take_some(1)].concat()
    });
    node.slot.rise_to(RAISED);
    let (some, more) = (node.take_some(1), node.take(2, Arrangement::Ranges));
    let before = taker.join().expect("ids");
    let after = [some, more.ids().expect("two ids")].concat();
    assert!(after.iter().all(|id| *id >= RAISED), "{after:?} after the mark was raised");
    let given = [before, after].concat();
    let different: BTreeSet<u64> = given.iter().copied().collect();
    assert_eq!(different.len(), given.len(), "an id twice: {given:?}");
}

/// The tag is deleted: no call that begins later gets an id, and no caller waits for ever.
fn a_closed_slot_gives_nothing_and_leaves_no_caller_waiting() {
    let node = Node::new(0);
    let taker = thread::spawn({
        let node = Arc::clone(&node);
        move || node.take(4, Arrangement::Contiguous)
    });
    node.slot.close();
    assert!(node.take_some(1).is_empty(), "an id of a closed slot");
    assert!(node.take(1, Arrangement::Ranges).ids().is_none(), "an id of a closed slot");
    // Either the grab was faster, or the caller hears that the slot is closed.
    let given = taker.join().expect("a caller").ids();
    assert!(given.is_none_or(|ids| ids.len() == 4));
}

fn name() -> BizTag {
    BizTag::parse("orders").expect("a name")
}

/// The slot of the tag, which the first caller makes.
fn first_use(table: &TagTable) -> std::sync::Arc<Slot> {
    let new = || {
        let slot = Slot::new(name(), Steps::from(STEP), std::sync::Arc::new(Noon));
        Source::Plain(std::sync::Arc::new(slot))
    };
    let Source::Plain(slot) = table.get_or_insert(&name(), new);
    slot
}

fn is_closed(slot: &Slot) -> bool {
    matches!(slot.take(1, Arrangement::Ranges).0, TakeOutcome::Closed)
}

/// The slot in the table, which counts it, if there is one.
fn in_table(table: &TagTable) -> Option<std::sync::Arc<Slot>> {
    let held = table.get("orders").map(|source| {
        let Source::Plain(slot) = source;
        slot
    });
    // The leader's ledger holds one tag more.
    assert_eq!(table.loaded(), 1 + usize::from(held.is_some()), "tags are miscounted");
    held
}

/// Two callers use a tag first: both get the same slot.
fn first_callers_share_a_slot() {
    let table = Arc::new(TagTable::new(1 << 10, 1));
    let other = thread::spawn({
        let table = Arc::clone(&table);
        move || first_use(&table)
    });
    let (one, other) = (first_use(&table), other.join().expect("a slot"));
    assert!(std::sync::Arc::ptr_eq(&one, &other), "two slots of one tag");
    assert!(in_table(&table).is_some_and(|slot| std::sync::Arc::ptr_eq(&slot, &one)));
}

/// A tag is deleted, or the whole state is replaced, while it is used first: a slot that is not in the table is closed.
fn a_slot_that_leaves_the_table_is_closed(is_replaced: bool) {
    let table = Arc::new(TagTable::new(1 << 10, 1));
    let caller = thread::spawn({
        let table = Arc::clone(&table);
        move || first_use(&table)
    });
    match is_replaced {
        true => table.state_replaced(),
        false => table.tag_deleted("orders"),
    }
    assert!(table.loaded() <= 2, "tags are miscounted");
    let used = caller.join().expect("a slot");
    match in_table(&table) {
        Some(slot) => assert!(std::sync::Arc::ptr_eq(&slot, &used) && !is_closed(&used)),
        None => assert!(is_closed(&used), "a slot outside of the table gives ids"),
    }
}

/// A caller gives up the slot of a deleted tag while another uses the tag that was made again.
fn the_slot_of_a_tag_made_again_stays() {
    let table = Arc::new(TagTable::new(1 << 10, 1));
    let old = first_use(&table);
    let forgetting = thread::spawn({
        let table = Arc::clone(&table);
        move || table.forget(&old)
    });
    table.tag_deleted("orders");
    let new = first_use(&table);
    forgetting.join().expect("no panic");
    assert!(in_table(&table).is_some_and(|slot| std::sync::Arc::ptr_eq(&slot, &new)));
    assert!(!is_closed(&new), "the slot of the new tag was closed");
}

/// Searches all orders of each case.
pub fn search_all() {
    let cases: [(&str, fn()); 9] = [
        ("takers share", takers_share_what_is_held_while_a_segment_arrives),
        ("waiting callers", || waiting_callers_are_all_served(0)),
        ("waiting callers and a failed grab", || waiting_callers_are_all_served(1)),
        ("a raised mark", nothing_below_a_raised_mark_is_given_afterwards),
        ("a closed slot", a_closed_slot_gives_nothing_and_leaves_no_caller_waiting),
        ("first callers", first_callers_share_a_slot),
        ("a tag deleted at its first use", || a_slot_that_leaves_the_table_is_closed(false)),
        ("a state replaced at a first use", || a_slot_that_leaves_the_table_is_closed(true)),
        ("a tag made again", the_slot_of_a_tag_made_again_stays),
    ];
    for (name, case) in cases {
        let counted = std::sync::Arc::new(AtomicU64::new(0));
        let mut search = loom::model::Builder::new();
        search.preemption_bound = Some(PREEMPTIONS_MAX);
        let count = std::sync::Arc::clone(&counted);
        search.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            case();
        });
        let orders = counted.load(Ordering::Relaxed);
        println!("{name}: {orders} orders with at most {PREEMPTIONS_MAX} preemptions");
        assert!(orders > 2, "{name} has only {orders} orders");
    }
}
