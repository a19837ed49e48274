//! A reader that types the commands of documents, from the first to the last.
//!
//! The document's ports become ports of this test, which keep their distances: 8080 to 8089 for clients, 9080 to 9089
//! for nodes, 6380 to 6382 for the Redis protocol.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::commands::{Kind, faults};
use super::markdown::{Block, Document};
use super::translations::original_of;
use crate::harness::{Api, Finished, Port, Process, Turn, eventually, mintleaf, secs};

/// How many client ports a document may use, from [`HTTP`] on.
const PORTS: u16 = 10;
const HTTP: u16 = 8080;
const RAFT: u16 = 9080;
const REDIS: u16 = 6380;
/// `dev --nodes 3` takes as many, from the first on.
const REDIS_PORTS: u16 = 3;
/// For an election and what hangs on it, on a machine that is busy with other tests.
const SETTLED_WITHIN: Duration = secs(20);
/// A table of Leaf as `mysqldump` has written it.
const LEAF_ALLOC: &str = include_str!("../../../src/leaf_tables/tests/mariadb.sql");

struct Reader {
    nodes: BTreeMap<String, (Process, Api)>,
    env: Vec<(String, String)>,
    ports: Vec<Port>,
    redis: Vec<Port>,
    // Goes after the nodes, which write to it.
    dir: TempDir,
    // A document may run a cluster.
    _turn: Turn,
}

impl Reader {
    fn new() -> Self {
        let turn = Turn::wait();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        symlink(mintleaf().command().get_program(), dir.path().join("bin/mintleaf")).unwrap();
        // An answer of 400 or more is an error.
        fs::write(dir.path().join(".curlrc"), "silent\nshow-error\nfail-with-body\n").unwrap();
        fs::write(dir.path().join("leaf_alloc.sql"), LEAF_ALLOC).unwrap();
        let (ports, redis) = (Port::claim_row(PORTS), Port::claim_row(REDIS_PORTS));
        let (nodes, env) = (BTreeMap::new(), Vec::new());
        let mut reader = Self { nodes, env, ports, redis, dir, _turn: turn };
        let path = std::env::var("PATH").unwrap();
        let home = reader.dir.path().display().to_string();
        reader.exports("PATH", &format!("{home}/bin:{path}"));
        reader.exports("CURL_HOME", &home);
        reader.exports("MINTLEAF_URL", &format!("http://127.0.0.1:{HTTP}"));
        reader
    }

    /// The command with this test's ports.
    fn here(&self, line: &str) -> String {
        let row = (0..PORTS).map(|n| HTTP + n).chain((0..PORTS).map(|n| RAFT + n));
        let mapped = row.zip(&self.ports).chain((REDIS..REDIS + REDIS_PORTS).zip(&self.redis));
        let line = mapped.fold(line.to_owned(), |line, (port, own)| {
            line.replace(&format!(":{port}"), &format!(":{}", own.addr().port()))
        });
        // An answer that is an error is one for the shell too.
        line.replace(
            &format!("redis-cli -p {REDIS}"),
            &format!("redis-cli -e -p {}", self.redis[0].addr().port()),
        )
    }

    /// Types one command, and compares its answer with what the document shows.
    fn types(&mut self, line: &str, shown: Option<&str>) -> Result<(), String> {
        match Kind::of(line) {
            Kind::Checked => return faults(line).into_iter().next().map_or(Ok(()), Err),
            Kind::Export(name, value) => self.exports(name, value),
            Kind::Node(arguments) => self.starts(arguments),
            Kind::Shell => return self.has_the_shell_do(line, shown),
        }
        Ok(())
    }

