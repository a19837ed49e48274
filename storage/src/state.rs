//! What the store holds, in one small value: everything but the records themselves.

use crate::codec::Blob;
use crate::error::StorageError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Format of [`State`] on disk.
pub(crate) const FORMAT: u8 = 1;

/// Format of [`Group`] on disk. In format 1, which had the same layout, the group that an opening wrote
/// was the newest once more, without its values.
pub(crate) const GROUP_FORMAT: u8 = 2;

/// The store after a group of operations: now and then in a checkpoint, beside the records, and in the
/// tail with every group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Number of the group, one more with each. 0 is the empty store.
    pub(crate) group: u64,
    /// The log, or `None` when it is empty. Records outside are left-overs and void.
    pub(crate) extent: Option<Extent>,
    pub(crate) purged: Option<Purged>,
    /// The named values, by the byte of their key. In the tail, those that the group changed, and all of
    /// them in the group that an opening writes.
    pub(crate) meta: BTreeMap<u8, Blob>,
}

/// A non-empty log. By the chain of records, `last_crc` vouches for all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// Index of the first record held.
    pub(crate) first: u64,
    /// Index of the last record held, `first` or above.
    pub(crate) last: u64,
    /// Checksum of the last record.
    pub(crate) last_crc: u32,
}

/// The head of the log that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purged {
    /// Last index purged.
    pub(crate) index: u64,
    /// What the caller wants to know about it.
    pub(crate) mark: Blob,
}

/// The operations between two syncs: the state after them, and the records they appended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) state: State,
    /// Index of the first of `records`.
    pub(crate) first: u64,
    /// Stored records with consecutive indices.
    pub(crate) records: Vec<Blob>,
}

impl Extent {
    pub(crate) fn contains(&self, index: u64) -> bool {
        (self.first..=self.last).contains(&index)
    }
}

impl Group {
    /// Whether it changed nothing but the extent.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.state.meta.is_empty()
    }

    /// Whether both leave the same log behind.
    pub(crate) fn ends_as(&self, other: &Group) -> bool {
        self.state.without_values() == other.state.without_values()
    }

    /// Whether a group that was read could have been written.
    pub(crate) fn is_sound(&self) -> bool {
        let end = self.first.checked_add(self.records.len() as u64);
        self.state.is_sound() && end.is_some_and(|end| end < u64::MAX)
    }
}

impl State {
    /// Whether a state that was read could have been written: one more can be counted on from
    /// every number, and the log lies above what was purged.
    pub(crate) fn is_sound(&self) -> bool {
        let purged = self.purged.as_ref().map(|purged| purged.index);
        let lies_right =
            |Extent { first, last, .. }| first <= last && last < u64::MAX && purged < Some(first);
        self.group < u64::MAX && purged < Some(u64::MAX) && self.extent.is_none_or(lies_right)
    }

    /// Whether a record may be appended at `index`: right after the last one, or, when the log is
    /// empty, anywhere above what was purged. The largest index is never used, so that one past
    /// the end can always be named.
    pub(crate) fn check_append(&self, index: u64) -> Result<(), StorageError> {
        let (fits, expected) = match (self.extent, &self.purged) {
            (Some(extent), _) => (index == extent.last + 1, format!("{} is next", extent.last + 1)),
            (None, Some(purged)) => {
                (index > purged.index, format!("the log was purged up to {}", purged.index))
            }
            (None, None) => (true, "below the largest integer".into()),
        };
        if fits && index < u64::MAX {
            return Ok(());
        }
        Err(StorageError::OutOfOrder { index, expected })
    }

    /// Takes note of one appended record.
    pub(crate) fn push(&mut self, index: u64, crc: u32) {
        let first = self.extent.map_or(index, |extent| extent.first);
        self.extent = Some(Extent { first, last: index, last_crc: crc });
    }

    /// The same without the named values.
    pub(crate) fn without_values(&self) -> State {
        let State { group, extent, purged, meta: _ } = self;
        State { group: *group, extent: *extent, purged: purged.clone(), meta: BTreeMap::new() }
    }

    /// Becomes the state after the next group, which names the values that it changed.
    pub(crate) fn follow(&mut self, next: State) {
        let mut meta = std::mem::take(&mut self.meta);
        meta.extend(next.meta);
        *self = State { meta, ..next };
    }

    /// Forgets the head up to and including `index`.
    pub(crate) fn purge(&mut self, index: u64, mark: &[u8]) {
        self.purged = Some(Purged { index, mark: Blob(mark.to_vec()) });
        self.extent = self
            .extent
            .filter(|extent| extent.last > index)
            .map(|extent| Extent { first: extent.first.max(index + 1), ..extent });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(group: u64, purged: u64, first: u64, last: u64) -> State {
        let extent = Some(Extent { first, last, last_crc: 0 });
        let purged = Some(Purged { index: purged, mark: Blob::default() });
        State { group, extent, purged, ..State::default() }
    }

    #[test]
    fn what_no_store_writes_is_not_sound() {
        assert!(State::default().is_sound() && state(5, 1, 2, 2).is_sound());
        assert!(!state(u64::MAX, 1, 2, 2).is_sound());
        assert!(!state(5, 2, 2, 2).is_sound());
        assert!(!state(5, 1, 3, 2).is_sound());
        assert!(!state(5, 1, 2, u64::MAX).is_sound());
        assert!(!State { extent: None, ..state(5, u64::MAX, 2, 2) }.is_sound());
        let records = vec![Blob::default(); 2];
        let group = |first| Group { state: state(5, 1, 2, 2), first, records: records.clone() };
        assert!(group(u64::MAX - 3).is_sound() && !group(u64::MAX - 2).is_sound());
        assert!(!group(u64::MAX).is_sound());
    }
}
