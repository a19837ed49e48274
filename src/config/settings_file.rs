//! The `--config` file: TOML, with the flags of `serve` as keys.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use clap::Args;

use super::args::ServeArgs;
use super::error::{ConfigError, fault};
use super::names::nearest;

/// The settings; a setting that is not set comes from the `--config` file, if one is given.
///
/// # Errors
/// When the file cannot be used.
pub fn with_file(mut args: ServeArgs) -> Result<ServeArgs, ConfigError> {
    let Some(path) = args.config.clone() else { return Ok(args) };
    // The file is read once, because it may be a pipe.
    let (file, keys) = read_file(&path).map_err(|error| error.told(&args.sources))?;
    args.sources.add_file(path, keys);
    Ok(args.or(file))
}

/// The settings in a `--config` file, and which of them it gives.
///
/// # Errors
/// When the file cannot be read, or is not TOML of these settings.
pub(super) fn read_file(path: &Path) -> Result<(ServeArgs, BTreeSet<String>), ConfigError> {
    let wrong = |why: &dyn fmt::Display| fault("config", format_args!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let table: toml::Table = text.parse().map_err(|error| wrong(&error))?;
    let known = known();
    let flag = |key: &String| key.replace('_', "-");
    if let Some(key) = table.keys().find(|key| !known.contains(&flag(key))) {
        let nearest = nearest(&flag(key), known.iter().map(String::as_str));
        let nearest = nearest.map_or(String::new(), |name| format!(": did you mean `{name}`?"));
        return Err(wrong(&format_args!("unknown key `{key}`{nearest}")));
    }
    let args = toml::from_str(&text).map_err(|error| wrong(&error))?;
    Ok((args, table.keys().map(flag).collect()))
}

/// The names of all settings, as flags.
fn known() -> BTreeSet<String> {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let flags = command.get_arguments().filter_map(|flag| flag.get_long());
    flags.filter(|flag| *flag != "config").map(str::to_owned).collect()
}
