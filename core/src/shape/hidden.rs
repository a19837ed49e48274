//! Ids in an order that cannot be guessed.

use std::fmt;

use ring::hmac;
use serde::{Deserialize, Serialize};

/// How the ids of a tag are hidden.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hidden {
    /// Digits of every id, within [`HIDDEN_DIGITS`](crate::limits::HIDDEN_DIGITS).
    pub digits: u8,
    /// The key of the permutation.
    pub key: HiddenKey,
}

impl Hidden {
    /// First number past the last that has an id: the numbers begin at 1, and the first digit of an id with this many
    /// digits is not 0.
    ///
    /// # Panics
    /// If the digits are out of bounds.
    pub fn line_end(&self) -> u64 {
        9 * 10_u64.pow(u32::from(self.digits) - 1) + 1
    }
}

/// The purpose of a key of hidden ids, so that nothing else that is derived from a root key is ever like it.
const PURPOSE: &[u8] = b"mintleaf hidden ids 1";

/// The key that the keys of all hidden ids of a cluster are made of. It is in the log and in the state, and is never
/// shown.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct RootKey(pub [u8; 32]);

impl RootKey {
    /// The key of the tag of this name whose ids have this many digits: HMAC-SHA-256 of both. The same tag always gets
    /// the same key, so it walks the same permutation again in a cluster that was restored.
    pub fn key_of(&self, name: &str, digits: u8) -> HiddenKey {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        let length = (name.len() as u64).to_be_bytes();
        [PURPOSE, &length, name.as_bytes(), &[digits]].iter().for_each(|part| context.update(part));
        let tag = context.sign();
        HiddenKey(tag.as_ref().try_into().expect("HMAC-SHA-256 gives 32 bytes"))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey")
    }
}

/// The key of hidden ids. It is in the log and in the state, and is never shown.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct HiddenKey(pub [u8; 32]);

impl fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_tag_stays_as_it_is_for_ever_and_no_other_tag_has_it() {
        let root = RootKey([7; 32]);
        let hex = |key: HiddenKey| crate::state::tests::hex(&key.0);
        let golden = "ffe58fe65025e90189dd7f8b52c37c4231334913573cade81dcaed7719e9c0aa";
        assert_eq!(hex(root.key_of("coupons", 6)), golden);
        let others = [("coupons", 7), ("coupons\u{6}", 6), ("coupon", 6), ("", 6)];
        for (name, digits) in others {
            assert_ne!(hex(root.key_of(name, digits)), golden, "{name:?} of {digits}");
        }
        assert_ne!(hex(RootKey([8; 32]).key_of("coupons", 6)), golden);
    }

    #[test]
    fn no_key_is_shown() {
        let root = RootKey([7; 32]);
        assert_eq!(format!("{root:?} {:?}", root.key_of("a", 6)), "RootKey HiddenKey");
    }
}
