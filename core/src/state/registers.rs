//! Registers: numbers without a gap, each given to a key for good.
//!
//! One command either finds the key and returns its number, or gives the key the next one. So a command that is carried
//! out twice changes nothing the second time, and no number is ever reserved without a key: no crash, no change of
//! leaders and no lost answer leaves a gap. The number comes from the tag's line, as every id does. This module keeps
//! which key has it.
//!
//! The keys stay with the name for ever, as its shape and its mark do: a register that is made again goes on behind
//! them.

use super::register_keys::{KeyChunk, RegisterEntry, RegisterKeys};
use super::shared_table::{Named, SharedTable};
use crate::shape::PeriodNumber;
use crate::tag::BizTag;

/// The keys of all registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    /// The registers that have keys.
    table: SharedTable<Vec<Register>>,
    keys: u64,
}

#[derive(Clone, Debug)]
struct Register {
    tag: BizTag,
    keys: RegisterKeys,
}

impl Named for Register {
    fn name(&self) -> &str {
        self.tag.as_str()
    }
}

impl Registers {
    /// How many keys there are in all registers.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// How many keys a register has.
    pub(super) fn keys_of(&self, tag: &str) -> u64 {
        self.of(tag).map_or(0, |keys| keys.len() as u64)
    }

    pub(super) fn get(&self, tag: &str, key: &str) -> Option<RegisterEntry> {
        self.of(tag)?.get(key)
    }

    /// The keys of a period whose numbers are above `after`, in order.
    pub(super) fn after(
        &self,
        tag: &str,
        period: Option<PeriodNumber>,
        after: u64,
    ) -> impl Iterator<Item = RegisterEntry> {
        self.of(tag).into_iter().flat_map(move |keys| keys.after(period, after))
    }

    /// The last number of a register, with its key.
    pub(super) fn last(&self, tag: &str) -> Option<RegisterEntry> {
        self.of(tag)?.last()
    }

    /// Adds a key that has none yet, with a number above all others of the register.
    pub(super) fn push(&mut self, tag: &BizTag, new: &RegisterEntry) {
        if self.table.get(tag.as_str()).is_none() {
            self.table.insert(Register { tag: tag.clone(), keys: RegisterKeys::default() });
        }
        if let Some(register) = self.table.get_mut(tag.as_str()) {
            register.keys.push(new);
            self.keys += 1;
        }
    }

    /// What a snapshot has of each register, in the order of their names.
    pub(super) fn written(
        &self,
    ) -> impl Iterator<Item = (&BizTag, impl Iterator<Item = &KeyChunk>)> {
        self.table.after(None).map(|register| (&register.tag, register.keys.chunks()))
    }

    /// The register with the highest name, with its first and its last key.
    pub(super) fn last_ends(&self) -> Option<(&str, RegisterEntry, RegisterEntry)> {
        let last = self.table.last()?;
        Some((last.tag.as_str(), last.keys.first()?, last.keys.last()?))
    }

    /// Takes in a register above all others, before its keys; false for one that no state could have written.
    #[must_use]
    pub(super) fn take_register(&mut self, tag: BizTag) -> bool {
        let last = self.table.last();
        let ascends = last.is_none_or(|last| last.keys.len() > 0 && last.tag < tag);
        if ascends {
            self.table.insert(Register { tag, keys: RegisterKeys::default() });
        }
        ascends
    }

    /// Takes in keys of the last register, above all others; false for those that no state could have written.
    #[must_use]
    pub(super) fn take_keys(&mut self, chunk: KeyChunk) -> bool {
        let Some(tag) = self.table.last().map(|last| last.tag.clone()) else { return false };
        let Some(last) = self.table.get_mut(tag.as_str()) else { return false };
        let before = last.keys.len();
        let is_sound = last.keys.take(chunk);
        self.keys += (last.keys.len() - before) as u64;
        is_sound
    }

    #[cfg(test)]
    pub(super) fn bytes_of(&self, tag: &str) -> usize {
        self.of(tag).map_or(0, RegisterKeys::bytes)
    }

    fn of(&self, tag: &str) -> Option<&RegisterKeys> {
        self.table.get(tag).map(|register| &register.keys)
    }
}
