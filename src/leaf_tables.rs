//! Reads the tables of Leaf and tinyid, as `mysqldump` or a spreadsheet wrote them. Bytes come in, rows go out.
//!
//! A row with a fault costs itself only, and is named by its line. Tables are known by their columns, whatever they
//! are called, so that other tables of a dump are passed over.
//!
//! ```text
//! dump         INSERT rows of mysqldump, found among all else that it writes
//!   sql        names, values and blanks of MySQL
//! delimited    CSV and TSV with a header
//!   columns    what the columns of a row mean, and what a mark may be
//! ```

mod columns;
mod delimited;
mod dump;
mod sql;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::tag::BizTag;

/// Most bytes of a file: hundreds of times what a thousand services have, and few beside a machine's memory.
pub const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most rows of a file.
pub const ROWS_MAX: usize = 1_000_000;
/// Most rows with a fault; behind so many there is another mistake.
pub const FAULTS_MAX: usize = 10_000;
/// Longest row in bytes: a hundred times the longest sensible one.
const ROW_BYTES_MAX: usize = 64 * 1024;

/// A tag as another system left it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// The line of the file on which the row begins, from 1 on.
    pub line: u64,
    /// The tag's name.
    pub tag: BizTag,
    /// The first id that the other system has not given, 1 to 2^63.
    pub max_id: u64,
    /// Ids per grab.
    pub step: u32,
    /// Free text, possibly empty.
    pub description: String,
}

/// A row that cannot be taken over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The line of the file on which the row begins, from 1 on.
    pub line: u64,
    /// The fault in words.
    pub detail: String,
}

/// What a file holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Table {
    /// The rows, in the order of the file.
    pub rows: Vec<Row>,
    /// The rows that cannot be taken over, in the order of the file.
    pub faults: Vec<Fault>,
}

/// Why a file cannot be read at all.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Unreadable {
    /// No row of a known table is there.
    #[error(
        "no table of Leaf (biz_tag, max_id, step) or tinyid (biz_type, max_id, step, delta) is in it: give a mysqldump \
         of the table, or CSV or TSV whose first line names the columns"
    )]
    NoTable,
    /// The file has more rows than [`ROWS_MAX`].
    #[error("it has more than {ROWS_MAX} rows: split it")]
    TooManyRows,
    /// More than [`FAULTS_MAX`] rows have a fault.
    #[error("more than {FAULTS_MAX} of its rows have a fault")]
    TooManyFaults,
}

impl Table {
    fn take(&mut self, outcome: Result<Row, Fault>) -> Result<(), Unreadable> {
        match outcome {
            Ok(_) if self.rows.len() == ROWS_MAX => return Err(Unreadable::TooManyRows),
            Ok(row) => self.rows.push(row),
            Err(_) if self.faults.len() == FAULTS_MAX => return Err(Unreadable::TooManyFaults),
            Err(fault) => self.faults.push(fault),
        }
        Ok(())
    }
}

/// Reads a file: a dump, or a table with a header.
///
/// # Errors
/// [`Unreadable`], when nothing of it can be used or it is too large.
pub fn read(bytes: &[u8]) -> Result<Table, Unreadable> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match delimited::Header::of(bytes) {
        Some(header) => delimited::read(bytes, &header),
        None => dump::read(bytes),
    }
}

/// Pairs of tags that were one key to Leaf, because it cuts a key at its last dot: `a` and `a.b`.
pub fn pairs_of_leaf(rows: &[Row]) -> Vec<(&str, &str)> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.tag.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut pairs = Vec::new();
    for name in &names {
        let stem = name.rsplit_once('.').map(|(stem, _)| stem);
        pairs.extend(
            stem.filter(|stem| names.binary_search(stem).is_ok()).map(|stem| (stem, *name)),
        );
    }
    pairs
}

/// The text of at most so many bytes of a value, for a message.
fn shown(value: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let cut = &value[..value.len().min(SHOWN_BYTES)];
    let more = if cut.len() < value.len() { "…" } else { "" };
    format!("\"{}{more}\"", String::from_utf8_lossy(cut).escape_debug())
}
