//! `mintleaf import`: the tags of Leaf or tinyid, taken over as they left them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mintleaf_core::limits::ID_END;
use mintleaf_core::tag::BizTag;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use super::client::Client;
use super::failure::Failure;
use super::output;
use super::progress::{Progress, Unit};
use crate::leaf_tables::{self, FILE_BYTES_MAX, Fault, Row};
use crate::limits::IMPORT_TAGS_MAX;
use crate::machine::entropy::random_hex;

/// Bytes of the rows of one request: a node takes 64 KiB.
const REQUEST_BYTES: usize = 48 * 1024;
/// Rows of one request: as many as a node imports by one proposal.
const REQUEST_ROWS: usize = 64;
const _: () = assert!(REQUEST_ROWS <= IMPORT_TAGS_MAX);
/// Bytes of a row besides its texts, at most.
const ROW_BYTES: usize = 100;
/// Requests under way: enough that no node waits for the next, and few beside what a node can have under way.
const REQUESTS_AT_ONCE: usize = 4;
/// How often rows are sent again if the cluster had no time for them, and the pause before.
const RETRIES: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Faults and pairs that are printed; the others are only counted.
const SHOWN_MAX: usize = 100;
/// Longest part of a file's name that the audit shows.
const NAME_CHARS_SHOWN: usize = 100;

/// What to import.
#[derive(clap::Args, Debug)]
pub struct ImportArgs {
    /// A mysqldump of leaf_alloc, or CSV or TSV with a header; `-` for standard input
    file: PathBuf,
    /// Show what would be done, without doing it
    #[arg(long)]
    dry_run: bool,
    /// Begin every tag this many ids higher than the file says
    #[arg(long, value_name = "N", default_value_t = 0)]
    advance_all_by: u64,
}

/// What has been done, or would be.
#[derive(Debug, Default)]
struct Report {
    created: u64,
    raised: u64,
    unchanged: u64,
    faults: Vec<Fault>,
}

pub(super) async fn run(args: ImportArgs, client: Client) -> Result<(), Failure> {
    let bytes = contents(&args.file)?;
    let unfit = |why: &dyn std::fmt::Display| {
        Failure::new(format!("{} cannot be imported: {why}", args.file.display()))
    };
    let mut table = leaf_tables::read(&bytes).map_err(|error| unfit(&error))?;
    drop(bytes);
    if table.lacks_end {
        output::warn(&format!(
            "{} lacks the last line of a dump, \"-- Dump completed\": if it was cut off behind a whole statement, tags are \
             missing, and begin at 1 where nodes create them on first use",
            args.file.display()
        ));
    }
    if table.rows.is_empty() && table.faults.is_empty() {
        return Err(unfit(&"it has no rows, so there is nothing to import"));
    }
    let mut report = Report { faults: std::mem::take(&mut table.faults), ..Report::default() };
    let rows = advanced(table.rows, args.advance_all_by, &mut report.faults);
    let pairs: Vec<(String, String)> = leaf_tables::pairs_of_leaf(&rows)
        .into_iter()
        .map(|(one, other)| (one.to_owned(), other.to_owned()))
        .collect();
    let import = name(&args.file)?;
    let sending = send(&client, &import, args.dry_run, rows, &mut report);
    LocalSet::new().run_until(sending).await?;
    report.faults.sort_by_key(|fault| fault.line);
    let as_text = || as_text(&report, &pairs, args.dry_run);
    client.show(&as_json(&report, &pairs, args.dry_run), as_text)?;
    match (report.faults.len(), args.dry_run) {
        (0, _) => Ok(()),
        (1, true) => Err(Failure::new("1 row cannot be imported; all others can")),
        (rows, true) => {
            Err(Failure::new(format!("{rows} rows cannot be imported; all others can")))
        }
        (1, false) => Err(Failure::new("1 row was not imported; all others were")),
        (rows, false) => {
            Err(Failure::new(format!("{rows} rows were not imported; all others were")))
        }
    }
}

