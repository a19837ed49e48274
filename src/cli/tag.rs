//! `mintleaf tag`: create, list, read, change, delete.

use clap::{ArgGroup, Args, Subcommand};
use hyper::Method;
use serde_json::{Map, Value, json};

use super::client::{Client, Failure};
use super::output::{TextTable, cell, print, print_json};
use crate::path_segment;

/// Tags fetched with one request.
const PAGE: u64 = 1_000;

/// What can be done with tags.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Create a tag
    #[command(after_help = "Example:\n  mintleaf tag create orders --step 2000 --start 1000001")]
    Create(CreateArgs),
    /// List tags by name
    List {
        /// Stop after this many; all of them otherwise
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Show one tag
    Get {
        /// The tag's name
        name: String,
    },
    /// Change a tag; what is not given stays
    Update(UpdateArgs),
    /// Delete a tag; created again, it goes on above its old ids
    Delete {
        /// The tag's name
        name: String,
    },
}

/// A new tag.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The tag's name, up to 128 characters
    name: String,
    /// Ids that a node reserves at once [default: 1000]
    #[arg(long)]
    step: Option<u32>,
    /// First id [default: 1]
    #[arg(long, value_name = "ID")]
    start: Option<u64>,
    /// The order of ids: strict over the whole cluster, or growing over time [default: trend]
    #[arg(long, value_name = "trend|strict")]
    order: Option<String>,
    /// One sequence of ids, or a counter for each of any number of keys [default: segment]
    #[arg(long, value_name = "segment|sequence")]
    kind: Option<String>,
    /// Begin at 1 again in every day, month or year
    #[arg(long, value_name = "day|month|year")]
    period: Option<String>,
    /// Where periods begin and end, by its IANA name [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "period")]
    time_zone: Option<String>,
    /// What clients get instead of a bare number, such as INV-{period}-{id:06}
    #[arg(long, value_name = "TEXT")]
    format: Option<String>,
    /// Hide ids: numbers of exactly so many digits, in an order that nobody can guess
    #[arg(long, value_name = "6-18")]
    digits: Option<u8>,
    /// What the tag is for, up to 256 characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// A change to a tag.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)))]
pub struct UpdateArgs {
    /// The tag's name
    name: String,
    /// Ids that a node reserves at once, from the next time on
    #[arg(long, group = "change")]
    step: Option<u32>,
    /// Skip ahead: nothing below this id is reserved any more. Forward only
    #[arg(long, value_name = "ID", group = "change")]
    max_id: Option<u64>,
    /// Ids a second that each node hands out at most; none: any number
    #[arg(long, value_name = "N|none", value_parser = rate_limit, group = "change")]
    rate_limit: Option<RateLimit>,
    /// Whether no node hands out an id
    #[arg(long, value_name = "true|false", group = "change")]
    frozen: Option<bool>,
    /// Skip ahead by more than 2^40 ids, which cannot be undone
    #[arg(long, requires = "max_id")]
    force: bool,
    /// What the tag is for, up to 256 characters
    #[arg(long, value_name = "TEXT", group = "change")]
    description: Option<String>,
}

/// A rate limit as it is sent: a number, or null for none.
#[derive(Clone, Debug)]
struct RateLimit(Value);

fn rate_limit(text: &str) -> Result<RateLimit, String> {
    match text {
        "none" => Ok(RateLimit(Value::Null)),
        text => match text.parse::<u32>() {
            Ok(rate) => Ok(RateLimit(rate.into())),
            Err(_) => Err("is neither a number of ids a second nor none".to_owned()),
        },
    }
}

pub(super) async fn run(command: TagCommand, client: &Client, json: bool) -> Result<(), Failure> {
    match command {
        TagCommand::Create(args) => {
            let start = args.start.map(|id| json!(id.to_string()));
            let body = object([
                ("tag", Some(json!(args.name))),
                ("step", args.step.map(Value::from)),
                ("start", start),
                ("order", args.order.map(Value::from)),
                ("kind", args.kind.map(Value::from)),
                ("period", args.period.map(Value::from)),
                ("time_zone", args.time_zone.map(Value::from)),
                ("format", args.format.map(Value::from)),
                ("digits", args.digits.map(Value::from)),
                ("description", args.description.map(Value::from)),
            ]);
            show(&client.change(Method::POST, "/v1/tags", Some(&body)).await?, json)
        }
        TagCommand::List { limit } => list(client, limit, json).await,
        TagCommand::Get { name } => show(&client.get(&path(&name)).await?, json),
        TagCommand::Update(args) => {
            let body = object([
                ("step", args.step.map(Value::from)),
                ("max_id", args.max_id.map(|id| json!(id.to_string()))),
                ("description", args.description.map(Value::from)),
                ("rate_limit", args.rate_limit.map(|RateLimit(rate)| rate)),
                ("frozen", args.frozen.map(Value::from)),
                ("force", args.force.then_some(json!(true))),
            ]);
            show(&client.change(Method::PATCH, &path(&args.name), Some(&body)).await?, json)
        }
        TagCommand::Delete { name } => {
            client.change(Method::DELETE, &path(&name), None).await?;
            if json { Ok(()) } else { print(&format!("deleted {name}\n")) }
        }
    }
}

fn path(name: &str) -> String {
    format!("/v1/tags/{}", path_segment::escape(name))
}

/// The fields that were given.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

async fn list(client: &Client, limit: Option<u64>, json: bool) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut tags = Vec::new();
    let mut after = String::new();
    while left > 0 {
        let page = client.get(&format!("/v1/tags?limit={}{after}", left.min(PAGE))).await?;
        let found = page["tags"].as_array().cloned().unwrap_or_default();
        left -= left.min(found.len() as u64);
        tags.extend(found);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", path_segment::escape(next)),
            None => break,
        }
    }
    if json { print_json(&Value::Array(tags)) } else { print(&table(&tags)) }
}

fn show(tag: &Value, json: bool) -> Result<(), Failure> {
    if json { print_json(tag) } else { print(&table(std::slice::from_ref(tag))) }
}

fn table(tags: &[Value]) -> String {
    let head = ["TAG", "MAX_ID", "STEP", "RATE_LIMIT", "FROZEN", "UPDATED", "DESCRIPTION"];
    let fields = ["tag", "max_id", "step", "rate_limit", "frozen", "updated_at", "description"];
    let mut table = TextTable::new(head);
    for tag in tags {
        table.row(fields.map(|field| cell(tag, field)));
    }
    table.to_string()
}
