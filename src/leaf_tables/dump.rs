//! The INSERT rows of a dump, as `mysqldump` of MySQL and `mariadb-dump` write them.
//!
//! Other statements are skipped. If a row cannot be read, reading goes on at what looks like the next one, so that in a
//! statement with many rows a broken one costs only itself.

use std::collections::BTreeMap;

use super::columns::{Columns, Value};
use super::sql::{Cursor, NotSql};
use super::table::{Fault, ROW_BYTES_MAX, Row, Table, Unreadable};

/// Maximum number of columns of a table.
const COLUMNS_MAX: usize = 4_096;
/// The first words of elements of `CREATE TABLE` that are not columns.
const NO_COLUMNS: [&str; 9] =
    ["PRIMARY", "KEY", "UNIQUE", "CONSTRAINT", "INDEX", "FULLTEXT", "SPATIAL", "CHECK", "FOREIGN"];

/// Comments at the beginning of a dump. A dump without comments has none of them, and no line at its end either.
const BEGINNINGS: [&[u8]; 2] = [b"-- MySQL dump ", b"-- MariaDB dump "];
/// The comment at the end of a dump that begins with one of them.
const END: &[u8] = b"-- Dump completed";
/// These comments stand within this many bytes of either end of a dump.
const COMMENT_WITHIN: usize = 1_024;

/// Reads the rows of Leaf's and tinyid's tables. A dump that was cut off within a statement is refused whole: a tag that is
/// missing here would begin at 1 on its first use.
pub(super) fn read(bytes: &[u8]) -> Result<Table, Unreadable> {
    let lacks_end = lacks_end(bytes);
    let table = Table { lacks_end, ..Table::default() };
    let mut dump = Dump { table, created: BTreeMap::new(), is_known: false };
    let mut cursor = Cursor::new(bytes);
    let mut is_whole = true;
    loop {
        is_whole &= cursor.skip_blanks();
        if cursor.peek().is_none() {
            break;
        }
        is_whole &= dump.statement(&mut cursor)?;
    }
    if lacks_end && !is_whole {
        return Err(Unreadable::CutOff);
    }
    if dump.is_known { Ok(dump.table) } else { Err(Unreadable::NoTable) }
}

/// Whether a dump begins as `mysqldump` and `mariadb-dump` begin it, and does not end so.
fn lacks_end(bytes: &[u8]) -> bool {
    let has = |within: &[u8], comment: &[u8]| within.windows(comment.len()).any(|it| it == comment);
    let within = bytes.len().min(COMMENT_WITHIN);
    let (first, last) = (&bytes[..within], &bytes[bytes.len() - within..]);
    BEGINNINGS.iter().any(|beginning| has(first, beginning)) && !has(last, END)
}

struct Dump {
    table: Table,
    /// The columns of the tables that the dump creates; `None` for unknown tables.
    created: BTreeMap<Vec<u8>, Option<Columns>>,
    /// Whether a known table was found.
    is_known: bool,
}

