//! Short names of tags, for as long as they are in use.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::tag::BizTag;

/// What a tag takes in addition to its name: its place in the tree, and what the allocator adds.
const TAG_BYTES: usize = 64;

/// Numbers of tags. A number never means another tag than it did once: a tag that was forgotten gets a new one,
/// and what is kept under the old number is found no more.
pub(super) struct TagNumbers {
    numbers: BTreeMap<BizTag, Numbered>,
    next: u32,
    /// The tag that was looked at last for one to forget.
    hand: Option<BizTag>,
    memory: usize,
    memory_max: usize,
}

struct Numbered {
    number: u32,
    used: bool,
}

impl TagNumbers {
    /// No tags yet, in up to `bytes` of memory, or that of one tag.
    pub(super) fn new(bytes: usize) -> Self {
        Self { numbers: BTreeMap::new(), next: 0, hand: None, memory: 0, memory_max: bytes }
    }

    /// How many tags have a number.
    pub(super) fn held(&self) -> usize {
        self.numbers.len()
    }

    /// Bytes that the tags take now.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// The number of a tag that has one.
    pub(super) fn get(&mut self, tag: &str) -> Option<u32> {
        let numbered = self.numbers.get_mut(tag)?;
        numbered.used = true;
        Some(numbered.number)
    }

    /// The number of a tag, a new one if it has none; `None` when all numbers are used up.
    pub(super) fn get_or_add(&mut self, tag: &BizTag) -> Option<u32> {
        if let Some(number) = self.get(tag.as_str()) {
            return Some(number);
        }
        let number = self.next;
        self.next = self.next.checked_add(1)?;
        self.memory += bytes_of(tag);
        while self.memory > self.memory_max && !self.numbers.is_empty() {
            self.forget_one();
        }
        self.numbers.insert(tag.clone(), Numbered { number, used: false });
        Some(number)
    }

    /// Forgets the number of a tag.
    pub(super) fn remove(&mut self, tag: &str) {
        if let Some((tag, _)) = self.numbers.remove_entry(tag) {
            self.memory -= bytes_of(&tag);
        }
    }

    /// Forgets the first tag behind the hand that was not used since the hand came by.
    fn forget_one(&mut self) {
        loop {
            let behind = (self.hand.as_ref().map_or(Unbounded, Excluded), Unbounded);
            let Some((tag, numbered)) = self.numbers.range_mut::<BizTag, _>(behind).next() else {
                self.hand = None;
                continue;
            };
            let tag = tag.clone();
            if std::mem::take(&mut numbered.used) {
                self.hand = Some(tag);
            } else {
                return self.remove(tag.as_str());
            }
        }
    }
}

fn bytes_of(tag: &BizTag) -> usize {
    tag.as_str().len() + size_of::<(BizTag, Numbered)>() + TAG_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(n: u32) -> BizTag {
        BizTag::parse(&format!("tag-{n}")).expect("a tag")
    }

    #[test]
    fn tags_keep_their_numbers_until_they_are_removed() {
        let mut numbers = TagNumbers::new(100_000);
        assert_eq!(numbers.get("tag-1"), None);
        assert_eq!([1, 2, 1].map(|n| numbers.get_or_add(&tag(n))), [Some(0), Some(1), Some(0)]);
        numbers.remove("tag-1");
        assert_eq!(numbers.get("tag-1"), None);
        assert_eq!(numbers.get_or_add(&tag(1)), Some(2));
        assert_eq!(numbers.get("tag-2"), Some(1));
    }

    #[test]
    fn tags_in_use_are_kept_when_memory_is_short() {
        let mut numbers = TagNumbers::new(10_000);
        for n in 1..10_000 {
            numbers.get_or_add(&tag(n));
            assert_eq!(numbers.get_or_add(&tag(1)), Some(0), "after {n}");
            assert!(numbers.memory() <= 10_000);
        }
        numbers.remove("tag-1");
        let counted = numbers.numbers.keys().map(bytes_of).sum::<usize>();
        assert_eq!(numbers.memory(), counted);
    }
}
