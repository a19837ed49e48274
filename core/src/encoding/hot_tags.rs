//! The list of hot tags, as the file of a data directory holds it: one record of names and times, and nothing else.

use mintleaf_codec as codec;

use super::record::{DecodeError, decode};

/// The one format so far. A list of another format is a list that cannot be read, and a node does without.
const FORMAT: u8 = 1;

/// Tags and when each was last used, in Unix seconds, as one record.
pub fn encode_hot_tags(list: &[(String, u64)]) -> Vec<u8> {
    codec::encode(FORMAT, &list)
}

/// Reads what [`encode_hot_tags`] wrote.
///
/// # Errors
/// [`DecodeError`]: the list is damaged, or of another format.
pub fn decode_hot_tags(bytes: &[u8]) -> Result<Vec<(String, u64)>, DecodeError> {
    decode(FORMAT, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::hex;

    #[test]
    fn a_list_keeps_its_bytes() {
        let list = [("订单".to_owned(), 1_800_000_000), ("a".to_owned(), 1)];
        assert_eq!(hex(&encode_hot_tags(&list)), "013e81952b0206e8aea2e58d95fc00d2496b016101");
        assert_eq!(decode_hot_tags(&encode_hot_tags(&list)).unwrap(), list);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let whole = encode_hot_tags(&[("orders".to_owned(), 1_800_000_000)]);
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_hot_tags(&flipped).is_err(), "bit {bit}");
        }
        assert!(
            decode_hot_tags(&whole[..whole.len() - 1]).is_err() && decode_hot_tags(b"").is_err()
        );
    }
}
