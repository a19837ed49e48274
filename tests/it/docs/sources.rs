//! The tests of the repository, by the files and modules that they are in.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// A file of tests.
pub(super) struct Source {
    path: PathBuf,
    text: String,
    /// The names of its tests.
    pub(super) tests: Vec<String>,
}

impl Source {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let marks = ["#[test]", "#[tokio::test"];
        let mut lines = text.lines().map(str::trim_start);
        let mut tests = Vec::new();
        while let Some(line) = lines.next() {
            if marks.iter().any(|mark| line.starts_with(mark)) {
                let named = lines.find_map(|line| line.split_once("fn "));
                tests.extend(named.and_then(|(_, rest)| Some(rest.split_once('(')?.0.to_owned())));
            }
        }
        Self { tests, path, text }
    }

    /// Its text with that of the module around it, whose functions it calls.
    pub(super) fn with_parent(&self, sources: &[Self]) -> String {
        let parent = self.path.parent().map(|parent| parent.with_extension("rs"));
        let parent = sources.iter().find(|source| Some(&source.path) == parent.as_ref());
        format!("{}{}", self.text, parent.map_or("", |parent| &parent.text))
    }

    /// The modules that lead to it: `it::restore::since` of `tests/it/restore/since.rs`, `raft::tests::levels` of
    /// `raft/src/tests/levels.rs`, `core::state::raise` of `core/src/state/raise.rs`.
    pub(super) fn module(&self) -> String {
        let path = self.path.strip_prefix(root()).unwrap().with_extension("");
        let mut parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        match parts[..] {
            ["src" | "tests", ..] => drop(parts.remove(0)),
            [_, "src", ..] => drop(parts.remove(1)),
            _ => {}
        }
        parts.join("::")
    }
}

/// The files below these directories, but for the tests of documents.
pub(super) fn sources(directories: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for directory in directories {
        collect(&root().join(directory), &mut paths);
    }
    paths.into_iter().map(Source::read).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("docs") => {}
            true => collect(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push(path);
            }
            false => {}
        }
    }
}
