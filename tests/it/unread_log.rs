//! A log without a reader: the reader of standard error sleeps, and the node goes on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::json;

use crate::harness::{Api, await_some, eventually, mintleaf, secs, signal};

/// A node whose standard error is a pipe that has no reader yet.
struct Unread {
    node: Child,
    api: Api,
    stderr: Option<ChildStderr>,
    _data: tempfile::TempDir,
}

impl Unread {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = mintleaf().command();
        command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(data.path());
        // openraft logs long lines, and many of them.
        command.env("RUST_LOG", "info,openraft=trace");
        let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Read to its last line: a node that cannot write its greeting ends.
        let greeting = BufReader::new(node.stdout.take().unwrap()).lines().map_while(Result::ok);
        let greeting: Vec<String> =
            greeting.take_while(|line| !line.contains("the next start carries on")).collect();
        let address = greeting.iter().find_map(|line| {
            line.trim().strip_prefix("listening on")?.trim().strip_prefix("http://")?.parse().ok()
        });
        let api = Api(address.expect("the address in the greeting"));
        eventually("a node that is ready", secs(20), || {
            api.try_get("/readyz").ok().filter(|answer| answer.is_ok())
        });
        api.post("/v1/tags", &json!({ "tag": "orders" })).ok();
        let stderr = node.stderr.take();
        Self { node, api, stderr, _data: data }
    }

    /// Makes changes, which are logged.
    fn change(&self) {
        for step in 1..=20 {
            self.api.patch("/v1/tags/orders", &json!({ "step": step })).ok();
        }
    }

    fn dropped(&self) -> u64 {
        let page = self.api.get("/metrics");
        let line = page.text().lines().find(|line| line.starts_with("mintleaf_log_lines_dropped_"));
        line.unwrap().split(' ').next_back().unwrap().parse().unwrap()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

#[test]
fn a_node_goes_on_while_nobody_reads_its_log_and_says_later_what_is_missing() {
    let mut unread = Unread::start();
    assert_eq!(unread.dropped(), 0);
    eventually("lines that are dropped", secs(120), || {
        unread.change();
        (unread.dropped() > 0).then_some(())
    });
    assert_eq!(unread.api.get("/v1/segment/orders?count=3").ids().len(), 3);
    assert!(unread.api.get("/livez").is_ok());

    let mut stderr = BufReader::new(unread.stderr.take().unwrap());
    let (said, says) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut line = String::new();
        while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.contains("lines of the log were dropped") {
                said.send(line.clone()).unwrap();
            }
            line.clear();
        }
    });
    let said = says.recv_timeout(secs(20)).expect("the number of lines that are missing");
    assert!(said.contains("lines="), "{said}");
    signal(unread.node.id(), "TERM").status().unwrap();
    assert!(unread.node.wait().unwrap().success());
    reader.join().unwrap();
}

#[test]
fn a_node_ends_in_time_though_nobody_reads_its_log() {
    let mut unread = Unread::start();
    // A pipe holds 64 KiB, and the queue in front of it 2 MiB.
    eventually("lines that are dropped", secs(120), || {
        unread.change();
        (unread.dropped() > 0).then_some(())
    });
    signal(unread.node.id(), "TERM").status().unwrap();
    let ended = await_some(secs(12), || unread.node.try_wait().unwrap());
    assert!(ended.expect("an end in time").success());
    let mut log = Vec::new();
    unread.stderr.take().unwrap().read_to_end(&mut log).unwrap();
    // A write that does not fit into the rest of a page of the pipe begins another page.
    assert!(log.len() >= 40_000, "the pipe was full: {}", log.len());
}
