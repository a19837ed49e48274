//! The write-ahead log: every batch of operations since the older of the two checkpoints.
//!
//! It is double-buffered: two files, a and b, are filled in turn. The checkpoint with the same letter as a file holds
//! the store as it was before the first batch of that file. It is mirrored: each file is kept as two copies. A batch
//! is appended to both copies of the current file, and twice to each, always from the start of a block, so that no
//! write touches a block that holds another batch. `DESIGN.md`, "The write-ahead log", explains why there are two of
//! everything and what each crash leaves behind.

mod file;
mod layout;

#[cfg(feature = "fuzzing")]
pub(crate) use layout::decode_batch;
pub(crate) use layout::{Found, encode_batch, twice};

use crate::batch::Batch;
use crate::error::StorageError;
use crate::files;
use file::{COPY_NAMES, FILE_BYTES_MAX, FILE_BYTES_MIN, WalFile};
use std::io;
use std::path::Path;

/// The names of all copies of both files.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COPY_NAMES.into_iter().flatten()
}

/// Both files, and where the next batch goes.
pub(crate) struct Wal {
    files: [WalFile; 2],
    /// The file that is being filled.
    current: usize,
    /// Offset of the next batch in that file, in bytes.
    end: usize,
}

impl Wal {
    /// Creates both files. File a holds the empty batch 0.
    pub(crate) fn create(dir: &Path) -> Result<(), StorageError> {
        for (names, batch) in COPY_NAMES.iter().zip([Some(Batch::default()), None]) {
            let mut bytes = batch.map(|batch| twice(&encode_batch(&batch))).unwrap_or_default();
            bytes.resize(FILE_BYTES_MIN, 0);
            names.iter().try_for_each(|name| files::replace(dir, name, &bytes))?;
        }
        Ok(())
    }

    /// Opens both files, and ensures that what is read from them is on disk. The first write must be [`Wal::begin`].
    pub(crate) fn open(dir: &Path) -> Result<(Wal, Vec<Found>), StorageError> {
        let (a, in_a) = WalFile::open(dir, 0)?;
        let (b, in_b) = WalFile::open(dir, 1)?;
        let newest = |found: &[Found]| found.iter().map(|found| found.batch.manifest.batch).max();
        let current = usize::from(newest(&in_b) > newest(&in_a));
        let wal = Wal { files: [a, b], current, end: 0 };
        Ok((wal, [in_a, in_b].concat()))
    }

    /// A write-ahead log on files that cannot be written.
    #[cfg(test)]
    pub(crate) fn read_only(dir: &Path) -> Result<Wal, StorageError> {
        Ok(Wal {
            files: [WalFile::read_only(dir, 0)?, WalFile::read_only(dir, 1)?],
            current: 0,
            end: 0,
        })
    }

    /// The file that is being filled: 0 for a, 1 for b. After opening, the file that holds the newest batch.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Writes the first batch after opening, which holds all named values, to the start of the file without the newest
    /// batch, and syncs both copies. Before that, the checkpoint with the letter of that file must be durable and
    /// contain everything before this batch.
    pub(crate) fn begin(&mut self, first: &Batch) -> io::Result<()> {
        self.turn();
        self.write(first.manifest.batch, &twice(&encode_batch(first)))?;
        self.files[self.current].sync()
    }

