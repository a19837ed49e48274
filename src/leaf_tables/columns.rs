//! What the columns of a row mean.

use mintleaf_core::limits::{DESCRIPTION_CHARS_MAX, ID_MAX, STEP_DEFAULT, STEP_MAX};
use mintleaf_core::tag::{BizTag, exceeds};

use super::table::{Fault, Row, shown};

/// Which system a table is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum System {
    /// `max_id` is the first id that was not given.
    Leaf,
    /// `max_id` is the last id that was given, and ids rise by `delta`.
    Tinyid,
}

/// Where the needed columns are in a row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Columns {
    system: System,
    count: usize,
    tag: usize,
    max_id: usize,
    step: Option<usize>,
    description: Option<usize>,
    delta: Option<usize>,
}

/// One value of a row; `None` is NULL.
pub(super) type Value<'a> = Option<std::borrow::Cow<'a, [u8]>>;

impl Columns {
    /// The columns with these names; `None` if they are of no known table.
    pub(super) fn named<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let names: Vec<String> = names
            .into_iter()
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .collect();
        let at = |wanted: &str| names.iter().position(|name| name == wanted);
        let (system, tag) = match (at("biz_tag"), at("biz_type")) {
            (Some(tag), _) => (System::Leaf, tag),
            (None, Some(tag)) => (System::Tinyid, tag),
            (None, None) => return None,
        };
        let description = at("description").filter(|_| system == System::Leaf);
        let delta = at("delta").filter(|_| system == System::Tinyid);
        let (max_id, step) = (at("max_id")?, at("step"));
        Some(Self { system, count: names.len(), tag, max_id, step, description, delta })
    }

    /// The columns of a table of this name, as Leaf and tinyid make it themselves.
    pub(super) fn usual(table: &[u8]) -> Option<Self> {
        let names: &[&str] = match table {
            table if table.starts_with(b"leaf_alloc") => {
                &["biz_tag", "max_id", "step", "description", "update_time"]
            }
            table if table.starts_with(b"tiny_id_info") => &[
                "id",
                "biz_type",
                "begin_id",
                "max_id",
                "step",
                "delta",
                "remainder",
                "create_time",
                "update_time",
                "version",
            ],
            _ => return None,
        };
        Self::named(names.iter().map(|name| name.as_bytes()))
    }

    /// Reads a row.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn row(&self, line: u64, values: &[Value<'_>]) -> Result<Row, Fault> {
        self.read(line, values).map_err(|detail| Fault { line, detail })
    }

    fn read(&self, line: u64, values: &[Value<'_>]) -> Result<Row, String> {
        if values.len() != self.count {
            return Err(format!("has {} values for {} columns", values.len(), self.count));
        }
        let of = |at: usize| values[at].as_deref();
        let name = text("the tag", of(self.tag).unwrap_or_default())?;
        let tag = BizTag::parse(name).map_err(|error| error.to_string())?;
        let about = |fault: String| format!("tag {}: {fault}", shown(name.as_bytes()));
        if let Some(delta) = self.delta {
            let delta = number("delta", of(delta)).map_err(about)?;
            if delta != 1 {
                return Err(about(format!("delta is {delta}, and ids here rise by 1 only")));
            }
        }
        let last = number("max_id", of(self.max_id)).map_err(about)?;
        let max_id = match self.system {
            System::Leaf => last.max(1),
            System::Tinyid => last + 1,
        };
        let step = match self.step {
            None => STEP_DEFAULT,
            Some(at) => {
                let step = number("step", of(at)).map_err(about)?;
                let fits = u32::try_from(step).ok().filter(|step| (1..=STEP_MAX).contains(step));
                fits.ok_or_else(|| about(format!("step must be 1 to {STEP_MAX}, and is {step}")))?
            }
        };
        let description = self.description.and_then(of).unwrap_or_default();
        let description = text("description", description).map_err(about)?.to_owned();
        if exceeds(&description, DESCRIPTION_CHARS_MAX) {
            let bound = format!("description must have at most {DESCRIPTION_CHARS_MAX} characters");
            return Err(about(bound));
        }
        Ok(Row { line, tag, max_id, step, description })
    }
}

fn text<'a>(what: &str, value: &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(value).map_err(|_| format!("{what} is not UTF-8: {}", shown(value)))
}

/// A number from 0 to [`ID_MAX`].
fn number(what: &str, value: Option<&[u8]>) -> Result<u64, String> {
    let bound = |shown: &str| format!("{what} must be a number from 0 to {ID_MAX}, and is {shown}");
    let Some(value) = value else { return Err(bound("NULL")) };
    let digits = value.trim_ascii();
    let is_decimal = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_decimal);
    let number = number.and_then(|digits| digits.parse().ok());
    number.filter(|number| *number <= ID_MAX).ok_or_else(|| bound(&shown(value)))
}
