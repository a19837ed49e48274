//! A hash table of a bounded size, which forgets what was not used lately.
//!
//! Extendible hashing: a directory of pages, each an open-addressed table of a few entries. A full page is split
//! in two while the bound allows another page, so the table grows with what it holds, and no step moves more than a
//! page (and, seldom, doubles the directory, which is a hundredth of the table). Once no page may be added, a full
//! page forgets one entry by the clock algorithm: the hand passes over entries that were used since it came by
//! last, and takes the first that was not. Each step takes bounded time, and nothing is ever swept as a whole.

/// Entries of a page.
const PLACES: usize = 64;
/// Entries that a page holds before it is split or forgets: the rest keeps searches short.
const HELD_MAX: usize = PLACES * 7 / 8;
/// What an allocator adds to a page.
const ALLOCATION_BYTES: usize = 16;

/// What a table holds.
pub(super) trait Entry: Copy {
    /// A place that holds nothing.
    const VACANT: Self;

    /// A hash of what identifies the entry. In each table, hashes are evenly distributed in a way that callers cannot
    /// foresee.
    fn hash(&self) -> u64;
    /// Whether the place holds nothing.
    fn is_vacant(&self) -> bool;
    /// Whether the entry was used since the hand came by.
    fn is_used(&self) -> bool;
    /// Remembers whether it was.
    fn set_used(&mut self, used: bool);
}

/// The table.
pub(super) struct ClockTable<E> {
    /// The page of each value of the lowest `depth` bits of a hash.
    directory: Vec<u32>,
    depth: u32,
    pages: Vec<Box<Page<E>>>,
    pages_max: usize,
    depth_max: u32,
    held: usize,
}

struct Page<E> {
    entries: [E; PLACES],
    held: usize,
    hand: usize,
    /// How many of the lowest bits all hashes of this page have in common.
    depth: u32,
}

impl<E: Entry> ClockTable<E> {
    /// An empty table that takes up to `bytes` of memory, and that of one page in any case.
    pub(super) fn new(bytes: usize) -> Self {
        // `depth_max` allows the directory up to eight numbers of four bytes for each page.
        let per_page = Self::page_bytes() + 32;
        let pages_max = (bytes / per_page).clamp(1, 1 << 28);
        let depth_max = pages_max.next_power_of_two().ilog2() + 2;
        let pages = vec![Box::new(Page::new(0))];
        Self { directory: vec![0], depth: 0, pages, pages_max, depth_max, held: 0 }
    }

    /// Bytes that the table takes now.
    pub(super) fn memory(&self) -> usize {
        self.pages.len() * Self::page_bytes() + self.directory.len() * size_of::<u32>()
    }

    /// Entries that it holds.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The entry with this hash that `is_it` accepts. It counts as used from now on.
    pub(super) fn find(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let page = self.page_of(hash);
        let entry = self.pages[page].find(hash, is_it)?;
        entry.set_used(true);
        Some(entry)
    }

    /// Puts in an entry that is not there. Returns an entry that was forgotten for it, if any. A new entry counts as
    /// used once it is found: a crowd of entries that come once drives out none that is used again and again.
    pub(super) fn insert(&mut self, mut entry: E) -> Option<E> {
        entry.set_used(false);
        let mut forgotten = None;
        let mut page = self.page_of(entry.hash());
        while self.pages[page].held >= HELD_MAX {
            if self.split(page) {
                page = self.page_of(entry.hash());
            } else {
                forgotten = self.pages[page].forget_one();
                self.held -= usize::from(forgotten.is_some());
            }
        }
        self.pages[page].place(entry);
        self.held += 1;
        forgotten
    }

    const fn page_bytes() -> usize {
        size_of::<Page<E>>() + size_of::<Box<Page<E>>>() + ALLOCATION_BYTES
    }

    fn page_of(&self, hash: u64) -> usize {
        self.directory[low_bits(hash, self.depth)] as usize
    }

    /// Deals the entries of a page to itself and a new one; returns false if the bound allows no new one.
    fn split(&mut self, page: usize) -> bool {
        let depth = self.pages[page].depth;
        if self.pages.len() >= self.pages_max || depth >= self.depth_max {
            return false;
        }
        if depth == self.depth {
            self.directory.extend_from_within(..);
            self.depth += 1;
        }
        let all = self.pages[page].entries;
        let parts = [Page::new(depth + 1), Page::new(depth + 1)];
        let mut parts = parts.map(Box::new);
        let mut suffix = 0;
        for entry in all.into_iter().filter(|entry| !entry.is_vacant()) {
            suffix = low_bits(entry.hash(), depth);
            parts[usize::from(bit(entry.hash(), depth))].place(entry);
        }
        let [low, high] = parts;
        self.pages[page] = low;
        let number = u32::try_from(self.pages.len()).unwrap_or(u32::MAX);
        self.pages.push(high);
        // Every place of the directory that ends in the page's bits and a one.
        let first = suffix | (1 << depth);
        for place in self.directory.iter_mut().skip(first).step_by(1 << (depth + 1)) {
            *place = number;
        }
        true
    }
}

impl<E: Entry> Page<E> {
    fn new(depth: u32) -> Self {
        Self { entries: [E::VACANT; PLACES], held: 0, hand: 0, depth }
    }

