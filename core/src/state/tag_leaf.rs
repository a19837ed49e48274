//! Entries of tags as they lie in memory: one behind the other, each as small as what it says.
//!
//! A row is the name with its length, the mark, the step and the condition, the creation as the time since another one of
//! the leaf, the last change as the time since the creation, and the description. Numbers take seven bits a byte, as
//! many as they need. So a row takes some 15 bytes and its texts, and its place in the leaf takes two. No byte of it is
//! ever stored or sent.

use std::sync::Arc;

use super::protection::Condition;
use super::response::Response;
use super::shared_table::{Leaf, SharedTable};
use super::tag_entry::{NamedTag, TagEntry};
use super::watermark::Watermark;
use crate::limits::{DESCRIPTION_CHARS_MAX, TAG_CHARS_MAX};

/// Every tag ever created, deleted ones included.
pub(super) type TagTable = SharedTable<TagLeaf>;

/// A leaf takes no more entries from this size on: what the first change after a snapshot copies.
const FULL_BYTES: usize = 8 << 10;
/// A leaf whose rows have grown to this size is split.
const OUTGROWN_BYTES: usize = 2 * FULL_BYTES;
/// Bytes of the longest row: its texts, and six numbers of ten bytes.
const ROW_BYTES_MAX: usize = 4 * (TAG_CHARS_MAX + DESCRIPTION_CHARS_MAX) + 60;
const _: () = assert!(2 * OUTGROWN_BYTES + ROW_BYTES_MAX < u16::MAX as usize);

#[derive(Clone, Debug, Default)]
pub(super) struct TagLeaf {
    /// Times of creation are written as differences from this one.
    base_ms: u64,
    /// Where each row ends.
    ends: Vec<u16>,
    rows: Vec<u8>,
}

impl TagTable {
    /// Changes an entry, if there is one with this name.
    pub(super) fn change<R>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut TagEntry) -> R,
    ) -> Option<R> {
        let (leaf, at) = self.leaf_mut(name)?;
        let mut entry = leaf.get(at).entry.owned();
        let changed = change(&mut entry);
        let row = leaf.written(name, &entry.borrowed());
        if leaf.row(at) != row {
            Arc::make_mut(leaf).replace(at, &row);
        }
        if leaf.rows.len() > OUTGROWN_BYTES {
            self.split(name);
        }
        Some(changed)
    }

    /// Carries a command to a tag out, if the tag exists.
    pub(super) fn change_live(
        &mut self,
        name: &str,
        carry_out: impl FnOnce(&mut TagEntry) -> Response,
    ) -> Response {
        let if_live = |entry: &mut TagEntry| entry.is_live().then(|| carry_out(entry));
        self.change(name, if_live).flatten().unwrap_or(Response::UnknownTag)
    }

    /// Changes every entry.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&str, &mut TagEntry)) {
        for leaf in self.leaves_mut() {
            let mut changed = TagLeaf { base_ms: leaf.base_ms, ..TagLeaf::default() };
            for at in 0..leaf.len() {
                let NamedTag { name, entry } = leaf.get(at);
                let mut entry = entry.owned();
                change(name, &mut entry);
                changed.insert(at, NamedTag { name, entry: entry.borrowed() });
            }
            *leaf = changed;
        }
    }
}

impl Leaf for TagLeaf {
    type New<'a> = NamedTag<&'a str, &'a str>;
    type Entry<'a> = NamedTag<&'a str, &'a str>;

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn name(&self, at: usize) -> &[u8] {
        take_name(&mut self.row(at))
    }

    fn get(&self, at: usize) -> NamedTag<&str, &str> {
        let mut row = self.row(at);
        let row = &mut row;
        let name = text(take_name(row));
        let max_id = Watermark::try_from(take(row)).expect(UNSOUND);
        let step = u32::try_from(take(row)).expect(UNSOUND);
        let condition = u32::try_from(take(row)).expect(UNSOUND);
        let condition = Condition::try_from(condition).expect(UNSOUND);
        let created_at_ms = self.base_ms.wrapping_add(unfolded(take(row)));
        let updated_at_ms = created_at_ms.wrapping_add(unfolded(take(row)));
        let description = text(row);
        let entry = TagEntry { max_id, step, condition, created_at_ms, updated_at_ms, description };
        NamedTag { name, entry }
    }