    fn has_the_shell_do(&mut self, line: &str, shown: Option<&str>) -> Result<(), String> {
        if self.nodes.is_empty()
            && ["curl", "redis-cli", "mintleaf"].iter().any(|client| line.contains(client))
        {
            // What the text says that its examples talk to.
            self.starts("dev");
        }
        self.awaits_nodes();
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &self.here(line)]).current_dir(self.dir.path());
        shell.envs(self.env.iter().map(|(name, value)| (name, value)));
        let run = Finished::of(&mut shell);
        if run.code != Some(0) {
            return Err(format!("{run:?}"));
        }
        if let Some(rest) = line.strip_prefix("mintleaf cluster remove ") {
            self.sees_the_end_of(rest.split(' ').next().unwrap_or_default());
        }
        shown.map_or(Ok(()), |shown| compare(shown, &run.stdout))
    }

    /// Sets a variable for the commands that follow.
    fn exports(&mut self, name: &str, value: &str) {
        let value = self.here(value);
        self.env.push((name.to_owned(), value));
    }

    /// Starts a node, after it has stopped the one of this id or, for `dev`, the one before at this address.
    fn starts(&mut self, arguments: &str) {
        let arguments = self.here(arguments);
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let given = |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1).copied();
        let default = self.ports[0].addr().to_string();
        let http = given("--http").unwrap_or(&default);
        let name = given("--node-id").map_or(format!("dev at {http}"), |id| format!("node {id}"));
        self.stops(&name);
        let mut command = mintleaf().command();
        command.args(&words);
        if given("--http").is_none() {
            command.args(["--http", http]);
        }
        let log = self.dir.path().join(format!("{name}.log"));
        let process = Process::start(&name, command.current_dir(self.dir.path()), &log).unwrap();
        self.nodes.insert(name, (process, Api(http.parse().unwrap())));
    }

    /// Asks a node to stop, if it runs, and sees that it does.
    fn stops(&mut self, name: &str) {
        if let Some((mut before, _)) = self.nodes.remove(name) {
            before.signal("TERM");
            assert_eq!(before.exit_code(SETTLED_WITHIN), Some(0), "{name}");
        }
    }

    /// Carries out a block, and before it what its first line says has happened.
    fn carries_out(&mut self, block: &Block, absent: &[&str]) -> Result<(), String> {
        let running = |id: &u64| format!("node {id}");
        for name in block.lost.iter().map(running) {
            let (mut lost, _) = self.nodes.remove(&name).expect("the node runs");
            lost.kill();
        }
        block.stopped.iter().map(running).for_each(|name| self.stops(&name));
        let began = Instant::now();
        for (line, shown) in block.commands() {
            if let Some(program) = absent.iter().find(|program| line.starts_with(**program)) {
                eprintln!("SKIPPED: {program} is not installed: {line}");
                continue;
            }
            self.types(&line, shown.as_deref()).map_err(|wrong| format!("{line}\n{wrong}"))?;
        }
        match (block.within, began.elapsed()) {
            (Some(within), took) if took > within => Err(format!("{}took {took:?}", block.text)),
            _ => Ok(()),
        }
    }

    fn awaits_nodes(&mut self) {
        for (name, (process, api)) in &mut self.nodes {
            eventually(&format!("{name} to be ready"), SETTLED_WITHIN, || {
                assert!(process.is_running(), "{name} has ended");
                // A node that speaks TLS answers 400 from the moment on that it serves clients.
                let answer = api.try_get("/readyz").ok()?;
                (answer.status == 200 || answer.text().contains("speaks TLS")).then_some(())
            });
        }
    }

    /// Sees that a removed node ends with exit code 3.
    fn sees_the_end_of(&mut self, id: &str) {
        let (mut process, _) = self.nodes.remove(&format!("node {id}")).unwrap();
        assert_eq!(process.exit_code(SETTLED_WITHIN), Some(3), "{}", process.log());
    }
}

/// Whether an answer has the form that a document shows: the same fields, and values of the same type.
fn compare(shown: &str, answer: &str) -> Result<(), String> {
    let read = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("{error}: {text}"))
    };
    let (shown, answer) = (read(shown)?, read(answer)?);
    if alike(&shown, &answer) { Ok(()) } else { Err(format!("shown {shown}, and it is {answer}")) }
}

