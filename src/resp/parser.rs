//! Bytes into commands: arrays of bulk strings, and lines as a person types them.
//!
//! The parser keeps nothing of a command that has not come in whole: it reads the bytes again when more
//! have come. The arguments borrow from the bytes, so that a command costs no allocation.

use std::ops::Range;

use thiserror::Error;

use crate::limits::{ARGS_MAX, COMMAND_BYTES_MAX};

/// The first bytes of the most frequent command.
const INCR: &[u8] = b"*2\r\n$4\r\nINCR\r\n";
/// Where its name stands in them.
const INCR_NAME: Range<usize> = 8..12;
/// Longest line that gives a length: a sign, 19 digits and the line break, with room to spare.
const LENGTH_LINE_BYTES_MAX: usize = 32;

/// Bytes that cannot become a command. They end the connection, because there is no way to find where the next command
/// would begin. The words are the same as in Redis.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum Malformed {
    #[error("invalid multibulk length")]
    ArrayLength,
    #[error("invalid bulk length")]
    BulkLength,
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NotBulk(u8),
    #[error("expected a line break after the bulk")]
    BulkEnd,
    #[error("too big inline request")]
    LineLength,
    #[error("unbalanced quotes in request")]
    Quotes,
    /// Longer than [`COMMAND_BYTES_MAX`] in all.
    #[error("too big request")]
    CommandLength,
}

/// The arguments of one command, its name first; none for an empty line or array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    pub(super) fn len(self) -> usize {
        self.spans.len()
    }

    pub(super) fn get(self, at: usize) -> Option<&'a [u8]> {
        self.spans.get(at).map(|span| &self.bytes[span.clone()])
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.spans.iter().map(move |span| &self.bytes[span.clone()])
    }

    /// The arguments without the first `count`.
    pub(super) fn skip(self, count: usize) -> Self {
        Self { spans: self.spans.get(count..).unwrap_or_default(), ..self }
    }

    /// The first `count` arguments, or all if there are fewer.
    pub(super) fn first(self, count: usize) -> Self {
        Self { spans: &self.spans[..count.min(self.spans.len())], ..self }
    }
}

/// Reads commands; its buffers are kept from one command to the next.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Where the arguments stand.
    spans: Vec<Range<usize>>,
    /// The arguments of a line, without their quotes.
    unquoted: Vec<u8>,
}

