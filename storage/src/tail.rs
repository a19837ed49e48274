//! The tail: the last group of operations, kept a second time beside sled.
//!
//! Two slot files are overwritten in turn; group `n` goes to slot `n % 2`, so the one before it
//! stays whole while it is written. A slot is `[length u32 LE][frame]`, the frame being an
//! encoded [`Group`]. A slot that does not decode is *torn*: its write never ended, or it was
//! altered later. Why two files, and what each crash leaves: `DESIGN.md`, "The tail".

use crate::codec;
use crate::error::{Context, StorageError};
use crate::files;
use crate::state::{FORMAT, Group};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

const NAMES: [&str; 2] = ["tail-a", "tail-b"];

/// Size a slot file is made with, and grows from by doubling: an overwrite within the file needs
/// no metadata on disk, which makes its `fdatasync` cheap. Most groups are far smaller.
const SLOT_BYTES_MIN: usize = 256 << 10;

const LENGTH_BYTES: usize = 4;

/// The two slot files and the thread that writes them.
pub(crate) struct Tail {
    /// Dropped to end the writer.
    jobs: Option<SyncSender<Job>>,
    done: Receiver<io::Result<()>>,
    writer: Option<JoinHandle<()>>,
}

struct Job {
    slot: usize,
    bytes: Vec<u8>,
}

/// What the slot files hold when a store is opened; `None` for a torn slot.
pub(crate) type Found = [Option<Group>; 2];

impl Tail {
    /// Makes both slot files, the first holding the empty group 0.
    pub(crate) fn create(dir: &Path) -> Result<(), StorageError> {
        for (name, group) in NAMES.iter().zip([Some(Group::default()), None]) {
            let mut bytes = group.map(|group| slot_bytes(&group)).unwrap_or_default();
            bytes.resize(SLOT_BYTES_MIN, 0);
            files::replace(dir, name, &bytes)?;
        }
        Ok(())
    }

    /// Opens both slot files, makes sure that what is read from them is on disk, and starts the
    /// writer.
    pub(crate) fn open(dir: &Path) -> Result<(Tail, Found), StorageError> {
        let mut slots = Vec::with_capacity(NAMES.len());
        let mut found = [None, None];
        for (name, group) in NAMES.iter().zip(&mut found) {
            let path = dir.join(name);
            let Some(bytes) = files::read(&path)? else {
                return Err(StorageError::damaged(format!("{} is missing", path.display())));
            };
            *group = read_slot(&bytes);
            let file = File::options().write(true).open(&path);
            let file = file
                .and_then(|file| file.sync_data().map(|()| file))
                .context(|| format!("open {}", path.display()))?;
            slots.push(SlotFile { file, len: bytes.len() });
        }
        Ok((Tail::start(slots)?, found))
    }

    fn start(mut slots: Vec<SlotFile>) -> Result<Tail, StorageError> {
        let (jobs, inbox) = sync_channel::<Job>(1);
        let (outbox, done) = sync_channel(1);
        let writer = std::thread::Builder::new()
            .name("tail".into())
            .spawn(move || write_slots(&mut slots, &inbox, &outbox))
            .context(|| "start the tail writer".into())?;
        Ok(Tail { jobs: Some(jobs), done, writer: Some(writer) })
    }

    /// A tail on files that cannot be written.
    #[cfg(test)]
    pub(crate) fn read_only(dir: &Path) -> Result<Tail, StorageError> {
        let slot = |name| File::open(dir.join(name)).map(|file| SlotFile { file, len: 0 });
        let slots: io::Result<_> = NAMES.into_iter().map(slot).collect();
        Tail::start(slots.context(|| "open the tail".into())?)
    }

    /// Starts to write a group; [`Tail::wait`] must follow before the next.
    pub(crate) fn begin(&self, group: &Group) {
        let job = Job { slot: slot_of(group.state.group), bytes: slot_bytes(group) };
        if let Some(jobs) = &self.jobs {
            // A writer that is gone is reported by `wait`.
            let _ = jobs.send(job);
        }
    }