fn contents(file: &Path) -> Result<Vec<u8>, Failure> {
    let from: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(|error| unread(file, &error))?),
    };
    let mut bytes = Vec::new();
    let read = from.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unread(file, &error))?;
    if bytes.len() > FILE_BYTES_MAX {
        let why =
            format!("it is longer than {} MiB: dump the one table only", FILE_BYTES_MAX >> 20);
        return Err(Failure::new(format!("{} cannot be imported: {why}", file.display())));
    }
    Ok(bytes)
}

fn unread(file: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", file.display()))
}

/// The rows, each with a mark that is higher by `by` ids.
fn advanced(rows: Vec<Row>, by: u64, faults: &mut Vec<Fault>) -> Vec<Row> {
    let raise = |mut row: Row| match row.max_id.checked_add(by).filter(|mark| *mark <= ID_END) {
        Some(mark) => {
            row.max_id = mark;
            Some(row)
        }
        None => {
            let detail = format!("tag {:?}: max_id plus {by} is more than 2^63", row.tag.as_str());
            faults.push(Fault { line: row.line, detail });
            None
        }
    };
    rows.into_iter().filter_map(raise).collect()
}

/// The name of this import in the audit: the file's name, and one of this run.
fn name(file: &Path) -> Result<String, Failure> {
    let run = random_hex::<4>().map_err(|error| Failure::new(error.to_string()))?;
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let shown = file.unwrap_or_default();
    let shown = shown.chars().filter(|c| !c.is_control()).take(NAME_CHARS_SHOWN);
    Ok(format!("{} {run}", shown.collect::<String>()))
}

/// Has the cluster take over all rows, several requests at a time.
///
/// # Errors
/// The errors of the first request that fails as a whole. What was done by then stays done.
async fn send(
    client: &Client,
    import: &str,
    dry_run: bool,
    rows: Vec<Row>,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut progress = Progress::new("imported", Unit::Rows(rows.len() as u64));
    let mut parts = parts(rows);
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() < REQUESTS_AT_ONCE
            && let Some(part) = parts.pop_front()
        {
            let (client, import) = (client.clone(), import.to_owned());
            under_way.spawn_local(async move { send_part(&client, &import, dry_run, part).await });
        }
        let Some(ended) = under_way.join_next().await else { return Ok(()) };
        let part = ended.map_err(|error| Failure::new(format!("a task ended: {error}")))??;
        report.add(part);
        progress.at(report.rows());
    }
}

/// The rows in parts that each fit one request. Rows of one tag follow each other in one part, as far as they fit: a
/// node takes the rows of a request in order, but those of several requests in any order.
fn parts(mut rows: Vec<Row>) -> VecDeque<Vec<Row>> {
    // Where the first row of each tag stands, and how many it has.
    let mut of_tag = BTreeMap::<BizTag, (usize, usize)>::new();
    for (at, row) in rows.iter().enumerate() {
        of_tag.entry(row.tag.clone()).or_insert((at, 0)).1 += 1;
    }
    rows.sort_by_cached_key(|row| of_tag[&row.tag].0);
    let mut parts = VecDeque::<Vec<Row>>::new();
    let mut bytes = 0;
    for row in rows {
        // A character takes six bytes in JSON at most, where it takes one otherwise.
        let row_bytes = ROW_BYTES + json_bytes(row.tag.as_str()) + json_bytes(&row.description);
        bytes += row_bytes;
        let last = parts.back_mut();
        let has_room = |part: &&mut Vec<Row>| {
            let goes_on = part.last().is_some_and(|last| last.tag == row.tag);
            let wanted = if goes_on { 1 } else { of_tag[&row.tag].1.min(REQUEST_ROWS) };
            part.len() + wanted <= REQUEST_ROWS && bytes <= REQUEST_BYTES
        };
        match last.filter(has_room) {
            Some(part) => part.push(row),
            None => {
                bytes = row_bytes;
                parts.push_back(vec![row]);
            }
        }
    }
    parts
}

fn json_bytes(text: &str) -> usize {
    text.bytes().map(|byte| if byte < 0x20 { 6 } else { 2 }).sum()
}

