//! Where settings come from, so that an error names them as the user wrote them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::names::variable;

/// How each setting was given. Settings have the names of their flags, without the dashes.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    by_flag: BTreeSet<String>,
    of_environment: BTreeSet<String>,
    file: Option<(PathBuf, BTreeSet<String>)>,
}

impl Sources {
    /// The sources of a command line.
    pub fn new(by_flag: BTreeSet<String>, of_environment: BTreeSet<String>) -> Self {
        Self { by_flag, of_environment, file: None }
    }

    /// Adds the settings of a file, which count where nothing else gives them.
    pub(super) fn add_file(&mut self, path: PathBuf, mut settings: BTreeSet<String>) {
        let before = [&self.by_flag, &self.of_environment];
        settings.retain(|setting| before.iter().all(|given| !given.contains(setting)));
        self.file = Some((path, settings));
    }

    /// An error about flags, but each setting has the name that it was given under: the flag, the variable, or the key
    /// of the file.
    pub fn told(&self, message: &str) -> String {
        let mut told = String::with_capacity(message.len());
        let mut rest = message;
        while let Some(at) = rest.find("--") {
            let (before, flag) = rest.split_at(at);
            let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
            let name = &flag[2..];
            let name = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
            told += before;
            told += &self.name_of(name);
            rest = &flag[2 + name.len()..];
        }
        told + rest
    }

    fn name_of(&self, setting: &str) -> String {
        match &self.file {
            _ if self.of_environment.contains(setting) => variable(setting),
            Some((path, settings)) if settings.contains(setting) => {
                format!("{setting} in {}", path.display())
            }
            _ => format!("--{setting}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_was_written() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut sources = Sources::new(set(&["raft"]), set(&["http", "join"]));
        sources.add_file("/etc/m.toml".into(), set(&["http", "peers", "raft"]));
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
            assert_eq!(sources.told(message), told);
        }
    }
}
