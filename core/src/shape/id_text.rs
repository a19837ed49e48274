//! How the ids of one number line are written: hidden or not, as bare numbers or in the tag's format.
//!
//! Pure. What stands before and behind an id is the same for all ids of a line, so it is made once, and writing an id
//! takes nothing from the heap except room in the buffer that it is written to.

use super::Shape;
use super::id_of::IdOf;
use super::period::PeriodNumber;
use super::text_format::{IdStyle, Piece, TextFormat};

/// The digits of all bases, in the order of their bytes: texts of one length are in the order of their ids.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The digits of base 36, as most libraries write them.
const DIGITS_36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Bytes of the longest id without what stands around it: padded to the most digits that a format may ask for. No
/// 64-bit number has more digits.
const NUMBER_BYTES_MAX: usize = 20;

/// How the ids of one line are written.
#[derive(Debug)]
pub struct IdText {
    id_of: IdOf,
    has_consecutive_ids: bool,
    period: Option<PeriodNumber>,
    /// The format around the id; `None` where ids are bare numbers.
    format: Option<Around>,
}

#[derive(Debug)]
struct Around {
    style: IdStyle,
    /// What stands before an id and behind it.
    plain: [Box<[u8]>; 2],
    /// The two texts as parts of a string of JSON, with its quotes.
    json: [Box<[u8]>; 2],
}

impl IdText {
    /// How ids of a tag with this shape are written, in this period if the tag has periods.
    pub fn new(shape: &Shape, period: Option<PeriodNumber>) -> Self {
        let format = shape.format.as_ref().map(|format| Around::new(format, period));
        let has_consecutive_ids = shape.has_consecutive_ids();
        Self { id_of: IdOf::new(shape), has_consecutive_ids, period, format }
    }

    /// The period that the ids belong to, where there is one.
    pub fn period(&self) -> Option<PeriodNumber> {
        self.period
    }

    /// Whether ids are texts of a format, rather than bare numbers.
    pub fn is_formatted(&self) -> bool {
        self.format.is_some()
    }

    /// As [`Shape::has_consecutive_ids`].
    pub fn has_consecutive_ids(&self) -> bool {
        self.has_consecutive_ids
    }

    /// The id that belongs to a number of the line, as a number.
    #[inline]
    pub fn id(&self, number: u64) -> u64 {
        self.id_of.id(number)
    }

    /// Writes the id that belongs to a number of the line.
    pub fn append(&self, number: u64, out: &mut Vec<u8>) {
        let id = self.id(number);
        match &self.format {
            Some(Around { style, plain: [before, behind], .. }) => {
                written(id, *style, before, behind, out);
            }
            None => written(id, IdStyle::Decimal { digits_min: 0 }, b"", b"", out),
        }
    }

    /// Writes the same as a string of JSON.
    pub fn append_json(&self, number: u64, out: &mut Vec<u8>) {
        let id = self.id(number);
        match &self.format {
            Some(Around { style, json: [before, behind], .. }) => {
                written(id, *style, before, behind, out);
            }
            None => written(id, IdStyle::Decimal { digits_min: 0 }, b"\"", b"\"", out),
        }
    }

    /// Bytes of the longest id of this format, as a string of JSON, which may write a byte as two.
    pub fn json_bytes_max(format: &Option<TextFormat>) -> usize {
        let format = format.as_ref().map_or(0, |format| format.as_str().len());
        2 + 2 * format + NUMBER_BYTES_MAX
    }
}

impl Around {
    fn new(format: &TextFormat, period: Option<PeriodNumber>) -> Self {
        let mut style = IdStyle::Decimal { digits_min: 0 };
        let mut texts = [String::new(), String::new()];
        let mut at = 0;
        for piece in format.pieces() {
            match piece {
                Piece::Text(text) => texts[at].push_str(text),
                Piece::Period => {
                    let shown = period.map(|PeriodNumber(number)| number.to_string());
                    texts[at].push_str(&shown.unwrap_or_default());
                }
                Piece::Id(of_id) => (style, at) = (of_id, 1),
            }
        }
        let [before, behind] = &texts;
        let json = [format!("\"{}", escaped(before)), format!("{}\"", escaped(behind))];
        let bytes = |texts: [String; 2]| texts.map(|text| text.into_bytes().into_boxed_slice());
        Self { style, json: bytes(json), plain: bytes(texts) }
    }
}

