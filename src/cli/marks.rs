//! Lists of lines as CSV: `mintleaf inspect --marks` writes one, and `mintleaf restore --marks` reads one.
//!
//! ```text
//! tag,line,mark,kind
//! orders,,4001,segment
//! invoices,20261124,38,segment
//! chats,17,920,sequence
//! ```
//!
//! A line is empty, a period, or a section. A mark is the first number that is not reserved; read, it is the last number
//! that was given, so a list that is read as it was written loses one number of each line. A register must lose none, and
//! its last number is known exactly: that is what the list has of it, and of a line that is used up.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, WriterBuilder};
use mintleaf_core::shape::{Calendar, Kind, Period, PeriodNumber, Shape};
use mintleaf_core::state::{LastNumbers, LineMark, LineName, State};
use mintleaf_core::tag::BizTag;

use super::failure::Failure;
use super::output;
use super::table::shown;
use crate::machine::clock::{Clock, SystemClock};

const HEADER: [&str; 4] = ["tag", "line", "mark", "kind"];
/// Largest list, and most of its rows.
const FILE_BYTES_MAX: u64 = 1 << 30;
const ROWS_MAX: usize = 10_000_000;
/// Rows that are printed at once.
const ROWS_AT_ONCE: usize = 1_000;
const DAY_MS: u64 = 86_400_000;

/// Prints every line of a state.
pub(super) fn print(state: &State) -> Result<(), Failure> {
    let mut text = row(HEADER)?;
    for (at, LineMark { tag, line, mark, line_end, kind }) in state.line_marks().enumerate() {
        let number = match kind {
            Kind::Register => mark.saturating_sub(1),
            // An exhausted line has no number to lose.
            Kind::Segment | Kind::Sequence => mark.min(line_end - 1),
        };
        text += &row([tag.as_str(), &line.listed(), &number.to_string(), kind.name()])?;
        if at % ROWS_AT_ONCE == 0 {
            output::print(&text)?;
            text.clear();
        }
    }
    output::print(&text)
}

fn row(fields: [&str; 4]) -> Result<String, Failure> {
    let cannot = |error: &dyn std::error::Error| Failure::new(format!("cannot write: {error}"));
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(fields).map_err(|error| cannot(&error))?;
    let bytes = writer.into_inner().map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|error| cannot(&error))
}

/// Reads the last numbers of lines, for a cluster that is made of this state.
///
/// # Errors
/// The first row that cannot be understood, with its line in the file.
pub(super) fn read(path: &Path, state: &State) -> Result<BTreeMap<BizTag, LastNumbers>, Failure> {
    let wrong = |at: Option<u64>, why: &str| {
        let at = at.map_or(String::new(), |line| format!(":{line}"));
        Failure::new(format!("{}{at}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| wrong(None, &error.to_string()))?;
    let length = file.metadata().map_or(0, |about| about.len());
    if length > FILE_BYTES_MAX {
        return Err(wrong(None, "it is longer than 1 GiB"));
    }
    let mut reader = ReaderBuilder::new();
    let reader = reader.has_headers(false).flexible(true);
    let mut rows = reader.from_reader(file.take(FILE_BYTES_MAX));
    let mut lasts: BTreeMap<BizTag, LastNumbers> = BTreeMap::new();
    for (number, row) in rows.records().enumerate() {
        let row = row.map_err(|error| {
            wrong(error.position().map(csv::Position::line), "it is not CSV in UTF-8")
        })?;
        let at = row.position().map(csv::Position::line);
        if number == 0 && HEADER.iter().zip(&row).all(|(name, cell)| *name == cell) {
            continue;
        }
        if number > ROWS_MAX {
            return Err(wrong(at, "there are more than 10,000,000 rows"));
        }
        let (tag, line, last) = understood(&row, state).map_err(|why| wrong(at, &why))?;
        let of_tag = lasts.entry(tag).or_default();
        if of_tag.insert(line, last).is_some() {
            return Err(wrong(at, &format!("{} with its {line} is there twice", shown(&row[0]))));
        }
    }
    match lasts.is_empty() {
        true => Err(wrong(None, "it has no rows")),
        false => Ok(lasts),
    }
}

/// The line of a row, and the last number of it.
fn understood(row: &StringRecord, state: &State) -> Result<(BizTag, LineName, u64), String> {
    let [tag, line, last, kind @ ..] = &row.iter().collect::<Vec<_>>()[..] else {
        return Err(format!("a row is {}", HEADER.join(",")));
    };
    let tag = BizTag::parse(tag).map_err(|error| error.to_string())?;
    let last = last.parse().map_err(|_| {
        format!("{} is not the last number of {}", shown(last), shown(tag.as_str()))
    })?;
    let shape = state.shape(tag.as_str()).map_or(Shape::plain(), |shape| &**shape);
    let has = shape.kind;
    match kind {
        [] => {}
        [kind] if kind.is_empty() || *kind == has.name() => {}
        [kind] => {
            return Err(format!(
                "{} is a {} in the copy, and not a {}",
                shown(tag.as_str()),
                has.name(),
                shown(kind)
            ));
        }
        _ => return Err(format!("a row is {}", HEADER.join(","))),
    }
    let name = LineName::of_list(line, shape)
        .ok_or_else(|| format!("{} is no line of {}", shown(line), shown(tag.as_str())))?;
    if let (LineName::Period(number), Some(period)) = (name, &shape.period)
        && is_to_come(number, period, state)
    {
        return Err(format!("period {line} of {} has not begun", shown(tag.as_str())));
    }
    Ok((tag, name, last))
}

/// Whether a period begins more than a day from now. A strict tag would refuse every period before it.
fn is_to_come(number: PeriodNumber, period: &Period, state: &State) -> bool {
    let now_ms = SystemClock::default().now_ms().max(state.clock_ms());
    let latest = Calendar::of(period).and_then(|calendar| calendar.period_at(now_ms + DAY_MS));
    latest.is_some_and(|latest| number > latest.number)
}
