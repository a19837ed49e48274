//! Tables and JSON on a stdout that may close early, as under `head`.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use serde_json::Value;

use super::client::Failure;

/// Prints text as it is.
///
/// # Errors
/// When stdout fails; a reader that left is not a failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignoring_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints one JSON document and a line break.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

fn ignoring_closed_pipe(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says on stderr what went wrong.
pub(super) fn complain(failure: &Failure) {
    let mut err = io::stderr().lock();
    // Nobody is left to tell when stderr fails.
    let _ = writeln!(err, "error: {}", failure.detail);
    if let Some(hint) = failure.hint {
        let _ = writeln!(err, "hint: {hint}");
    }
}

/// Rows under a head, in columns as wide as their widest cell.
pub(super) struct TextTable<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    pub(super) fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    /// Adds a row. What would not show as itself is escaped: cells hold what others have written.
    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| shown(&cell)));
    }
}

/// A text with `\u{…}` for each character by which a terminal could be told to do, or to show, something else:
/// control characters, line and paragraph separators, and what turns the direction of text.
fn shown(text: &str) -> String {
    let misleads = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match misleads(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

impl<const N: usize> fmt::Display for TextTable<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(line, "{cell:width$}  ")?;
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A field of a node's answer as a person reads it; `-` when it is missing, null or empty.
pub(super) fn cell(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_line_up_under_their_head() {
        let mut table = TextTable::new(["TAG", "STEP"]);
        table.row(["orders".to_owned(), "5".to_owned()]);
        table.row(["订单".to_owned(), "1000".to_owned()]);
        assert_eq!(table.to_string(), "TAG     STEP\norders  5\n订单      1000\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let mut table = TextTable::new(["TAG", "DESCRIPTION"]);
        let hostile = "\u{1b}[2J\u{9b}31m\r\n\t\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}";
        table.row(["a".to_owned(), format!("{hostile} 订单 é")]);
        let text = table.to_string();
        let escaped = "\\u{1b}[2J\\u{9b}31m\\u{d}\\u{a}\\u{9}\\u{7f}\\u{202e}\\u{2066}\\u{200f}\\u{61c}\\u{2028}";
        assert_eq!(text, format!("TAG  DESCRIPTION\na    {escaped} 订单 é\n"));
    }

    #[test]
    fn cells_show_text_bare_and_nothing_as_a_dash() {
        let object = json!({"a": "x", "b": 7, "c": null, "d": ""});
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|field| cell(&object, field)),
            ["x", "7", "-", "-", "-"]
        );
    }

    #[test]
    fn a_reader_that_left_is_not_a_failure() {
        assert!(ignoring_closed_pipe(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(ignoring_closed_pipe(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
