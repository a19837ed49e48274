//! `mintleaf init`: what a trial with an auth file needs, at once.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::new_file::{SECRET, write_new};
use super::table::word;
use super::{output, secret, token};
use crate::access::Role;

/// Where to put it.
#[derive(Args, Debug)]
pub struct InitArgs {
    /// The directory, which must be empty or not exist; only its owner can enter it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InitArgs) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot use {}: {error}", args.dir.display()));
    let (token, lines) = token::new("admin", Role::Admin, &[])?;
    let secret = secret::new()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&args.dir).map_err(failed)?;
    if fs::read_dir(&args.dir).map_err(failed)?.next().is_some() {
        return Err(Failure::new(format!(
            "{} is not empty: give a directory that is, or a new one",
            args.dir.display()
        )));
    }
    fs::set_permissions(&args.dir, Permissions::from_mode(0o700)).map_err(failed)?;
    let [secret_file, auth_file, token_file] =
        ["secret", "auth.toml", "token"].map(|name| args.dir.join(name));
    write_new(&secret_file, SECRET, &format!("{secret}\n"))?;
    write_new(&auth_file, SECRET, &lines)?;
    write_new(&token_file, SECRET, &format!("{token}\n"))?;
    let quoted = |path: &Path| word(&path.display().to_string());
    let serve = format!(
        "mintleaf serve --node-id 1 --peers 1=127.0.0.1:9080 --data {} --cluster-secret-file {} --auth-file {}",
        quoted(&args.dir.join("data")),
        quoted(&secret_file),
        quoted(&auth_file)
    );
    let next = format!("mintleaf tag create orders --token-file {}", quoted(&token_file));
    let [secret_file, auth_file, token_file] =
        [secret_file, auth_file, token_file].map(|path| path.display().to_string());
    if args.json {
        return output::print_json(&json!({
            "secret": secret_file, "auth_file": auth_file, "token": token_file, "serve": serve, "next": next,
        }));
    }
    output::print(&format!(
        "{secret_file}: the secret of the nodes\n\
         {auth_file}: the tokens that they accept\n\
         {token_file}: such a token, with the role admin\n\n\
         Start a node:\n  {serve}\n\n\
         Then, at another terminal:\n  {next}\n"
    ))
}
