//! The keys' last numbers on the node that leads, and where a forgotten key goes on.

use std::hash::Hasher;
use std::ops::RangeInclusive;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::clock_table::{ClockTable, Entry};
use super::key::{SequenceKey, section_of};
use super::tag_numbers::TagNumbers;
use crate::tag::BizTag;

/// Thirty-seconds of the memory that sections take, and that names of tags take; keys have the rest.
const SECTIONS_SHARE: usize = 6;
const TAGS_SHARE: usize = 1;

/// What one leadership of one process start remembers of its sequences, in bounded memory.
///
/// A key is held by 128 bits of a hash under a secret that the process drew, not by its bytes. Two keys with one hash
/// would share a counter. Both would still only rise, and give no number twice, because each number that is given to
/// either raises the counter; only [`last`](Self::last) would return the number of one for the other. With 128 bits of
/// a hash that nothing outside of this process can compute, this happens in none of 10^20 tables of ten million keys.
pub struct Counters {
    secret: [u64; 2],
    tags: TagNumbers,
    sections: ClockTable<Section>,
    keys: ClockTable<Counter>,
    memory_max: usize,
    forgotten: u64,
    /// The section of the numbers that were given last, if little of it is left.
    low: Option<u16>,
}

/// Numbers of one key, the last one included.
pub type Numbers = RangeInclusive<u64>;

/// Why a key got no numbers: what its section holds does not reach far enough. A grab of this section must reserve at
/// least the number that was asked for, and [`Counters::granted`] must receive it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotHeld {
    /// The section of the key.
    pub section: u16,
}

/// What is known of the last number of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Last {
    /// The last number is this one.
    Is(u64),
    /// The last number is below this one, if the key has any.
    Below(u64),
    /// Nothing is held of the key's section: what was given lies below the section's watermark in the log.
    NotHeld {
        /// The section of the key.
        section: u16,
    },
}

/// What is held of a line of the log, a section of a tag.
#[derive(Clone, Copy)]
struct Section {
    hash: u64,
    /// Where keys begin that are not remembered.
    floor: u64,
    /// The first number that is not reserved.
    end: u64,
    /// The number of its tag.
    tag: u32,
    section: u16,
    /// How long the last interval was, as the power of two that it reaches.
    length_log2: u8,
    state: State,
}

/// The counter of a key.
#[derive(Clone, Copy)]
struct Counter {
    fingerprint: u128,
    last: u64,
    /// The number of its tag.
    tag: u32,
    section: u16,
    state: State,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    Vacant,
    Unused,
    Used,
}

impl Counters {
    /// Empty counters that take up to `memory` bytes; with less than 64 KiB, those of a few hundred keys.
    /// `secret` is random, and known to this process alone.
    pub fn new(memory: usize, secret: [u64; 2]) -> Self {
        let share = |parts: usize| memory / 32 * parts;
        let keys_share = 32 - SECTIONS_SHARE - TAGS_SHARE;
        Self {
            secret,
            tags: TagNumbers::new(share(TAGS_SHARE)),
            sections: ClockTable::new(share(SECTIONS_SHARE)),
            keys: ClockTable::new(share(keys_share)),
            memory_max: memory,
            forgotten: 0,
            low: None,
        }
    }

    /// Gives the key its next `count` numbers, 1 or more of them.
    ///
    /// # Errors
    /// [`NotHeld`] where the section's interval ends before the last of them. Nothing was given.
    pub fn take(
        &mut self,
        tag: &str,
        key: SequenceKey<'_>,
        count: u64,
    ) -> Result<Numbers, NotHeld> {
        let section = section_of(key);
        let not_held = NotHeld { section };
        self.low = None;
        let tag = self.tags.get(tag).ok_or(not_held)?;
        let held = *self.section(tag, section).ok_or(not_held)?;
        let Section { floor, end, .. } = held;
        let fingerprint = self.fingerprint(tag, key);
        let counter = self.keys.find(fingerprint as u64, |held| held.fingerprint == fingerprint);
        let first = counter.as_ref().map_or(floor, |counter| floor.max(counter.last + 1));
        let behind = first.checked_add(count).filter(|behind| *behind <= end).ok_or(not_held)?;
        let last = behind - 1;
        match counter {
            Some(counter) => counter.last = last,
            None => self.remember(Counter { fingerprint, last, tag, section, state: State::Used }),
        }
        self.low = (end - behind < held.low_water()).then_some(section);
        Ok(first..=last)
    }

    /// The section of the numbers that [`take`](Self::take) gave last, if their key will soon come to the end of what
    /// is held: more of it can be reserved before a caller waits for that.
    pub fn low_section(&self) -> Option<u16> {
        self.low
    }

