//! `mintleaf next` and `mintleaf snowflake` take ids; `mintleaf snowflake-floor` keeps snowflake ids above one.

use std::fmt::Write;

use clap::Args;
use hyper::Method;
use mintleaf_core::shape::Kind;
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, confirm, print, print_json};
use super::table::{shown, word};
use crate::limits::LISTED_IDS_MAX;
use crate::text::path_segment;

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

/// Which snowflake ids to take.
#[derive(Args, Debug)]
pub struct SnowflakeArgs {
    /// How many ids, up to 1,000,000
    #[arg(short = 'n', long, default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
}

/// The id above which snowflake ids shall lie.
#[derive(Args, Debug)]
pub struct FloorArgs {
    /// The snowflake id
    #[arg(value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    id: u64,
    /// Accept an id more than an hour ahead: no snowflake ids are given until its time has come, and this cannot be
    /// undone
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) async fn next(args: &NextArgs, client: &Client) -> Result<(), Failure> {
    let path = format!("/v1/segment/{}", path_segment::escape(&args.tag));
    let first = listed(&path, args.count.min(LISTED_IDS_MAX), client).await;
    let (mut ids, answer) = first.map_err(|refused| explained(refused, &args.tag))?;
    while (ids.len() as u64) < args.count {
        let rest = args.count - ids.len() as u64;
        // The ends of a range do not determine formatted or hidden ids, so they come as a list.
        ids.extend(match answer["lease"] == false {
            true => listed(&path, rest.min(LISTED_IDS_MAX), client).await?.0,
            false => take(&path, rest, client).await?.iter().map(u64::to_string).collect(),
        });
    }
    if !client.json {
        return list(&ids);
    }
    let mut taken = json!({ "tag": args.tag, "ids": ids });
    if answer["lease"] == false {
        taken["lease"] = false.into();
    }
    // Ids of several answers may belong to several periods.
    if let (Some(period), true) = (answer.get("period"), args.count <= LISTED_IDS_MAX) {
        taken["period"] = period.clone();
    }
    print_json(&taken)
}

/// Why no id of a tag was given, with the command that helps.
fn explained(refused: Failure, tag: &str) -> Failure {
    // A tag is found under another path where it is of another kind.
    let other_kind = ["sequence", "register"]
        .into_iter()
        .find(|kind| refused.is("not_found") && refused.detail.contains(&format!("is a {kind}")));
    match other_kind {
        Some(kind) => Failure::hinting(
            format!("{} is a {kind}: its numbers belong to keys", shown(tag)),
            format!("mintleaf {kind} next {} KEY takes one", word(tag)),
        ),
        None => refused.about_tag(tag, Kind::Segment),
    }
}

/// The answer with a list of ids, and the ids in it.
async fn listed(path: &str, count: u64, client: &Client) -> Result<(Vec<String>, Value), Failure> {
    let answer = client.get(&format!("{path}?count={count}")).await?;
    let ids = answer["ids"].as_array().ok_or_else(not_understood)?;
    let ids: Option<Vec<String>> = ids.iter().map(|id| id.as_str().map(str::to_owned)).collect();
    let ids = ids.filter(|ids| ids.len() as u64 == count).ok_or_else(not_understood)?;
    Ok((ids, answer))
}

pub(super) async fn snowflake(args: &SnowflakeArgs, client: &Client) -> Result<(), Failure> {
    let ids = take("/v1/snowflake", args.count, client).await?;
    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
    if client.json { print_json(&json!({ "ids": ids })) } else { list(&ids) }
}

pub(super) async fn raise_floor(args: &FloorArgs, client: &Client) -> Result<(), Failure> {
    let question = format!(
        "Give no snowflake id any more that shows an earlier time than {}? This cannot be undone.",
        args.id
    );
    confirm(&question, args.yes)?;
    let mut body = json!({ "id": args.id.to_string() });
    if args.force {
        body["force"] = json!(true);
    }
    let answer = client.change(Method::POST, "/v1/snowflake/floor", Some(&body)).await?;
    client.show(&answer, || {
        format!("no snowflake id given from now on shows a time before {}\n", cell(&answer, "time"))
    })
}

/// Takes exactly `count` ids. They come as ranges, which stay short for any number of ids.
pub(super) async fn take(path: &str, count: u64, client: &Client) -> Result<Vec<u64>, Failure> {
    let answer = client.get(&format!("{path}?format=ranges&count={count}")).await?;
    let ranges = answer["ranges"].as_array().ok_or_else(not_understood)?;
    let mut ids = Vec::new();
    for range in ranges {
        let bound = |name: &str| range[name].as_str()?.parse::<u64>().ok();
        let (Some(start), Some(end)) = (bound("start"), bound("end")) else {
            return Err(not_understood());
        };
        if end.saturating_sub(start) > count {
            return Err(not_understood());
        }
        ids.extend(start..end);
    }
    if ids.len() as u64 == count { Ok(ids) } else { Err(not_understood()) }
}

pub(super) fn list(ids: &[String]) -> Result<(), Failure> {
    let mut lines = String::with_capacity(ids.len() * 20);
    for id in ids {
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "{}", shown(id));
    }
    print(&lines)
}

fn not_understood() -> Failure {
    Failure::new("the node did not answer with as many ids as were asked for")
}
