//! The tail: every group of operations since the older of the two checkpoints.
//!
//! Two *segments* are filled in turn, each kept as two files, its copies. The checkpoint of the same
//! number is the store before the first group of a segment. A group goes into both
//! copies of the current segment, behind the group before it, and twice into each, from a block of
//! its own on; so no write touches what holds another group. Its form is `[length u32 LE][frame]`,
//! the frame being an encoded [`Group`]. What does not decode is *torn*: its write never ended, it
//! was altered later, or nothing was ever written there. Why two of everything, and what each crash
//! leaves: `DESIGN.md`, "The tail".

use crate::codec;
use crate::error::{Context, StorageError};
use crate::files;
use crate::state::{GROUP_FORMAT, Group};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const COPIES: usize = 2;
/// The copies of both segments.
const NAMES: [[&str; COPIES]; 2] = [["tail-a0", "tail-a1"], ["tail-b0", "tail-b1"]];

/// What a disk writes at once, at least: a group begins in a block of its own.
const BLOCK_BYTES: usize = 4 << 10;

/// Size a segment is made with, and grows from by doubling: an overwrite within the file needs no
/// metadata on disk, which makes its `fdatasync` cheap. Most groups take two blocks.
const SEGMENT_BYTES_MIN: usize = 512 << 10;

const LENGTH_BYTES: usize = 4;

/// Both segments, and where the next group goes.
pub(crate) struct Tail {
    segments: [Segment; 2],
    current: usize,
    end: usize,
}

struct Segment {
    copies: [File; COPIES],
    len: usize,
}

/// A group as it was found; each is found several times.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) group: Group,
    pub(crate) format: u8,
    pub(crate) segment: usize,
    /// Whether it is the first that was found in its file.
    pub(crate) is_head: bool,
}

impl Tail {
    /// Makes both segments, the first holding the empty group 0.
    pub(crate) fn create(dir: &Path) -> Result<(), StorageError> {
        for (names, group) in NAMES.iter().zip([Some(Group::default()), None]) {
            let mut bytes = group.map(|group| twice(&group_bytes(&group))).unwrap_or_default();
            bytes.resize(SEGMENT_BYTES_MIN, 0);
            names.iter().try_for_each(|name| files::replace(dir, name, &bytes))?;
        }
        Ok(())
    }

    /// Opens both segments, and makes sure that what is read from them is on disk. Nothing may be
    /// written before [`Tail::begin`].
    pub(crate) fn open(dir: &Path) -> Result<(Tail, Vec<Found>), StorageError> {
        let (a, in_a) = Segment::open(dir, 0)?;
        let (b, in_b) = Segment::open(dir, 1)?;
        let newest = |found: &[Found]| found.iter().map(|found| found.group.state.group).max();
        let current = usize::from(newest(&in_b) > newest(&in_a));
        let tail = Tail { segments: [a, b], current, end: 0 };
        Ok((tail, [in_a, in_b].concat()))
    }

    /// A tail on files that cannot be written.
    #[cfg(test)]
    pub(crate) fn read_only(dir: &Path) -> Result<Tail, StorageError> {
        let file = |name: &str| File::open(dir.join(name)).context(|| "open the tail".into());
        let segment = |[one, other]: [&str; COPIES]| {
            Ok(Segment { copies: [file(one)?, file(other)?], len: SEGMENT_BYTES_MIN })
        };
        Ok(Tail { segments: [segment(NAMES[0])?, segment(NAMES[1])?], current: 0, end: 0 })
    }

    /// The segment that groups go to. After opening, the one that holds the newest group.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Goes on after opening with a group that has all values, in the segment that does not hold the
    /// newest group: its checkpoint must be durable with that.
    pub(crate) fn begin(&mut self, first: &Group) -> io::Result<()> {
        self.turn();
        self.write(first.state.group, &twice(&group_bytes(first)))?;
        self.segments[self.current].copies.iter().try_for_each(File::sync_data)
    }