impl Parser {
    /// The command that `bytes` begin with and how many of them it takes; `None` when it has not come in
    /// whole.
    ///
    /// # Errors
    /// When `bytes` cannot become a command, whatever follows.
    #[inline]
    pub(super) fn parse<'a>(
        &'a mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Args<'a>, usize)>, Malformed> {
        self.spans.clear();
        let inline = bytes.first().is_some_and(|&first| first != b'*');
        let read = if inline { self.line(bytes)? } else { self.array(bytes)? };
        match read {
            Some(length) if length > COMMAND_BYTES_MAX => Err(Malformed::CommandLength),
            Some(length) => {
                let bytes = if inline { &self.unquoted } else { bytes };
                Ok(Some((Args { bytes, spans: &self.spans }, length)))
            }
            None if bytes.len() > COMMAND_BYTES_MAX => Err(Malformed::CommandLength),
            None => Ok(None),
        }
    }

    #[inline]
    fn array(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if bytes.is_empty() {
            return Ok(None);
        }
        // Nearly all commands begin like this; the argument is read as any other.
        let (count, mut at) = if bytes.starts_with(INCR) {
            self.spans.push(INCR_NAME);
            (1, INCR.len())
        } else {
            match length(bytes, 1, Malformed::ArrayLength)? {
                Some(read) => read,
                None => return Ok(None),
            }
        };
        if count > ARGS_MAX as i64 {
            return Err(Malformed::ArrayLength);
        }
        for _ in 0..count {
            match bytes.get(at) {
                Some(b'$') => {}
                Some(&other) => return Err(Malformed::NotBulk(other)),
                None => return Ok(None),
            }
            let Some((length, start)) = length(bytes, at + 1, Malformed::BulkLength)? else {
                return Ok(None);
            };
            let length = usize::try_from(length).map_err(|_| Malformed::BulkLength)?;
            if length > COMMAND_BYTES_MAX {
                return Err(Malformed::BulkLength);
            }
            let end = start + length;
            match bytes.get(end..end + 2) {
                Some(b"\r\n") => self.spans.push(start..end),
                Some(_) => return Err(Malformed::BulkEnd),
                None => return Ok(None),
            }
            at = end + 2;
        }
        Ok(Some(at))
    }

    fn line(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let start = &bytes[..bytes.len().min(COMMAND_BYTES_MAX)];
        let Some(end) = start.iter().position(|&byte| byte == b'\n') else {
            let too_long = bytes.len() > COMMAND_BYTES_MAX;
            return if too_long { Err(Malformed::LineLength) } else { Ok(None) };
        };
        self.unquoted.clear();
        let mut rest = &bytes[..end];
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                return Ok(Some(end + 1));
            }
            if self.spans.len() == ARGS_MAX {
                return Err(Malformed::LineLength);
            }
            let start = self.unquoted.len();
            rest = self.word(rest)?;
            self.spans.push(start..self.unquoted.len());
        }
    }

    /// Takes one word off `rest`, which is not empty: bare, or quoted in either way of Redis.
    fn word<'a>(&mut self, mut rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        while let Some((&byte, behind)) = rest.split_first() {
            match byte {
                b'"' | b'\'' => {
                    rest = self.quoted(byte, behind)?;
                    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
                    return if ends { Ok(rest) } else { Err(Malformed::Quotes) };
                }
                byte if byte.is_ascii_whitespace() => return Ok(rest),
                byte => self.unquoted.push(byte),
            }
            rest = behind;
        }
        Ok(rest)
    }

    /// Takes the text up to the closing `quote`, and the quote.
    fn quoted<'a>(&mut self, quote: u8, mut rest: &'a [u8]) -> Result<&'a [u8], Malformed> {
        loop {
            let (byte, length) = match *rest {
                [] => return Err(Malformed::Quotes),
                [byte, ..] if byte == quote => return Ok(&rest[1..]),
                [b'\\', b'x', high, low, ..] if quote == b'"' => match (hex(high), hex(low)) {
                    (Some(high), Some(low)) => (16 * high + low, 4),
                    _ => (b'x', 2),
                },
                [b'\\', escaped, ..] if quote == b'"' => (unescaped(escaped), 2),
                [b'\\', b'\'', ..] => (b'\'', 2),
                [byte, ..] => (byte, 1),
            };
            self.unquoted.push(byte);
            rest = &rest[length..];
        }
    }
}

