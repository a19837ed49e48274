//! The one place that hands out ids: a range, and the number of its ids that are taken, without a lock.
//!
//! The holder of a line's lock *installs* a range. Any thread takes ids from it at any time. One atomic word
//! holds the number of the current range, its epoch, and how many of its ids are taken. A thread takes ids by
//! adding to this word. So two takers never get the same offset of the same epoch, and no taker gets ids of an
//! epoch once the word has moved on to the next.
//!
//! A cell, which is found by the epoch, holds where the range begins. A cell serves every `CELLS`-th epoch. A
//! taker that was delayed until its cell serves another epoch notices that, and throws away what it took.
//! Epochs never start over: after the last one a cursor accepts no more ranges.
//!
//! `tests/cursor_under_loom.rs` compiles this file a second time, with loom's atomics.

use std::ops::Range;

use crate::sync::{AtomicU64, Ordering};

/// The largest number of ids of one take. It keeps takers that meet at a spent range from adding up to another epoch.
pub(crate) const TAKE_MAX: u64 = 1 << 16;
/// The longest range that a cursor accepts.
pub(crate) const RANGE_MAX: u64 = 1 << 20;
/// The low half of the word counts the ids taken; the high half is the epoch.
const OFFSET_BITS: u32 = 32;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Takers add nothing to a word that counts this many, because the range is long spent. Takers that read the
/// word earlier may still add up to [`TAKE_MAX`] each. It would take 32,768 such threads to carry into the
/// epoch.
pub(super) const SPENT: u64 = 1 << 31;
/// The last epoch. Its range is empty, so the range installed before it can always be taken back.
pub(super) const EPOCH_MAX: u64 = OFFSET_MASK;
/// In a cell's `epoch` while its other fields are written. Not an epoch.
const BEING_WRITTEN: u64 = u64::MAX;
/// An offset, and a time, that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

/// A range to hand out, and what takers must know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    /// Its ids, at most [`RANGE_MAX`].
    pub(crate) ids: Range<u64>,
    /// The taker of the id at this offset must ask for the next lease. [`NEVER`]: no taker must.
    pub(crate) refill_at: u64,
    /// When its ids expire, in nanoseconds of the client's clock. [`NEVER`]: they do not expire.
    pub(crate) stale_at: u64,
    /// How many ids a handle takes at once.
    pub(crate) block: u64,
}

/// The result of a take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The taker's ids: as many as it wanted, or fewer.
    pub(crate) ids: Range<u64>,
    /// Whether the taker must ask for the next lease.
    pub(crate) refill: bool,
    /// As [`Installed::stale_at`].
    pub(crate) stale_at: u64,
}

/// What a taker reads about the current range.
struct Present {
    ids: Range<u64>,
    refill_at: u64,
    stale_at: u64,
}

/// Hands out the ids of one range after another. A taker may be up to `CELLS` ranges behind.
#[derive(Debug)]
pub(crate) struct Cursor<const CELLS: usize = 4> {
    word: OwnLine<AtomicU64>,
    cells: [Cell; CELLS],
}

/// Keeps the word, which takers write, in another cache line than the cells, which they read.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLine<T>(T);

#[derive(Debug)]
struct Cell {
    epoch: AtomicU64,
    start: AtomicU64,
    len: AtomicU64,
    refill_at: AtomicU64,
    stale_at: AtomicU64,
    block: AtomicU64,
}

impl<const CELLS: usize> Cursor<CELLS> {
    /// A cursor without ids.
    pub(crate) fn new() -> Self {
        Self::at_epoch(0)
    }

    /// A cursor without ids, in the state that it has at this epoch.
    pub(super) fn at_epoch(epoch: u64) -> Self {
        let word = OwnLine(AtomicU64::new(epoch << OFFSET_BITS));
        Self { word, cells: std::array::from_fn(|_| Cell::empty()) }
    }

