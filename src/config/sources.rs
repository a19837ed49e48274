//! Where settings come from, so that an error names them as the user wrote them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::names::variable;

/// How each setting was given. Settings have the names of their flags, without the dashes.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What flags and the environment give.
    matches: ArgMatches,
    file: Option<(PathBuf, BTreeSet<String>)>,
}

impl Sources {
    /// The sources of a command line.
    pub fn new(matches: ArgMatches) -> Self {
        Self { matches, file: None }
    }

    /// What flags and the environment give.
    pub(super) fn matches(&self) -> &ArgMatches {
        &self.matches
    }

    /// Adds the settings of a file, which count where nothing else gives them.
    pub(super) fn add_file(&mut self, path: PathBuf, settings: BTreeSet<String>) {
        self.file = Some((path, settings));
    }

    /// An error about flags, but each setting has the name that it was given under: the flag, the variable, or the key
    /// of the file. It may name several, and come from below this crate.
    pub fn name_sources(&self, message: &str) -> String {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
        let mut parts = message.split("--");
        let mut told = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_at(part.find(|c| !is_part(c)).unwrap_or(part.len()));
            told += &self.name_of(name);
            told += rest;
        }
        told
    }

    fn name_of(&self, setting: &str) -> String {
        let given = self.matches.ids().find(|id| id.as_str().replace('_', "-") == setting);
        match (given.and_then(|id| self.matches.value_source(id.as_str())), &self.file) {
            (Some(ValueSource::EnvVariable), _) => variable(setting),
            (None, Some((path, settings))) if settings.contains(setting) => {
                format!("{setting} in {}", path.display())
            }
            _ => format!("--{setting}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn an_error_names_what_was_written() {
        let flag = |name: &'static str| Arg::new(name).long(name);
        let command = Command::new("serve")
            .args(["raft", "peers", "insecure", "http-x"].map(flag))
            // The one variable that every test has.
            .args(["http", "join"].map(|name| flag(name).env("PATH")));
        let mut sources = Sources::new(command.get_matches_from(["serve", "--raft", "1.2.3.4:5"]));
        let settings = ["http", "peers", "raft"].map(str::to_owned);
        sources.add_file("/etc/m.toml".into(), settings.into());
        for (message, told) in [
            ("--http must be HOST:PORT", "MINTLEAF_HTTP must be HOST:PORT"),
            (
                "--join and --peers exclude each other",
                "MINTLEAF_JOIN and peers in /etc/m.toml exclude each other",
            ),
            ("--raft 1.2.3.4:5: give --insecure", "--raft 1.2.3.4:5: give --insecure"),
            ("--http", "MINTLEAF_HTTP"),
            ("a -- b, --http-x", "a -- b, --http-x"),
        ] {
            assert_eq!(sources.name_sources(message), told);
        }
    }
}
