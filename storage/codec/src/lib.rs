//! The one binary encoding of everything that is stored or sent.
//!
//! A *frame* is `[format u8][crc32 u32 LE][body]`: `body` is bincode's standard configuration (variable-length
//! little-endian integers) and the checksum covers the format byte and the body. The format byte says which version
//! of a type the body is: a reader looks at it with [`format_of`] and decodes the type of that format, so that files
//! and messages of the previous release stay readable.
//!
//! Three rules keep old bytes readable. Enum variants and struct fields are only appended, under a new format; variants
//! of what the log and snapshots hold under a new level (`core/src/state/level.rs`). They are never reordered.
//! `flatten`, `untagged` and `skip_serializing_if` are not used.

use bincode::config::{Configuration, Limit, LittleEndian, Varint, standard};
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Largest body that is encoded or decoded, in bytes. It bounds how much memory a hostile or damaged length field can
/// make a reader allocate.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Size of the header before the body in bytes: format and checksum.
const HEADER_BYTES: usize = 5;

const CONFIG: Configuration<LittleEndian, Varint, Limit<BODY_BYTES_MAX>> =
    standard().with_limit::<BODY_BYTES_MAX>();

/// Why bytes are not a frame of the expected type.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// There are fewer bytes than in the smallest frame.
    #[error("frame of {0} bytes is too short")]
    Short(usize),
    /// The body is larger than [`BODY_BYTES_MAX`].
    #[error("frame of {0} bytes is too long")]
    Long(usize),
    /// The format is unknown to this release.
    #[error("frame of unknown format {0}")]
    Format(u8),
    /// The checksum does not match: the bytes were altered or cut short.
    #[error("frame checksum does not match")]
    Checksum,
    /// The checksum matches, but the body is not of the expected type.
    #[error("frame body is malformed: {0}")]
    Body(#[from] bincode::error::DecodeError),
    /// Bytes follow the value.
    #[error("frame has {0} bytes after its value")]
    Trailing(usize),
}

/// Encodes `value` as a frame of the given format.
///
/// # Panics
/// When the body would be larger than [`BODY_BYTES_MAX`], which no reader accepts, or when the value's `Serialize`
/// fails, which derived ones never do. Callers bound their values first.
pub fn encode<T: Serialize + ?Sized>(format: u8, value: &T) -> Vec<u8> {
    let mut frame = vec![format, 0, 0, 0, 0];
    let body_bytes = bincode::serde::encode_into_std_write(value, &mut frame, CONFIG)
        .expect("a derived Serialize writes to memory without fail");
    assert!(body_bytes <= BODY_BYTES_MAX, "frame body of {body_bytes} bytes is too long");
    let crc = checksum(format, &frame[HEADER_BYTES..]);
    frame[1..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// Decodes a whole frame and returns its format and the value. The checksum is verified before anything else is read,
/// and no byte may follow the value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<(u8, T), CodecError> {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(CodecError::Short(bytes.len()));
    };
    if body.len() > BODY_BYTES_MAX {
        return Err(CodecError::Long(bytes.len()));
    }
    let [format, crc @ ..] = *header;
    if checksum(format, body) != u32::from_le_bytes(crc) {
        return Err(CodecError::Checksum);
    }
    let (value, used) = bincode::serde::decode_from_slice(body, CONFIG)?;
    if used != body.len() {
        return Err(CodecError::Trailing(body.len() - used));
    }
    Ok((format, value))
}

/// Decodes a whole frame of the given format.
pub fn decode_as<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<T, CodecError> {
    match format_of(bytes) {
        Some(other) if other != format => Err(CodecError::Format(other)),
        _ => Ok(decode(bytes)?.1),
    }
}

/// Whether bytes are a frame of any format and value, according to their checksum.
pub fn is_whole(bytes: &[u8]) -> bool {
    match bytes.split_first_chunk::<HEADER_BYTES>() {
        Some((&[format, crc @ ..], body)) => checksum(format, body) == u32::from_le_bytes(crc),
        None => false,
    }
}

/// The format byte of a frame, which only [`decode`] verifies. `None` if there are no bytes.
pub fn format_of(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied()
}

fn checksum(format: u8, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[format]);
    hasher.update(body);
    hasher.finalize()
}

/// Bytes inside an encoded value, copied as one run. A plain `Vec<u8>` field has the same encoding, but serde walks
/// it byte by byte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(BlobVisitor)
    }
}

struct BlobVisitor;

impl<'de> Visitor<'de> for BlobVisitor {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(bytes.to_vec()))
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Blob, E> {
        Ok(Blob(bytes))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Blob, A::Error> {
        Err(A::Error::custom("a sequence where bytes were expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        number: u64,
        name: String,
        blob: Blob,
        choice: Option<u128>,
    }

    fn sample() -> Sample {
        let blob = Blob(vec![1, 2, 255]);
        Sample { number: 300, name: "leaf".into(), blob, choice: Some(7) }
    }

    #[test]
    fn frame_bytes_never_change() {
        let golden = [
            3, 0x42, 0x39, 0x20, 0xe3, // format, crc32
            251, 44, 1, // 300
            4, b'l', b'e', b'a', b'f', //
            3, 1, 2, 255, // blob
            1, 7, // Some(7)
        ];
        assert_eq!(encode(3, &sample()), golden);
        assert_eq!(decode::<Sample>(&golden).unwrap(), (3, sample()));
        assert_eq!(format_of(&golden), Some(3));
    }

    #[test]
    fn blob_has_the_bytes_of_a_vec() {
        assert_eq!(encode(1, &Blob(vec![9; 300])), encode(1, &vec![9_u8; 300]));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let frame = encode(1, &sample());
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode::<Sample>(&bad), Err(CodecError::Checksum)), "bit {bit}");
        }
    }

    #[test]
    fn cut_and_extended_frames_are_refused() {
        let frame = encode(1, &sample());
        for len in 0..frame.len() {
            decode::<Sample>(&frame[..len]).unwrap_err();
        }
        decode::<Sample>(&[&frame[..], &[0]].concat()).unwrap_err();
        let longer = encode(1, &(sample(), 1_u8));
        assert!(matches!(decode::<Sample>(&longer), Err(CodecError::Trailing(1))));
        assert_eq!(format_of(&[]), None);
    }

    #[test]
    fn length_beyond_the_limit_is_refused_before_it_is_allocated() {
        let body = [253, 0, 0, 0, 0, 0, 1, 0, 0]; // a blob of 2^40 bytes
        let crc = checksum(1, &body).to_le_bytes();
        let frame = [&[1][..], &crc, &body].concat();
        assert!(matches!(decode::<Blob>(&frame), Err(CodecError::Body(_))));
    }
}
