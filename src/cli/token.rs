//! `mintleaf token`: tokens that clients prove themselves with to a node with an auth file.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::failure::Failure;
use super::new_file::{SECRET, write_new};
use super::output;
use crate::access::{Role, checked_name, checked_tags, hash_of, written_hash};
use crate::machine::entropy;

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;
/// The beginning of every token, so that a stray one is recognized.
const TOKEN_BEGIN: &str = "mlt_";

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, and print the lines that admit it in the auth file
    #[command(after_help = "\
The file gets the token: give it to the client, which shows it by --token-file. What is printed goes into the \
--auth-file of every node, which holds the hash of the token and not the token itself:
  mintleaf token new shop --role issue --tags 'pay*' --out shop.token >> auth.toml

Without --out, the first line is the token, which is shown only once, and the lines for the auth file follow after an \
empty one.

A node checks its file every 5 s, and at once on SIGHUP.")]
    New {
        /// Name of the token: 1 to 64 letters, digits and the characters - _ . @
        #[arg(value_parser = |name: &str| checked_name(name).map(str::to_owned))]
        name: String,
        /// What it allows: issue (take ids), read (everything but ids and backups), backup (take backups), or admin
        /// (everything)
        #[arg(long, value_parser = |name: &str| Role::named(name).ok_or(format!("must be {}", Role::NAMES)))]
        role: Role,
        /// Tags that it is limited to: names, or prefixes followed by a star [default: all]
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        #[arg(value_parser = |tag: &str| checked_tags(&[tag]).map(|_| tag.to_owned()))]
        tags: Vec<String>,
        /// The file to write the token to, which must not exist yet and which only its owner can read [default: print
        /// the token]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: &TokenCommand) -> Result<(), Failure> {
    let TokenCommand::New { name, role, tags, out, json } = command;
    if !tags.is_empty() {
        let given: Vec<&str> = tags.iter().map(String::as_str).collect();
        checked_tags(&given).map_err(Failure::new)?;
    }
    let (token, lines) = new(name, *role, tags)?;
    match out {
        None if *json => output::print_json(&json!({ "token": token, "lines": lines })),
        None => output::print(&format!("{token}\n\n{lines}")),
        Some(file) => {
            write_new(file, SECRET, &format!("{token}\n"))?;
            let shown = file.display().to_string();
            match json {
                true => output::print_json(&json!({ "file": shown, "lines": lines })),
                false => output::print(&lines),
            }
        }
    }
}

/// A new token, and its lines in the auth file.
///
/// # Errors
/// When the machine gives no random numbers.
pub(super) fn new(name: &str, role: Role, tags: &[String]) -> Result<(String, String), Failure> {
    let digits = entropy::random_hex::<TOKEN_BYTES>()
        .map_err(|error| Failure::new(format!("cannot make a token: {error}")))?;
    let token = format!("{TOKEN_BEGIN}{digits}");
    let hash = written_hash(&hash_of(token.as_bytes()));
    let lines = lines(name, &hash, role, tags);
    Ok((token, lines))
}

/// The lines of a token in the auth file.
fn lines(name: &str, hash: &str, role: Role, tags: &[String]) -> String {
    let role = role.name();
    let mut lines = format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\n");
    if !tags.is_empty() {
        // A list of strings in JSON is one in TOML.
        lines += &format!("tags = {}\n", json!(tags));
    }
    // The role comes last: a token must have one, so that a file that was cut off here does not let a confined
    // token reach all tags.
    lines + &format!("role = \"{role}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AuthFile;

    #[test]
    fn the_lines_of_a_token_are_an_auth_file() {
        let hash = written_hash(&hash_of(b"t"));
        for tags in [&[][..], &["pay*".to_owned(), "a\"b\\".to_owned(), "订*".to_owned()]] {
            for role in Role::ALL {
                let lines = lines("shop", &hash, role, tags);
                AuthFile::parse(&lines).unwrap_or_else(|error| panic!("{error}: {lines}"));
                for (end, _) in lines.char_indices() {
                    let (cut, rest) = lines.split_at(end);
                    assert!(rest == "\n" || AuthFile::parse(cut).is_err(), "{cut}");
                }
            }
        }
    }
}
