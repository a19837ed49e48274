//! Backups, and clusters that are made from a backup or from a directory that survived.

mod directories;
mod directory_of_backups;
mod leases;
mod marks;
mod recorded;
mod refusals;
mod registers;
mod remembered;
mod repeats;
mod since;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Api, Finished, Node, encoded, eventually, mintleaf, secs};

/// Runs a command of the binary.
fn run(args: &[&str]) -> Finished {
    Finished::of(mintleaf().command().args(args))
}

/// Takes a backup through this node.
#[track_caller]
fn back_up(api: Api, file: &Path) {
    let (file, url) = (file.to_str().unwrap(), format!("http://{}", api.0));
    let taken = run(&["backup", file, "--url", &url]);
    assert_eq!((taken.code, taken.stderr.as_str()), (Some(0), ""), "{taken:?}");
}

/// Restores a source, and returns the command's JSON output.
#[track_caller]
fn restored(source: &Path, data: &Path, node_id: u64, flags: &[&str]) -> Value {
    let done = restore(source, data, node_id, &[flags, &["--json"]].concat());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

fn restore(source: &Path, data: &Path, node_id: u64, flags: &[&str]) -> Finished {
    let mut command = mintleaf().command();
    command.arg("restore").arg(source).arg("--data").arg(data);
    Finished::of(command.args(["--node-id", &node_id.to_string()]).args(flags))
}

#[track_caller]
fn inspected(source: &Path) -> Value {
    let shown = run(&["inspect", source.to_str().unwrap(), "--json"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{shown:?}");
    serde_json::from_str(&shown.stdout).unwrap()
}

/// A node on a directory that was made for it, ready.
fn start(id: u64, data: PathBuf, flags: &[&str]) -> Node {
    let mut node = Node::new(&mintleaf(), id, data.parent().unwrap());
    node.set_data(data);
    node.set_flags(flags);
    node.start().unwrap();
    ready(&node);
    node
}

fn ready(node: &Node) {
    eventually("the node to be ready", secs(20), || node.is_ready().then_some(()));
}

/// All ids that were given.
#[derive(Default)]
struct Given(BTreeSet<(String, u64)>);

impl Given {
    /// Takes ids of a tag. None of them may have been given before.
    #[track_caller]
    fn take(&mut self, api: Api, tag: &str, count: u64) {
        let path = format!("/v1/segment/{}?count={count}", encoded(tag));
        self.note(tag, api.get(&path).ids());
    }

    /// Takes snowflake ids. None of them may have been given before.
    #[track_caller]
    fn take_snowflakes(&mut self, api: Api, count: u64) {
        self.note("", api.get(&format!("/v1/snowflake?count={count}")).ids());
    }

    #[track_caller]
    fn note(&mut self, tag: &str, ids: Vec<u64>) {
        for id in ids {
            assert!(self.0.insert((tag.to_owned(), id)), "{tag:?} gives {id} again");
        }
    }

    /// The highest id of a tag.
    fn highest(&self, tag: &str) -> u64 {
        let of_tag = self.0.iter().filter(|(name, _)| name == tag);
        of_tag.map(|(_, id)| *id).max().unwrap_or(0)
    }
}

#[track_caller]
fn create(api: Api, tag: &str, start: u64) {
    let body = json!({ "tag": tag, "step": 10, "start": start.to_string() });
    assert_eq!(api.post("/v1/tags", &body).status, 201);
}

#[track_caller]
fn delete(api: Api, tag: &str) {
    assert_eq!(api.delete(&format!("/v1/tags/{tag}")).status, 204);
}
