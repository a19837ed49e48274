//! The judge's rules for registers: no number without a key, no key with two numbers, and no gap.

use std::collections::BTreeMap;

use mintleaf::service::Registered;
use mintleaf_core::shape;
use mintleaf_core::state::RegisterEntry;

use super::lines::{Period, Reserved};
use super::{Incarnation, Known, Oracle};

/// A number of a register, in the order in which a register gives numbers.
pub(crate) type Number = (Period, u64);

/// A key of a register.
pub(crate) type Key = (String, Box<str>);

/// What the number of a key must lie behind, from when a call began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeRegistered {
    /// The first number behind all that had been answered by then.
    now: Number,
    /// The same, of the moment when the key was first asked for.
    first: Number,
}

impl BeforeRegistered {
    /// The same, for a key that was asked for behind another one, which has this number.
    pub(crate) fn and_behind(self, last: Option<Number>) -> Self {
        let behind = last.map(|(period, number)| (period, number + 1)).unwrap_or_default();
        Self { now: self.now.max(behind), ..self }
    }
}

impl Oracle {
    /// Judges a command that gave a key a number, or found the one that it has.
    pub(super) fn registered(
        &self,
        known: &mut Known,
        of: Key,
        line: shape::Line,
        (number, is_new, now_ms): (Number, bool, u64),
    ) {
        let had = known.registered.get(&of).copied();
        if had != (!is_new).then_some(number) {
            self.broken(format_args!("{of:?} has {had:?}, and got {number:?}, new: {is_new}"));
        }
        if !is_new {
            return;
        }
        let (tag, ids) = (of.0.as_str(), number.1..number.1 + 1);
        let history = known.lines.get(&(tag.to_owned(), self.part(line)));
        // A restored cluster goes on above what its copy has.
        let is_exact = history.is_some() || !self.is_restored;
        let expected = history.map_or(1, |line| line.max_id);
        if is_exact && number.1 != expected || number.0 != line.period() {
            self.broken(format_args!("{tag}: {number:?} leaves a gap, {expected} is the next"));
        }
        self.reserved(known, Reserved { tag, line, by: None, ids, now_ms });
        known.registered.insert(of, number);
    }

    /// Notes that a client asks for the number of a key, and returns what the answer must lie behind.
    pub(crate) fn asked_for(&self, tag: &str, key: &str) -> BeforeRegistered {
        let known = &mut *self.known.lock();
        let now = known.strict.get(tag).copied().unwrap_or_default();
        let first = *known.asked.entry((tag.to_owned(), key.into())).or_insert(now);
        BeforeRegistered { now, first }
    }

    /// Judges the answer to a client that asked for the number of a key.
    pub(crate) fn told_number(
        &self,
        by: Incarnation,
        (tag, key): (&str, &str),
        told: &Registered,
        before: BeforeRegistered,
    ) {
        let number = (told.period, told.number);
        self.told_of_key(by, (tag, key), Some(number), None);
        let bound = if told.is_new { before.now } else { before.first };
        if number < bound {
            self.broken(format_args!("{tag}: {by:?} gave {key} {number:?} after {bound:?}"));
        }
        let known = &mut *self.known.lock();
        if told.is_new {
            let of = (tag.to_owned(), self.part_of(known, tag, told.period));
            self.note_given(&of, &(told.number..told.number + 1));
        }
        let highest = known.strict.entry(tag.to_owned()).or_default();
        *highest = (told.period, told.number + 1).max(*highest);
    }

    /// The number that a key has.
    pub(crate) fn number_of(&self, tag: &str, key: &str) -> Option<Number> {
        self.known.lock().registered.get(&(tag.to_owned(), key.into())).copied()
    }

    /// Judges an answer about a key, which had the number `before` when the call began.
    pub(crate) fn told_of_key(
        &self,
        by: Incarnation,
        (tag, key): (&str, &str),
        told: Option<Number>,
        before: Option<Number>,
    ) {
        let has = self.number_of(tag, key);
        let is_right = if told.is_some() { told == has } else { before.is_none() };
        if !is_right {
            self.broken(format_args!("{tag}: {by:?} says {told:?} of {key}, which has {has:?}"));
        }
    }

    /// The keys of a register, by number.
    pub(crate) fn register(&self, tag: &str) -> BTreeMap<Number, Box<str>> {
        let known = self.known.lock();
        let of_tag = known.registered.iter().filter(|((of, _), _)| of == tag);
        of_tag.map(|((_, key), number)| (*number, key.clone())).collect()
    }

    /// Judges the list of one period of a register. `before` is the register when the call began.
    pub(crate) fn listed(
        &self,
        (tag, period): (&str, Period),
        list: &[RegisterEntry],
        before: &BTreeMap<Number, Box<str>>,
    ) {
        let by_number = |entry: &RegisterEntry| ((entry.period, entry.number), entry.key.clone());
        let shown: BTreeMap<Number, Box<str>> = list.iter().map(by_number).collect();
        let now = self.register(tag);
        let is_of = |number: &Number| number.0 == period;
        let is_whole = before
            .iter()
            .filter(|(number, _)| is_of(number))
            .all(|(number, key)| shown.get(number) == Some(key))
            && shown.iter().all(|(number, key)| is_of(number) && now.get(number) == Some(key))
            && list.is_sorted_by_key(|entry| entry.number);
        if !is_whole {
            self.broken(format_args!("{tag}: {list:?} is listed, and there are {before:?}"));
        }
        let is_dense = list.iter().zip(1..).all(|(entry, number)| entry.number == number);
        if !is_dense && !self.is_restored {
            self.broken(format_args!("{tag}: {list:?} has a gap"));
        }
    }

    /// How many keys of registers clients have asked for.
    pub(crate) fn keys_asked(&self) -> u64 {
        self.known.lock().asked.len() as u64
    }
}