    /// Whether so many bytes fit behind the others. If not, the next group must wait until the
    /// checkpoint of the other segment has all of them: then that segment is free for it.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes <= self.segments[self.current].len
    }

    /// Goes on at the start of the other segment.
    pub(crate) fn turn(&mut self) {
        self.current = 1 - self.current;
        self.end = 0;
    }

    /// Writes a group, [`twice`], into both copies, and returns when it is on disk in one. The other
    /// copy has it on disk after the next group, whose turn it is then.
    pub(crate) fn write(&mut self, number: u64, group: &[u8]) -> io::Result<()> {
        self.segments[self.current].write(number, self.end, group)?;
        self.end += group.len();
        Ok(())
    }
}

impl Segment {
    fn open(dir: &Path, segment: usize) -> Result<(Segment, Vec<Found>), StorageError> {
        let (mut found, mut len) = (Vec::new(), usize::MAX);
        let mut open = |name: &str| {
            let path = dir.join(name);
            let Some(bytes) = files::read(&path)? else {
                return Err(StorageError::damaged(format!("{} is missing", path.display())));
            };
            found.extend(groups_in(&bytes, segment));
            len = len.min(bytes.len());
            let file = File::options().write(true).open(&path);
            file.and_then(|file| file.sync_data().map(|()| file))
                .context(|| format!("open {}", path.display()))
        };
        let copies = [open(NAMES[segment][0])?, open(NAMES[segment][1])?];
        Ok((Segment { copies, len }, found))
    }

    fn write(&mut self, number: u64, at: usize, group: &[u8]) -> io::Result<()> {
        if at + group.len() > self.len {
            self.grow(at + group.len())?;
        }
        for copy in &self.copies {
            copy.write_all_at(group, at as u64)?;
        }
        self.copies[usize::from(number.is_multiple_of(2))].sync_data()
    }

    /// A segment that is too small for its first group doubles; none ever shrinks.
    fn grow(&mut self, len: usize) -> io::Result<()> {
        let grown = vec![0; len.next_power_of_two() - self.len];
        for copy in &self.copies {
            copy.write_all_at(&grown, self.len as u64)?;
        }
        self.len += grown.len();
        Ok(())
    }
}

