//! The bytes of a batch in the write-ahead log.
//!
//! A batch is `[length u32 LE][frame]`, where the frame is an encoded [`Batch`]. It starts at a block and is padded
//! to a whole number of blocks. Bytes that do not decode are *torn*: their write never ended, they were altered
//! later, or nothing was ever written there.

use mintleaf_codec as codec;

use crate::batch::{BATCH_FORMAT, Batch};

/// The smallest unit that a disk writes: a batch starts at a multiple of it.
pub(super) const BLOCK_BYTES: usize = 4 << 10;

const LENGTH_BYTES: usize = 4;

/// A batch, and one place where it was found.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) batch: Batch,
    pub(crate) format: u8,
    /// The file that holds it: 0 for a, 1 for b.
    pub(crate) file: usize,
    /// Whether no other batch was found before it in its copy of the file.
    pub(crate) is_head: bool,
}

/// The bytes of a batch.
pub(crate) fn encode_batch(batch: &Batch) -> Vec<u8> {
    let frame = codec::encode(BATCH_FORMAT, batch);
    let len = u32::try_from(frame.len()).expect("a frame is far below 4 GiB");
    [&len.to_le_bytes()[..], &frame].concat()
}

/// The batch at the start of `bytes` with its format, and how many bytes it takes; `None` if it is torn.
pub(crate) fn decode_batch(bytes: &[u8]) -> Option<(u8, Batch, usize)> {
    let (len, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let len = u32::from_le_bytes(*len) as usize;
    match codec::decode::<Batch>(rest.get(..len)?) {
        Ok((format @ 1..=BATCH_FORMAT, batch)) if batch.is_sound() => {
            Some((format, batch, LENGTH_BYTES + len))
        }
        _ => None,
    }
}

/// The bytes of a batch twice, each time padded to whole blocks.
pub(crate) fn twice(batch: &[u8]) -> Vec<u8> {
    let len = batch.len().next_multiple_of(BLOCK_BYTES);
    let mut bytes = Vec::with_capacity(2 * len);
    bytes.extend_from_slice(batch);
    bytes.resize(len, 0);
    bytes.extend_from_within(..);
    bytes
}

/// The batches in a copy of file number `file`. After torn bytes the search continues at the next block.
pub(super) fn batches_in(bytes: &[u8], file: usize) -> Vec<Found> {
    let (mut found, mut at) = (Vec::<Found>::new(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((format, batch, len)) = decode_batch(rest) else {
            at += BLOCK_BYTES;
            continue;
        };
        at += len.next_multiple_of(BLOCK_BYTES);
        let head = found.first().map_or(batch.manifest.batch, |head| head.batch.manifest.batch);
        let is_head = batch.manifest.batch == head;
        found.push(Found { batch, format, file, is_head });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Extent, Manifest, Purged};
    use mintleaf_codec::Blob;

    fn batch(number: u64) -> Batch {
        let manifest = Manifest {
            batch: number,
            extent: Some(Extent { first: 5, last: 6, last_crc: 0x0403_0201 }),
            purged: Some(Purged { index: 4, mark: Blob(b"p".to_vec()) }),
            meta: [(1, Blob(b"vote".to_vec()))].into(),
        };
        Batch { manifest, first: 6, records: vec![Blob(b"rec".to_vec())] }
    }

    #[test]
    fn batch_bytes_never_change() {
        let golden = [
            &[31, 0, 0, 0][..],                 // length of the frame
            &[2, 0xdf, 0x65, 0xcf, 0x74],       // format, crc32
            &[9, 1, 5, 6, 252, 1, 2, 3, 4],     // batch, extent
            &[1, 4, 1, b'p'],                   // purged
            &[1, 1, 4, b'v', b'o', b't', b'e'], // named values
            &[6, 1, 3, b'r', b'e', b'c'],       // records
        ];
        assert_eq!(encode_batch(&batch(9)), golden.concat());
        assert_eq!(decode_batch(&golden.concat()), Some((2, batch(9), 35)));
        // The bytes that the previous release wrote.
        let mut previous = golden.concat();
        previous[4..9].copy_from_slice(&[1, 0x1c, 0x48, 0x5b, 0xc7]);
        assert_eq!(decode_batch(&previous), Some((1, batch(9), 35)));
        // Bytes that no release wrote.
        previous[4..9].copy_from_slice(&codec::encode(3, &batch(9))[..5]);
        assert_eq!(decode_batch(&previous), None);
    }

    /// Three batches of one block, each written twice, and a fourth whose bytes take four sectors.
    fn log() -> (Vec<u8>, Vec<u8>) {
        let synced = (1..=3).flat_map(|number| twice(&encode_batch(&batch(number)))).collect();
        let long = Batch { records: vec![Blob(vec![7; 3 * SECTOR_BYTES])], ..batch(4) };
        (synced, twice(&encode_batch(&long)))
    }

    /// The smallest unit that a power cut leaves whole.
    const SECTOR_BYTES: usize = 512;

    /// The numbers of the batches in a copy of a file, in their order.
    fn numbers(bytes: &[u8]) -> Vec<u64> {
        batches_in(bytes, 0).iter().map(|found| found.batch.manifest.batch).collect()
    }

    /// **Bound:** every length of a file with four batches.
    #[test]
    fn any_prefix_of_a_log_has_the_batches_that_end_in_it_and_no_others() {
        let (mut log, last) = log();
        let used = |number| encode_batch(&batch(number)).len();
        let mut ends: Vec<usize> =
            (0..6).map(|at| at * BLOCK_BYTES + used(at as u64 / 2 + 1)).collect();
        let long = decode_batch(&last).expect("a batch").2;
        ends.extend([6 * BLOCK_BYTES + long, 7 * BLOCK_BYTES + long]);
        log.extend(last);
        for length in 0..=log.len() {
            let whole = ends.iter().filter(|end| **end <= length).count();
            let expected = [1, 1, 2, 2, 3, 3, 4, 4];
            assert_eq!(numbers(&log[..length]), expected[..whole], "{length} bytes");
        }
    }

    /// **Bound:** every subset of the eight sectors that a fourth batch writes, over a file that had zeros there and over one
    /// that had older batches there.
    #[test]
    fn any_subset_of_unsynced_sectors_leaves_all_synced_batches_and_the_last_one_whole_or_not_at_all()
     {
        let (synced, last) = log();
        let long = decode_batch(&last).expect("a batch").2;
        let sectors = long.div_ceil(SECTOR_BYTES);
        assert_eq!(sectors, 4);
        let older = |number| twice(&encode_batch(&batch(number)));
        for before in [vec![0; last.len()], older(0)] {
            for written in 0_u32..1 << (2 * sectors) {
                let mut log = [&synced[..], &before].concat();
                let mut places = [0; 2];
                for sector in (0..2 * sectors).filter(|sector| written & 1 << sector != 0) {
                    let (place, within) = (sector / sectors, sector % sectors);
                    let at = place * BLOCK_BYTES + within * SECTOR_BYTES;
                    let bytes = &last[at..at + SECTOR_BYTES];
                    log[synced.len() + at..][..SECTOR_BYTES].copy_from_slice(bytes);
                    places[place] += 1;
                }
                let found = numbers(&log);
                assert_eq!(found[..6], [1, 1, 2, 2, 3, 3], "{written:b}");
                let whole = places.iter().filter(|place| **place == sectors).count();
                let fourth = found.iter().filter(|number| **number == 4).count();
                assert_eq!(fourth, whole, "{written:b}");
                assert!(found[6..].iter().all(|number| [0, 4].contains(number)), "{written:b}");
            }
        }
    }

    /// **Bound:** every bit of a file that holds four batches, each of them twice.
    #[test]
    fn any_flipped_bit_leaves_each_batch_in_one_place_at_least_and_none_that_was_not_written() {
        let (mut log, last) = log();
        log.extend(last);
        let expected = batches_in(&log, 0);
        let is_written =
            |found: &Found| expected.iter().any(|written| written.batch == found.batch);
        for bit in 0..log.len() * 8 {
            log[bit / 8] ^= 1 << (bit % 8);
            let found = batches_in(&log, 0);
            assert!(found.iter().all(is_written), "bit {bit} makes a batch");
            assert!(found.len() + 1 >= expected.len(), "bit {bit} costs more than one place");
            log[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
