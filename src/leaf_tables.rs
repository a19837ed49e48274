//! Reads the tables of Leaf and tinyid, as `mysqldump` or a spreadsheet wrote them. Bytes come in, rows go out.
//!
//! A row with a fault costs only itself, and is named by its line. Tables are recognized by their columns, under any
//! name, so that other tables of a dump are skipped.
//!
//! ```text
//! dump         INSERT rows of mysqldump, found among all else that it writes
//!   sql        names, values and blanks of MySQL
//! delimited    CSV and TSV with a header
//!   columns    what the columns of a row mean, and what a mark may be
//!     table    rows, faults, and how many there may be
//! ```

mod columns;
mod delimited;
mod dump;
mod sql;
mod table;
#[cfg(test)]
mod tests;

pub use table::{FAULTS_MAX, FILE_BYTES_MAX, Fault, ROWS_MAX, Row, Table, Unreadable};

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
