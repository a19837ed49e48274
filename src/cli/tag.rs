//! `mintleaf tag`: create, list, read, change, delete.
//!
//! ```text
//! many   one change of many tags
//! ```

pub(super) mod many;

use clap::{ArgGroup, Args, Subcommand};
use hyper::Method;
use mintleaf_core::limits::{DOUBLE_EXACT_MAX, ID_END};
use mintleaf_core::shape::{Kind, Order, PeriodLength};
use serde_json::{Map, Value, json};

use self::many::{beginning, path};
use super::client::Client;
use super::failure::Failure;
use super::output::{cell, confirm, print, print_json, print_table, warn};
use super::table::{TextTable, shown};
use crate::config::nearest;
use crate::text::path_segment;

/// What can be done with tags.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Create a tag
    #[command(
        after_help = "Examples:\n  mintleaf tag create orders --step 2000 --start 1000001\n  mintleaf \
                            tag create orders --if-not-exists\n  mintleaf tag create invoices --order strict --period \
                            year --format 'INV-{period}-{id:06}'"
    )]
    Create(CreateArgs),
    /// List tags by name
    #[command(after_help = "Example:\n  mintleaf tag list --prefix pay --limit 20")]
    List {
        /// Only tags whose names begin with this
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        prefix: String,
        /// Stop after this many [default: all]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        /// Show names and formats whole, even if the terminal is too narrow
        #[arg(long)]
        wide: bool,
    },
    /// Show one tag
    #[command(after_help = "Example:\n  mintleaf tag get orders --json")]
    Get {
        /// The tag's name
        name: String,
    },
    /// Change a tag, or all tags that begin with a prefix; what is not given stays the same
    #[command(
        after_help = "Examples:\n  mintleaf tag update orders --step 5000 --description 'card payments'\n  \
                            mintleaf tag update orders --rate-limit 50000\n  mintleaf tag update --prefix pay --frozen \
                            true\n\nOn a terminal, --max-id asks for confirmation; elsewhere it wants --yes."
    )]
    Update(UpdateArgs),
    /// Freeze a tag, all that begin with a prefix, or all of them: no node hands out its ids
    #[command(
        after_help = "Examples:\n  mintleaf tag freeze orders\n  mintleaf tag freeze --prefix pay\n  mintleaf tag freeze \
                            --all\n\nThe way back: mintleaf tag \
                            update orders --frozen false, or, for all of them, mintleaf tag update --prefix '' --frozen \
                            false. Tags that are created later are not frozen."
    )]
    Freeze {
        /// The tag's name
        #[arg(required_unless_present_any = ["all", "prefix"], conflicts_with_all = ["all", "prefix"])]
        name: Option<String>,
        /// All tags
        #[arg(long, conflicts_with = "prefix")]
        all: bool,
        /// All tags whose names begin with this
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
    },
    /// Delete a tag; created again, it continues above its old ids
    #[command(
        after_help = "Example:\n  mintleaf tag delete orders\n\nOn a terminal, it asks for confirmation; elsewhere \
                      it wants --yes."
    )]
    Delete {
        /// The tag's name
        name: String,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

/// A new tag.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// The tag's name, up to 128 characters
    name: String,
    /// Ids that a node reserves at once, 1 to 2147483647 [default: 1000; 10 with a period or a format]
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Maximum number of ids that a node reserves at once, however busy the tag is [default: grows with use]
    #[arg(long, value_name = "N")]
    step_max: Option<u64>,
    /// First id, 1 to 2^63-1 [default: 1]
    #[arg(long, value_name = "ID")]
    start: Option<u64>,
    /// Order of ids: strict over the whole cluster, or a rising trend [default: trend]
    #[arg(long, value_name = names(Order::ALL.map(Order::name)))]
    #[arg(value_parser = Order::ALL.map(Order::name), hide_possible_values = true)]
    order: Option<String>,
    /// Ids; a counter for each of any number of keys; or numbers without a gap, each given to a key for good [default:
    /// segment]
    #[arg(long, value_name = names(Kind::ALL.map(Kind::name)))]
    #[arg(value_parser = Kind::ALL.map(Kind::name), hide_possible_values = true)]
    kind: Option<String>,
    /// Start again at 1 every day, month or year
    #[arg(long, value_name = names(PeriodLength::ALL.map(PeriodLength::name)))]
    #[arg(value_parser = PeriodLength::ALL.map(PeriodLength::name), hide_possible_values = true)]
    period: Option<String>,
    /// IANA time zone in which periods begin and end [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "period")]
    time_zone: Option<String>,
    /// What clients get instead of a bare number, such as INV-{period}-{id:06}
    #[arg(long, value_name = "TEXT")]
    format: Option<String>,
    /// Hide ids: numbers of exactly this many digits, in an unpredictable order
    #[arg(long, value_name = "6-18")]
    digits: Option<u8>,
    /// What the tag is for, up to 256 characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Maximum number of ids per second that each node hands out, 1 to 1000000000 [default: none, which is no limit]
    #[arg(long, value_name = "N|none", value_parser = number_or_none)]
    rate_limit: Option<NumberOrNone>,
    /// Whether the tag is frozen: no node hands out its ids [default: false]
    #[arg(long, value_name = "true|false")]
    frozen: Option<bool>,
    /// If the tag exists, leave it as it is and show it
    #[arg(long)]
    if_not_exists: bool,
}

