//! Tables for people, by the width that their text has on a terminal.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::style::BOLD;

/// Fewest columns of a terminal that a table is fitted to. A table in fewer would be hard to read.
const WIDTH_MIN: u16 = 20;
/// Fewest columns that a cell is wrapped to.
const WRAPPED_MIN: u16 = 16;

/// Fewest columns that a cell is shortened to.
const SHORTENED_MIN: usize = 12;

/// Rows under a head. If they do not fit the terminal, cells are wrapped if that is allowed; next, columns are left out
/// if that is allowed, with a line that names them, and then cells are shortened if that is; finally, each row becomes a
/// list of its fields. Output that does not go to a terminal is never cut.
pub(super) struct TextTable<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
    numbers: &'static [&'static str],
    wrapped: &'static [&'static str],
    dispensable: &'static [&'static str],
    shortened: &'static [&'static str],
    is_wide: bool,
}

impl<const N: usize> TextTable<N> {
    pub(super) fn new(head: [&'static str; N]) -> Self {
        let (numbers, wrapped, dispensable, shortened) = (&[], &[], &[], &[]);
        Self { head, rows: Vec::new(), numbers, wrapped, dispensable, shortened, is_wide: false }
    }

    /// Columns of numbers, whose last digits stand below each other.
    pub(super) fn numbers(mut self, columns: &'static [&'static str]) -> Self {
        self.numbers = columns;
        self
    }

    /// Columns of sentences, which continue on the next line at the end of the terminal.
    pub(super) fn wrapped(mut self, columns: &'static [&'static str]) -> Self {
        self.wrapped = columns;
        self
    }

    /// Columns that a narrow terminal leaves out, beginning with the first of these.
    pub(super) fn dispensable(mut self, columns: &'static [&'static str]) -> Self {
        self.dispensable = columns;
        self
    }

    /// Columns of names, which lose their middle rather than make the table a list of fields.
    pub(super) fn shortened(mut self, columns: &'static [&'static str]) -> Self {
        self.shortened = columns;
        self
    }

    /// Whether the terminal is not to be heeded.
    pub(super) fn wide(mut self, is_wide: bool) -> Self {
        self.is_wide = is_wide;
        self
    }

    /// Adds a row. What would not show as itself is escaped, because cells hold text that others have written.
    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| shown(&cell)));
    }

    /// The table for standard output, with its styles.
    pub(super) fn styled(&self) -> String {
        let (text, has_head) = self.fitted(terminal_width().filter(|_| !self.is_wide));
        match text.split_once('\n').filter(|_| has_head) {
            Some((head, rows)) => format!("{BOLD}{head}{BOLD:#}\n{rows}"),
            None => text,
        }
    }

    /// The table in `width` columns, and whether its first line is a head.
    fn fitted(&self, width: Option<u16>) -> (String, bool) {
        let Some(width) = width else { return (self.drawn(&[], None, usize::MAX), true) };
        let fits = |text: &str| text.lines().all(|line| columns(line) <= usize::from(width));
        for left_out in 0..=self.dispensable.len() {
            let left_out = &self.dispensable[..left_out];
            let text = self.drawn(left_out, Some(width), usize::MAX);
            if fits(&text) {
                return (text + &about(left_out), true);
            }
        }
        let shortened = |columns: usize| self.drawn(self.dispensable, Some(width), columns);
        let lengths: Vec<usize> = (SHORTENED_MIN..self.longest()).collect();
        match lengths.partition_point(|length| fits(&shortened(*length))) {
            0 => (self.listed(width), false),
            fitting => (shortened(lengths[fitting - 1]) + &about(self.dispensable), true),
        }
    }

    /// The columns that the longest cell takes among those that may be shortened.
    fn longest(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| self.head.iter().zip(row));
        let cells = cells.filter(|(head, _)| self.shortened.contains(head));
        cells.map(|(_, cell)| columns(cell)).max().unwrap_or(0)
    }

    /// The table without some columns, and with cells of at most `length` columns where they may be shortened.
    fn drawn(&self, left_out: &[&str], width: Option<u16>, length: usize) -> String {
        let kept: Vec<usize> = (0..N).filter(|&at| !left_out.contains(&self.head[at])).collect();
        let mut table = plain(width);
        table.set_header(kept.iter().map(|&at| self.head[at]));
        for row in &self.rows {
            table.add_row(kept.iter().map(|&at| match self.shortened.contains(&self.head[at]) {
                true => without_middle(&row[at], length),
                false => Cow::Borrowed(row[at].as_str()),
            }));
        }
        for (column, &at) in table.column_iter_mut().zip(&kept) {
            let head = self.head[at];
            column.set_padding((0, 2));
            if self.numbers.contains(&head) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            column.set_constraint(match self.wrapped.contains(&head) && width.is_some() {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(WRAPPED_MIN)),
                false => ColumnConstraint::ContentWidth,
            });
        }
        ended(&table)
    }

    /// Each row as a list of its fields.
    fn listed(&self, width: u16) -> String {
        let record = |row: &[String; N]| {
            let mut table = plain(Some(width));
            for (head, cell) in self.head.iter().zip(row) {
                table.add_row([*head, cell]);
            }
            for (column, constraint) in table.column_iter_mut().zip([
                ColumnConstraint::ContentWidth,
                ColumnConstraint::LowerBoundary(Width::Fixed(1)),
            ]) {
                column.set_padding((0, 2)).set_constraint(constraint);
            }
            ended(&table)
        };
        self.rows.iter().map(record).collect::<Vec<_>>().join("\n")
    }
}

