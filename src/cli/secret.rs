//! `mintleaf secret`: secrets that nodes prove themselves to each other with.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::failure::Failure;
use super::new_file::{SECRET, write_new};
use super::output;
use crate::machine::entropy;

/// Bytes of randomness in a secret: the same as in the key that is derived from it.
const SECRET_BYTES: usize = 32;

/// What to do with secrets.
#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Create a secret: 32 random bytes, as 64 hexadecimal digits
    #[command(after_help = "\
Give every node a copy in a file that only the node can read:
  mintleaf secret new secret

To replace a secret, put the new one on the first line of every node's file and leave the old one on the \
second. Once every node has read its file (it looks every 5 s), remove the second lines.")]
    New {
        /// The file to write, which must not exist yet and which only its owner can read [default: print the secret]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

pub(super) fn run(command: &SecretCommand, json: bool) -> Result<(), Failure> {
    let SecretCommand::New { file } = command;
    let secret = new()?;
    match file {
        None if json => output::print_json(&json!({ "secret": secret })),
        None => output::print(&format!("{secret}\n")),
        Some(file) => {
            write_new(file, SECRET, &format!("{secret}\n"))?;
            let shown = file.display().to_string();
            match json {
                true => output::print_json(&json!({ "file": shown })),
                false => output::print(&format!("{shown}: give every node a copy\n")),
            }
        }
    }
}

/// A new secret.
///
/// # Errors
/// When the machine gives no random numbers.
pub(super) fn new() -> Result<String, Failure> {
    entropy::random_hex::<SECRET_BYTES>()
        .map_err(|error| Failure::new(format!("cannot make a secret: {error}")))
}