    /// Takes up to `count` ids, 1 to [`TAKE_MAX`].
    #[inline]
    pub(crate) fn take(&self, count: u64) -> Taken {
        let count = count.min(TAKE_MAX);
        if self.word.0.load(Ordering::Relaxed) & OFFSET_MASK >= SPENT {
            return Taken::default();
        }
        // Acquire: from here on the taker sees what the installer of this epoch wrote to its cell.
        let word = self.word.0.fetch_add(count, Ordering::AcqRel);
        let (epoch, offset) = (word >> OFFSET_BITS, word & OFFSET_MASK);
        let Some(present) = self.cell(epoch).read(epoch) else { return Taken::default() };
        let len = present.ids.end - present.ids.start;
        let (from, to) = (offset.min(len), (offset + count).min(len));
        Taken {
            ids: present.ids.start + from..present.ids.start + to,
            refill: (offset..offset + count).contains(&present.refill_at),
            stale_at: present.stale_at,
        }
    }

    /// Takes one block, the number of ids that a handle takes at once.
    pub(crate) fn take_block(&self) -> Taken {
        let epoch = self.word.0.load(Ordering::Acquire) >> OFFSET_BITS;
        // A late read may return the block size of another epoch, which is just as good.
        self.take(self.cell(epoch).block.load(Ordering::Relaxed).max(1))
    }

    /// Replaces the current range. Returns the ids of the old range that are not taken, and which no taker can
    /// get any more. The caller holds the line's lock. When no epochs are left, `Err` gives the new range back.
    pub(crate) fn install(&self, installed: Installed) -> Result<Range<u64>, Installed> {
        debug_assert!(installed.ids.end - installed.ids.start <= RANGE_MAX, "{installed:?}");
        // Relaxed: only holders of the lock change the epoch.
        let epoch = self.word.0.load(Ordering::Relaxed) >> OFFSET_BITS;
        if epoch + u64::from(!installed.ids.is_empty()) >= EPOCH_MAX {
            return Err(installed);
        }
        // With a single cell, the write below overwrites the current range before the swap retires it, so read
        // it first.
        let before = self.cell(epoch).read(epoch).map_or(0..0, |present| present.ids);
        self.cell(epoch + 1).write(epoch + 1, &installed);
        // Release: a taker of the new epoch sees its cell. The old word's count is now final.
        let word = self.word.0.swap((epoch + 1) << OFFSET_BITS, Ordering::AcqRel);
        let taken = (word & OFFSET_MASK).min(before.end - before.start);
        Ok(before.start + taken..before.end)
    }

    /// Takes back the ids that are not taken, as [`Cursor::install`] does, and leaves the cursor empty.
    pub(crate) fn recall(&self) -> Range<u64> {
        let nothing = Installed { ids: 0..0, refill_at: NEVER, stale_at: NEVER, block: 1 };
        self.install(nothing).unwrap_or(0..0)
    }

    fn cell(&self, epoch: u64) -> &Cell {
        &self.cells[epoch as usize % CELLS]
    }
}

impl Cell {
    fn empty() -> Self {
        Self {
            epoch: AtomicU64::new(BEING_WRITTEN),
            start: AtomicU64::new(0),
            len: AtomicU64::new(0),
            refill_at: AtomicU64::new(NEVER),
            stale_at: AtomicU64::new(NEVER),
            block: AtomicU64::new(1),
        }
    }

    /// The range of this epoch, unless the cell already serves another one.
    #[inline]
    fn read(&self, epoch: u64) -> Option<Present> {
        // Acquire: a reader that sees a field of a later epoch also sees the mark that was written before it.
        let start = self.start.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Acquire);
        let refill_at = self.refill_at.load(Ordering::Acquire);
        let stale_at = self.stale_at.load(Ordering::Acquire);
        let ids = start..start.wrapping_add(len);
        let is_present = self.epoch.load(Ordering::Acquire) == epoch;
        is_present.then_some(Present { ids, refill_at, stale_at })
    }

    fn write(&self, epoch: u64, installed: &Installed) {
        let Installed { ids, refill_at, stale_at, block } = installed;
        self.epoch.store(BEING_WRITTEN, Ordering::Relaxed);
        // Release: a reader that sees one of these also sees the mark above.
        self.start.store(ids.start, Ordering::Release);
        self.len.store(ids.end - ids.start, Ordering::Release);
        self.refill_at.store(*refill_at, Ordering::Release);
        self.stale_at.store(*stale_at, Ordering::Release);
        self.block.store(*block, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Release);
    }
}