    fn find(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let mut place = home(hash);
        while !self.entries[place].is_vacant() {
            if is_it(&self.entries[place]) {
                return Some(&mut self.entries[place]);
            }
            place = (place + 1) % PLACES;
        }
        None
    }

    /// Puts an entry into a page that has room for it.
    fn place(&mut self, entry: E) {
        let mut place = home(entry.hash());
        while !self.entries[place].is_vacant() {
            place = (place + 1) % PLACES;
        }
        self.entries[place] = entry;
        self.held += 1;
    }

    /// Takes out an entry that was not used for a round of the hand. The hand goes round at most once before it finds
    /// one, because it leaves every entry that it passes unused.
    fn forget_one(&mut self) -> Option<E> {
        for _ in 0..=2 * PLACES {
            let place = self.hand;
            let entry = &mut self.entries[place];
            if entry.is_vacant() {
                self.hand = (place + 1) % PLACES;
            } else if entry.is_used() {
                entry.set_used(false);
                self.hand = (place + 1) % PLACES;
            } else {
                return Some(self.remove(place));
            }
        }
        None
    }

    /// Takes out the entry of a place. Moves up those behind it that were put there because places nearer to their own
    /// were taken, so that every search still ends at a vacant place.
    fn remove(&mut self, place: usize) -> E {
        let removed = self.entries[place];
        let (mut gap, mut next) = (place, (place + 1) % PLACES);
        while !self.entries[next].is_vacant() {
            let from_home = (next + PLACES - home(self.entries[next].hash())) % PLACES;
            let from_gap = (next + PLACES - gap) % PLACES;
            if from_home >= from_gap {
                self.entries[gap] = self.entries[next];
                gap = next;
            }
            next = (next + 1) % PLACES;
        }
        self.entries[gap] = E::VACANT;
        self.held -= 1;
        removed
    }
}

/// The place of a page where the search for a hash begins: its highest bits, which no directory uses.
fn home(hash: u64) -> usize {
    (hash >> 58) as usize
}

fn low_bits(hash: u64, bits: u32) -> usize {
    (hash & ((1 << bits) - 1)) as usize
}

fn bit(hash: u64, bit: u32) -> bool {
    hash >> bit & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Numbered {
        hash: u64,
        value: u32,
        used: bool,
    }

    impl Entry for Numbered {
        const VACANT: Self = Self { hash: 0, value: 0, used: false };

        fn hash(&self) -> u64 {
            self.hash
        }
        fn is_vacant(&self) -> bool {
            self.value == 0
        }
        fn is_used(&self) -> bool {
            self.used
        }
        fn set_used(&mut self, used: bool) {
            self.used = used;
        }
    }

    fn mixed(n: u64) -> u64 {
        let n = (n ^ (n >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ (n >> 32)
    }

    proptest! {
        #[test]
        fn the_table_holds_what_was_put_in_but_for_what_it_said_it_forgot(
            keys in prop::collection::vec((0_u64..3_000, 0_u32..8), 1..6_000),
            bytes in 0_usize..60_000,
        ) {
            let mut table = ClockTable::<Numbered>::new(bytes);
            let mut model = BTreeMap::new();
            for (turn, (key, crowd)) in keys.into_iter().enumerate() {
                // Some hashes share their lowest or highest bits, as hostile ones would.
                let hash = if crowd == 0 { key << 20 } else { mixed(key) };
                let value = u32::try_from(turn + 1).expect("few turns");
                let found = table.find(hash, |held| held.hash == hash);
                assert_eq!(found.as_ref().map(|held| held.value), model.get(&hash).copied());
                match found {
                    Some(held) => held.value = value,
                    None => {
                        let forgotten = table.insert(Numbered { hash, value, used: true });
                        if let Some(forgotten) = forgotten {
                            assert_eq!(model.remove(&forgotten.hash), Some(forgotten.value));
                        }
                    }
                }
                model.insert(hash, value);
                assert_eq!(table.held(), model.len());
            }
            assert!(table.memory() <= bytes.max(4096));
            for (hash, value) in model {
                let found = table.find(hash, |held| held.hash == hash).map(|held| held.value);
                assert_eq!(found, Some(value));
            }
        }
    }

    #[test]
    fn what_is_used_again_and_again_is_not_forgotten() {
        let mut table = ClockTable::<Numbered>::new(64 * 1024);
        for n in 1..1_000_000_u64 {
            for hot in [3, 7, 11] {
                let hash = mixed(hot);
                let found = table.find(hash, |held| held.hash == hash).is_some();
                assert!(found || n <= hot, "{hot} was forgotten at {n}");
            }
            table.insert(Numbered { hash: mixed(n), value: 1, used: false });
        }
    }

    #[test]
    fn memory_grows_with_what_is_held() {
        let mut table = ClockTable::<Numbered>::new(64 * 1024 * 1024);
        for n in 1..=10_000_u64 {
            assert_eq!(table.insert(Numbered { hash: mixed(n), value: 1, used: false }), None);
        }
        assert_eq!(table.held(), 10_000);
        assert!(table.memory() < 10_000 * size_of::<Numbered>() * 2, "{}", table.memory());
    }
}