/// The number in the line that begins at `at`, and where the next line begins.
#[inline]
fn length(bytes: &[u8], at: usize, wrong: Malformed) -> Result<Option<(i64, usize)>, Malformed> {
    let mut number = 0_i64;
    let negative = bytes.get(at) == Some(&b'-');
    let first = at + usize::from(negative);
    let mut next = first;
    loop {
        match bytes.get(next) {
            Some(digit @ b'0'..=b'9') => {
                let digit = i64::from(digit - b'0');
                number = number.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(wrong)?;
            }
            Some(b'\r') if next > first => break,
            Some(_) => return Err(wrong),
            None => return Ok(None),
        }
        next += 1;
        if next - at > LENGTH_LINE_BYTES_MAX {
            return Err(wrong);
        }
    }
    match bytes.get(next + 1) {
        Some(b'\n') => Ok(Some((if negative { -number } else { number }, next + 2))),
        Some(_) => Err(wrong),
        None => Ok(None),
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn unescaped(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Words = Vec<Vec<u8>>;

    fn parse(bytes: &[u8]) -> Result<Option<(Words, usize)>, Malformed> {
        let mut parser = Parser::default();
        let parsed = parser.parse(bytes)?;
        Ok(parsed.map(|(args, length)| (args.iter().map(<[u8]>::to_vec).collect(), length)))
    }

    #[track_caller]
    fn words(bytes: &[u8]) -> Vec<String> {
        let (args, length) = parse(bytes).unwrap().expect("a whole command");
        assert_eq!(length, bytes.len());
        args.into_iter().map(|arg| String::from_utf8(arg).unwrap()).collect()
    }

    fn framed(args: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        assert_eq!(words(b"*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n"), ["INCR", "orders"]);
        assert_eq!(words(b"*1\r\n$0\r\n\r\n"), [""]);
        assert_eq!(words(b"INCR orders\r\n"), ["INCR", "orders"]);
        assert_eq!(words(b" INCR \t orders \n"), ["INCR", "orders"]);
        for nothing in [&b"\r\n"[..], b"\n", b"*0\r\n", b"*-1\r\n"] {
            assert_eq!(words(nothing), [""; 0]);
        }
    }

    #[test]
    fn quotes_of_a_line_are_undone() {
        assert_eq!(
            words(b"GET \"a b\" '\\x41 \\'' \"\\x41\\n\\\"\\q\"\n"),
            ["GET", "a b", "\\x41 '", "A\n\"q"]
        );
        assert_eq!(words(b"ECHO \"\"\n"), ["ECHO", ""]);
        assert_eq!(words(b"ECHO \"\\xzz\"\n"), ["ECHO", "xzz"]);
        for unbalanced in [&b"GET \"a\n"[..], b"GET 'a\n", b"GET \"a\"b\n", b"GET \"a\\\n"] {
            assert_eq!(parse(unbalanced), Err(Malformed::Quotes));
        }
    }

    #[test]
    fn a_command_is_taken_once_its_last_byte_is_there() {
        let whole = b"*3\r\n$4\r\nMINT\r\n$6\r\norders\r\n$0\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{length}");
        }
        let (args, length) = parse(&[whole, &whole[..5]].concat()).unwrap().unwrap();
        assert_eq!((args.len(), length), (3, whole.len()));
    }

    #[test]
    fn what_cannot_become_a_command_is_refused_at_once() {
        for (bytes, expected) in [
            (&b"*x"[..], Malformed::ArrayLength),
            (b"*1x", Malformed::ArrayLength),
            (b"*\r\n", Malformed::ArrayLength),
            (b"*1\rx", Malformed::ArrayLength),
            (b"*1025\r\n", Malformed::ArrayLength),
            (b"*99999999999999999999", Malformed::ArrayLength),
            (b"*1\r\n*", Malformed::NotBulk(b'*')),
            (b"*1\r\n\0", Malformed::NotBulk(0)),
            (b"*1\r\n$-1\r\n", Malformed::BulkLength),
            (b"*1\r\n$+1\r\n", Malformed::BulkLength),
            (b"*1\r\n$65537\r\n", Malformed::BulkLength),
            (b"*1\r\n$2147483648\r\n", Malformed::BulkLength),
            (b"*1\r\n$1\r\nabc", Malformed::BulkEnd),
        ] {
            assert_eq!(parse(bytes), Err(expected), "{:?}", bytes.escape_ascii().to_string());
        }
        let zeros = [&b"*"[..], &[b'0'; 40]].concat();
        assert_eq!(parse(&zeros), Err(Malformed::ArrayLength));
        assert_eq!(parse(&[b'x'; COMMAND_BYTES_MAX + 1]), Err(Malformed::LineLength));
        let line = [&[b'x'; COMMAND_BYTES_MAX][..], b"\n"].concat();
        assert_eq!(parse(&line), Err(Malformed::LineLength), "wherever it is split");
        let many = [&b"x ".repeat(ARGS_MAX + 1)[..], b"\n"].concat();
        assert_eq!(parse(&many), Err(Malformed::LineLength));
    }

    #[test]
    fn a_command_of_many_bounded_parts_is_bounded_too() {
        let part = [&b"$60000\r\n"[..], &[b'x'; 60_000], b"\r\n"].concat();
        let bytes = [b"*3\r\n", &part[..], &part[..]].concat();
        assert_eq!(parse(&bytes), Err(Malformed::CommandLength));
        assert_eq!(parse(&[&bytes[..], &part].concat()), Err(Malformed::CommandLength));
    }

    proptest! {
        #[test]
        fn what_was_framed_is_read_back(
            args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20),
            behind in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let bytes = framed(&args);
            for length in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..length]), Ok(None));
            }
            let read = parse(&[&bytes[..], &behind].concat());
            prop_assert_eq!(read, Ok(Some((args, bytes.len()))));
        }

        /// More bytes turn "not yet" into a command or a fault, and never the other way round.
        #[test]
        fn any_bytes_are_judged_alike_however_they_are_split(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"*$\r\n12\"' \\x-"[..])],
                0..60,
            ),
        ) {
            let whole = parse(&bytes);
            for length in 0..bytes.len() {
                let part = parse(&bytes[..length]);
                prop_assert!(part == Ok(None) || part == whole, "{length}: {part:?} {whole:?}");
            }
        }
    }
}
