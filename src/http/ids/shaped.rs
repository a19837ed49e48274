//! Ids of shaped tags as version 1 writes them. Their answers say `"lease": false`: the ids are for the call that
//! asked.

use std::ops::Range;

use mintleaf_core::shape::IdText;

/// Bytes of an answer in JSON besides its ids and its tag.
pub(super) const FRAME_BYTES: usize = 80;

/// Bytes reserved for an id where nothing is known of its format.
const ID_BYTES: usize = 24;

/// One id a line.
pub(super) fn text_ids(text: &IdText, numbers: &[Range<u64>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ID_BYTES * count(numbers));
    for number in numbers.iter().cloned().flatten() {
        text.append(number, &mut out);
        out.push(b'\n');
    }
    out
}

/// The ids as strings of JSON.
pub(super) fn json_ids(tag: &str, text: &IdText, numbers: &[Range<u64>]) -> Vec<u8> {
    let capacity = FRAME_BYTES + 2 * tag.len() + ID_BYTES * count(numbers);
    let mut out = head(tag, text, capacity);
    out.extend_from_slice(br#""ids":["#);
    for (at, number) in numbers.iter().cloned().flatten().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        text.append_json(number, &mut out);
    }
    out.extend_from_slice(br#"],"lease":false}"#);
    out
}

/// The numbers of the line. Clients that know the format make the ids from them.
pub(super) fn json_ranges(tag: &str, text: &IdText, numbers: &[Range<u64>]) -> Vec<u8> {
    let mut out = head(tag, text, FRAME_BYTES + 2 * tag.len() + 64 * numbers.len());
    out.extend_from_slice(br#""ranges":["#);
    for (at, range) in numbers.iter().enumerate() {
        let (comma, Range { start, end }) = (if at > 0 { "," } else { "" }, range);
        out.extend_from_slice(format!(r#"{comma}{{"start":"{start}","end":"{end}"}}"#).as_bytes());
    }
    out.extend_from_slice(br#"],"lease":false}"#);
    out
}

fn head(tag: &str, text: &IdText, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(br#"{"tag":"#);
    // A string always serializes, and writing to a `Vec` cannot fail.
    let _ = serde_json::to_writer(&mut out, tag);
    out.push(b',');
    if let Some(period) = text.period() {
        out.extend_from_slice(format!(r#""period":"{}","#, period.0).as_bytes());
    }
    out
}

fn count(numbers: &[Range<u64>]) -> usize {
    numbers.iter().map(|range| range.end - range.start).sum::<u64>() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_core::shape::{PeriodNumber, TextFormat};

    fn written(body: Vec<u8>) -> String {
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn ids_are_written_in_every_style() {
        let format = Some(TextFormat::parse("\"{period}-{id:03}").unwrap());
        let text = IdText::new(&None, &format, Some(PeriodNumber(2026)));
        let numbers = [1..3, 10..11];
        assert_eq!(
            written(json_ids("a\"b", &text, &numbers)),
            r#"{"tag":"a\"b","period":"2026","ids":["\"2026-001","\"2026-002","\"2026-010"],"lease":false}"#
        );
        assert_eq!(
            written(json_ranges("a", &text, &numbers)),
            r#"{"tag":"a","period":"2026","ranges":[{"start":"1","end":"3"},{"start":"10","end":"11"}],"lease":false}"#
        );
        assert_eq!(written(text_ids(&text, &numbers)), "\"2026-001\n\"2026-002\n\"2026-010\n");
        let bare = IdText::new(&None, &None, None);
        assert_eq!(
            written(json_ids("a", &bare, std::slice::from_ref(&(7..8)))),
            r#"{"tag":"a","ids":["7"],"lease":false}"#
        );
    }
}
