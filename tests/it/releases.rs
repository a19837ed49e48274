//! What holds from one release to the next.
//!
//! ```text
//! levels    a build of the next level and this one in one cluster, until its level is raised
//! previous  the last release and this build in one cluster, forward and back, under load
//! clients   the client library of one of them, at nodes of the other
//! golden    a directory and a backup of each release, as it has left them
//! ```
//!
//! `levels`, `previous` and `clients` need a second build, which `scripts/releases` makes.

mod clients;
mod golden;
mod levels;
mod previous;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Answer, Api, Binary, Cluster, Finished, eventually, secs};

/// The version of the build under test.
const THIS: &str = env!("CARGO_PKG_VERSION");

/// The second build, whose path is in a variable. Without it, prints a message.
fn other_build(variable: &str) -> Option<PathBuf> {
    let build = std::env::var_os(variable).map(PathBuf::from);
    if build.is_none() {
        // Not `eprintln!`: the output of a passing test is captured.
        let line = format!("SKIPPED: {variable} names no second build; run scripts/releases\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    build
}

/// The version that a build reports.
fn version_of(build: &Path) -> String {
    let said = Finished::of(Binary::at(build).command().arg("--version")).stdout;
    said.split_whitespace().nth(1).unwrap().to_owned()
}

fn cluster_of(api: Api) -> Value {
    api.get("/v1/cluster").ok()
}

/// The version of each node, according to one of them.
fn versions(api: Api) -> Vec<Option<String>> {
    let cluster = cluster_of(api);
    let nodes = cluster["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["version"].as_str().map(str::to_owned)).collect()
}

/// Waits until every node shows these versions, in the order of ids.
fn await_versions(cluster: &Cluster, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|version| Some((*version).to_owned())).collect();
    for id in cluster.ids() {
        eventually(&format!("node {id} to show {expected:?}"), secs(10), || {
            (versions(cluster.api(id)) == expected).then_some(())
        });
    }
}

/// Whether one release shows what the previous release shows: fields may be added, but not removed or changed.
fn shows(newer: &Value, older: &Value) -> bool {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) => older
            .iter()
            .all(|(field, older)| newer.get(field).is_some_and(|newer| shows(newer, older))),
        (Value::Array(newer), Value::Array(older)) => {
            newer.len() == older.len() && newer.iter().zip(older).all(|(n, o)| shows(n, o))
        }
        (Value::String(newer), Value::String(older)) => newer == older || same_time(newer, older),
        _ => newer == older,
    }
}

/// Whether two texts are the same time. One may have more digits.
fn same_time(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| text.parse::<jiff::Timestamp>().ok());
    one.is_some() && one == other
}

/// Repeats a request while a node is without a quorum, because the machine is busy.
#[track_caller]
fn patiently(ask: impl Fn() -> Answer) -> Answer {
    eventually("an answer of a node with a quorum", secs(30), || {
        let answer = ask();
        (answer.status != 503).then_some(answer)
    })
}
