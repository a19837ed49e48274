//! The small part of MySQL's language that surrounds the rows of a dump.

use std::borrow::Cow;

use super::columns::Value;

/// A place in a dump, and the line that it is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

/// The text is not MySQL, or not of a kind that a dump has.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NotSql;

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, line: 1 }
    }

    /// The same place, with an end `bytes` bytes from here.
    pub(super) fn within(self, bytes: usize) -> Self {
        Self { bytes: &self.bytes[..self.bytes.len().min(self.at + bytes)], ..self }
    }

    /// Goes to the place of another cursor of the same bytes.
    pub(super) fn go_to(&mut self, other: &Self) {
        (self.at, self.line) = (other.at, other.line);
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        let to = (self.at + bytes).min(self.bytes.len());
        self.line += self.bytes[self.at..to].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = to;
    }

    /// Goes past `byte`, if it is the next.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.skip(1);
        }
        is_next
    }

    /// Goes past blanks and comments. A comment for some releases only (`/*!40101 … */`) counts as one: it never holds
    /// rows. Returns whether every comment has an end.
    pub(super) fn skip_blanks(&mut self) -> bool {
        let mut is_whole = true;
        loop {
            let rest = self.rest();
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let to_end_of_line = || rest.iter().take_while(|byte| **byte != b'\n').count();
            let bytes = match rest {
                _ if blanks > 0 => blanks,
                [b'#', ..] | [b'-', b'-'] => to_end_of_line(),
                [b'-', b'-', next, ..] if next.is_ascii_whitespace() => to_end_of_line(),
                [b'/', b'*', ..] => match find(&rest[2..], b"*/") {
                    Some(end) => end + 4,
                    None => {
                        is_whole = false;
                        rest.len()
                    }
                },
                _ => return is_whole,
            };
            self.skip(bytes);
        }
    }

    /// Goes past the blanks of this line.
    pub(super) fn skip_spaces(&mut self) {
        self.skip(self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count());
    }

    /// Goes past the end of this line.
    pub(super) fn skip_line(&mut self) {
        let rest = self.rest();
        self.skip(rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1));
    }

    /// The next word, in upper case; empty where none begins.
    pub(super) fn word(&mut self) -> String {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let length = self.rest().iter().take_while(is_part).count();
        let word = String::from_utf8_lossy(&self.rest()[..length]).to_ascii_uppercase();
        self.skip(length);
        word
    }

    /// The next name of a table or a column. Of `database.table`, only the last part is returned.
    pub(super) fn name(&mut self) -> Result<Cow<'a, [u8]>, NotSql> {
        loop {
            let name = match self.peek() {
                Some(quote @ (b'`' | b'"')) => self.quoted(quote)?,
                Some(_) => {
                    let is_part = |byte: &&u8| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
                    };
                    let length = self.rest().iter().take_while(is_part).count();
                    let name = &self.rest()[..length];
                    self.skip(length);
                    if name.is_empty() { return Err(NotSql) } else { Cow::Borrowed(name) }
                }
                None => return Err(NotSql),
            };
            self.skip_blanks();
            if !self.eat(b'.') {
                return Ok(name);
            }
            self.skip_blanks();
        }
    }

    /// The next value of a row.
    pub(super) fn value(&mut self) -> Result<Value<'a>, NotSql> {
        match self.peek() {
            Some(quote @ (b'\'' | b'"')) => return self.quoted(quote).map(Some),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => return self.number().map(Some),
            _ => {}
        }
        let word = self.word();
        match (word.as_str(), self.peek()) {
            ("NULL", _) => Ok(None),
            ("X", Some(b'\'')) => unhex(&self.quoted(b'\'')?).map(Some),
            // `_binary 'a'`, and texts of another character set, which it names: a dump is in one.
            (word, _) if word.starts_with('_') => {
                self.skip_blanks();
                match self.peek() {
                    Some(quote @ (b'\'' | b'"')) => self.quoted(quote).map(Some),
                    Some(b'0') => self.number().map(Some),
                    _ => Err(NotSql),
                }
            }
            ("", _) => Err(NotSql),
            // `current_timestamp()`, `true`: no column that is needed holds one.
            (word, next) => {
                if next == Some(b'(') {
                    self.skip_brackets()?;
                }
                Ok(Some(Cow::Owned(word.as_bytes().to_vec())))
            }
        }
    }

    fn number(&mut self) -> Result<Cow<'a, [u8]>, NotSql> {
        let is_part =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let length = self.rest().iter().take_while(is_part).count();
        let number = &self.rest()[..length];
        self.skip(length);
        match number {
            [b'0', b'x' | b'X', hex @ ..] => unhex(hex),
            number => Ok(Cow::Borrowed(number)),
        }
    }

    /// The text within quotes. Two quotes stand for one, and a backslash escapes unless the text is a name.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, [u8]>, NotSql> {
        let inner = &self.rest()[1..];
        let plain = inner.iter().position(|byte| *byte == quote || *byte == b'\\').ok_or(NotSql)?;
        if inner[plain] == quote && inner.get(plain + 1) != Some(&quote) {
            self.skip(plain + 2);
            return Ok(Cow::Borrowed(&inner[..plain]));
        }
        let mut text = inner[..plain].to_vec();
        let mut at = plain;
        loop {
            match (inner.get(at), inner.get(at + 1)) {
                (Some(byte), Some(next)) if *byte == quote && *next == quote => {
                    text.push(quote);
                    at += 2;
                }
                (Some(byte), _) if *byte == quote => {
                    self.skip(at + 2);
                    return Ok(Cow::Owned(text));
                }
                (Some(b'\\'), Some(escaped)) if quote != b'`' => {
                    match escaped {
                        b'n' => text.push(b'\n'),
                        b't' => text.push(b'\t'),
                        b'r' => text.push(b'\r'),
                        b'b' => text.push(8),
                        b'0' => text.push(0),
                        b'Z' => text.push(26),
                        b'%' | b'_' => text.extend([b'\\', *escaped]),
                        other => text.push(*other),
                    }
                    at += 2;
                }
                (Some(byte), _) => {
                    text.push(*byte);
                    at += 1;
                }
                (None, _) => return Err(NotSql),
            }
        }
    }

    /// Goes past brackets and all that is within.
    pub(super) fn skip_brackets(&mut self) -> Result<(), NotSql> {
        let mut depth = 0_u32;
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'(') => depth += 1,
                Some(b')') => depth -= 1,
                None => return Err(NotSql),
                _ => {}
            }
            self.skip_token()?;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Goes past a quoted text, a word, or one other byte.
    pub(super) fn skip_token(&mut self) -> Result<(), NotSql> {
        match self.peek() {
            Some(quote @ (b'\'' | b'"' | b'`')) => drop(self.quoted(quote)?),
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' => drop(self.word()),
            _ => self.skip(1),
        }
        Ok(())
    }

    /// Goes to a place behind this one where a row could begin again, or to a line that is not a row. `false` at the
    /// end.
    pub(super) fn resync(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let Some(next) = rest.iter().position(|byte| matches!(byte, b')' | b'\n')) else {
                self.skip(rest.len());
                return false;
            };
            self.skip(next + 1);
            if rest[next] == b'\n' {
                return true;
            }
            let mut row = *self;
            row.skip_blanks();
            if row.eat(b',') {
                row.skip_blanks();
                if row.peek() == Some(b'(') {
                    *self = row;
                    return true;
                }
            }
        }
    }
}

fn unhex<'a>(digits: &[u8]) -> Result<Cow<'a, [u8]>, NotSql> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8).ok_or(NotSql);
    if !digits.len().is_multiple_of(2) {
        return Err(NotSql);
    }
    let byte = |pair: &[u8]| Ok(digit(&pair[0])? << 4 | digit(&pair[1])?);
    digits.chunks_exact(2).map(byte).collect::<Result<Vec<u8>, _>>().map(Cow::Owned)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
