//! `mintleaf secret`: secrets that nodes prove themselves to each other with.

use clap::Subcommand;
use serde_json::json;

use super::failure::Failure;
use super::output;
use crate::machine::entropy;

/// Bytes of randomness in a secret: the same as in the key that is derived from it.
const SECRET_BYTES: usize = 32;

/// What to do with secrets.
#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Print a new secret: 32 random bytes, as 64 hexadecimal digits
    #[command(after_help = "\
Give every node a copy in a file that only the node can read:
  (umask 077; mintleaf secret new > secret)

To replace a secret, put the new one on the first line of every node's file and leave the old one on the \
second. Once every node has read its file (it looks every 5 s), remove the second lines.")]
    New,
}

pub(super) fn run(command: &SecretCommand, json: bool) -> Result<(), Failure> {
    match command {
        SecretCommand::New => {
            let digits = entropy::random_hex::<SECRET_BYTES>()
                .map_err(|error| Failure::new(format!("cannot make a secret: {error}")))?;
            match json {
                true => output::print_json(&json!({ "secret": digits })),
                false => output::print(&format!("{digits}\n")),
            }
        }
    }
}
