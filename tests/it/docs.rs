//! The documents are true: their commands are carried out, and what they name exists.
//!
//! ```text
//! markdown       blocks, commands, code, links and headings of a document
//! commands       what kind of command a line is
//!   reader       a reader that types a document's commands, from the first to the last
//! names          metrics, flags, paths and codes: documented is what there is, and nothing else
//! links          relative links and their anchors
//! translations   pages in Chinese beside the English ones: the same commands, links and headings
//! languages      functions of docs/languages.md, which take ids from three nodes while one is killed
//! ```
//!
//! A shell block is executed line by line, in a separate directory and on separate ports. Commands of cargo and of
//! `scripts/` build or run for long: the tests only compare them with the help of what they call. Blocks in other
//! languages are not executed. The first line of a block names what it needs beside the text: a program that may be
//! missing (`sh needs=mysql`), nodes that are lost for good or stopped before it (`sh lost=2,3 stopped=1`), and how many
//! seconds its commands may take (`within=30`).

mod commands;
mod languages;
mod links;
mod markdown;
mod names;
mod reader;
mod translations;

use std::fs;
use std::path::{Path, PathBuf};

use markdown::Document;

/// Directories that hold no documents of the project.
const NOT_OURS: [&str; 3] = ["target", "corpus", "node_modules"];

/// Documents that users read; the others are for those who read the code.
fn user_documents() -> Vec<Document> {
    let mut documents = documents();
    documents.retain(|document| {
        let is_at_the_top = document.path.parent() == Some(root());
        is_at_the_top || document.path.starts_with(root().join("docs"))
    });
    documents
}

/// Every document of the repository.
fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    collect(root(), &mut found);
    found.sort();
    found.into_iter().map(Document::read).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !NOT_OURS.contains(&name.as_str()) {
                collect(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document(name: &str) -> Document {
    Document::read(root().join(name))
}

/// Fails with all complaints at once.
#[track_caller]
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn every_block_of_json_can_be_parsed() {
    let mut complaints = Vec::new();
    for document in documents() {
        for block in document.blocks.iter().filter(|block| block.language == "json") {
            let values = serde_json::Deserializer::from_str(&block.text).into_iter();
            let faults = values.filter_map(|value: Result<serde_json::Value, _>| value.err());
            complaints.extend(faults.map(|error| format!("{}: {error}", document.name())));
        }
    }
    none(&complaints);
}
