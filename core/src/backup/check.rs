//! Whether a backup is whole.

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use thiserror::Error;

/// Bytes of the length at the end.
const LENGTH_BYTES: usize = 8;
/// Bytes behind the sections.
pub(super) const TRAILER_BYTES: usize = LENGTH_BYTES + SHA256_OUTPUT_LEN;

/// Why a backup is not whole.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("it is cut short or altered: its checksum does not match")]
pub struct NotWhole;

/// The checksum of a backup, taken of its bytes as they come.
pub struct BackupCheck {
    sum: Context,
    /// Bytes in `sum`.
    summed: u64,
    /// The last bytes so far, which may be the trailer.
    last: Vec<u8>,
}

impl Default for BackupCheck {
    fn default() -> Self {
        Self { sum: Context::new(&SHA256), summed: 0, last: Vec::new() }
    }
}

impl BackupCheck {
    /// Takes in the bytes that come next.
    pub fn take(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        let summed = self.last.len().saturating_sub(TRAILER_BYTES);
        self.sum.update(&self.last[..summed]);
        self.summed += summed as u64;
        self.last.drain(..summed);
    }

    /// How many bytes came.
    pub fn bytes(&self) -> u64 {
        self.summed + self.last.len() as u64
    }

    /// Says whether the bytes were all of a backup, and how many they are without the trailer.
    ///
    /// # Errors
    /// [`NotWhole`], when they were not.
    pub fn finish(mut self) -> Result<u64, NotWhole> {
        let (length, sum) = self.last.split_first_chunk().ok_or(NotWhole)?;
        self.sum.update(length);
        let is_whole =
            u64::from_le_bytes(*length) == self.summed && self.sum.finish().as_ref() == sum;
        if is_whole { Ok(self.summed) } else { Err(NotWhole) }
    }

    /// The trailer of a backup all of whose bytes before it came.
    pub fn trailer(mut self) -> Vec<u8> {
        self.sum.update(&self.last);
        let length = self.bytes().to_le_bytes();
        self.sum.update(&length);
        [&length[..], self.sum.finish().as_ref()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(content: &[u8]) -> Vec<u8> {
        let mut check = BackupCheck::default();
        check.take(content);
        [content, &check.trailer()].concat()
    }

    fn check(pieces: &[&[u8]]) -> Result<u64, NotWhole> {
        let mut check = BackupCheck::default();
        pieces.iter().for_each(|piece| check.take(piece));
        check.finish()
    }

    #[test]
    fn a_whole_backup_is_known_in_whatever_pieces_it_comes() {
        for length in [0, 1, 39, 40, 41, 300] {
            let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let whole = whole(&content);
            for cut in 0..=whole.len() {
                let (first, second) = whole.split_at(cut);
                assert_eq!(check(&[first, second]), Ok(length as u64), "{length} cut at {cut}");
            }
            let bytes: Vec<&[u8]> = whole.chunks(1).collect();
            assert_eq!(check(&bytes), Ok(length as u64));
        }
    }

    #[test]
    fn every_flipped_bit_every_cut_and_every_addition_is_noticed() {
        let whole = whole(&[7; 100]);
        for bit in 0..whole.len() * 8 {
            let mut altered = whole.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&[&altered]), Err(NotWhole), "bit {bit}");
        }
        for length in 0..whole.len() {
            assert_eq!(check(&[&whole[..length]]), Err(NotWhole), "{length} bytes");
        }
        assert_eq!(check(&[&whole, &[0]]), Err(NotWhole));
        assert_eq!(check(&[&whole, &whole]), Err(NotWhole));
    }
}
