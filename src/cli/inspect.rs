//! `mintleaf inspect`: what a backup or a stopped node's directory holds.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::Failure;
use super::marks;
use super::output::{self, cell};
use super::progress::{Progress, Unit};
use super::table::TextTable;
use super::temporary::Temporary;
use crate::machine::entropy;
use crate::replica::restore::{CopySource, inspect, read_copy};
use crate::text::timestamp::rfc3339;

/// What to inspect.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  mintleaf inspect mintleaf-backup\n  mintleaf inspect --marks mintleaf-backup > marks.csv\n\nOf several directories of one cluster, take the one with the highest log_term, then log_leader, then log_index: it holds the most of what was acknowledged. Nothing is written to the source. The exit code is 1 if it is not whole."
)]
pub struct InspectArgs {
    /// A backup, or the data directory of a stopped node
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// List every line of every tag with its mark, as CSV
    #[arg(long, conflicts_with = "json")]
    marks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let name = entropy::random_u128().map_err(|error| Failure::new(error.to_string()))?;
    let scratch = std::env::temp_dir().join(format!("mintleaf-inspect-{name:032x}"));
    let scratch = Temporary::at(scratch).map_err(|error| Failure::new(error.to_string()))?;
    let mut progress = progress(&args.source);
    if args.marks {
        let copy = read_copy(&args.source, scratch.path(), &mut |done| progress.at(done));
        drop(progress);
        return marks::print(&copy.map_err(|error| Failure::new(error.to_string()))?.state);
    }
    let found = inspect(&args.source, scratch.path(), &mut |done| progress.at(done));
    drop(progress);
    let found = found.map_err(|error| Failure::new(error.to_string()))?;
    let mut shown = shown(found.origin.as_ref(), found.damage.is_none());
    shown["root_key"] = found.root_key.into();
    if args.json {
        output::print_json(&shown)?;
    } else {
        let mut table = TextTable::new(["FIELD", "VALUE"]);
        for field in FIELDS {
            table.row([field.to_owned(), cell(&shown, field)]);
        }
        output::print_table(&table)?;
    }
    match found.damage {
        None => Ok(()),
        Some(damage) => Err(Failure::new(damage.to_string())),
    }
}

/// A report of how far the reading of a source has come.
pub(super) fn progress(source: &std::path::Path) -> Progress {
    let unit = if source.is_dir() { Unit::Entries } else { Unit::Bytes };
    Progress::new("read", unit)
}

const FIELDS: [&str; 11] = [
    "cluster_id",
    "node_id",
    "log_term",
    "log_leader",
    "log_index",
    "level",
    "version",
    "taken_at",
    "tags",
    "root_key",
    "whole",
];

fn shown(origin: Option<&CopySource>, whole: bool) -> Value {
    let Some(origin) = origin else {
        let mut shown: Value = FIELDS.iter().map(|field| (*field, Value::Null)).collect();
        shown["whole"] = whole.into();
        return shown;
    };
    json!({
        "cluster_id": origin.cluster_id.map(|id| format!("{id:032x}")),
        "node_id": origin.node_id,
        "log_term": origin.log_term,
        "log_leader": origin.log_leader,
        "log_index": origin.log_index,
        "level": origin.level,
        "version": origin.version,
        "taken_at": rfc3339(origin.taken_at_ms),
        "tags": origin.tags,
        "whole": whole,
    })
}
