//! `mintleaf audit`: who changed what.

use clap::Args;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, print_json, print_table};
use super::table::TextTable;

/// Entries fetched with one request.
const PAGE: u64 = 1_000;

/// Which admin changes.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// Begin after this entry, in the printed order
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Stop after this many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print the newest entry first instead of the oldest one kept
    #[arg(long)]
    newest: bool,
    /// Show every column and times to the millisecond, even if the terminal is too narrow
    #[arg(long)]
    wide: bool,
}

pub(super) async fn run(args: &AuditArgs, client: &Client) -> Result<(), Failure> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    let order = if args.newest { "newest" } else { "oldest" };
    let mut after = args.after;
    let mut entries = Vec::new();
    while left > 0 {
        let mut path = format!("/v1/audit?limit={}&sort={order}", left.min(PAGE));
        if let Some(after) = after {
            path.push_str(&format!("&after={after}"));
        }
        let page = client.get(&path).await?;
        let found = page["entries"].as_array().cloned().unwrap_or_default();
        left -= left.min(found.len() as u64);
        entries.extend(found);
        match page["next"].as_u64() {
            next @ Some(_) => after = next,
            None => break,
        }
    }
    if client.json {
        print_json(&Value::Array(entries))
    } else {
        print_table(&table(&entries, args.wide))
    }
}

fn table(entries: &[Value], is_wide: bool) -> TextTable<7> {
    let mut table =
        TextTable::new(["INDEX", "TIME", "ACTOR", "ACTION", "TARGET", "BEFORE", "AFTER"])
            .numbers(&["INDEX"])
            .wrapped(&["BEFORE", "AFTER"])
            .dispensable(&["INDEX", "BEFORE"])
            .shortened(&["ACTOR", "TARGET"])
            .wide(is_wide);
    for entry in entries {
        let [index, time, actor, action, target] =
            ["index", "time", "actor", "action", "target"].map(|field| cell(entry, field));
        let time = if is_wide { time } else { to_the_second(&time) };
        let (before, after) = (&entry["before"], &entry["after"]);
        let [before, after] = [facts(before, after), facts(after, before)];
        table.row([index, time, actor, action, target, before, after]);
    }
    table
}

/// A time without its fraction of a second.
fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((second, _)) => format!("{second}Z"),
        None => time.to_owned(),
    }
}

/// The facts of one side of a change, without those that the other side has too. Where there is no other side, without
/// those that only say that something is not there.
fn facts(side: &Value, other: &Value) -> String {
    let Value::Object(facts) = side else { return "-".to_owned() };
    let says_something = |(name, value): &(&String, &Value)| match other.get(name.as_str()) {
        Some(others) => others != *value,
        None => other.is_object() || !is_nothing(value),
    };
    let told = facts.iter().filter(says_something).map(|(name, value)| format!("{name}={value}"));
    match told.collect::<Vec<_>>().join(" ") {
        none if none.is_empty() => "-".to_owned(),
        told => told,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value == false || value == ""
}