    fn insert(&mut self, at: usize, NamedTag { name, entry }: Self::New<'_>) {
        if self.ends.is_empty() {
            self.base_ms = entry.created_at_ms;
        }
        let row = self.written(name, &entry);
        let start = self.start(at);
        reserve(&mut self.ends, 1);
        self.ends.insert(at, start as u16);
        self.replace(at, &row);
    }

    fn remove(&mut self, at: usize) {
        self.replace(at, &[]);
        self.ends.remove(at);
    }

    fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let rows = self.rows[start..].to_vec();
        let ends = self.ends[at..].iter().map(|end| end - start as u16).collect();
        self.rows.truncate(start);
        self.ends.truncate(at);
        self.rows.shrink_to_fit();
        self.ends.shrink_to_fit();
        Self { base_ms: self.base_ms, ends, rows }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= FULL_BYTES
    }
}

impl TagLeaf {
    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| usize::from(self.ends[before]))
    }

    fn row(&self, at: usize) -> &[u8] {
        &self.rows[self.start(at)..usize::from(self.ends[at])]
    }

    /// An entry as a row of this leaf.
    fn written(&self, name: &str, entry: &TagEntry<&str>) -> Vec<u8> {
        let TagEntry { max_id, step, condition, created_at_ms, updated_at_ms, description } = entry;
        let mut row = Vec::with_capacity(name.len() + description.len() + 32);
        put(&mut row, name.len() as u64);
        row.extend_from_slice(name.as_bytes());
        put(&mut row, max_id.get());
        put(&mut row, u64::from(*step));
        put(&mut row, u64::from(condition.bits()));
        put(&mut row, folded(created_at_ms.wrapping_sub(self.base_ms)));
        put(&mut row, folded(updated_at_ms.wrapping_sub(*created_at_ms)));
        row.extend_from_slice(description.as_bytes());
        row
    }

    /// Puts other bytes in the place of a row.
    fn replace(&mut self, at: usize, row: &[u8]) {
        let (start, end) = (self.start(at), usize::from(self.ends[at]));
        let (size, new_end) = (self.rows.len(), start + row.len());
        if new_end > end {
            reserve(&mut self.rows, new_end - end);
            self.rows.resize(size + new_end - end, 0);
        }
        self.rows.copy_within(end..size, new_end);
        self.rows.truncate(size + new_end - end);
        self.rows[start..new_end].copy_from_slice(row);
        for its_end in &mut self.ends[at..] {
            *its_end = (usize::from(*its_end) + new_end - end) as u16;
        }
    }
}

const UNSOUND: &str = "a row is what was written";

/// Makes room for more, and for an eighth besides: there are many leaves.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8));
    }
}

fn put(row: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        row.push(number as u8 | 0x80);
        number >>= 7;
    }
    row.push(number as u8);
}

fn take(row: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = row.split_first().expect(UNSOUND);
        *row = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    number
}

fn take_name<'a>(row: &mut &'a [u8]) -> &'a [u8] {
    let length = take(row) as usize;
    let (name, rest) = row.split_at(length);
    *row = rest;
    name
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect(UNSOUND)
}