/// A change to a tag.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)))]
pub struct UpdateArgs {
    /// The tag's name
    #[arg(required_unless_present = "prefix", conflicts_with = "prefix")]
    name: Option<String>,
    /// All tags whose names begin with this, in place of one
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["max_id", "description"])]
    prefix: Option<String>,
    /// Ids that a node reserves at once, from its next reservation on, 1 to 2147483647
    #[arg(long, value_name = "N", group = "change")]
    step: Option<u64>,
    /// Maximum number of ids that a node reserves at once, or none for as many as its use calls for
    #[arg(long, value_name = "N|none", value_parser = number_or_none, group = "change")]
    step_max: Option<NumberOrNone>,
    /// Skip ahead: no id below this one is reserved any more; it can only rise
    #[arg(long, value_name = "ID", group = "change")]
    max_id: Option<u64>,
    /// Maximum number of ids per second that each node hands out, 1 to 1000000000, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = number_or_none, group = "change")]
    rate_limit: Option<NumberOrNone>,
    /// Whether the tag is frozen: no node hands out its ids
    #[arg(long, value_name = "true|false", group = "change")]
    frozen: Option<bool>,
    /// Skip ahead by more than 2^40 ids, which cannot be undone
    #[arg(long, requires = "max_id")]
    force: bool,
    /// What the tag is for, up to 256 characters
    #[arg(long, value_name = "TEXT", group = "change")]
    description: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
}

/// A bound as it is sent: a number, or null for none.
#[derive(Clone, Debug)]
struct NumberOrNone(Value);

/// The names of all values, for the help, which keeps them for as long as the process runs.
fn names<const N: usize>(names: [&str; N]) -> &'static str {
    names.join("|").leak()
}

fn number_or_none(text: &str) -> Result<NumberOrNone, String> {
    match text {
        "none" => Ok(NumberOrNone(Value::Null)),
        text => match text.parse::<u32>() {
            Ok(number) => Ok(NumberOrNone(number.into())),
            Err(_) => Err("is neither a number of ids nor none".to_owned()),
        },
    }
}

pub(super) async fn run(command: TagCommand, client: &Client) -> Result<(), Failure> {
    match command {
        TagCommand::Create(args) => {
            let start = args.start.map(|id| json!(id.to_string()));
            let body = object([
                ("tag", Some(json!(args.name))),
                ("step", args.step.map(Value::from)),
                ("step_max", args.step_max.map(Value::from)),
                ("start", start),
                ("order", args.order.map(Value::from)),
                ("kind", args.kind.map(Value::from)),
                ("period", args.period.map(Value::from)),
                ("time_zone", args.time_zone.map(Value::from)),
                ("format", args.format.map(Value::from)),
                ("digits", args.digits.map(Value::from)),
                ("description", args.description.map(Value::from)),
                ("rate_limit", args.rate_limit.map(|NumberOrNone(rate)| rate)),
                ("frozen", args.frozen.map(Value::from)),
            ]);
            let created = client.change(Method::POST, "/v1/tags", Some(&body)).await;
            match created {
                Err(refused) if args.if_not_exists && refused.is("tag_exists") => {
                    existing(&args.name, &body, client).await
                }
                created => {
                    let tag = created?;
                    warn_of_doubles(&tag);
                    show(&tag, client)
                }
            }
        }
        TagCommand::List { prefix, limit, wide } => {
            let tags = beginning(client, &prefix, limit).await?;
            match client.json {
                true => print_json(&Value::Array(tags)),
                false if tags.is_empty() => print("no tags\n"),
                false => print_table(&table(&tags).wide(wide)),
            }
        }
        TagCommand::Get { name } => {
            let tag = client.get(&path(&name)).await;
            show(&tag.map_err(|refused| refused.about_tag(&name, Kind::Segment))?, client)
        }
        TagCommand::Update(args) => update(args, client).await,
        TagCommand::Freeze { name, prefix, .. } => {
            let frozen = json!({ "frozen": true });
            match name {
                Some(name) => update_one(&name, &frozen, client).await,
                None => many::update(&prefix.unwrap_or_default(), &frozen, client).await,
            }
        }
        TagCommand::Delete { name, yes } => {
            confirm(&format!("Delete the tag {name}? Callers get no more ids from it."), yes)?;
            let deleted = client.change(Method::DELETE, &path(&name), None).await;
            deleted.map_err(|refused| refused.about_tag(&name, Kind::Segment))?;
            let deleted = json!({ "tag": name, "deleted": true });
            client.show(&deleted, || format!("deleted {name}\n"))
        }
    }
}

