//! The keys of one register, in the order of their numbers.
//!
//! Keys are only ever added, so they live in chunks: a copy of the state shares all of them, and the next key copies the
//! last one. A key takes its own bytes, 24 for its number, and up to 14 in the index.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key_index::KeyIndex;
use crate::limits::KEY_BYTES_MAX;
use crate::sequence::SequenceKey;
use crate::shape::PeriodNumber;

/// Keys in one chunk, and so in one section of a snapshot: the longest take less than half of what that may have.
const CHUNK_KEYS_MAX: usize = 1_024;
const _: () = assert!(CHUNK_KEYS_MAX * (KEY_BYTES_MAX + 30) < 1 << 19);

/// A key of a register, with the number that it has for good.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegisterEntry {
    /// The key.
    pub key: Box<str>,
    /// Its number.
    pub number: u64,
    /// The period of the number, where the register has periods.
    pub period: Option<PeriodNumber>,
    /// When the number was given, in Unix milliseconds: the stamp of its entry.
    pub time_ms: u64,
}

/// The keys of one register.
#[derive(Clone, Debug, Default)]
pub(super) struct RegisterKeys {
    /// All of them are full, except the last.
    chunks: Vec<Arc<KeyChunk>>,
    index: KeyIndex,
}

/// Keys that follow each other.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct KeyChunk {
    /// The keys, one behind the other.
    texts: String,
    heads: Vec<Head>,
}

/// A key besides its text.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Head {
    number: u64,
    time_ms: u64,
    /// 0 in a register without periods.
    period: u32,
    /// Where the key's text ends.
    end: u32,
}

/// A million keys fit 100 MB, unless they are longer than 62 bytes.
const _: () = assert!(size_of::<Head>() == 24);

impl Head {
    /// Numbers ascend in this order: each period begins anew.
    fn order(&self) -> (u32, u64) {
        (self.period, self.number)
    }
}

impl RegisterKeys {
    pub(super) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, |last| last.heads.len());
        self.chunks.len().saturating_sub(1) * CHUNK_KEYS_MAX + last
    }

    pub(super) fn get(&self, key: &str) -> Option<RegisterEntry> {
        let place = self.index.find(key, |place| self.text(place as usize) == key)?;
        Some(self.entry(place as usize))
    }

    /// Adds a key above all others.
    ///
    /// # Panics
    /// If its number is not above the others, or the key has one already: the replica stops instead.
    pub(super) fn push(&mut self, new: &RegisterEntry) {
        let RegisterEntry { key, number, period, time_ms } = new;
        let head = Head {
            number: *number,
            time_ms: *time_ms,
            period: period.map_or(0, |period| period.0),
            end: 0,
        };
        let last = self.chunks.last().and_then(|last| last.heads.last());
        assert!(last.is_none_or(|last| last.order() < head.order()), "numbers would go back");
        assert!(self.get(key).is_none(), "a key would have two numbers");
        let place = self.len();
        let last = match self.chunks.last_mut().filter(|last| !last.is_full()) {
            Some(last) => Arc::make_mut(last),
            None => {
                self.chunks.push(Arc::default());
                Arc::make_mut(self.chunks.last_mut().expect("it was pushed"))
            }
        };
        last.push(key, head);
        self.index.insert(key, u32::try_from(place).expect("the bound of keys is lower"));
    }

    /// The keys of a period whose numbers are above `after`, in order.
    pub(super) fn after(
        &self,
        period: Option<PeriodNumber>,
        after: u64,
    ) -> impl Iterator<Item = RegisterEntry> {
        let period = period.map_or(0, |period| period.0);
        let is_before = |head: &Head| head.order() <= (period, after);
        let is_all_before = |chunk: &Arc<KeyChunk>| chunk.heads.last().is_none_or(&is_before);
        let chunk = self.chunks.partition_point(is_all_before);
        let within = self.chunks.get(chunk);
        let within = within.map_or(0, |chunk| chunk.heads.partition_point(&is_before));
        let first = chunk * CHUNK_KEYS_MAX + within;
        let entries = (first..self.len()).map(|place| self.entry(place));
        entries.take_while(move |entry| entry.period.map_or(0, |its| its.0) == period)
    }

    pub(super) fn first(&self) -> Option<RegisterEntry> {
        (self.len() > 0).then(|| self.entry(0))
    }

    pub(super) fn last(&self) -> Option<RegisterEntry> {
        self.len().checked_sub(1).map(|place| self.entry(place))
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = &KeyChunk> {
        self.chunks.iter().map(|chunk| &**chunk)
    }

    /// Takes in a chunk above all others; false for one that no state could have written.
    #[must_use]
    pub(super) fn take(&mut self, chunk: KeyChunk) -> bool {
        let is_after = |last: &Arc<KeyChunk>| {
            last.is_full() && last.last_order() < chunk.heads.first().map(Head::order)
        };
        if !chunk.is_sound() || !self.chunks.last().is_none_or(is_after) {
            return false;
        }
        let first = self.len();
        self.chunks.push(Arc::new(chunk));
        (first..self.len()).all(|place| {
            let Ok(ordinal) = u32::try_from(place) else { return false };
            let key = self.text(place);
            let is_new = self.index.find(key, |other| self.text(other as usize) == key).is_none();
            self.index
                .insert(self.chunks[place / CHUNK_KEYS_MAX].text(place % CHUNK_KEYS_MAX), ordinal);
            is_new
        })
    }

    fn text(&self, place: usize) -> &str {
        self.chunks[place / CHUNK_KEYS_MAX].text(place % CHUNK_KEYS_MAX)
    }

    fn entry(&self, place: usize) -> RegisterEntry {
        let Head { number, time_ms, period, end: _ } =
            self.chunks[place / CHUNK_KEYS_MAX].heads[place % CHUNK_KEYS_MAX];
        let period = (period > 0).then_some(PeriodNumber(period));
        RegisterEntry { key: self.text(place).into(), number, period, time_ms }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let chunk = |chunk: &Arc<KeyChunk>| {
            size_of::<KeyChunk>()
                + chunk.texts.capacity()
                + chunk.heads.capacity() * size_of::<Head>()
        };
        self.chunks.iter().map(chunk).sum::<usize>() + self.index.bytes()
    }
}

impl KeyChunk {
    fn is_full(&self) -> bool {
        self.heads.len() == CHUNK_KEYS_MAX
    }

    fn push(&mut self, key: &str, head: Head) {
        self.texts.push_str(key);
        let end = u32::try_from(self.texts.len()).expect("a chunk of the longest keys is shorter");
        self.heads.push(Head { end, ..head });
        if self.is_full() {
            self.texts.shrink_to_fit();
            self.heads.shrink_to_fit();
        }
    }

    fn text(&self, at: usize) -> &str {
        let begin = at.checked_sub(1).map_or(0, |before| self.heads[before].end);
        &self.texts[begin as usize..self.heads[at].end as usize]
    }

    fn last_order(&self) -> Option<(u32, u64)> {
        self.heads.last().map(Head::order)
    }

    /// Whether a chunk that was read could have been written.
    fn is_sound(&self) -> bool {
        let Self { texts, heads } = self;
        let mut begin = 0;
        let are_keys = heads.iter().all(|head| {
            let key = texts.get(begin..head.end as usize);
            begin = head.end as usize;
            key.is_some_and(|key| SequenceKey::parse(key).is_ok())
        });
        (1..=CHUNK_KEYS_MAX).contains(&heads.len())
            && are_keys
            && begin == texts.len()
            && heads.is_sorted_by(|one, next| one.order() < next.order())
    }
}
