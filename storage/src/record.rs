//! One record of the log as it is stored: `[crc32 u32 LE][crc32 of the record before][payload]`.
//!
//! The checksum covers the index, the link and the payload. The link, which is the checksum of the record before,
//! chains the records together, so the checksum of the last record vouches for all of them.

use crate::error::StorageError;

const HEADER_BYTES: usize = 8;

/// Link of the first record in a chain.
pub(crate) const NO_LINK: u32 = 0;

/// A verified record.
pub(crate) struct Record<'a> {
    pub(crate) crc: u32,
    pub(crate) link: u32,
    pub(crate) payload: &'a [u8],
}

/// The stored form of `payload` at `index`, after a record with the checksum `link`, and the
/// checksum of the new record.
pub(crate) fn seal(index: u64, link: u32, payload: &[u8]) -> (Vec<u8>, u32) {
    let crc = checksum(index, link, payload);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&link.to_le_bytes());
    bytes.extend_from_slice(payload);
    (bytes, crc)
}

/// Verifies the bytes that are stored under `index`.
pub(crate) fn open(index: u64, bytes: &[u8]) -> Result<Record<'_>, StorageError> {
    let damaged = || StorageError::damaged(format!("log record {index} is damaged"));
    let (crc, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (link, payload) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (crc, link) = (u32::from_le_bytes(*crc), u32::from_le_bytes(*link));
    if checksum(index, link, payload) != crc {
        return Err(damaged());
    }
    Ok(Record { crc, link, payload })
}

fn checksum(index: u64, link: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&index.to_le_bytes());
    hasher.update(&link.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_bytes_never_change() {
        let golden = *b"\x88\xe3\x93\x5c\x0d\x0c\x0b\x0apayload";
        let (bytes, crc) = seal(258, 0x0a0b_0c0d, b"payload");
        assert_eq!((bytes.as_slice(), crc), (&golden[..], 0x5c93_e388));
        let record = open(258, &golden).unwrap();
        assert_eq!((record.crc, record.link, record.payload), (crc, 0x0a0b_0c0d, &b"payload"[..]));
    }

    #[test]
    fn altered_record_and_record_of_another_index_are_refused() {
        let (bytes, _) = seal(258, NO_LINK, b"payload");
        assert!(open(259, &bytes).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(open(258, &bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(open(258, &bytes[..len]).is_err(), "length {len}");
        }
    }
}