/// The same outcome; a failure about an unknown tag names the one that the user may have meant.
pub(super) async fn or_suggest(
    outcome: Result<(), Failure>,
    client: &Client,
) -> Result<(), Failure> {
    let Err(mut failure) = outcome else { return Ok(()) };
    if let Some(unknown) = &failure.unknown_tag
        && let Some(near) = nearest_tag(unknown, client).await
    {
        failure.detail += &format!(": did you mean {}?", shown(&near));
    }
    Err(failure)
}

/// The tag with the same first letter whose name is most like this one, among the first thousand.
async fn nearest_tag(unknown: &str, client: &Client) -> Option<String> {
    let first = path_segment::escape(&unknown[..unknown.chars().next()?.len_utf8()]);
    let page = format!("/v1/tags?prefix={first}&limit=1000&consistency=stale");
    // A token for some tags may not list them, and then there is nothing to suggest.
    let page = client.get(&page).await.ok()?;
    let names = page["tags"].as_array()?.iter().filter_map(|tag| tag["tag"].as_str());
    nearest(unknown, names).map(str::to_owned)
}

async fn update(args: UpdateArgs, client: &Client) -> Result<(), Failure> {
    let body = object([
        ("step", args.step.map(Value::from)),
        ("step_max", args.step_max.map(|NumberOrNone(most)| most)),
        ("max_id", args.max_id.map(|id| json!(id.to_string()))),
        ("description", args.description.map(Value::from)),
        ("rate_limit", args.rate_limit.map(|NumberOrNone(rate)| rate)),
        ("frozen", args.frozen.map(Value::from)),
        ("force", args.force.then_some(json!(true))),
    ]);
    let Some(name) = args.name else {
        return many::update(&args.prefix.unwrap_or_default(), &body, client).await;
    };
    if let Some(id) = args.max_id {
        let question =
            format!("Skip ahead in {name} to {id}? No id below it is reserved any more, for good.");
        confirm(&question, args.yes)?;
    }
    update_one(&name, &body, client).await
}

async fn update_one(name: &str, body: &Value, client: &Client) -> Result<(), Failure> {
    let updated = client.change(Method::PATCH, &path(name), Some(body)).await;
    let tag = updated.map_err(|refused| refused.about_tag(name, Kind::Segment))?;
    if body.get("max_id").is_some() {
        warn_of_doubles(&tag);
    }
    show(&tag, client)
}

/// Warns of a tag whose ids do not fit a double.
fn warn_of_doubles(tag: &Value) {
    let max_id = tag["max_id"].as_str().and_then(|mark| mark.parse::<u64>().ok());
    let digits = tag["digits"].as_u64().unwrap_or(0);
    if max_id.is_some_and(|mark| mark > DOUBLE_EXACT_MAX)
        || digits > u64::from(DOUBLE_EXACT_MAX.ilog10())
    {
        warn(
            "ids of this tag exceed 2^53 - 1: JavaScript must take them as strings, or it repeats ids",
        );
    }
}

/// The fields that were given.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

/// Shows a tag that exists already, and how it differs from the one that was asked for.
async fn existing(name: &str, asked: &Value, client: &Client) -> Result<(), Failure> {
    let tag = client.get(&path(name)).await?;
    for (field, wanted) in asked.as_object().into_iter().flatten() {
        let differs = format!("{name} exists, and its {field} is {} and not {wanted}", tag[field]);
        match field.as_str() {
            // A tag does not keep its first id.
            "start" => {}
            _ if tag[field] == *wanted => {}
            // No change makes it what was asked for.
            "kind" | "order" | "period" | "digits" => return Err(Failure::new(differs)),
            _ => warn(&differs),
        }
    }
    show(&tag, client)
}

