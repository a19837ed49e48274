//! `mintleaf register next|get|list`: numbers without gaps, each of a key.

use clap::{Args, Subcommand};
use mintleaf_core::shape::Kind;
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{cell, print_json, print_table};
use super::table::TextTable;
use crate::text::path_segment::escape;

/// Keys that one request lists.
const PAGE_KEYS: u64 = 1_000;

/// What can be asked of a register.
#[derive(Debug, Subcommand)]
pub enum RegisterCommand {
    /// Print the number of a key, which gets the next one if it has none
    #[command(after_help = "Example:\n  mintleaf register next invoices order-4711")]
    Next {
        /// The key.
        #[command(flatten)]
        of: KeyArgs,
    },
    /// Print the number of a key, if it has one
    #[command(after_help = "Example:\n  mintleaf register get invoices order-4711")]
    Get {
        /// The key.
        #[command(flatten)]
        of: KeyArgs,
    },
    /// List keys in the order of their numbers
    #[command(after_help = "Example:\n  mintleaf register list invoices --period 2026")]
    List {
        /// The register's name
        tag: String,
        /// Of which period, such as 202611 [default: the latest one with a number]
        #[arg(long, value_name = "PERIOD")]
        period: Option<u32>,
        /// Begin behind this number
        #[arg(long, value_name = "N", default_value_t = 0)]
        after: u64,
        /// How many keys at most [default: all]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
}

/// A key of a register.
#[derive(Args, Debug)]
pub struct KeyArgs {
    /// The register's name
    tag: String,
    /// The key, 1 to 256 bytes of UTF-8
    // Every command has a `--key` of TLS.
    #[arg(id = "of_key", value_name = "KEY")]
    key: String,
}

pub(super) async fn run(command: RegisterCommand, client: &Client) -> Result<(), Failure> {
    match command {
        RegisterCommand::Next { of } => {
            // The same key again has the same number, so the request may be repeated.
            let answer = client.repeatable(&of.path(), &json!({})).await;
            show(&answer.map_err(|refused| refused.about_tag(&of.tag, Kind::Register))?, client)
        }
        RegisterCommand::Get { of } => {
            let answer = client.get(&of.path()).await;
            show(&answer.map_err(|refused| refused.about_tag(&of.tag, Kind::Register))?, client)
        }
        RegisterCommand::List { tag, period, after, limit } => {
            let page = listed(client, &tag, period, (after, limit)).await;
            let page = page.map_err(|refused| refused.about_tag(&tag, Kind::Register))?;
            if client.json {
                return print_json(&page);
            }
            let rows = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut table = TextTable::new(["NUMBER", "KEY", "TIME"]).numbers(&["NUMBER"]);
            for row in rows {
                table.row(["id", "key", "time"].map(|field| cell(row, field)));
            }
            print_table(&table)
        }
    }
}

fn show(answer: &Value, client: &Client) -> Result<(), Failure> {
    client.show(answer, || format!("{}\n", cell(answer, "text")))
}

/// The keys behind the number `after`, from as many pages as that takes.
async fn listed(
    client: &Client,
    tag: &str,
    period: Option<u32>,
    (after, limit): (u64, Option<u64>),
) -> Result<Value, Failure> {
    let path = format!("/v1/register/{}", escape(tag));
    let period = period.map(|period| format!("&period={period}")).unwrap_or_default();
    let (mut after, mut left) = (after.to_string(), limit.unwrap_or(u64::MAX));
    let mut entries = Vec::new();
    loop {
        let limit = left.clamp(1, PAGE_KEYS);
        let mut page = client.get(&format!("{path}?after={after}&limit={limit}{period}")).await?;
        let more = page["entries"].as_array_mut().map(std::mem::take).unwrap_or_default();
        left = left.saturating_sub(more.len() as u64);
        entries.extend(more);
        match page["next"].as_str() {
            Some(next) if left > 0 => after = next.to_owned(),
            _ => {
                page["entries"] = entries.into();
                return Ok(page);
            }
        }
    }
}

impl KeyArgs {
    fn path(&self) -> String {
        format!("/v1/register/{}/{}", escape(&self.tag), escape(&self.key))
    }
}
