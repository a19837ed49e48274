//! The ports between nodes, as other processes can reach them. A process without a proof gets no frame through,
//! learns no secret, ends no node, and delays no failover.

mod captures;
mod operator_ca;
mod replaced;
mod rogues;
mod strangers;
mod surroundings;
mod tap;
mod tls;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Api, Cluster, Finished, Load, TagWriter, eventually, mintleaf, ms, secs};

/// The log line of a node that has started to use new keys.
const TAKEN: &str = "took new keys between nodes into use";
/// The log line of a node that cannot use new keys.
const NOT_TAKEN: &str = "new keys between nodes cannot be used";

/// A secret, made as operators make one.
fn new_secret() -> String {
    let made = Finished::of(mintleaf().command().args(["secret", "new"]));
    assert_eq!(made.code, Some(0), "{made:?}");
    made.stdout.trim().to_owned()
}

/// Three founders that share a secret, each with a separate file. None is running yet.
fn prepare_with(secret: &str) -> Cluster {
    let mut cluster = mintleaf().prepare(3, &[]);
    for id in cluster.ids() {
        let file = secret_file(&cluster, id);
        replace(&file, secret);
        cluster.add_flag(id, "--cluster-secret-file", file);
    }
    cluster
}

/// The same, all ready under one leader.
fn start_with(secret: &str) -> Cluster {
    let mut cluster = prepare_with(secret);
    cluster.start_all();
    cluster
}

fn secret_file(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir().join(format!("secret-{id}"))
}

/// Replaces a file atomically, so that no node reads half of it.
fn replace(file: &Path, content: impl AsRef<[u8]>) {
    let new = file.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(&new, file).unwrap();
}

/// Replaces files of a running node, makes it read them again, and waits until it logs the outcome.
#[track_caller]
fn reload(cluster: &mut Cluster, id: u64, files: &[(PathBuf, String)], outcome: &str) {
    let times = |cluster: &mut Cluster| cluster.process(id).said().matches(outcome).count();
    let before = times(cluster);
    for (file, content) in files {
        replace(file, content);
    }
    cluster.process(id).signal("HUP");
    eventually(&format!("node {id} to say: {outcome}"), secs(10), || {
        (times(cluster) > before).then_some(())
    });
}

/// The same with a file of secrets, one on each line.
#[track_caller]
fn reload_secrets(cluster: &mut Cluster, id: u64, secrets: &[&str], outcome: &str) {
    let file = secret_file(cluster, id);
    reload(cluster, id, &[(file, secrets.join("\n"))], outcome);
}

#[track_caller]
fn await_said(cluster: &mut Cluster, id: u64, what: &str) {
    eventually(&format!("node {id} to say: {what}"), secs(15), || {
        cluster.process(id).said().contains(what).then_some(())
    });
}

#[track_caller]
fn assert_all_run(cluster: &mut Cluster, ids: &[u64]) {
    for &id in ids {
        assert!(cluster.process(id).is_running(), "node {id} has ended");
    }
}

fn term(api: Api) -> u64 {
    api.get("/v1/cluster").ok()["term"].as_u64().unwrap()
}

/// Bytes without a meaning, always the same.
fn garbage(count: u32) -> Vec<u8> {
    (1..=count).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// Checks that bytes reveal nothing of a secret: neither the line of its file, nor the value of its digits, nor
/// the line in hexadecimal.
#[track_caller]
fn assert_no_secret(bytes: &[u8], secret: &str) {
    let digit = |at| u8::from_str_radix(&secret[at..at + 2], 16).unwrap();
    let meant: Vec<u8> = (0..secret.len()).step_by(2).map(digit).collect();
    let spelt: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [secret.as_bytes(), &meant, spelt.as_bytes(), spelt.to_uppercase().as_bytes()] {
        assert!(!holds(bytes, form), "the secret is among {} bytes", bytes.len());
    }
}

/// Clients that take ids of many tags with the smallest step, so that every node grabs all the time, and one
/// that creates tags, each at the next node.
struct Busy {
    load: Load,
    writer: TagWriter,
}

impl Busy {
    fn start(cluster: &Cluster) -> Self {
        let tags: Vec<String> = (0..40).map(|n| format!("tag-{n}")).collect();
        for tag in &tags {
            cluster.api(1).post("/v1/tags", &json!({ "tag": tag, "step": 1 })).ok();
        }
        let targets = cluster.targets();
        let (load, writer) = (Load::start(&targets, &tags, 2), TagWriter::start(&targets, ms(30)));
        let busy = Self { load, writer };
        busy.go_on();
        busy
    }

    /// Waits until more requests have succeeded.
    fn go_on(&self) {
        self.load.await_more(300);
    }

    /// Stops, and checks that every request succeeded and every tag was created.
    #[track_caller]
    fn end_without_a_failure(self) {
        self.go_on();
        let (written, history) = (self.writer.stop(), self.load.stop());
        history.check();
        let failed: Vec<_> = history.failures().collect();
        assert!(failed.is_empty(), "{} requests failed: {:?}", failed.len(), failed[0]);
        // Tags are numbered in the order of the requests, so a failure would leave a gap.
        let asked_for: Vec<_> = (0..written.len()).map(|n| format!("written-{n}")).collect();
        assert_eq!(written, asked_for, "a tag was not created");
        println!("{} requests for ids, {} tags", history.0.len(), written.len());
    }
}
