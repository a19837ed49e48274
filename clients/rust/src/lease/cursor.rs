//! The one place that hands ids out: a range, and how many ids of it are taken, without a lock.
//!
//! A range is *installed* by whoever holds the lock of its line, and ids are taken by any thread at any time. One
//! atomic word says which installed range is the present one, by its number, the epoch, and how many of its ids
//! are taken. To take is to add to this word. So two takers never get the same offset of the same epoch, and
//! nobody takes of an epoch once the word has gone on to the next.
//!
//! Where a range begins stands in a cell, found by its epoch. A cell serves every so-many-th epoch; a taker that
//! was held up until its cell serves another sees that, and throws away what it had taken. Epochs never
//! begin anew: after the last one a cursor takes no range any more.
//!
//! This file is compiled a second time by `tests/cursor_under_loom.rs`, over loom's atomics.

use std::ops::Range;

use crate::sync::{AtomicU64, Ordering};

/// Most ids of one take: with it, takers that meet at a spent range cannot add up to another epoch.
pub(crate) const TAKE_MAX: u64 = 1 << 16;
/// Longest range that a cursor serves.
pub(crate) const RANGE_MAX: u64 = 1 << 20;
/// The low half of the word counts the ids taken, the high half is the epoch.
const OFFSET_BITS: u32 = 32;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Takers add nothing to a word that counts this many: the range has long been spent. Those who looked a moment
/// ago and add now are fewer than would carry into the epoch, at [`TAKE_MAX`] each: 32,768 threads.
pub(super) const SPENT: u64 = 1 << 31;
/// The last epoch. Its range is empty: what was installed before can always be taken back.
pub(super) const EPOCH_MAX: u64 = OFFSET_MASK;
/// Stands in a cell while its fields are written; no epoch.
const BEING_WRITTEN: u64 = u64::MAX;
/// No offset.
pub(crate) const NEVER: u64 = u64::MAX;

/// A range to be handed out, and what takers have to know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    /// Its ids, at most [`RANGE_MAX`].
    pub(crate) ids: Range<u64>,
    /// Whoever takes the id at this offset asks for the next lease; [`NEVER`]: nobody.
    pub(crate) refill_at: u64,
    /// Until when its ids may be handed out, in nanoseconds of the client's clock; [`NEVER`]: for ever.
    pub(crate) stale_at: u64,
    /// How many ids a handle takes at once.
    pub(crate) block: u64,
}

/// What a taker got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The taker's own ids, as many as it wanted or fewer.
    pub(crate) ids: Range<u64>,
    /// Whether the next lease is to be asked for.
    pub(crate) refill: bool,
    /// As [`Installed::stale_at`].
    pub(crate) stale_at: u64,
}

/// What a taker reads of the present range.
struct Present {
    ids: Range<u64>,
    refill_at: u64,
    stale_at: u64,
}

/// Hands out the ids of one range after another. `CELLS` is how many ranges a taker may be behind.
#[derive(Debug)]
pub(crate) struct Cursor<const CELLS: usize = 4> {
    word: OwnLine<AtomicU64>,
    cells: [Cell; CELLS],
}

/// Keeps the word, which takers write, out of the cache line of the cells, which they read.
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

    /// A cursor without ids, as it is after so many ranges.
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
        // Acquire: what the installer of this epoch wrote to its cell is seen from here on.
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

    /// Takes as many ids as a handle takes at once.
    pub(crate) fn take_block(&self) -> Taken {
        let epoch = self.word.0.load(Ordering::Acquire) >> OFFSET_BITS;
        // A block of another epoch, read too late, is a size as good as any.
        self.take(self.cell(epoch).block.load(Ordering::Relaxed).max(1))
    }

    /// Puts a range in the place of the present one, and answers with what nobody has taken of that one and
    /// nobody will. The caller holds the line's lock. `Err` gives the new range back: there are no epochs left.
    pub(crate) fn install(&self, installed: Installed) -> Result<Range<u64>, Installed> {
        debug_assert!(installed.ids.end - installed.ids.start <= RANGE_MAX, "{installed:?}");
        // Relaxed: only holders of the lock change the epoch.
        let epoch = self.word.0.load(Ordering::Relaxed) >> OFFSET_BITS;
        if epoch + u64::from(!installed.ids.is_empty()) >= EPOCH_MAX {
            return Err(installed);
        }
        // With one cell only, the present range is overwritten before it is left; it is noted first.
        let before = self.cell(epoch).read(epoch).map_or(0..0, |present| present.ids);
        self.cell(epoch + 1).write(epoch + 1, &installed);
        // Release: whoever takes of the new epoch sees its cell. What the old word counts is final.
        let word = self.word.0.swap((epoch + 1) << OFFSET_BITS, Ordering::AcqRel);
        let taken = (word & OFFSET_MASK).min(before.end - before.start);
        Ok(before.start + taken..before.end)
    }

    /// Takes back what nobody has taken, as [`Cursor::install`] does, and leaves nothing to take.
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

    /// What this epoch's range is, unless the cell serves another epoch by now.
    #[inline]
    fn read(&self, epoch: u64) -> Option<Present> {
        // Acquire: a field of a later epoch is not seen without that epoch's mark, which was written first.
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
        // Release: the mark above is seen by whoever sees one of these.
        self.start.store(ids.start, Ordering::Release);
        self.len.store(ids.end - ids.start, Ordering::Release);
        self.refill_at.store(*refill_at, Ordering::Release);
        self.stale_at.store(*stale_at, Ordering::Release);
        self.block.store(*block, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Release);
    }
}