/// A text as JSON has it between quotes. A format holds no control character.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn written(id: u64, style: IdStyle, before: &[u8], behind: &[u8], out: &mut Vec<u8>) {
    let (digits, digits_min): (&[u8], _) = match style {
        IdStyle::Decimal { digits_min } => (&DIGITS[..10], usize::from(digits_min)),
        IdStyle::Base36 => (DIGITS_36, 1),
        IdStyle::Base62 => (DIGITS, 1),
    };
    let base = digits.len() as u64;
    let mut text = [b'0'; NUMBER_BYTES_MAX];
    let (mut start, mut rest) = (NUMBER_BYTES_MAX, id);
    while rest > 0 || start == NUMBER_BYTES_MAX {
        start -= 1;
        text[start] = digits[(rest % base) as usize];
        rest /= base;
    }
    out.extend_from_slice(before);
    out.extend_from_slice(&text[start.min(NUMBER_BYTES_MAX - digits_min)..]);
    out.extend_from_slice(behind);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::{FORMAT_CHARS_MAX, ID_MAX};
    use crate::shape::{Hidden, HiddenIds, HiddenKey};

    fn text_of(format: &str, period: Option<u32>) -> IdText {
        let format = Some(TextFormat::parse(format).unwrap());
        IdText::new(&Shape { format, ..Shape::default() }, period.map(PeriodNumber))
    }

    fn shown(text: &IdText, number: u64) -> String {
        let mut out = Vec::new();
        text.append(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ids_are_written_as_the_format_says() {
        let text = |format, number| shown(&text_of(format, None), number);
        assert_eq!(text("INV-{id:06}", 42), "INV-000042");
        assert_eq!(text("INV-{id:06}", 1_234_567), "INV-1234567", "what is longer is whole");
        assert_eq!(text("{id}", ID_MAX), "9223372036854775807");
        assert_eq!(text("订{id:020}单", ID_MAX), "订09223372036854775807单");
        assert_eq!(text("x{id:base36}", 35), "xz");
        assert_eq!(text("{id:base36}", ID_MAX), "1y2p0ij32e8e7");
        assert_eq!(text("{id:base62}", 61), "z");
        assert_eq!(text("{id:base62}", 62), "10");
        assert_eq!(text("{id:base62}", ID_MAX), "AzL8n0Y58m7");
        let dated = text_of("INV-{period}-{id:06}", Some(20_261_121));
        assert_eq!(shown(&dated, 7), "INV-20261121-000007");
        assert_eq!(dated.period(), Some(PeriodNumber(20_261_121)));
    }

    #[test]
    fn bare_numbers_stay_bare() {
        let bare = IdText::new(&Shape::default(), None);
        assert_eq!((shown(&bare, 7), bare.is_formatted()), ("7".to_owned(), false));
    }

    #[test]
    fn what_is_hidden_is_written_in_the_format_too() {
        let hidden = Some(Hidden { digits: 8, key: HiddenKey([7; 32]) });
        let mut shape = Shape { hidden, ..Shape::default() };
        let bare = IdText::new(&shape, None);
        let id = HiddenIds::new(8, &[7; 32]).id(1);
        assert_eq!((bare.id(1), shown(&bare, 1)), (id, id.to_string()));
        shape.format = Some(TextFormat::parse("U{id}").unwrap());
        let formatted = IdText::new(&shape, None);
        assert_eq!(shown(&formatted, 1), format!("U{id}"));
        assert!(!formatted.has_consecutive_ids());
    }

    proptest! {
        #[test]
        fn texts_differ_where_numbers_do_and_json_tells_the_same(
            before in "[^{}\\p{Cc}]{0,40}",
            behind in "[^{}\\p{Cc}]{0,40}",
            place in prop::sample::select(vec!["{id}", "{id:06}", "{id:020}", "{id:base36}", "{id:base62}"]),
            one in 1..=ID_MAX,
            other in 1..=ID_MAX,
        ) {
            let format = format!("{before}{place}{behind}");
            prop_assert!(format.chars().count() <= FORMAT_CHARS_MAX);
            let text = text_of(&format, None);
            let format = Some(TextFormat::parse(&format).unwrap());
            let bytes_max = IdText::json_bytes_max(&format);
            prop_assert_eq!(shown(&text, one) == shown(&text, other), one == other);
            let mut json = Vec::new();
            text.append_json(one, &mut json);
            prop_assert!(json.len() <= bytes_max);
            prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), shown(&text, one));
        }
    }
}
