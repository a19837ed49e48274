//! The two places where the milliseconds of a worker id, and the ids in them, are handed out: one atomic word each.
//!
//! This file needs nothing but atomics, so a test compiles it once more to search through all orders of threads.

use crate::sync::{AtomicU64, Ordering};

/// Set in the word of [`Stamps`] once no further millisecond is granted.
const CLOSED: u64 = 1 << 63;

/// The milliseconds of one lease, and the highest one that was granted.
#[derive(Debug)]
pub(crate) struct Stamps {
    pub(crate) from_ms: u64,
    /// It only grows.
    until_ms: AtomicU64,
    /// The highest millisecond that was granted, or the one before the first; and [`CLOSED`].
    word: AtomicU64,
}

impl Stamps {
    /// The milliseconds from `from_ms`, 1 or more, up to and without `until_ms`.
    pub(crate) fn new(from_ms: u64, until_ms: u64) -> Self {
        let word = AtomicU64::new(from_ms - 1);
        Self { from_ms, until_ms: AtomicU64::new(until_ms), word }
    }

    pub(crate) fn until_ms(&self) -> u64 {
        self.until_ms.load(Ordering::Relaxed)
    }

    /// Moves the end further. It never moves back.
    pub(crate) fn renew(&self, until_ms: u64) {
        self.until_ms.fetch_max(until_ms, Ordering::Relaxed);
    }

    /// Whether the millisecond may be stamped. If it may, it counts as stamped.
    pub(crate) fn grant(&self, ms: u64) -> bool {
        // An end that is out of date is an earlier one.
        if ms < self.from_ms || ms >= self.until_ms() {
            return false;
        }
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return false;
            }
            if word >= ms {
                return true;
            }
            let raised =
                self.word.compare_exchange_weak(word, ms, Ordering::Relaxed, Ordering::Relaxed);
            match raised {
                Ok(_) => return true,
                Err(present) => word = present,
            }
        }
    }

    /// Grants nothing any more. Returns the highest millisecond that was granted, or the one before the first; `None`
    /// if this was done before.
    pub(crate) fn close(&self) -> Option<u64> {
        let word = self.word.fetch_or(CLOSED, Ordering::Relaxed);
        (word & CLOSED == 0).then_some(word)
    }

    /// The highest millisecond that was granted, or the one before the first.
    pub(crate) fn highest(&self) -> u64 {
        self.word.load(Ordering::Relaxed) & !CLOSED
    }
}

/// The last id of a generator. Any thread takes the next one in the same millisecond. The next millisecond is begun under
/// a lock, once it is granted.
#[derive(Debug)]
pub(crate) struct Ids {
    word: AtomicU64,
    worker_bits: u32,
    sequence_bits: u32,
}

impl Ids {
    /// A generator whose first id is at a time, in milliseconds since its epoch, after this one.
    pub(crate) fn after(time: u64, worker_bits: u32, sequence_bits: u32) -> Self {
        let spent = (time + 1) << (worker_bits + sequence_bits);
        Self { word: AtomicU64::new(spent - 1), worker_bits, sequence_bits }
    }

    /// The next id at the time of the last one, unless that time is over or has no id left.
    #[inline]
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_spent = !word & self.sequence_mask() == 0;
            if is_spent || now > word >> (self.worker_bits + self.sequence_bits) {
                return None;
            }
            let taken = self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Some(word + 1),
                Err(present) => word = present,
            }
        }
    }

    /// The time of the last id. It changes in [`Ids::begin`] alone.
    pub(crate) fn time(&self) -> u64 {
        self.word.load(Ordering::Relaxed) >> (self.worker_bits + self.sequence_bits)
    }

    /// The first id of a worker id at a time after that of the last id. The caller holds the lock.
    pub(crate) fn begin(&self, time: u64, worker_id: u64) -> u64 {
        let id = ((time << self.worker_bits) | worker_id) << self.sequence_bits;
        // A swap comes after every id that other threads have taken at the former time.
        self.word.swap(id, Ordering::Relaxed);
        id
    }

    fn sequence_mask(&self) -> u64 {
        (1 << self.sequence_bits) - 1
    }
}