/// A line that names the columns that were left out; empty if none were.
fn about(left_out: &[&str]) -> String {
    match left_out {
        [] => String::new(),
        _ => format!("not shown, for lack of width: {}\n", left_out.join(", ")),
    }
}

fn plain(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match width {
        Some(width) => {
            // The padding of the last column is cut off, so it does not count.
            table.set_width(width.saturating_add(2));
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    table
}

/// The lines of a table, without blanks at their ends.
fn ended(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A text in at most `length` columns, with a mark where its middle was.
fn without_middle(text: &str, length: usize) -> Cow<'_, str> {
    if columns(text) <= length {
        return Cow::Borrowed(text);
    }
    let kept = |chars: &mut dyn Iterator<Item = char>, length: usize| -> Vec<char> {
        let mut left = length;
        let has_room = |c: &char| {
            let width = columns(c.encode_utf8(&mut [0; 4]));
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        };
        chars.take_while(has_room).collect()
    };
    let head: String = kept(&mut text.chars(), length / 2).into_iter().collect();
    let tail: String =
        kept(&mut text.chars().rev(), length - length / 2 - 1).into_iter().rev().collect();
    Cow::Owned(format!("{head}…{tail}"))
}

/// How many columns a text takes on a terminal.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// The columns that a table may have; `None` if standard output is not a terminal. `COLUMNS` overrides both.
fn terminal_width() -> Option<u16> {
    #[expect(clippy::disallowed_methods)] // It is of the terminal, and no setting.
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    said.or_else(measured).map(|width: u16| width.max(WIDTH_MIN))
}

/// A text with `\u{…}` for each character that could make a terminal do or show something else: control characters,
/// line and paragraph separators, and what turns the direction of text.
pub(super) fn shown(text: &str) -> String {
    escaped(text, "", |shown, c| shown.extend(c.escape_unicode()))
}

/// A text as a word of a shell.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", shown(text).replace('\'', r"'\''")),
    }
}

/// The same as [`shown`], but line breaks and tabs stay as they are.
pub(super) fn shown_lines(text: &str) -> String {
    escaped(text, "\n\t", |shown, c| shown.extend(c.escape_unicode()))
}

/// The same as [`shown_lines`], but sequences that set a style stay as they are.
pub(super) fn shown_styled(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        let end = sequence[2..].find(|c: char| !c.is_ascii_digit() && c != ';').map(|end| 2 + end);
        let is_style = end.filter(|&end| sequence[end..].starts_with('m'));
        let kept = is_style.map_or(0, |end| end + 1);
        // Any other sequence loses its first character, the one that makes a terminal act.
        let skipped = kept.max(1);
        shown += &shown_lines(before);
        shown += if kept > 0 { &sequence[..kept] } else { "\\u{1b}" };
        rest = &sequence[skipped..];
    }
    shown + &shown_lines(rest)
}