fn show(tag: &Value, client: &Client) -> Result<(), Failure> {
    if client.json { print_json(tag) } else { print_table(&table(std::slice::from_ref(tag))) }
}

fn table(tags: &[Value]) -> TextTable<9> {
    let head = [
        "TAG",
        "MAX_ID",
        "STEP",
        "RATE_LIMIT",
        "FROZEN",
        "SHAPE",
        "LEFT",
        "UPDATED",
        "DESCRIPTION",
    ];
    let mut table = TextTable::new(head)
        .numbers(&["MAX_ID", "STEP", "RATE_LIMIT", "LEFT"])
        .wrapped(&["DESCRIPTION"])
        .dispensable(&["UPDATED"])
        .shortened(&["TAG", "SHAPE"]);
    for tag in tags {
        let [name, max_id, step, rate_limit, frozen, updated, description] =
            ["tag", "max_id", "step", "rate_limit", "frozen", "updated_at", "description"]
                .map(|field| cell(tag, field));
        let step = match tag["step_max"].as_u64() {
            Some(step_max) => format!("{step}..{step_max}"),
            None => step,
        };
        let left = left(tag).map_or("-".to_owned(), share);
        let shape = shape(tag);
        table.row([name, max_id, step, rate_limit, frozen, shape, left, updated, description]);
    }
    table
}

/// The share of its ids that no node has reserved, of the latest period where a tag has periods; `None` for a tag that
/// counts by key.
fn left(tag: &Value) -> Option<f64> {
    if tag["kind"].as_str().is_some_and(|kind| kind != Kind::default().name()) {
        return None;
    }
    let max_id: u64 = tag["max_id"].as_str()?.parse().ok()?;
    let of_digits = |digits| Some(9 * 10_u64.checked_pow(digits - 1)? + 1);
    let digits = tag["digits"].as_u64().filter(|digits| (1..=18).contains(digits));
    let end = digits.and_then(|digits| of_digits(digits as u32)).unwrap_or(ID_END);
    Some(end.saturating_sub(max_id) as f64 / (end - 1) as f64)
}

/// A share from 0 to 1 in as many digits as matter, as one word.
fn share(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0%".to_owned(),
        ..0.1 => "<0.1%".to_owned(),
        percent @ ..9.95 => format!("{percent:.1}%"),
        percent @ ..99.5 => format!("{percent:.0}%"),
        ..100.0 => ">99%".to_owned(),
        _ => "100%".to_owned(),
    }
}

/// How a tag differs from a plain one, in words.
fn shape(tag: &Value) -> String {
    let text = |field: &str| tag[field].as_str().map(str::to_owned);
    let words = [
        text("kind").filter(|kind| kind != Kind::default().name()),
        text("order").filter(|order| order != Order::default().name()),
        text("period"),
        text("time_zone"),
        text("format"),
        tag["digits"].as_u64().map(|digits| format!("{digits} digits")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_tag_is_a_share_of_all_its_ids() {
        let shown = |tag: Value| left(&tag).map(share);
        let hidden = |max_id: &str| shown(json!({"max_id": max_id, "digits": 6}));
        for (max_id, says) in [
            ("1", "100%"),
            ("1001", ">99%"),
            ("450001", "50%"),
            ("855001", "5.0%"),
            ("899990", "<0.1%"),
            ("900001", "0%"),
            ("900900", "0%"),
        ] {
            assert_eq!(hidden(max_id).as_deref(), Some(says), "{max_id}");
        }
        let plain = json!({"kind": "segment", "max_id": "4611686018427387904", "digits": null});
        assert_eq!(shown(plain).as_deref(), Some("50%"));
        assert_eq!(shown(json!({"kind": "sequence", "max_id": "7"})), None);
        assert_eq!(shown(json!({"kind": "register", "max_id": null})), None);
    }

    #[test]
    fn a_shape_is_told_in_words_and_none_is_a_dash() {
        let plain = json!({"kind": "segment", "order": "trend", "period": null, "digits": null});
        assert_eq!(shape(&plain), "-");
        assert_eq!(shape(&json!({})), "-", "an older node");
        let strict =
            json!({"kind": "segment", "order": "strict", "format": "T-{id}", "digits": 12});
        assert_eq!(shape(&strict), "strict T-{id} 12 digits");
    }
}
