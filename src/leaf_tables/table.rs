//! What a file holds: rows, and rows with a fault.

use thiserror::Error;

use mintleaf_core::tag::BizTag;

/// Maximum size of a file: hundreds of times the tags of a thousand services, but little compared with a machine's
/// memory.
pub const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum number of rows of a file.
pub const ROWS_MAX: usize = 1_000_000;
/// Maximum number of rows with a fault; with more, there must be another mistake.
pub const FAULTS_MAX: usize = 10_000;
/// Longest row in bytes: a hundred times the longest sensible one.
pub(super) const ROW_BYTES_MAX: usize = 64 * 1024;

/// A tag as another system left it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// The line of the file that the row begins on, from 1 on.
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
    /// The line of the file that the row begins on, from 1 on.
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
    /// Whether this is a dump without the line that `mysqldump` and `mariadb-dump` write at its end. All of its
    /// statements are whole, but some may be missing behind them.
    pub lacks_end: bool,
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
    /// The dump ends within a statement.
    #[error(
        "it ends within a statement: the dump was cut off, and tags may be missing; dump again"
    )]
    CutOff,
    /// The file has more rows than [`ROWS_MAX`].
    #[error("it has more than {ROWS_MAX} rows: split it")]
    TooManyRows,
    /// More than [`FAULTS_MAX`] rows have a fault.
    #[error("more than {FAULTS_MAX} of its rows have a fault")]
    TooManyFaults,
}

impl Table {
    pub(super) fn take(&mut self, outcome: Result<Row, Fault>) -> Result<(), Unreadable> {
        match outcome {
            Ok(_) if self.rows.len() == ROWS_MAX => return Err(Unreadable::TooManyRows),
            Ok(row) => self.rows.push(row),
            Err(_) if self.faults.len() == FAULTS_MAX => return Err(Unreadable::TooManyFaults),
            Err(fault) => self.faults.push(fault),
        }
        Ok(())
    }
}

/// At most the first `SHOWN_BYTES` bytes of a value as text, for a message.
pub(super) fn shown(value: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let cut = &value[..value.len().min(SHOWN_BYTES)];
    let more = if cut.len() < value.len() { "…" } else { "" };
    format!("\"{}{more}\"", String::from_utf8_lossy(cut).escape_debug())
}
