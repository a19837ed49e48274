//! `mintleaf sequence next|last`: numbers of a key.

use clap::{Args, Subcommand};
use mintleaf_core::shape::Kind;
use serde_json::json;

use super::client::Client;
use super::failure::Failure;
use super::ids::{list, take};
use super::output::print_json;
use crate::text::path_segment::escape;

/// What can be asked of a sequence.
#[derive(Debug, Subcommand)]
pub enum SequenceCommand {
    /// Take numbers of a key and print them, one per line
    #[command(after_help = "Example:\n  mintleaf sequence next chat room-17 -n 5")]
    Next {
        /// The key.
        #[command(flatten)]
        of: KeyArgs,
        /// How many numbers, up to 1,000,000
        #[arg(short = 'n', long, default_value_t = 1)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        count: u64,
    },
    /// Show the last number of a key, or an upper bound for it
    #[command(after_help = "Example:\n  mintleaf sequence last chat room-17")]
    Last {
        /// The key.
        #[command(flatten)]
        of: KeyArgs,
    },
}

/// A key of a sequence.
#[derive(Args, Debug)]
pub struct KeyArgs {
    /// The sequence's name
    tag: String,
    /// The key, 1 to 256 bytes of UTF-8
    // Every command has a `--key` of TLS.
    #[arg(id = "of_key", value_name = "KEY")]
    key: String,
}

pub(super) async fn run(command: SequenceCommand, client: &Client) -> Result<(), Failure> {
    match command {
        SequenceCommand::Next { of, count } => {
            let numbers = take(&of.path(), count, client).await;
            let numbers = numbers.map_err(|refused| refused.about_tag(&of.tag, Kind::Sequence))?;
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            if client.json {
                let KeyArgs { tag, key } = of;
                return print_json(&json!({
                    "tag": tag, "key": key, "ids": numbers, "lease": false,
                }));
            }
            list(&numbers)
        }
        SequenceCommand::Last { of } => {
            let answer = client.get(&format!("{}/last", of.path())).await;
            let answer = answer.map_err(|refused| refused.about_tag(&of.tag, Kind::Sequence))?;
            let is_exact = answer["exact"].as_bool().unwrap_or(false);
            client.show(&answer, || match answer["last"].as_str() {
                None => "nothing was given\n".to_owned(),
                Some(last) if is_exact => format!("{last}\n"),
                Some(last) => format!("{last} at most\n"),
            })
        }
    }
}

impl KeyArgs {
    fn path(&self) -> String {
        format!("/v1/sequence/{}/{}", escape(&self.tag), escape(&self.key))
    }
}