impl Dump {
    /// Reads a statement up to its end. Returns whether it has one.
    fn statement(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Unreadable> {
        let mut look = *cursor;
        match look.word().as_str() {
            "INSERT" | "REPLACE" => {
                *cursor = look;
                return self.insert(cursor);
            }
            "CREATE" => {
                let mut create = look;
                if let Ok((name, columns)) = created(&mut create) {
                    self.is_known |= columns.is_some();
                    self.created.insert(name, columns);
                }
            }
            "DELIMITER" => return Ok(skip_procedures(cursor)),
            _ => {}
        }
        Ok(skip_statement(cursor))
    }

    fn insert(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, Unreadable> {
        let Ok(Some(columns)) = self.columns(cursor) else { return Ok(skip_statement(cursor)) };
        self.is_known = true;
        loop {
            let begin = *cursor;
            let outcome = match tuple(cursor, &columns) {
                Ok(outcome) => outcome,
                Err(NotSql) => {
                    let line = begin.line();
                    self.table.take(Err(Fault { line, detail: "cannot be read".to_owned() }))?;
                    *cursor = begin;
                    if !cursor.eat(b'(') {
                        cursor.skip(1);
                    }
                    if !cursor.resync() {
                        return Ok(false);
                    }
                    cursor.skip_blanks();
                    if cursor.peek() == Some(b'(') { continue } else { return Ok(true) }
                }
            };
            self.table.take(outcome)?;
            cursor.skip_blanks();
            if !cursor.eat(b',') {
                // `ON DUPLICATE KEY UPDATE …`, if anything.
                return Ok(skip_statement(cursor));
            }
            cursor.skip_blanks();
        }
    }

    /// Reads up to the first row, and finds out what the columns are; `None` for an unknown table.
    fn columns(&self, cursor: &mut Cursor<'_>) -> Result<Option<Columns>, NotSql> {
        let name = loop {
            cursor.skip_blanks();
            let mut look = *cursor;
            match look.word().as_str() {
                "INTO" | "IGNORE" | "DELAYED" | "LOW_PRIORITY" | "HIGH_PRIORITY" => *cursor = look,
                _ => break cursor.name()?,
            }
        };
        let named = match cursor.peek() {
            Some(b'(') => Some(names(cursor)?),
            _ => None,
        };
        cursor.skip_blanks();
        if !matches!(cursor.word().as_str(), "VALUES" | "VALUE") {
            return Err(NotSql);
        }
        cursor.skip_blanks();
        Ok(match (named, self.created.get(&*name)) {
            (Some(names), _) => Columns::named(names.iter().map(Vec::as_slice)),
            (None, Some(columns)) => columns.clone(),
            (None, None) => Columns::usual(&name),
        })
    }
}

/// One row in brackets.
fn tuple(cursor: &mut Cursor<'_>, columns: &Columns) -> Result<Result<Row, Fault>, NotSql> {
    let line = cursor.line();
    let mut inside = cursor.within(ROW_BYTES_MAX);
    if !inside.eat(b'(') {
        return Err(NotSql);
    }
    let mut values: Vec<Value<'_>> = Vec::new();
    loop {
        inside.skip_blanks();
        values.push(inside.value()?);
        inside.skip_blanks();
        match inside.peek() {
            Some(b',') => inside.skip(1),
            Some(b')') => break inside.skip(1),
            _ => return Err(NotSql),
        }
    }
    cursor.go_to(&inside);
    // A row is followed by another or ends its statement; otherwise a quote is missing in it.
    let mut behind = *cursor;
    behind.skip_blanks();
    match behind.peek() {
        Some(b',' | b';' | b'O' | b'o' | b'A' | b'a') | None => {}
        _ => return Err(NotSql),
    }
    Ok(columns.row(line, &values))
}

/// Names in brackets.
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<Vec<u8>>, NotSql> {
    let mut names = Vec::new();
    while cursor.eat(if names.is_empty() { b'(' } else { b',' }) {
        cursor.skip_blanks();
        names.push(cursor.name()?.into_owned());
        if names.len() > COLUMNS_MAX {
            return Err(NotSql);
        }
    }
    if cursor.eat(b')') { Ok(names) } else { Err(NotSql) }
}

/// The name of the table that a `CREATE TABLE` makes, and its columns.
fn created(cursor: &mut Cursor<'_>) -> Result<(Vec<u8>, Option<Columns>), NotSql> {
    let mut is_table = false;
    let name = loop {
        cursor.skip_blanks();
        let mut look = *cursor;
        match look.word().as_str() {
            "TABLE" => is_table = true,
            "IF" | "NOT" | "EXISTS" | "TEMPORARY" => {}
            _ if is_table => break cursor.name()?.into_owned(),
            _ => return Err(NotSql),
        }
        *cursor = look;
    };
    if !cursor.eat(b'(') {
        return Err(NotSql);
    }
    let mut columns = Vec::new();
    loop {
        cursor.skip_blanks();
        let is_quoted = matches!(cursor.peek(), Some(b'`' | b'"'));
        let mut look = *cursor;
        if is_quoted || !NO_COLUMNS.contains(&look.word().as_str()) {
            columns.push(cursor.name()?.into_owned());
        }
        if columns.len() > COLUMNS_MAX {
            return Err(NotSql);
        }
        loop {
            cursor.skip_blanks();
            match cursor.peek() {
                Some(b'(') => cursor.skip_brackets()?,
                Some(b',') => break cursor.skip(1),
                Some(b')') => {
                    return Ok((name, Columns::named(columns.iter().map(Vec::as_slice))));
                }
                None => return Err(NotSql),
                _ => cursor.skip_token()?,
            }
        }
    }
}

/// Goes past the end of a statement. Returns whether it has one.
fn skip_statement(cursor: &mut Cursor<'_>) -> bool {
    loop {
        cursor.skip_blanks();
        if cursor.peek().is_none() {
            return false;
        }
        if cursor.eat(b';') {
            return true;
        }
        // A text without an end: its opening quote is skipped alone.
        let before = *cursor;
        if cursor.skip_token().is_err() {
            *cursor = before;
            cursor.skip(1);
        }
    }
}

/// Goes past routines, whose bodies hold statements of their own: up to the line that makes `;` the delimiter again. Returns
/// whether there is one.
fn skip_procedures(cursor: &mut Cursor<'_>) -> bool {
    let mut is_inside = false;
    while cursor.peek().is_some() {
        let mut line = *cursor;
        let is_delimiter = line.word() == "DELIMITER";
        line.skip_spaces();
        let is_usual = line.eat(b';') && line.peek() != Some(b';');
        cursor.skip_line();
        if is_delimiter && is_usual || !is_delimiter && !is_inside {
            return true;
        }
        is_inside = true;
    }
    false
}