/// A difference that may be below zero, so that small ones have few bits.
fn folded(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::limits::ID_END;
    use crate::state::Protection;

    /// An hour of creations, in some order: bytes that each tag takes, in leaves and with what the allocator adds.
    fn bytes_a_tag(numbers: impl Iterator<Item = u64>) -> f64 {
        let mut table = TagTable::default();
        for (at, number) in numbers.enumerate() {
            let mut entry = TagEntry::unborn();
            let now_ms = 1_700_000_000_000 + at as u64;
            entry.create(1_000, 1, "", Protection::default(), now_ms);
            let name = format!("tag-{number:07}");
            table.insert(NamedTag { name: &name, entry: entry.borrowed() });
        }
        let allocated = |leaf: &TagLeaf| {
            size_of::<TagLeaf>() + leaf.rows.capacity() + 2 * leaf.ends.capacity() + 80
        };
        let bytes: usize = table.leaves().map(allocated).sum();
        bytes as f64 / table.len() as f64
    }

    #[test]
    fn a_tag_takes_its_name_and_some_twenty_bytes_however_tags_came() {
        const N: u64 = 50_000;
        let scattered = (0..N).map(|number| number * 12_347 % N);
        // A thousand requests at a time are carried out in any order.
        let crowded = (0..N).map(|number| number / 1_000 * 1_000 + number % 1_000 * 347 % 1_000);
        for bytes in [bytes_a_tag(0..N), bytes_a_tag(scattered), bytes_a_tag(crowded)] {
            assert!((11.0..33.0).contains(&bytes), "{bytes}");
        }
    }

    fn entries() -> impl Strategy<Value = TagEntry> {
        let mark = prop_oneof![1..1_000_u64, ID_END - 2..=ID_END];
        let time_ms =
            || prop_oneof![Just(0), 1_700_000_000_000..1_800_000_000_000_u64, any::<u64>()];
        let rate = option::of(1..1_000_000_000_u32);
        let protection = (rate, any::<bool>())
            .prop_map(|(rate_limit, frozen)| Protection { rate_limit, frozen });
        let condition =
            option::of(protection).prop_map(|live| live.map_or(Condition::GONE, Condition::live));
        let description = prop_oneof![Just(0), Just(DESCRIPTION_CHARS_MAX)];
        let description = description.prop_map(|chars| "𝟙".repeat(chars).into_boxed_str());
        (mark, any::<u32>(), condition, time_ms(), time_ms(), description).prop_map(
            |(mark, step, condition, created_at_ms, updated_at_ms, description)| TagEntry {
                max_id: Watermark::try_from(mark).unwrap(),
                step,
                condition,
                created_at_ms,
                updated_at_ms,
                description,
            },
        )
    }

    type Model = BTreeMap<String, TagEntry>;

    fn is_alike(table: &TagTable, model: &Model) -> Result<(), TestCaseError> {
        let read: Vec<_> =
            table.after(None).map(|tag| (tag.name.to_owned(), tag.entry.owned())).collect();
        let expected: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(read, expected);
        prop_assert_eq!(table.len(), model.len());
        for (name, entry) in model {
            let found = table.get(name).map(|tag| tag.entry.owned());
            prop_assert_eq!(found.as_ref(), Some(entry));
        }
        prop_assert!(table.leaves().all(|leaf| leaf.rows.len() <= OUTGROWN_BYTES + ROW_BYTES_MAX));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Long texts among short ones, so that leaves are split in all ways.
        #[test]
        fn what_was_written_last_is_read(
            steps in vec((0..120_usize, 0..9_u8, entries()), 0..300),
            cut in 0..300_usize,
        ) {
            let (mut table, mut model) = (TagTable::default(), Model::new());
            let mut copies = None;
            for (at, (number, what, entry)) in steps.into_iter().enumerate() {
                if at == cut {
                    copies = Some((table.clone(), model.clone()));
                }
                let name = "n".repeat(number % 7) + &number.to_string();
                match (what, table.get(&name).is_some()) {
                    (0, _) => {
                        table.remove(&name);
                        model.remove(&name);
                    }
                    (1, _) => {
                        table.change_all(|_, entry| entry.step ^= 1 << 20);
                        model.values_mut().for_each(|entry| entry.step ^= 1 << 20);
                    }
                    (_, true) => {
                        let change = |changed: &mut TagEntry| *changed = entry.clone();
                        prop_assert!(table.change(&name, change).is_some());
                        model.insert(name, entry);
                    }
                    (_, false) => {
                        prop_assert!(table.change(&name, |_| ()).is_none());
                        table.insert(NamedTag { name: &name, entry: entry.borrowed() });
                        model.insert(name, entry);
                    }
                }
            }
            is_alike(&table, &model)?;
            copies.map_or(Ok(()), |(table, model)| is_alike(&table, &model))?;
        }
    }
}
