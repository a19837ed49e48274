//! CSV and TSV with a header: as spreadsheets, `mysql --batch` and `SELECT … INTO OUTFILE` write them.

use std::borrow::Cow;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::columns::{Columns, Value};
use super::table::{Fault, ROW_BYTES_MAX, Row, Table, Unreadable};

/// The first line of a file, which names columns.
#[derive(Debug)]
pub(super) struct Header {
    columns: Columns,
    delimiter: u8,
    /// Where the rows begin, in bytes.
    end: usize,
    /// The line that it is.
    line: u64,
}

impl Header {
    /// The header of a file that has one.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let line = bytes[start..].split(|byte| *byte == b'\n').next()?;
        let line = &line[..line.len().min(ROW_BYTES_MAX)];
        let delimiter =
            [b'\t', b',', b';'].into_iter().find(|delimiter| line.contains(delimiter))?;
        let name = |name: &[u8]| name.trim_ascii().trim_quotes().to_vec();
        let names: Vec<Vec<u8>> = line.split(|byte| *byte == delimiter).map(name).collect();
        let columns = Columns::named(names.iter().map(Vec::as_slice))?;
        let end = (start + line.len() + 1).min(bytes.len());
        Some(Self { columns, delimiter, end, line: lines(&bytes[..start]) + 1 })
    }
}

trait TrimQuotes {
    fn trim_quotes(&self) -> &Self;
}

impl TrimQuotes for [u8] {
    fn trim_quotes(&self) -> &Self {
        let inner = self.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        inner.unwrap_or(self)
    }
}

pub(super) fn read(bytes: &[u8], header: &Header) -> Result<Table, Unreadable> {
    let mut table = Table::default();
    let (mut start, mut line) = (header.end, header.line + 1);
    // Each turn reads up to a row that spans lines and has a fault: its quotes may be wrong, so the next turn
    // begins on the line behind the first one of that row.
    while start < bytes.len() {
        let Some(next) = read_on(&bytes[start..], line, header, &mut table)? else { break };
        start += next;
        line += lines(&bytes[start - next..start]);
    }
    Ok(table)
}

/// Reads rows, beginning on `line`. Returns where to go on.
fn read_on(
    bytes: &[u8],
    line: u64,
    header: &Header,
    table: &mut Table,
) -> Result<Option<usize>, Unreadable> {
    let is_tsv = header.delimiter == b'\t';
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(header.delimiter)
        .quoting(!is_tsv)
        .terminator(if is_tsv { Terminator::Any(b'\n') } else { Terminator::CRLF })
        .from_reader(bytes);
    let mut record = ByteRecord::new();
    let (mut line, mut counted) = (line, 0);
    loop {
        let at = skip_blank_lines(bytes, reader.position().byte() as usize);
        // A slice can always be read, and a record of bytes is one of any bytes.
        if !reader.read_byte_record(&mut record).unwrap_or(false) {
            return Ok(None);
        }
        let ends = reader.position().byte() as usize;
        let raw = &bytes[at..ends.max(at)];
        line += lines(&bytes[counted..at]);
        counted = at;
        if record.len() == 1 && record[0].trim_ascii().is_empty() {
            continue;
        }
        let first_line = raw.iter().position(|byte| *byte == b'\n').map_or(raw.len(), |at| at + 1);
        let quotes = raw.iter().filter(|byte| **byte == b'"').count();
        let outcome = match raw.len() {
            _ if first_line < raw.len() && quotes % 2 == 1 => {
                Err(Fault { line, detail: "a quote is not closed".to_owned() })
            }
            0..=ROW_BYTES_MAX => row(line, &record, header),
            _ => Err(Fault { line, detail: format!("is longer than {ROW_BYTES_MAX} bytes") }),
        };
        let failed = outcome.is_err();
        table.take(outcome)?;
        if failed && first_line < raw.len() {
            return Ok(Some(at + first_line));
        }
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn skip_blank_lines(bytes: &[u8], from: usize) -> usize {
    let blank = |byte: &u8| matches!(byte, b'\n' | b'\r');
    from + bytes[from..].iter().take_while(|byte| blank(byte)).count()
}

fn row(line: u64, record: &ByteRecord, header: &Header) -> Result<Row, Fault> {
    let is_tsv = header.delimiter == b'\t';
    let mut values: Vec<Value<'_>> = Vec::with_capacity(record.len());
    for (at, field) in record.iter().enumerate() {
        let is_last = is_tsv && at + 1 == record.len();
        let field = if is_last { field.strip_suffix(b"\r").unwrap_or(field) } else { field };
        values.push(match field {
            b"\\N" | b"NULL" => None,
            field if is_tsv => Some(unescaped(field)),
            field => Some(Cow::Borrowed(field)),
        });
    }
    header.columns.row(line, &values)
}

/// A value without the escapes of `mysql --batch`.
fn unescaped(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(other) => other,
                None => b'\\',
            },
            byte => byte,
        });
    }
    Cow::Owned(bytes)
}
