//! The keys of a sequence, and the sections that they are dealt to.

use std::fmt;

use siphasher::sip::SipHasher13;

use crate::limits::{KEY_BYTES_MAX, SECTIONS};

/// A checked key: 1 to [`KEY_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SequenceKey<'a>(&'a str);

impl<'a> SequenceKey<'a> {
    /// Takes `key` for a key.
    ///
    /// # Errors
    /// [`InvalidKey`] where it is empty or too long.
    pub fn parse(key: &'a str) -> Result<Self, InvalidKey> {
        if (1..=KEY_BYTES_MAX).contains(&key.len()) { Ok(Self(key)) } else { Err(InvalidKey) }
    }

    /// The key as it was given.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// A key is empty or too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key must be 1 to {KEY_BYTES_MAX} bytes of UTF-8")
    }
}

impl std::error::Error for InvalidKey {}

/// The section that a key belongs to, below [`SECTIONS`]: the low bits of SipHash-1-3 of its bytes under a key
/// of zeros.
///
/// It is the same in every tag, on every node and in every release: the section's watermark in the log stands for all
/// numbers that the key was ever given, and another section's would not. Every client can find keys of one section, and
/// gains nothing from it: the section is one number of the log, not a list of its keys, and the table that holds their
/// counters is ordered by a hash that clients cannot compute.
pub fn section_of(key: SequenceKey<'_>) -> u16 {
    let hash = SipHasher13::new_with_keys(0, 0).hash(key.0.as_bytes());
    u16::try_from(hash % u64::from(SECTIONS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(key: &str) -> u16 {
        section_of(SequenceKey::parse(key).expect("a key"))
    }

    #[test]
    fn sections_of_keys_never_change() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        let golden = [
            ("a", 2067),
            ("room-17", 261),
            ("user/42", 994),
            ("会話", 937),
            ("00000000-0000-0000-0000-000000000000", 1734),
            (longest.as_str(), 393),
        ];
        for (key, expected) in golden {
            assert_eq!(section(key), expected, "{key}");
        }
    }

    #[test]
    fn sections_share_keys_evenly() {
        let mut sizes = vec![0_u32; usize::from(SECTIONS)];
        for n in 0..409_600 {
            sizes[usize::from(section(&format!("room-{n}")))] += 1;
        }
        assert!(sizes.iter().all(|size| (50..=150).contains(size)), "100 of each are the mean");
    }

    #[test]
    fn keys_of_no_bytes_and_of_too_many_are_refused() {
        assert_eq!(SequenceKey::parse(""), Err(InvalidKey));
        assert!(SequenceKey::parse(&"k".repeat(KEY_BYTES_MAX)).is_ok());
        assert_eq!(SequenceKey::parse(&"k".repeat(KEY_BYTES_MAX + 1)), Err(InvalidKey));
        assert_eq!(SequenceKey::parse(&"é".repeat(129)), Err(InvalidKey));
    }
}