fn alike(shown: &Value, answer: &Value) -> bool {
    match (shown, answer) {
        (Value::Object(shown), Value::Object(answer)) => {
            let fields =
                shown.keys().all(|name| answer.contains_key(name)) && shown.len() == answer.len();
            fields && shown.iter().all(|(name, value)| alike(value, &answer[name]))
        }
        (Value::Array(shown), Value::Array(answer)) => {
            shown.is_empty() == answer.is_empty()
                && shown.iter().zip(answer).all(|(a, b)| alike(a, b))
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) => true,
        (shown, answer) => shown == answer,
    }
}

/// Executes all commands of the documents, in turn and with the same nodes.
fn read(documents: &[Document]) {
    let mut reader = Reader::new();
    let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let absent = ["redis-cli", "openssl"].into_iter().filter(|program| !is_there(program));
    let absent: Vec<_> = absent.collect();
    let mut commands = 0;
    for document in documents {
        let blocks = document.blocks.iter();
        for block in blocks.filter(|block| block.is_shell() && block.needs.is_none()) {
            commands += block.commands().len();
            let done = reader.carries_out(block, &absent);
            assert!(done.is_ok(), "{}: {}", document.name(), done.unwrap_err());
        }
    }
    assert!(commands > 0, "{} shows no command", documents[0].name());
}

macro_rules! carried_out {
    ($($test:ident: $($document:literal),+;)*) => {$(
        #[test]
        fn $test() {
            read(&[$(super::document($document)),+]);
        }
    )*
        const CARRIED_OUT: &[&str] = &[$($($document),+),*];
    };
}

carried_out! {
    the_commands_of_the_readme_work: "README.md";
    the_commands_of_the_api_work: "docs/api.md";
    the_commands_of_the_command_line_work: "docs/command-line.md";
    the_commands_of_the_redis_protocol_work: "docs/redis.md";
    the_commands_of_choosing_work: "docs/choosing.md";
    the_commands_of_operating_work:
        "docs/operating/README.md", "docs/operating/ids.md", "docs/operating/monitoring.md",
        "docs/operating/upgrading.md", "docs/operating/cluster.md", "docs/operating/recovery.md";
    the_commands_of_security_work: "docs/security.md";
    the_commands_of_scaling_work: "docs/scaling.md";
    the_commands_of_coming_from_leaf_work: "docs/migrating-from-leaf.md";
    the_commands_of_coming_from_tinyid_work: "docs/migrating-from-tinyid.md";
    the_commands_of_coming_from_cosid_work: "docs/migrating-from-cosid.md";
}

#[test]
fn all_other_documents_show_commands_that_are_checked_only() {
    let mut complaints = Vec::new();
    for document in super::documents() {
        // A translation has the commands of its original.
        if CARRIED_OUT.contains(&document.name().as_str()) || original_of(&document).is_some() {
            continue;
        }
        for block in
            document.blocks.iter().filter(|block| block.is_shell() && block.needs.is_none())
        {
            for (line, _) in block.commands() {
                match Kind::of(&line) {
                    Kind::Checked => complaints.extend(faults(&line)),
                    _ => complaints.push(format!("nobody carries this out: {line}")),
                }
            }
        }
    }
    super::none(&complaints);
}

#[test]
fn answers_are_compared_by_their_form() {
    let shown = r#"{"tag":"a","ids":["1","2"],"next":null}"#;
    assert_eq!(compare(shown, r#"{"ids":["7"],"tag":"b","next":null}"#), Ok(()));
    for other in [r#"{"tag":"a","ids":["1"]}"#, r#"{"tag":"a","ids":[1],"next":null}"#, "{}", ""] {
        assert!(compare(shown, other).is_err(), "{other}");
    }
}
