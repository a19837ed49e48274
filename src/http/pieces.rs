//! Short copies and comparisons that call nothing.
//!
//! For each id, an answer of a hundred bytes is copied, and a request of about that length is compared with the
//! previous one. With pieces of one fixed length the compiler does both in place. musl's own functions for that take a
//! byte, or eight, at a time.

/// Bytes that are copied at once.
pub(super) const PIECE: usize = 64;
/// Bytes that are compared at once.
const WORD: usize = 16;

/// Bytes in whole pieces. The bytes behind `length` mean nothing.
#[derive(Debug, Default)]
pub(super) struct ChunkedBytes {
    pieces: Vec<[u8; PIECE]>,
    length: usize,
}

impl ChunkedBytes {
    /// The same bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut pieces = Self::default();
        pieces.replace(bytes);
        pieces
    }

    /// Becomes these bytes.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.length = bytes.len();
        self.pieces.clear();
        self.pieces.resize(bytes.len().div_ceil(PIECE), [0; PIECE]);
        self.bytes_mut().copy_from_slice(bytes);
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.pieces.as_flattened_mut()[..self.length]
    }

    /// Appends the bytes. For a moment `out` is up to a piece longer.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        for piece in &self.pieces {
            out.extend_from_slice(piece);
        }
        out.truncate(end);
    }
}

/// Whether two texts are the same.
#[inline]
pub(super) fn are_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ((words, rest), (others, other_rest)) = (one.as_chunks::<WORD>(), other.as_chunks());
    // The last word overlaps the one before it, which is cheaper than comparing the rest by itself.
    words.iter().zip(others).all(|(one, other)| one == other)
        && match (one.last_chunk::<WORD>(), other.last_chunk()) {
            (Some(one), Some(other)) => one == other,
            _ => rest.iter().eq(other_rest),
        }
}

/// Whether `bytes` begin with `text`.
#[inline]
pub(super) fn begin_with(bytes: &[u8], text: &[u8]) -> bool {
    bytes.get(..text.len()).is_some_and(|begin| are_same(begin, text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_appended_is_what_was_given(
            before in proptest::collection::vec(any::<u8>(), 0..100),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut out = before.clone();
            ChunkedBytes::of(&bytes).append_to(&mut out);
            prop_assert_eq!(out, [before, bytes].concat());
        }

        #[test]
        fn texts_are_the_same_unless_a_byte_differs(
            text in proptest::collection::vec(any::<u8>(), 1..100),
            at: proptest::sample::Index,
            bit in 0..8u8,
        ) {
            let mut other = text.clone();
            prop_assert!(are_same(&text, &other) && begin_with(&text, &other[..at.index(text.len())]));
            other[at.index(text.len())] ^= 1 << bit;
            prop_assert!(!are_same(&text, &other) && !begin_with(&text, &other));
            prop_assert!(!begin_with(&text, &[&text[..], b"x"].concat()));
        }
    }
}
