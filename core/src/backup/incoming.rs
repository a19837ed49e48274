//! Whether bytes that come in can be a backup, from the first of them on: a server may send anything, and without end.

use super::check::{BackupCheck, NotWhole, TRAILER_BYTES};
use super::file::{BackupError, BackupHead, HEAD_BYTES_MAX, read_head};
use crate::encoding::{SECTION_BYTES_MAX, section_is_whole};

/// Longest backup: more than the memory of any machine that could hold the state in it.
const BYTES_MAX: u64 = 1 << 40;
/// Where the longest head ends: behind magic, format and length.
const HEAD_END_MAX: usize = 9 + HEAD_BYTES_MAX as usize;
/// Bytes of a section's length.
const LENGTH_BYTES: usize = 4;

/// A backup whose bytes come in. What it holds at most of them is a section.
#[derive(Default)]
pub struct Incoming {
    check: BackupCheck,
    /// What came behind the last section that is whole, or behind the head.
    unread: Vec<u8>,
    head: Option<BackupHead>,
    /// Whether what comes now is the trailer, behind the last section.
    is_at_the_trailer: bool,
}

impl Incoming {
    /// Takes in the bytes that come next.
    ///
    /// # Errors
    /// [`BackupError`], once they cannot be a backup.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.check.take(bytes);
        self.unread.extend_from_slice(bytes);
        let mut read = 0;
        while let Some(length) = self.next(read)? {
            read += length;
        }
        self.unread.drain(..read);
        let is_too_long = self.is_at_the_trailer && self.unread.len() > TRAILER_BYTES;
        match is_too_long || self.check.bytes() > BYTES_MAX {
            true => Err(NotWhole.into()),
            false => Ok(()),
        }
    }

    /// The length of the head, or of the section, that is whole from `at` on.
    fn next(&mut self, at: usize) -> Result<Option<usize>, BackupError> {
        let unread = &self.unread[at..];
        if self.is_at_the_trailer {
            return Ok(None);
        }
        if self.head.is_none() {
            let mut rest = unread;
            return match read_head(&mut rest) {
                Ok(head) => {
                    self.head = Some(head);
                    Ok(Some(unread.len() - rest.len()))
                }
                // It has not come in whole, or it never will be.
                Err(BackupError::NotWhole(_)) if unread.len() < HEAD_END_MAX => Ok(None),
                Err(error) => Err(error),
            };
        }
        let Some((length, rest)) = unread.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length);
        if length <= SECTION_BYTES_MAX {
            let Some(section) = rest.get(..length as usize) else { return Ok(None) };
            if section_is_whole(section) {
                return Ok(Some(LENGTH_BYTES + section.len()));
            }
        }
        // Behind the last section stands no other one, but the length of all of them.
        self.is_at_the_trailer = true;
        Ok(None)
    }

    /// How many bytes came.
    pub fn bytes(&self) -> u64 {
        self.check.bytes()
    }

    /// The head of the backup that the bytes were, and how many they were.
    ///
    /// # Errors
    /// [`BackupError`], when they were not all of a backup.
    pub fn finish(self) -> Result<(BackupHead, u64), BackupError> {
        let bytes = self.bytes();
        let head = self.head.ok_or(NotWhole)?;
        self.check.finish()?;
        Ok((head, bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::backup::{BackupHead, write_backup};
    use crate::state::State;
    use crate::state::tests::{two_tags_and_a_tombstone, with_worker_ids};

    fn backup(state: &State) -> Vec<u8> {
        let head = BackupHead {
            cluster_id: 0xc1,
            node_id: 2,
            log_index: 700,
            level: 1,
            version_needed: "0.1.0".to_owned(),
            version: "0.2.0".to_owned(),
            taken_at_ms: 1_800_000_000_000,
            tags: 2,
        };
        let mut bytes = Vec::new();
        write_backup(&head, &state.freeze(), &mut bytes).unwrap();
        bytes
    }

    fn taken(whole: &[u8], size: usize) -> Result<u64, BackupError> {
        let mut incoming = Incoming::default();
        whole.chunks(size).try_for_each(|piece| incoming.take(piece))?;
        let (head, bytes) = incoming.finish()?;
        assert_eq!((head.cluster_id, head.log_index), (0xc1, 700));
        Ok(bytes)
    }

    #[test]
    fn a_backup_comes_in_whole_in_whatever_pieces() {
        for state in [State::default(), two_tags_and_a_tombstone(), with_worker_ids()] {
            let whole = backup(&state);
            for size in [1, 7, 40, 1000, whole.len()] {
                let bytes = taken(&whole, size).unwrap();
                assert_eq!(bytes, whole.len() as u64);
            }
            for length in 0..whole.len() {
                assert!(taken(&whole[..length], 64).is_err(), "{length} bytes");
            }
            let more = [&whole[..], &[0]].concat();
            assert!(taken(&more, 64).is_err());
        }
    }

    #[test]
    fn what_goes_on_without_end_is_refused_soon() {
        let whole = backup(&two_tags_and_a_tombstone());
        for (begin, filler) in [
            (&b""[..], 0_u8),
            (b"<html>", b'x'),
            (b"MLBK\x01", 0xff),
            (b"MLBK\x01\x21\0\0\0", 7),
            (&whole[..whole.len() - TRAILER_BYTES], 0),
            (&whole, 0),
            (&whole[..60], 1),
        ] {
            let mut incoming = Incoming::default();
            let filler = io::repeat(filler);
            let mut input = io::Read::chain(begin, filler);
            let mut piece = vec![0; 64 << 10];
            let mut refused = false;
            for _ in 0..40 {
                io::Read::read_exact(&mut input, &mut piece).unwrap();
                refused = refused || incoming.take(&piece).is_err();
            }
            assert!(refused, "{} bytes were taken", incoming.bytes());
        }
    }
}
