//! `mintleaf worker`: which node holds which worker id of snowflakes.

use clap::Subcommand;
use serde_json::Value;

use super::connect::Connect;
use super::failure::Failure;
use super::output::{cell, print_json, print_styled};
use super::table::TextTable;
use crate::text::timestamp::rfc3339;

/// What can be done with worker ids.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List every worker id that was ever used: which node holds it, and until when
    #[command(after_help = "Example:\n  mintleaf worker list")]
    List,
}

pub(super) async fn run(command: &WorkerCommand, connect: Connect) -> Result<(), Failure> {
    let client = connect.open()?;
    let WorkerCommand::List = command;
    let workers = client.get("/v1/workers").await?;
    if client.json { print_json(&workers) } else { print_styled(&text(&workers)) }
}

fn text(workers: &Value) -> String {
    let [layout, pool] = ["layout", "pool"].map(|field| cell(workers, field));
    let heading = format!("layout {layout}, worker ids {pool}");
    let rows = workers["workers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return format!("{heading}: none was ever used\n");
    }
    let mut table = TextTable::new(["WORKER", "STATE", "NODE", "UNTIL", "SINCE"])
        .numbers(&["WORKER", "NODE"])
        .dispensable(&["SINCE"]);
    for row in rows {
        let time = |field: &str| row[field].as_u64().map_or("-".to_owned(), rfc3339);
        let [worker, state, node] = ["worker_id", "state", "node_id"].map(|field| cell(row, field));
        table.row([worker, state, node, time("fence_ms"), time("floor_ms")]);
    }
    format!("{heading}\n\n{}", table.styled())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_worker_id_is_shown_with_its_holder_and_the_end_of_its_window() {
        let row = json!({"worker_id": 7, "state": "held", "node_id": 2, "floor_ms": 0, "fence_ms": 60_000});
        let mut workers = json!({"layout": "41+10+12", "pool": "0-1023", "workers": [row]});
        let shown = anstream::adapter::strip_str(&text(&workers)).to_string();
        assert!(
            shown.starts_with("layout 41+10+12, worker ids 0-1023\n\nWORKER  STATE"),
            "{shown}"
        );
        assert!(shown.contains("     7  held      2  1970-01-01T00:01:00.000Z"), "{shown}");
        workers["workers"] = json!([]);
        assert!(text(&workers).ends_with("none was ever used\n"));
    }
}
