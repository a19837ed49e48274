//! What is in a backup, written and read.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use mintleaf_codec as codec;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::check::{BackupCheck, NotWhole};
use crate::encoding::{SnapshotError, read_snapshot_up_to, write_snapshot};
use crate::state::{FrozenState, LEVEL_MAX, State};

const MAGIC: [u8; 4] = *b"MLBK";
/// The one format of backups so far. Whatever a later level of the cluster brings stands in the sections.
const FORMAT: u8 = 1;
/// Bytes of the head at most: its two versions are short.
pub(super) const HEAD_BYTES_MAX: u32 = 4 << 10;
/// Bytes that are read, and checked, at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Where a backup comes from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BackupHead {
    /// The cluster.
    pub cluster_id: u128,
    /// The node that was asked.
    pub node_id: u64,
    /// The backup holds what every log entry did up to this one at least.
    pub log_index: u64,
    /// The level of the cluster.
    pub level: u32,
    /// The first version that supports the level.
    pub version_needed: String,
    /// The version of the node that was asked.
    pub version: String,
    /// When the copy was taken, in Unix milliseconds: the median of the nodes' clocks, or this node's.
    pub taken_at_ms: u64,
    /// How many tags there are.
    pub tags: u64,
}

/// Why a file is not a backup that can be used.
#[derive(Debug, Error)]
pub enum BackupError {
    /// Reading failed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// The file begins in another way than backups do.
    #[error("it is not a backup")]
    Foreign,
    /// The backup was written by a later release.
    #[error("it is a backup of format {0}, and this build reads format {FORMAT}")]
    Format(u8),
    /// The backup is not whole.
    #[error(transparent)]
    NotWhole(#[from] NotWhole),
    /// The state is of a level that this build does not support.
    #[error("it is of level {level}; version {version} supports that")]
    Newer {
        /// The level of the cluster.
        level: u32,
        /// The first version that supports it.
        version: String,
    },
    /// The content is whole, but not a state.
    #[error("{0}")]
    Content(#[from] SnapshotError),
}

/// Writes a backup, in many small writes: give it a buffered writer.
///
/// # Errors
/// The errors of `out`.
pub fn write_backup(
    head: &BackupHead,
    state: &FrozenState,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut out = Checked { out, check: BackupCheck::default() };
    let record = codec::encode(FORMAT, head);
    let length = u32::try_from(record.len()).map_err(io::Error::other)?;
    out.write_all(&MAGIC)?;
    out.write_all(&[FORMAT])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&record)?;
    write_snapshot(state, &mut out)?;
    let Checked { out, check } = out;
    out.write_all(&check.trailer())
}

/// Reads the head, which has a separate checksum, from the start of a backup. Does not check the rest.
///
/// # Errors
/// [`BackupError`] when no head of a backup stands there.
pub fn read_head(input: &mut impl Read) -> Result<BackupHead, BackupError> {
    let mut magic = [0; MAGIC.len()];
    read_exactly(input, &mut magic)?;
    if magic != MAGIC {
        return Err(BackupError::Foreign);
    }
    let mut format = [0];
    read_exactly(input, &mut format)?;
    if format != [FORMAT] {
        return Err(BackupError::Format(format[0]));
    }
    let mut length = [0; 4];
    read_exactly(input, &mut length)?;
    let length = u32::from_le_bytes(length);
    if length > HEAD_BYTES_MAX {
        return Err(NotWhole.into());
    }
    let mut record = vec![0; length as usize];
    read_exactly(input, &mut record)?;
    codec::decode_as(FORMAT, &record).map_err(|_| NotWhole.into())
}

/// Reads a whole backup. It is checked to its end before any of it is used. `checked` is called with how many bytes
/// have been checked.
///
/// # Errors
/// [`BackupError`] when it is anything but one whole backup, of a level that this build supports.
pub fn read_backup(
    mut input: impl Read + Seek,
    mut checked: impl FnMut(u64),
) -> Result<(BackupHead, State), BackupError> {
    input.seek(SeekFrom::Start(0))?;
    read_head(&mut input)?;
    input.seek(SeekFrom::Start(0))?;
    let mut check = BackupCheck::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = input.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        check.take(&chunk[..read]);
        checked(check.bytes());
    }
    let bytes = check.finish()?;
    input.seek(SeekFrom::Start(0))?;
    let mut content = BufReader::with_capacity(CHUNK_BYTES, input.take(bytes));
    let head = read_head(&mut content)?;
    if head.level > LEVEL_MAX {
        return Err(BackupError::Newer { level: head.level, version: head.version_needed });
    }
    let state = read_snapshot_up_to(LEVEL_MAX, content).map_err(|error| match error {
        SnapshotError::Newer { level, version } => BackupError::Newer { level, version },
        error => BackupError::Content(error),
    })?;
    Ok((head, state))
}