    /// Takes over an interval of a section, from `start` to before `end`, which an entry of the present term
    /// granted to this process start.
    ///
    /// Intervals of one section come in the order of the log: the caller has one grab of a section under way at a time,
    /// and never brings the answer of one that it gave up. An interval that lies below what the section holds is
    /// wasted.
    pub fn granted(&mut self, tag: &BizTag, section: u16, start: u64, end: u64) {
        let Some(tag) = self.tags.get_or_add(tag) else {
            // Four thousand million tags have been forgotten: the numbers begin anew, with nothing under them.
            return self.forget_all();
        };
        let length_log2 = (end - start).checked_ilog2().unwrap_or(0) as u8;
        if let Some(held) = self.section(tag, section) {
            held.length_log2 = length_log2;
            if start == held.end {
                held.end = end;
            } else if start > held.end {
                // What lies between was granted to another process, or its answer was lost.
                (held.floor, held.end) = (start, end);
            }
            return;
        }
        let hash = self.section_hash(tag, section);
        let state = State::Used;
        // A section that is forgotten begins again at an interval that the log has yet to grant, above every
        // number of its keys, whether they are remembered or not.
        self.sections.insert(Section { hash, floor: start, end, tag, section, length_log2, state });
    }

    /// What is known of the last number of a key.
    pub fn last(&mut self, tag: &str, key: SequenceKey<'_>) -> Last {
        let section = section_of(key);
        let Some(tag) = self.tags.get(tag) else { return Last::NotHeld { section } };
        let fingerprint = self.fingerprint(tag, key);
        let counter = self.keys.find(fingerprint as u64, |held| held.fingerprint == fingerprint);
        if let Some(counter) = counter {
            return Last::Is(counter.last);
        }
        let held = self.section(tag, section);
        held.map_or(Last::NotHeld { section }, |held| Last::Below(held.floor))
    }

    /// Forgets a tag with all its sections and keys: it was deleted, and goes on above its watermarks if it is
    /// made again.
    pub fn forget_tag(&mut self, tag: &str) {
        self.tags.remove(tag);
    }

    /// Forgets everything: the leadership is over, or a new one begins.
    pub fn forget_all(&mut self) {
        if self.sections.held() == 0 && self.keys.held() == 0 {
            return;
        }
        let forgotten = self.forgotten + self.keys.held() as u64;
        *self = Self { forgotten, ..Self::new(self.memory_max, self.secret) };
    }

    /// Sequences that have a held section.
    pub fn tags_held(&self) -> usize {
        self.tags.held()
    }

    /// Keys whose last number is remembered.
    pub fn keys_held(&self) -> usize {
        self.keys.held()
    }

    /// Keys that were forgotten since the process began.
    pub fn keys_forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Bytes that are taken now.
    pub fn memory(&self) -> usize {
        self.keys.memory() + self.sections.memory() + self.tags.memory()
    }

    /// Remembers a key. If another key is forgotten for it, raises the floor of that key's section.
    fn remember(&mut self, counter: Counter) {
        let Some(forgotten) = self.keys.insert(counter) else { return };
        self.forgotten += 1;
        if let Some(section) = self.section(forgotten.tag, forgotten.section) {
            section.floor = section.floor.max(forgotten.last + 1);
        }
    }

    fn section(&mut self, tag: u32, section: u16) -> Option<&mut Section> {
        let hash = self.section_hash(tag, section);
        self.sections.find(hash, |held| (held.tag, held.section) == (tag, section))
    }

    fn section_hash(&self, tag: u32, section: u16) -> u64 {
        let name = u64::from(tag) << 16 | u64::from(section);
        let [a, b] = self.secret;
        let product = u128::from(name ^ a) * u128::from(b | 1);
        (product ^ product >> 64) as u64
    }

    fn fingerprint(&self, tag: u32, key: SequenceKey<'_>) -> u128 {
        let [a, b] = self.secret;
        let mut hasher = SipHasher13::new_with_keys(a, b);
        hasher.write(&tag.to_le_bytes());
        hasher.write(key.as_str().as_bytes());
        hasher.finish128().as_u128()
    }
}

impl Section {
    /// With fewer numbers than this behind a key's last one, little is left for it: a quarter of the last interval at
    /// least, and half of it at most.
    fn low_water(&self) -> u64 {
        (1 << self.length_log2) >> 1
    }
}

impl State {
    fn of(used: bool) -> Self {
        if used { Self::Used } else { Self::Unused }
    }
}

impl Entry for Section {
    const VACANT: Self = Self {
        hash: 0,
        floor: 0,
        end: 0,
        tag: 0,
        section: 0,
        length_log2: 0,
        state: State::Vacant,
    };

    fn hash(&self) -> u64 {
        self.hash
    }
    fn is_vacant(&self) -> bool {
        self.state == State::Vacant
    }
    fn is_used(&self) -> bool {
        self.state == State::Used
    }
    fn set_used(&mut self, used: bool) {
        self.state = State::of(used);
    }
}

impl Entry for Counter {
    const VACANT: Self = Self { fingerprint: 0, last: 0, tag: 0, section: 0, state: State::Vacant };

    fn hash(&self) -> u64 {
        self.fingerprint as u64
    }
    fn is_vacant(&self) -> bool {
        self.state == State::Vacant
    }
    fn is_used(&self) -> bool {
        self.state == State::Used
    }
    fn set_used(&mut self, used: bool) {
        self.state = State::of(used);
    }
}
