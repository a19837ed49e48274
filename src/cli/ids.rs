//! `mintleaf next`: ids of a tag.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use super::client::{Client, Failure};
use super::output::{print, print_json};
use crate::http::path_segment;

/// Which ids to take.
#[derive(Args, Debug)]
pub struct NextArgs {
    /// The tag's name
    tag: String,
    /// How many ids, up to 1,000,000
    #[arg(short = 'n', long, default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
}

pub(super) async fn run(args: &NextArgs, client: &Client, json: bool) -> Result<(), Failure> {
    let tag = path_segment(&args.tag);
    // Ranges stay short however many ids there are.
    let path = format!("/v1/segment/{tag}?format=ranges&count={}", args.count);
    let answer = client.get(&path).await?;
    let ranges = answer["ranges"].as_array().ok_or_else(not_understood)?;
    let mut ids = Vec::new();
    for range in ranges {
        let bound = |name: &str| range[name].as_str()?.parse::<u64>().ok();
        let (Some(start), Some(end)) = (bound("start"), bound("end")) else {
            return Err(not_understood());
        };
        if end.saturating_sub(start) > args.count {
            return Err(not_understood());
        }
        ids.extend(start..end);
    }
    if json {
        let ids = ids.iter().map(|id| Value::from(id.to_string())).collect::<Vec<_>>();
        return print_json(&json!({ "tag": args.tag, "ids": ids }));
    }
    let mut lines = String::with_capacity(ids.len() * 20);
    for id in ids {
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "{id}");
    }
    print(&lines)
}

fn not_understood() -> Failure {
    Failure::new("the node answered with something other than ranges of ids")
}
