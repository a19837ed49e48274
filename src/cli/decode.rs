//! `mintleaf decode`: a snowflake id taken apart, by a node or without one.

use clap::Args;
use mintleaf_core::snowflake::{Format, Layout};
use serde_json::{Value, json};

use super::connect::Connect;
use super::failure::Failure;
use super::output::{cell, print_json, print_table, warn};
use super::table::TextTable;
use crate::text::timestamp::rfc3339;

/// The id, and the layout and epoch to read it by.
#[derive(Args, Debug)]
pub struct DecodeArgs {
    /// The id
    #[arg(value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    id: u64,
    /// Bits of time, worker id and sequence; if given, no node is asked [default: 41+10+12]
    #[arg(long, value_name = "BITS")]
    layout: Option<Layout>,
    /// Origin of the times, Unix milliseconds; if given, no node is asked [default: 1288834974657]
    #[arg(long, value_name = "N")]
    epoch_ms: Option<u64>,
    /// Ask no node; assume the default layout and epoch
    #[arg(long)]
    offline: bool,
}

pub(super) async fn run(args: &DecodeArgs, connect: Connect) -> Result<(), Failure> {
    let json = connect.json();
    if args.offline || args.layout.is_some() || args.epoch_ms.is_some() {
        return show(&here(args)?, json);
    }
    let client = connect.open()?;
    match client.get(&format!("/v1/snowflake/{}", args.id)).await {
        Ok(parts) => show(&parts, json),
        Err(failure) if failure.is_unanswered() => {
            let parts = here(args)?;
            warn(&format!(
                "{}; assumed layout {} and epoch {}: --layout and --epoch-ms name others",
                failure.detail,
                cell(&parts, "layout"),
                cell(&parts, "epoch_ms")
            ));
            show(&parts, json)
        }
        Err(refused) => Err(refused),
    }
}

/// What the id says by the layout and the epoch that are given, or by the defaults of clusters.
fn here(args: &DecodeArgs) -> Result<Value, Failure> {
    let layout = args.layout.unwrap_or(Layout::LEAF);
    let epoch_ms = args.epoch_ms.unwrap_or(Format::LEAF.epoch_ms());
    let format = Format::new(layout, epoch_ms)
        .map_err(|why| Failure::new(format!("--epoch-ms {epoch_ms} {why}")))?;
    let parts = format.decode(args.id).ok_or_else(|| {
        Failure::new(format!(
            "{} is not a snowflake id of layout {layout}: it has more bits",
            args.id
        ))
    })?;
    Ok(json!({
        "id": args.id.to_string(),
        "timestamp_ms": parts.time_ms,
        "time": rfc3339(parts.time_ms),
        "worker_id": parts.worker_id,
        "sequence": parts.sequence,
        "layout": layout.to_string(),
        "epoch_ms": epoch_ms,
    }))
}

fn show(parts: &Value, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(parts);
    }
    let mut table = TextTable::new(["ID", "TIME", "TIMESTAMP_MS", "WORKER_ID", "SEQUENCE"])
        .numbers(&["ID", "TIMESTAMP_MS", "WORKER_ID", "SEQUENCE"])
        .dispensable(&["TIMESTAMP_MS"]);
    table.row(["id", "time", "timestamp_ms", "worker_id", "sequence"].map(|f| cell(parts, f)));
    print_table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(layout: Option<&str>, epoch_ms: Option<u64>) -> DecodeArgs {
        let layout = layout.map(|bits| bits.parse().unwrap());
        DecodeArgs { id: 2_123_687_164_758_723_980, layout, epoch_ms, offline: false }
    }

    #[test]
    fn an_id_is_taken_apart_without_a_node() {
        let parts = here(&args(None, None)).unwrap();
        assert_eq!(parts["time"], "2026-11-20T07:57:30.935Z");
        assert_eq!((&parts["worker_id"], &parts["sequence"]), (&json!(0), &json!(3468)));
        let later = here(&args(None, Some(1_288_834_974_657 + 1_000))).unwrap();
        assert_eq!(later["time"], "2026-11-20T07:57:31.935Z");
    }

    #[test]
    fn an_id_that_is_too_long_for_the_layout_is_refused() {
        let refused = here(&args(Some("41+6+6"), None)).unwrap_err();
        assert!(refused.detail.contains("layout 41+6+6"), "{}", refused.detail);
    }
}