fn body(import: &str, dry_run: bool, rows: &[Row]) -> Value {
    let tag = |row: &Row| {
        json!({
            "tag": row.tag.as_str(),
            "max_id": row.max_id.to_string(),
            "step": row.step,
            "description": row.description,
        })
    };
    let tags: Vec<Value> = rows.iter().map(tag).collect();
    json!({ "import": import, "dry_run": dry_run, "tags": tags })
}

/// Has the cluster take over the rows of one request. Rows that it had no time for are sent again: the second time
/// changes nothing that the first has done, but creates again a tag that was deleted in between.
async fn send_part(
    client: &Client,
    import: &str,
    dry_run: bool,
    mut rows: Vec<Row>,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    for retries_left in (0..=RETRIES).rev() {
        let answer = client.repeatable("/v1/import", &body(import, dry_run, &rows)).await?;
        rows = report.take(rows, &answer, retries_left == 0)?;
        if rows.is_empty() {
            break;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    Ok(report)
}

impl Report {
    /// Notes the outcomes of some rows. Returns the rows to send again, unless this was the last time.
    fn take(&mut self, rows: Vec<Row>, answer: &Value, is_last: bool) -> Result<Vec<Row>, Failure> {
        let outcomes = answer["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
        if outcomes.len() != rows.len() {
            return Err(Failure::new("the node did not say what became of each tag"));
        }
        let mut again = Vec::new();
        for (row, outcome) in rows.into_iter().zip(outcomes) {
            let passes = matches!(outcome["code"].as_str(), Some("unavailable" | "overloaded"));
            match outcome["outcome"].as_str() {
                Some("created") => self.created += 1,
                Some("raised") => self.raised += 1,
                Some("unchanged") => self.unchanged += 1,
                _ if passes && !is_last => again.push(row),
                _ => {
                    let why = outcome["detail"].as_str().unwrap_or("the node refused it");
                    let detail = format!("tag {:?}: {why}", row.tag.as_str());
                    self.faults.push(Fault { line: row.line, detail });
                }
            }
        }
        Ok(again)
    }

    fn add(&mut self, other: Self) {
        let Self { created, raised, unchanged, faults } = other;
        self.created += created;
        self.raised += raised;
        self.unchanged += unchanged;
        self.faults.extend(faults);
    }

    fn rows(&self) -> u64 {
        self.created + self.raised + self.unchanged
    }
}

fn as_json(report: &Report, pairs: &[(String, String)], dry_run: bool) -> Value {
    let Report { created, raised, unchanged, faults } = report;
    let fault = |fault: &Fault| json!({ "line": fault.line, "detail": fault.detail });
    let faults: Vec<Value> = faults.iter().map(fault).collect();
    json!({
        "dry_run": dry_run, "created": created, "raised": raised, "unchanged": unchanged,
        "faults": faults, "pairs": pairs,
    })
}

fn as_text(report: &Report, pairs: &[(String, String)], dry_run: bool) -> String {
    let Report { created, raised, unchanged, faults } = report;
    let mut text = String::new();
    // Writing to a text cannot fail.
    for Fault { line, detail } in faults.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "line {line}: {detail}");
    }
    and_more(&mut text, faults.len());
    for (one, other) in pairs.iter().take(SHOWN_MAX) {
        let _ = writeln!(
            text,
            "warning: {one:?} and {other:?} are two tags here. Leaf's HTTP server gave its callers of {other:?} ids of \
             {one:?}: let them ask for {one:?}, or ids repeat"
        );
    }
    and_more(&mut text, pairs.len());
    let would = if dry_run { "would be " } else { "" };
    let _ = writeln!(
        text,
        "{would}created: {created}, {would}raised: {raised}, unchanged: {unchanged}, with a fault: {}",
        faults.len()
    );
    text
}

fn and_more(text: &mut String, all: usize) {
    if all > SHOWN_MAX {
        let _ = writeln!(text, "… and {} more", all - SHOWN_MAX);
    }
}
