//! The judge's rules for numbers of keys: each key has its own count, in an order that holds over the whole cluster.

use std::ops::Range;

use mintleaf::service::LastNumber;
use mintleaf_core::sequence::{SequenceKey, section_of};

use super::handed_out::Part;
use super::lines::Interval;
use super::{Incarnation, Oracle};

impl Oracle {
    /// The end of the highest numbers of a key that any client was given so far. The numbers of every later
    /// call, at any node, must lie above it.
    pub(crate) fn highest_number(&self, tag: &str, key: &str) -> u64 {
        let of = (tag.to_owned(), key.into());
        self.known.lock().numbers.get(&of).copied().unwrap_or(0)
    }

    /// Judges numbers of a key that a call gave to a client. `floor` is the highest end before the call.
    pub(crate) fn given_numbers(
        &self,
        incarnation: Incarnation,
        (tag, key): (&str, &str),
        numbers: &Range<u64>,
        floor: u64,
    ) {
        let known = &mut *self.known.lock();
        if numbers.start < floor {
            self.broken(format_args!(
                "{tag}: {incarnation:?} gave {numbers:?} of {key} after {floor}"
            ));
        }
        self.note_given(&(tag.to_owned(), Part::Key(key.into())), numbers);
        let section = section_of(SequenceKey::parse(key).expect("a key"));
        let line = known.lines.entry((tag.to_owned(), Part::Section(section))).or_default();
        if !is_of_one_leadership(&line.committed, numbers) {
            self.broken(format_args!(
                "{tag}: {numbers:?} of {key} was given, and no leadership has reserved all of it"
            ));
        }
        let highest = known.numbers.entry((tag.to_owned(), key.into())).or_default();
        *highest = numbers.end.max(*highest);
    }

    /// Judges an answer about the last number of a key. `floor` is the highest end before the call.
    pub(crate) fn told_of_last(&self, (tag, key): (&str, &str), last: LastNumber, floor: u64) {
        if last.number.map_or(0, |number| number + 1) < floor {
            self.broken(format_args!(
                "{tag}: {last:?} is said of {key}, which has had {floor} - 1"
            ));
        }
    }
}

/// Whether adjacent intervals without a gap, all reserved by one leadership, contain these numbers.
fn is_of_one_leadership(
    committed: &std::collections::BTreeMap<u64, Interval>,
    numbers: &Range<u64>,
) -> bool {
    let Some((&first, Interval { by: Some(by), .. })) =
        committed.range(..=numbers.start).next_back()
    else {
        return false;
    };
    let mut end = first;
    for (&start, interval) in committed.range(first..numbers.end) {
        if start != end || interval.by != Some(*by) {
            return false;
        }
        end = interval.end;
    }
    numbers.end <= end
}