/// Reads into all of `bytes`. An input that ends too early is a backup that was cut short.
fn read_exactly(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), BackupError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => NotWhole.into(),
        _ => BackupError::Io(error),
    })
}

/// Passes bytes through, and takes their checksum.
struct Checked<'a, W> {
    out: &'a mut W,
    check: BackupCheck,
}

impl<W: Write> Write for Checked<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.check.take(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::state::Command;
    use crate::state::tests::{hex, two_tags_and_a_tombstone, with_worker_ids, written};

    fn head(level: u32) -> BackupHead {
        BackupHead {
            cluster_id: 0xc1,
            node_id: 2,
            log_index: 700,
            level,
            version_needed: "0.1.0".to_owned(),
            version: "0.2.0".to_owned(),
            taken_at_ms: 1_800_000_000_000,
            tags: 2,
        }
    }

    fn backup(state: &State, level: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_backup(&head(level), &state.freeze(), &mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(BackupHead, State), BackupError> {
        read_backup(Cursor::new(bytes), |_| {})
    }

    #[test]
    fn what_is_written_is_read_back() {
        for state in [State::default(), two_tags_and_a_tombstone(), with_worker_ids()] {
            let bytes = backup(&state, 1);
            let (found, restored) = read(&bytes).unwrap();
            assert_eq!((found, written(&restored)), (head(1), written(&state)));
            assert_eq!(read_head(&mut &bytes[..]).unwrap(), head(1));
        }
    }

    #[test]
    fn a_backup_keeps_its_bytes() {
        let bytes = backup(&State::default(), 1);
        let golden = [
            "4d4c424b01",                 // magic, format
            "21000000",                   // length of the head
            "0156747718",                 // its format, crc32
            "c102fbbc02",                 // cluster, node, log index
            "0105302e312e3005302e322e30", // level, its version, the node's version
            "fd00505c18a301000002",       // time, tags
            "080000000179b8f899000000",   // header of the sections
            "06000000019242ccb602",       // their end
            "4000000000000000",           // length
            "a513a4e321b46da475c1e84c3ba29efc21a9ac9d557594a97cfc6cfde63369e0",
        ];
        assert_eq!(hex(&bytes), golden.concat());
    }

    #[test]
    fn any_flipped_bit_any_cut_and_any_addition_is_refused() {
        let whole = backup(&with_worker_ids(), 1);
        for bit in 0..whole.len() * 8 {
            let mut altered = whole.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&altered).is_err(), "bit {bit}");
        }
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(read(&[&whole[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_backup_of_a_later_level_names_the_version_that_it_needs() {
        let mut state = two_tags_and_a_tombstone();
        state.apply(0, &Command::RaiseLevel { to: 9, version: "0.9.0".to_owned() });
        for bytes in [backup(&state, 1), backup(&State::default(), 9)] {
            let refused = read(&bytes).unwrap_err();
            assert!(matches!(refused, BackupError::Newer { level: 9, .. }), "{refused}");
        }
    }

    #[test]
    fn other_files_are_told_from_backups() {
        assert!(matches!(read(b"MLSN and so on"), Err(BackupError::Foreign)));
        assert!(matches!(read(b"MLBK\x02"), Err(BackupError::Format(2))));
        assert!(matches!(read(b""), Err(BackupError::NotWhole(_))));
        assert!(matches!(read(b"MLBK\x01\xff\xff\xff\xff"), Err(BackupError::NotWhole(_))));
    }
}
