//! What all clusters of a run together have reserved and given. A cluster and those that were restored from
//! copies of it share one supply of ids.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use mintleaf_core::shape::PeriodNumber;
use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

/// Disjoint ranges: start and end.
type Ranges = BTreeMap<u64, u64>;

/// The part of a tag where numbers are unique.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// The whole tag.
    Whole,
    /// A period of it.
    Period {
        number: PeriodNumber,
        start_ms: u64,
        end_ms: u64,
        /// How many clusters of its line of descent had an old cluster that continued beside them and began
        /// this period at 1, as they did. Ids of two such clusters may coincide.
        age: usize,
    },
    /// The keys of a section.
    Section(u16),
    /// A key.
    Key(Box<str>),
}

/// A tag, and a part of it.
pub(crate) type Name = (String, Part);

/// What several clusters have handed out.
#[derive(Default)]
pub(super) struct HandedOut {
    /// By line, the intervals that grabs reserved in any cluster.
    reserved: Mutex<BTreeMap<Name, Ranges>>,
    /// The ranges that clients were given. The ranges of a sequence belong to its keys.
    given: Mutex<BTreeMap<Name, Ranges>>,
    /// How many ids clients were given, how many commands were applied, and how many steps were held against the
    /// specification.
    pub(super) ids: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl HandedOut {
    /// Notes an interval that a grab reserved. Returns whether no cluster had reserved any part of it.
    pub(super) fn reserve(&self, of: &Name, range: &Range<u64>) -> bool {
        insert(self.reserved.lock().entry(of.clone()).or_default(), range)
    }

    /// Notes ids that a client was given. Returns whether no client was given any of them before.
    pub(super) fn give(&self, of: &Name, range: &Range<u64>) -> bool {
        insert(self.given.lock().entry(of.clone()).or_default(), range)
    }

    /// By line, the first id above all that any cluster has reserved.
    pub(super) fn ends(&self) -> BTreeMap<Name, u64> {
        let reserved = self.reserved.lock();
        let end = |ranges: &Ranges| ranges.last_key_value().map_or(0, |(_, end)| *end);
        reserved.iter().map(|(of, ranges)| (of.clone(), end(ranges))).collect()
    }
}

/// A worker id: one of the cluster's own, or one of a pool.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Worker {
    pub(super) pool: Option<BizTag>,
    id: u16,
}

impl Worker {
    /// One that nodes make snowflakes with.
    pub(super) fn own(id: u16) -> Self {
        Self { pool: None, id }
    }

    /// One that programs lease.
    pub(super) fn of(pool: &BizTag, id: u16) -> Self {
        Self { pool: Some(pool.clone()), id }
    }
}

/// Snowflake ids that clients were given, and milliseconds that programs stamped with leased worker ids. A cluster
/// that continues beside the one restored from its copy has separate sets.
#[derive(Default)]
pub(super) struct Snowflakes {
    given: Mutex<Ranges>,
    stamped: Mutex<BTreeMap<Worker, Ranges>>,
}

impl Snowflakes {
    /// Notes ids that a client was given. Returns whether no client was given any of them before.
    pub(super) fn give(&self, range: &Range<u64>) -> bool {
        insert(&mut self.given.lock(), range)
    }

    /// Notes milliseconds that a program stamped. Returns whether no program stamped any of them before.
    pub(super) fn stamp(&self, worker: &Worker, range: &Range<u64>) -> bool {
        insert(self.stamped.lock().entry(worker.clone()).or_default(), range)
    }

    /// The highest id that a client was given.
    pub(super) fn highest(&self) -> Option<u64> {
        self.given.lock().last_key_value().map(|(_, end)| end - 1)
    }
}

/// Inserts a range. Returns whether it overlaps no other range, and does not begin at 0.
fn insert(ranges: &mut Ranges, range: &Range<u64>) -> bool {
    let before = ranges.range(..range.end).next_back();
    let is_new = before.is_none_or(|(_, &end)| end <= range.start);
    ranges.insert(range.start, range.end);
    is_new && range.start > 0
}