    /// Whether this many bytes fit into the current file. If they do not, the checkpoint of the other letter must be
    /// advanced to the newest batch, which frees the other file, before [`Wal::switch`].
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes <= self.files[self.current].len()
    }

    /// How many more batches of this size fit into the current file; `None` before it is three quarters full.
    pub(crate) fn left_when_nearly_full(&self, bytes: usize) -> Option<usize> {
        let len = self.files[self.current].len();
        (self.end >= len / 4 * 3).then(|| (len - self.end) / bytes.max(1))
    }

    /// Continues at the start of the other file, because the current one is full. The other file gets twice the size of
    /// the full one, up to [`FILE_BYTES_MAX`].
    pub(crate) fn switch(&mut self) -> io::Result<()> {
        let full = self.files[self.current].len();
        self.turn();
        self.files[self.current].grow((2 * full).min(FILE_BYTES_MAX))
    }

    fn turn(&mut self) {
        self.current = 1 - self.current;
        self.end = 0;
    }

    /// Writes the bytes of batch `number`, made by [`twice`], to both copies of the current file, and returns when
    /// one copy is on disk. The sync of the next batch brings the other copy to disk.
    pub(crate) fn write(&mut self, number: u64, batch: &[u8]) -> io::Result<()> {
        self.files[self.current].write(number, self.end, batch)?;
        self.end += batch.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use crate::wal::layout::BLOCK_BYTES;
    use mintleaf_codec::Blob;
    use std::collections::BTreeMap;
    use std::fs;
    use tempfile::tempdir;

    fn batch(number: u64) -> Batch {
        let manifest = Manifest { batch: number, ..Manifest::default() };
        Batch { manifest, first: 6, records: vec![Blob(b"record".to_vec())] }
    }

    /// The write-ahead log, and how often each batch is found in it.
    fn open(dir: &Path) -> (Wal, BTreeMap<u64, usize>) {
        let (wal, found) = Wal::open(dir).unwrap();
        let mut batches = BTreeMap::new();
        found.iter().for_each(|found| *batches.entry(found.batch.manifest.batch).or_default() += 1);
        (wal, batches)
    }

    fn write(wal: &mut Wal, number: u64) {
        wal.write(number, &twice(&encode_batch(&batch(number)))).unwrap();
    }

    #[test]
    fn a_torn_batch_leaves_all_others_and_its_other_copies() {
        let dir = tempdir().unwrap();
        Wal::create(dir.path()).unwrap();
        let (mut wal, found) = open(dir.path());
        assert_eq!(found, [(0, 4)].into());
        wal.begin(&Batch::default()).unwrap();
        (1..=3).for_each(|number| write(&mut wal, number));
        drop(wal);
        assert_eq!(open(dir.path()).1, [(0, 8), (1, 4), (2, 4), (3, 4)].into());
        let path = dir.path().join("tail-b1");
        let whole = fs::read(&path).unwrap();
        for at in 0..encode_batch(&batch(2)).len() {
            let mut torn = whole.clone();
            torn[4 * BLOCK_BYTES + at] ^= 1;
            fs::write(&path, &torn).unwrap();
            let left = [(0, 8), (1, 4), (2, 3), (3, 4)].into();
            assert_eq!(open(dir.path()).1, left, "byte {at}");
        }
    }

    #[test]
    fn a_full_file_stays_as_it_is_while_the_other_is_filled() {
        let dir = tempdir().unwrap();
        Wal::create(dir.path()).unwrap();
        let (mut wal, _) = open(dir.path());
        wal.begin(&Batch::default()).unwrap();
        let batches = (FILE_BYTES_MIN / BLOCK_BYTES / 2) as u64;
        (1..batches).for_each(|number| write(&mut wal, number));
        assert!(!wal.has_room(1));
        wal.switch().unwrap();
        (batches..3 * batches).for_each(|number| write(&mut wal, number));
        assert!(!wal.has_room(1), "the second file has twice the size");
        assert!(open(dir.path()).1.into_iter().eq((0..3 * batches).map(|number| (number, 4))));
    }

    #[test]
    fn files_that_fill_up_grow_to_a_bound_and_openings_alone_do_not() {
        let dir = tempdir().unwrap();
        Wal::create(dir.path()).unwrap();
        let sizes = || {
            let len = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len() as usize;
            COPY_NAMES.map(|[copy, other]| {
                assert_eq!(len(copy), len(other));
                len(copy)
            })
        };
        for number in 0..4 {
            open(dir.path()).0.begin(&batch(number)).unwrap();
        }
        assert_eq!(sizes(), [FILE_BYTES_MIN; 2]);
        let (mut wal, _) = open(dir.path());
        let mut expected = FILE_BYTES_MIN;
        while expected < FILE_BYTES_MAX {
            expected *= 2;
            wal.switch().unwrap();
            assert_eq!(sizes()[wal.current()], expected);
        }
        wal.switch().unwrap();
        wal.switch().unwrap();
        assert_eq!(sizes(), [FILE_BYTES_MAX; 2]);
    }

    #[test]
    fn opening_leaves_the_newest_batch_where_it_was_found() {
        let dir = tempdir().unwrap();
        Wal::create(dir.path()).unwrap();
        for number in 1..6 {
            let (mut wal, _) = open(dir.path());
            wal.begin(&batch(number)).unwrap();
            drop(wal);
            let found = open(dir.path()).1;
            assert_eq!((found[&(number - 1)], found[&number]), (4, 4));
        }
    }

    #[test]
    fn a_file_grows_with_its_batch_and_never_shrinks() {
        let dir = tempdir().unwrap();
        Wal::create(dir.path()).unwrap();
        let len = || fs::metadata(dir.path().join("tail-b1")).unwrap().len();
        assert_eq!(len(), 512 << 10);
        let (mut wal, _) = open(dir.path());
        let large = Batch { records: vec![Blob(vec![1; 300 << 10])], ..batch(1) };
        wal.begin(&large).unwrap();
        write(&mut wal, 2);
        drop(wal);
        assert_eq!(len(), 1 << 20);
        assert_eq!(open(dir.path()).1, [(0, 4), (1, 4), (2, 4)].into());
    }
}