/// The groups in a copy of a segment. After a torn one the next is looked for block by block.
fn groups_in(bytes: &[u8], segment: usize) -> Vec<Found> {
    let (mut found, mut at) = (Vec::<Found>::new(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((format, group, len)) = read_group(rest) else {
            at += BLOCK_BYTES;
            continue;
        };
        at += len.next_multiple_of(BLOCK_BYTES);
        let head = found.first().map_or(group.state.group, |head| head.group.state.group);
        let is_head = group.state.group == head;
        found.push(Found { group, format, segment, is_head });
    }
    found
}

/// A group's bytes two times, each in blocks of its own.
pub(crate) fn twice(group: &[u8]) -> Vec<u8> {
    let len = group.len().next_multiple_of(BLOCK_BYTES);
    let mut bytes = Vec::with_capacity(2 * len);
    bytes.extend_from_slice(group);
    bytes.resize(len, 0);
    bytes.extend_from_within(..);
    bytes
}

pub(crate) fn group_bytes(group: &Group) -> Vec<u8> {
    let frame = codec::encode(GROUP_FORMAT, group);
    let len = u32::try_from(frame.len()).expect("a frame is far below 4 GiB");
    [&len.to_le_bytes()[..], &frame].concat()
}

/// The group at the start of `bytes` with its format, and how many bytes it takes; `None` when it is
/// torn.
pub(crate) fn read_group(bytes: &[u8]) -> Option<(u8, Group, usize)> {
    let (len, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let len = u32::from_le_bytes(*len) as usize;
    match codec::decode::<Group>(rest.get(..len)?) {
        Ok((format @ 1..=GROUP_FORMAT, group)) if group.is_sound() => {
            Some((format, group, LENGTH_BYTES + len))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Blob;
    use crate::state::{Extent, Purged, State};
    use std::collections::BTreeMap;
    use std::fs;
    use tempfile::tempdir;

    fn group(number: u64) -> Group {
        let state = State {
            group: number,
            extent: Some(Extent { first: 5, last: 6, last_crc: 0x0403_0201 }),
            purged: Some(Purged { index: 4, mark: Blob(b"p".to_vec()) }),
            meta: [(1, Blob(b"vote".to_vec()))].into(),
        };
        Group { state, first: 6, records: vec![Blob(b"rec".to_vec())] }
    }

    #[test]
    fn group_bytes_never_change() {
        let golden = [
            &[31, 0, 0, 0][..],                 // length of the frame
            &[2, 0xdf, 0x65, 0xcf, 0x74],       // format, crc32
            &[9, 1, 5, 6, 252, 1, 2, 3, 4],     // group, extent
            &[1, 4, 1, b'p'],                   // purged
            &[1, 1, 4, b'v', b'o', b't', b'e'], // named values
            &[6, 1, 3, b'r', b'e', b'c'],       // records
        ];
        assert_eq!(group_bytes(&group(9)), golden.concat());
        assert_eq!(read_group(&golden.concat()), Some((2, group(9), 35)));
        // As the release before wrote it.
        let mut former = golden.concat();
        former[4..9].copy_from_slice(&[1, 0x1c, 0x48, 0x5b, 0xc7]);
        assert_eq!(read_group(&former), Some((1, group(9), 35)));
        // No release wrote it.
        former[4..9].copy_from_slice(&codec::encode(3, &group(9))[..5]);
        assert_eq!(read_group(&former), None);
    }

    /// The tail, and how often each group is found in it.
    fn open(dir: &Path) -> (Tail, BTreeMap<u64, usize>) {
        let (tail, found) = Tail::open(dir).unwrap();
        let mut groups = BTreeMap::new();
        found.iter().for_each(|found| *groups.entry(found.group.state.group).or_default() += 1);
        (tail, groups)
    }

    fn write(tail: &mut Tail, number: u64) {
        tail.write(number, &twice(&group_bytes(&group(number)))).unwrap();
    }

    #[test]
    fn a_torn_group_leaves_all_others_and_its_other_copies() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        let (mut tail, found) = open(dir.path());
        assert_eq!(found, [(0, 4)].into());
        tail.begin(&Group::default()).unwrap();
        (1..=3).for_each(|number| write(&mut tail, number));
        drop(tail);
        assert_eq!(open(dir.path()).1, [(0, 8), (1, 4), (2, 4), (3, 4)].into());
        let path = dir.path().join("tail-b1");
        let whole = fs::read(&path).unwrap();
        for at in 0..group_bytes(&group(2)).len() {
            let mut torn = whole.clone();
            torn[4 * BLOCK_BYTES + at] ^= 1;
            fs::write(&path, &torn).unwrap();
            let left = [(0, 8), (1, 4), (2, 3), (3, 4)].into();
            assert_eq!(open(dir.path()).1, left, "byte {at}");
        }
    }

    #[test]
    fn a_full_segment_stays_as_it_is_while_the_other_is_filled() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        let (mut tail, _) = open(dir.path());
        tail.begin(&Group::default()).unwrap();
        let groups = (SEGMENT_BYTES_MIN / BLOCK_BYTES / 2) as u64;
        (1..groups).for_each(|number| write(&mut tail, number));
        assert!(!tail.has_room(1));
        tail.turn();
        (groups..2 * groups).for_each(|number| write(&mut tail, number));
        assert!(!tail.has_room(1));
        assert!(open(dir.path()).1.into_iter().eq((0..2 * groups).map(|number| (number, 4))));
    }

    #[test]
    fn opening_leaves_the_newest_group_where_it_was_found() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        for number in 1..6 {
            let (mut tail, _) = open(dir.path());
            tail.begin(&group(number)).unwrap();
            drop(tail);
            let found = open(dir.path()).1;
            assert_eq!((found[&(number - 1)], found[&number]), (4, 4));
        }
    }

    #[test]
    fn a_segment_grows_with_its_group_and_never_shrinks() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        let len = || fs::metadata(dir.path().join("tail-b1")).unwrap().len();
        assert_eq!(len(), 512 << 10);
        let (mut tail, _) = open(dir.path());
        let large = Group { records: vec![Blob(vec![1; 300 << 10])], ..group(1) };
        tail.begin(&large).unwrap();
        write(&mut tail, 2);
        drop(tail);
        assert_eq!(len(), 1 << 20);
        assert_eq!(open(dir.path()).1, [(0, 4), (1, 4), (2, 4)].into());
    }
}
