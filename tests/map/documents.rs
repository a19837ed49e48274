//! Paths that documents and comments name.

use std::fs;
use std::path::Path;

/// First parts of a path in this repository.
const TOPS: [&str; 13] = [
    "src/", "core/", "raft/", "storage/", "tests/", "scripts/", "docs/", "bench/", "benches/",
    "clients/", "deploy/", ".ci/", ".github/",
];
/// Directories that are not part of the repository.
const NOT_OURS: [&str; 4] = ["target", ".git", "corpus", "node_modules"];

/// All files of the repository with one of these extensions, sorted.
pub(crate) fn files(repository: &Path, extensions: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![repository.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(directory).expect("a directory of the repository");
        for entry in entries {
            let path = entry.expect("an entry of a directory").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !NOT_OURS.contains(&name.as_str()) {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|e| extensions.iter().any(|known| e == *known)) {
                found.push(crate::relative(&path));
            }
        }
    }
    found.sort();
    found
}

/// Every path that a document or a comment names and that is not there.
pub(crate) fn missing_paths(repository: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    for file in files(repository, &["md", "rs", "toml", "sh"]) {
        let text = fs::read_to_string(repository.join(&file)).expect("a file of the repository");
        let is_document = file.ends_with(".md");
        for (number, line) in text.lines().enumerate() {
            let comment = if is_document { Some(line) } else { comment_of(line) };
            for path in comment.into_iter().flat_map(paths) {
                if !exists(repository, &file, path) {
                    missing.push(format!("{file}:{}: {path} does not exist", number + 1));
                }
            }
        }
    }
    missing
}

/// The comment that a line of code is, if it is one.
fn comment_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").or_else(|| line.strip_prefix("# "))
}

/// The words of a line that look like paths of this repository.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let boundary = |c: char| !(c.is_alphanumeric() || "_-./*{}<>".contains(c));
    line.split(boundary)
        .map(|word| word.trim_end_matches(['.', '-']).trim_start_matches("./"))
        .filter(|word| TOPS.iter().any(|top| word.starts_with(top) && word.len() > top.len()))
        // A pattern names no single file, and neither does a place holder.
        .filter(|word| {
            !word.contains(['*', '{', '<'])
                && !word.split('/').any(|part| part == "NAME" || part == "NAME.patch")
        })
}

/// Whether a path exists as seen from the repository, from the file's crate, or from the file.
fn exists(repository: &Path, file: &str, path: &str) -> bool {
    let file = repository.join(file);
    let mut bases = file.ancestors().skip(1).take_while(|base| base.starts_with(repository));
    bases.any(|base| base.join(path).exists())
}

#[test]
fn paths_are_found_between_other_words() {
    let line = "See `tests/map/table.rs`, (raft/DESIGN.md) and tests/*/x; http://a/src/b is none.";
    assert_eq!(paths(line).collect::<Vec<_>>(), ["tests/map/table.rs", "raft/DESIGN.md"]);
}
