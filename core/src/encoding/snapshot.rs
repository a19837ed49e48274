//! A frozen state as a stream of bytes, and back.
//!
//! Each section is `[length u32 LE][record]`; what a section is stands in its record. Bytes past the
//! end refuse the whole stream. Equal states have equal streams, so that replicas can be compared by
//! [`digest`].

use std::io::{self, Read, Write};

use mintleaf_codec as codec;
use thiserror::Error;

use super::record::{self, DecodeError};
use crate::state::{
    FrozenState, LEVEL_MAX, Restorer, SectionRead, SectionWritten, State, UnfitSnapshot,
};

/// The one format of sections so far.
const FORMAT: u8 = 1;
/// Bytes in one section at most; a section of the longest entries takes less than half of it, and so
/// do 4,096 worker ids.
pub(crate) const SECTION_BYTES_MAX: u32 = 1 << 20;

/// Writes the whole stream, in many small writes: give it a buffered writer.
///
/// # Errors
/// The errors of `out`.
pub fn write_snapshot(state: &FrozenState, mut out: impl Write) -> io::Result<()> {
    state.sections().try_for_each(|section| write_section(&mut out, &section))
}

/// A checksum of the stream that stays the same across builds and releases of one format. Two
/// replicas at the same log index must agree on it.
pub fn digest(state: &FrozenState) -> u64 {
    let mut digest = Fnv1a::default();
    write_snapshot(state, &mut digest).expect("a digest takes every byte");
    digest.0
}

/// Reads back what [`write_snapshot`] wrote, up to the end of `input`. Small reads: give it a
/// buffered reader.
///
/// # Errors
/// [`SnapshotError`] if `input` fails or is anything but one whole stream, of a level that this
/// build supports.
pub fn read_snapshot(input: impl Read) -> Result<State, SnapshotError> {
    read_snapshot_up_to(LEVEL_MAX, input)
}

/// As [`read_snapshot`], in a build that supports levels up to `level_max`.
///
/// # Errors
/// As [`read_snapshot`].
pub fn read_snapshot_up_to(level_max: u32, mut input: impl Read) -> Result<State, SnapshotError> {
    let mut restorer = Restorer::begin(level_max, read_section(&mut input)?)?;
    while restorer.take(read_section(&mut input)?)? {}
    let state = restorer.finish()?;
    match input.read(&mut [0])? {
        0 => Ok(state),
        _ => Err(SnapshotError::Malformed("it goes on past its end")),
    }
}

/// Why a stream is not a state.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Reading failed, or the stream ends too early.
    #[error("cannot read the snapshot: {0}")]
    Io(#[from] io::Error),
    /// A section is damaged or of an unknown format.
    #[error("a section of the snapshot is no use: {0}")]
    Section(#[from] DecodeError),
    /// The state is of a level that this build does not support.
    #[error("it is of level {level}; version {version} supports that")]
    Newer {
        /// The cluster's level when the snapshot was taken.
        level: u32,
        /// The first version that supports it.
        version: String,
    },
    /// The sections do not make a state.
    #[error("the snapshot is malformed: {0}")]
    Malformed(&'static str),
}

impl From<UnfitSnapshot> for SnapshotError {
    fn from(unfit: UnfitSnapshot) -> Self {
        match unfit {
            UnfitSnapshot::Newer { level, version } => Self::Newer { level, version },
            UnfitSnapshot::Malformed(why) => Self::Malformed(why),
        }
    }
}

fn write_section(out: &mut impl Write, section: &SectionWritten<'_>) -> io::Result<()> {
    let record = codec::encode(FORMAT, section);
    let length = u32::try_from(record.len()).map_err(io::Error::other)?;
    assert!(length <= SECTION_BYTES_MAX, "section of {length} bytes");
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&record)
}

fn read_section(input: &mut impl Read) -> Result<SectionRead, SnapshotError> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > SECTION_BYTES_MAX {
        return Err(SnapshotError::Malformed("a section is too long"));
    }
    let mut record = vec![0; length as usize];
    input.read_exact(&mut record)?;
    Ok(record::decode(FORMAT, &record)?)
}

/// Whether bytes are those of a section, whatever its format and what stands in it.
pub(crate) fn section_is_whole(bytes: &[u8]) -> bool {
    codec::is_whole(bytes)
}

/// FNV-1a, 64 bits.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv1a {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
