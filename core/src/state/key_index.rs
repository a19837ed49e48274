//! Finds keys of a register: a hash table of the places that keys have in the register's list.
//!
//! It is made of tables that are never moved. When the last one is full, the next begins, as large as all before it
//! together. So no key waits until a million others are dealt out anew, and a copy of the state shares every table
//! except the last.
//!
//! The index is made anew wherever a state is read, and no answer depends on its order. So its hash may be secret and
//! different on every node, and clients cannot choose keys that collide.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Keys of the first table; a table has four slots for three keys.
const KEYS_FIRST: usize = 12;
const SLOTS: usize = 4;
const KEYS_OF_SLOTS: usize = 3;

/// The mark of a slot without a key.
const FREE: u8 = 0;

#[derive(Clone, Debug, Default)]
pub(super) struct KeyIndex {
    hasher: RandomState,
    tables: Vec<Arc<Table>>,
}

#[derive(Clone, Debug)]
struct Table {
    /// A mark of each key's hash, at the slot that the hash points to or behind it; a power of two. A key that is not
    /// there is looked for in every table: without marks that compares a hundred keys in all corners of the memory.
    marks: Vec<u8>,
    /// The place of the key in each slot.
    places: Vec<u32>,
    keys: usize,
}

impl KeyIndex {
    /// The place of a key, if it is there; `is_at` says whether a place is that of the key.
    pub(super) fn find(&self, key: &str, is_at: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.tables.iter().rev().find_map(|table| table.find(hash, &is_at))
    }

    /// Adds a key that is not there yet.
    pub(super) fn insert(&mut self, key: &str, place: u32) {
        let hash = self.hasher.hash_one(key);
        if self.tables.last().is_none_or(|last| last.is_full()) {
            let keys: usize = self.tables.iter().map(|table| table.keys).sum();
            self.tables.push(Arc::new(Table::for_keys(keys.max(KEYS_FIRST))));
        }
        if let Some(last) = self.tables.last_mut() {
            Arc::make_mut(last).insert(hash, place);
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let table =
            |table: &Arc<Table>| size_of::<Table>() + table.marks.len() + 4 * table.places.len();
        self.tables.iter().map(table).sum()
    }
}

impl Table {
    fn for_keys(keys: usize) -> Self {
        let slots = (keys * SLOTS / KEYS_OF_SLOTS).next_power_of_two();
        Self { marks: vec![FREE; slots], places: vec![0; slots], keys: 0 }
    }

    fn is_full(&self) -> bool {
        self.keys * SLOTS >= self.marks.len() * KEYS_OF_SLOTS
    }

    fn find(&self, hash: u64, is_at: impl Fn(u32) -> bool) -> Option<u32> {
        let mark = mark_of(hash);
        let taken = self.from(hash).take_while(|at| self.marks[*at] != FREE);
        let mut alike = taken.filter(|at| self.marks[*at] == mark).map(|at| self.places[at]);
        alike.find(|place| is_at(*place))
    }

    fn insert(&mut self, hash: u64, place: u32) {
        let free = self.from(hash).find(|at| self.marks[*at] == FREE);
        if let Some(at) = free {
            self.marks[at] = mark_of(hash);
            self.places[at] = place;
            self.keys += 1;
        }
    }

    /// The slots of a hash, in the order that they are looked at.
    fn from(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let last = self.marks.len() - 1;
        let first = hash as usize;
        (0..=last).map(move |step| first.wrapping_add(step) & last)
    }
}

/// The highest bits of a hash, which no slot is chosen by.
fn mark_of(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}