    /// Waits until the group begun last is on disk.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.done.recv().unwrap_or_else(|_| Err(io::Error::other("the tail writer has ended")))
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was reported to whoever waited for it.
            let _ = writer.join();
        }
    }
}

/// Which slot a group goes to.
pub(crate) fn slot_of(group: u64) -> usize {
    usize::from(!group.is_multiple_of(2))
}

struct SlotFile {
    file: File,
    len: usize,
}

impl SlotFile {
    /// Overwrites the slot in place. A file that is too small doubles; none ever shrinks.
    fn write(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        if bytes.len() > self.len {
            self.len = bytes.len().next_power_of_two();
            bytes.resize(self.len, 0);
        }
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_data()
    }
}

fn write_slots(slots: &mut [SlotFile], inbox: &Receiver<Job>, outbox: &SyncSender<io::Result<()>>) {
    for Job { slot, bytes } in inbox {
        if outbox.send(slots[slot].write(bytes)).is_err() {
            return;
        }
    }
}

pub(crate) fn slot_bytes(group: &Group) -> Vec<u8> {
    let frame = codec::encode(FORMAT, group);
    let len = u32::try_from(frame.len()).expect("a frame is far below 4 GiB");
    [&len.to_le_bytes()[..], &frame].concat()
}

pub(crate) fn read_slot(bytes: &[u8]) -> Option<Group> {
    let (len, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let frame = rest.get(..u32::from_le_bytes(*len) as usize)?;
    match codec::decode::<Group>(frame) {
        Ok((FORMAT, group)) if group.is_sound() => Some(group),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Blob;
    use crate::state::{Extent, Purged, State};
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
    fn slot_bytes_never_change() {
        let golden = [
            &[31, 0, 0, 0][..],                 // length of the frame
            &[1, 0x1c, 0x48, 0x5b, 0xc7],       // format, crc32
            &[9, 1, 5, 6, 252, 1, 2, 3, 4],     // group, extent
            &[1, 4, 1, b'p'],                   // purged
            &[1, 1, 4, b'v', b'o', b't', b'e'], // named values
            &[6, 1, 3, b'r', b'e', b'c'],       // records
        ];
        assert_eq!(slot_bytes(&group(9)), golden.concat());
        assert_eq!(read_slot(&golden.concat()), Some(group(9)));
    }

    #[test]
    fn groups_alternate_and_a_torn_slot_leaves_the_other() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        let (tail, found) = Tail::open(dir.path()).unwrap();
        assert_eq!(found, [Some(Group::default()), None]);
        for number in 1..=4 {
            tail.begin(&group(number));
            tail.wait().unwrap();
        }
        drop(tail);
        let (tail, found) = Tail::open(dir.path()).unwrap();
        assert_eq!(found, [Some(group(4)), Some(group(3))]);
        drop(tail);
        let (old, new) = (slot_bytes(&group(2)), slot_bytes(&group(4)));
        for cut in 0..new.len() {
            // The new bytes reached the disk up to the cut, behind them the old ones remain.
            let bytes = [&new[..cut], &old[cut..]].concat();
            fs::write(dir.path().join("tail-a"), &bytes).unwrap();
            let (_, found) = Tail::open(dir.path()).unwrap();
            let expected = if bytes == old {
                Some(group(2))
            } else if bytes == new {
                Some(group(4))
            } else {
                None
            };
            assert_eq!(found, [expected, Some(group(3))], "cut {cut}");
        }
    }

    #[test]
    fn slot_grows_with_its_group_and_never_shrinks() {
        let dir = tempdir().unwrap();
        Tail::create(dir.path()).unwrap();
        let len = || fs::metadata(dir.path().join("tail-b")).unwrap().len();
        assert_eq!(len(), 256 << 10);
        let (tail, _) = Tail::open(dir.path()).unwrap();
        let large = Group { records: vec![Blob(vec![1; 300 << 10])], ..group(1) };
        for next in [large, group(3)] {
            tail.begin(&next);
            tail.wait().unwrap();
            assert_eq!(len(), 512 << 10);
        }
        drop(tail);
        let (_, found) = Tail::open(dir.path()).unwrap();
        assert_eq!(found[1], Some(group(3)));
    }
}