/// The same as [`shown`], for a document in JSON, where such characters stand in strings only: its meaning stays the
/// same.
pub(super) fn shown_json(document: &str) -> String {
    escaped(document, "\n", |shown, c| {
        // All of them have four digits at most. Writing to a `String` cannot fail.
        let _ = write!(shown, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, kept: &str, escape: impl Fn(&mut String, char)) -> String {
    let misleads = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match misleads(c) && !kept.contains(c) {
            true => escape(&mut shown, c),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> TextTable<3> {
        let mut table = TextTable::new(["TAG", "STEP", "DESCRIPTION"])
            .numbers(&["STEP"])
            .wrapped(&["DESCRIPTION"]);
        table.row(["orders", "5", "-"].map(str::to_owned));
        table.row(["订单", "1000", "订单的编号 for the shop in Shanghai"].map(str::to_owned));
        table
    }

    #[test]
    fn columns_line_up_by_the_width_that_characters_have() {
        assert_eq!(
            tags().fitted(None).0,
            "TAG     STEP  DESCRIPTION\norders     5  -\n\
             订单    1000  订单的编号 for the shop in Shanghai\n"
        );
    }

    #[test]
    fn sentences_go_on_in_the_next_line_where_the_terminal_ends() {
        assert_eq!(
            tags().fitted(Some(36)).0,
            "TAG     STEP  DESCRIPTION\norders     5  -\n\
             订单    1000  订单的编号 for the\n              shop in Shanghai\n"
        );
    }

    #[test]
    fn a_row_that_does_not_fit_is_a_list_of_its_fields() {
        let (text, has_head) = tags().fitted(Some(24));
        assert!(!has_head);
        let first = "TAG          orders\nSTEP         5\nDESCRIPTION  -\n\nTAG          订单\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.lines().all(|line| columns(line) <= 24), "{text}");
    }

    #[test]
    fn what_can_be_spared_is_left_out_before_that() {
        let mut table = TextTable::new(["NODE", "HTTP", "RAFT"]).dispensable(&["RAFT"]);
        table.row(["1", "127.0.0.1:8081", "127.0.0.1:9081"].map(str::to_owned));
        assert_eq!(
            table.fitted(Some(36)).0,
            "NODE  HTTP            RAFT\n1     127.0.0.1:8081  127.0.0.1:9081\n"
        );
        assert_eq!(
            table.fitted(Some(35)).0,
            "NODE  HTTP\n1     127.0.0.1:8081\nnot shown, for lack of width: RAFT\n"
        );
    }

    #[test]
    fn a_long_name_loses_its_middle_before_the_table_becomes_a_list() {
        let mut table = TextTable::new(["TAG", "STEP"]).shortened(&["TAG"]);
        table.row(["orders-of-the-shop-in-Shanghai-2026", "5"].map(str::to_owned));
        table.row(["订单订单订单订单订单订单订单订单", "7"].map(str::to_owned));
        let narrow = "TAG                 STEP\norders-of…hai-2026  5\n订单订单…订单订单   7\n";
        assert_eq!(table.fitted(Some(24)), (narrow.to_owned(), true));
        assert!(table.fitted(None).0.contains("orders-of-the-shop-in-Shanghai-2026"));
        assert!(!table.fitted(Some(17)).1, "too narrow for the shortest name");
        assert!(table.fitted(Some(18)).1);
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let mut table = TextTable::new(["TAG", "DESCRIPTION"]);
        let hostile = "\u{1b}[2J\u{9b}31m\r\n\t\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}";
        table.row(["a".to_owned(), format!("{hostile} 订单 é")]);
        let escaped = "\\u{1b}[2J\\u{9b}31m\\u{d}\\u{a}\\u{9}\\u{7f}\\u{202e}\\u{2066}\\u{200f}\\u{61c}\\u{2028}";
        assert_eq!(table.fitted(None).0, format!("TAG  DESCRIPTION\na    {escaped} 订单 é\n"));
    }
}
