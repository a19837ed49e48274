//! Decimal numbers: read strictly, and consecutive ones written at about the speed of memory.
//!
//! Ten ids that differ in their last digit only are written once; the next ten are the same bytes with another digit in
//! a few places. Formatting each id by itself costs ten times as much.

use std::ops::Range;

use super::pieces::{ChunkedBytes, PIECE};

/// Reads a plain decimal integer: at most as many digits as 2^64 - 1 has, and nothing else.
pub(super) fn parse(text: &str) -> Option<u64> {
    let plain = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// How many items lie side by side in a [`Decade`].
const TEN: u64 = 10;
/// Bytes that [`append`] may need beyond what it appends.
pub(super) const SLACK: usize = PIECE;

/// Appends each number of `run` in decimal, between `before` and `after`.
pub(super) fn append(out: &mut Vec<u8>, run: Range<u64>, before: &str, after: &str) {
    let mut next = run.start;
    let tens = run.start.next_multiple_of(TEN)..run.end - run.end % TEN;
    while next < run.end.min(tens.start) {
        append_one(out, next, before, after);
        next += 1;
    }
    while next < tens.end {
        let mut decade = Decade::new(next, before, after);
        loop {
            decade.items.append_to(out);
            next += TEN;
            if next == tens.end || !decade.advance() {
                break;
            }
        }
    }
    (next..run.end).for_each(|number| append_one(out, number, before, after));
}

/// How many digits the numbers of `run` have together.
pub(super) fn digit_count(run: Range<u64>) -> u64 {
    let (mut digits, mut next) = (0, run.start);
    while next < run.end {
        let each = next.checked_ilog10().unwrap_or(0) + 1;
        let longer = TEN.checked_pow(each).map_or(run.end, |longer| longer.min(run.end));
        digits += (longer - next) * u64::from(each);
        next = longer;
    }
    digits
}

fn append_one(out: &mut Vec<u8>, number: u64, before: &str, after: &str) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(after.as_bytes());
}

/// Ten items whose numbers differ in the last digit only.
struct Decade {
    items: ChunkedBytes,
    /// Bytes of one item.
    stride: usize,
    /// The place in an item of the digits that all ten have in common.
    shared: Range<usize>,
}

impl Decade {
    /// The ten items from `first` on, which is a multiple of ten.
    fn new(first: u64, before: &str, after: &str) -> Self {
        let mut bytes = Vec::new();
        (first..first + TEN).for_each(|number| append_one(&mut bytes, number, before, after));
        let stride = bytes.len() / TEN as usize;
        let last_digit = stride - after.len() - 1;
        Self { items: ChunkedBytes::of(&bytes), stride, shared: before.len()..last_digit }
    }

    /// Becomes the next ten items; false when their numbers have more digits.
    fn advance(&mut self) -> bool {
        let bytes = self.items.bytes_mut();
        for at in self.shared.clone().rev() {
            let digit = bytes[at];
            let (next, carried) = if digit == b'9' { (b'0', true) } else { (digit + 1, false) };
            for item in bytes.chunks_exact_mut(self.stride) {
                item[at] = next;
            }
            if !carried {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mintleaf_core::limits::ID_END;

    fn appended(run: Range<u64>) -> String {
        let mut out = Vec::new();
        append(&mut out, run, "<", ">");
        String::from_utf8(out).unwrap()
    }

    fn one_by_one(run: Range<u64>) -> String {
        run.map(|number| format!("<{number}>")).collect()
    }

    #[test]
    fn runs_across_powers_of_ten_are_written_whole() {
        for run in [1..1235, 0..10, 5..5, 7..8, 95..105, 9_999_999..10_000_013] {
            assert_eq!(appended(run.clone()), one_by_one(run));
        }
        assert_eq!(appended(ID_END - 25..ID_END), one_by_one(ID_END - 25..ID_END));
    }

    proptest! {
        #[test]
        fn a_run_is_written_as_its_numbers_are(start in 0..ID_END, bits in 0..64u32, length in 0..400u64) {
            let start = start >> bits.min(62);
            let run = start..(start + length).min(ID_END);
            let written = run.clone().map(|number| number.to_string().len() as u64).sum::<u64>();
            prop_assert_eq!(digit_count(run.clone()), written);
            prop_assert_eq!(appended(run.clone()), one_by_one(run));
        }
    }
}
