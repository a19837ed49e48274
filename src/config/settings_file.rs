//! The `--config` file: TOML, with the flags of `serve` as keys.

use std::collections::BTreeSet;
use std::mem;
use std::path::Path;

use clap::{Args, FromArgMatches};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer, Error};

use super::args::ServeArgs;
use super::error::{ConfigError, fault};
use super::names::nearest;

/// The settings; a setting that is not set comes from the `--config` file, if one is given.
///
/// # Errors
/// When the file cannot be used.
pub fn with_file(mut args: ServeArgs) -> Result<ServeArgs, ConfigError> {
    let Some(path) = args.config.take() else { return Ok(args) };
    // The file is read once, because it may be a pipe.
    let (mut merged, keys) =
        read_file(&path).map_err(|error| error.naming_sources(&args.sources))?;
    merged.update_from_arg_matches(args.sources.matches()).map_err(ConfigError::of)?;
    args.sources.add_file(path, keys);
    merged.sources = args.sources;
    Ok(merged)
}

/// The settings in a `--config` file, and which of them it gives.
///
/// # Errors
/// When the file cannot be read, or is not TOML of these settings.
pub(super) fn read_file(path: &Path) -> Result<(ServeArgs, BTreeSet<String>), ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    text.and_then(|text| ServeArgs::from_toml(&text))
        .map_err(|why| fault("config", format_args!("{}: {why}", path.display())))
}

impl ServeArgs {
    /// The settings in the text of a `--config` file, and which of them it gives. Keys are flags, with dashes or with
    /// underscores.
    ///
    /// # Errors
    /// Why it is not TOML of these settings.
    pub fn from_toml(text: &str) -> Result<(Self, BTreeSet<String>), String> {
        let mut table = DeTable::parse(text).map_err(|error| error.to_string())?;
        let known = known();
        for (mut key, value) in mem::take(table.get_mut()) {
            let flag = key.get_ref().replace('_', "-");
            if !known.contains(&flag) {
                let nearest = nearest(&flag, known.iter().map(String::as_str));
                let nearest = nearest.map_or(String::new(), |it| format!(": did you mean `{it}`?"));
                return Err(format!("unknown key `{}`{nearest}", key.get_ref()));
            }
            if table.get_ref().contains_key(&*flag) {
                return Err(format!("duplicate field `{flag}`"));
            }
            *key.get_mut() = flag.into();
            table.get_mut().insert(key, value);
        }
        // Each group is read by itself: with `serde(flatten)`, an error would not say which line it is about.
        let place = read(&table, text)?;
        let service = read(&table, text)?;
        let args = Self { place, service, ..read(&table, text)? };
        Ok((args, table.get_ref().keys().map(|key| key.get_ref().to_string()).collect()))
    }
}

/// Reads one group of settings from the table of `text`, and ignores the keys of other groups.
fn read<'a, T: Deserialize<'a>>(table: &Spanned<DeTable<'a>>, text: &str) -> Result<T, String> {
    T::deserialize(Deserializer::from(table.clone())).map_err(|mut error: Error| {
        error.set_input(Some(text));
        error.to_string()
    })
}

/// The names of all settings, as flags.
fn known() -> BTreeSet<String> {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let flags = command.get_arguments().filter_map(|flag| flag.get_long());
    flags.filter(|flag| *flag != "config").map(str::to_owned).collect()
}
