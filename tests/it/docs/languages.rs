//! The functions of `docs/languages.md` take ids from three nodes, while one of them hangs and the others die in turn. The
//! lines of `docs/redis.md` are of programs that do so elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::{document, root};
use crate::harness::{Cluster, Finished, Process, eventually, mintleaf, runs, secs};

/// The port of the functions before that of node 1.
const HTTP: u16 = 8080;
/// The first id of the tag: no JavaScript `number` holds it.
const FIRST: u64 = (1 << 53) + 1;
/// Ids that have to come after each fault.
const MORE: usize = 60;

/// Three nodes, and a directory for the program that takes ids from them.
struct Stage {
    cluster: Cluster,
    dir: TempDir,
}

impl Stage {
    fn new() -> Self {
        let mut cluster = mintleaf().prepare(3, &[]);
        cluster.start_all();
        let api = cluster.api(1);
        api.post("/v1/tags", &json!({ "tag": "orders", "start": FIRST })).ok();
        api.post("/v1/tags", &json!({ "tag": "invoices", "format": "INV-{id:06}" })).ok();
        Self { cluster, dir: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file beside the program.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir().join(name), text).unwrap();
    }

    /// Writes a function of `docs/languages.md`, with the addresses of the nodes.
    fn write_function(&self, name: &str) {
        let text = fs::read_to_string(root().join("clients/http").join(name)).unwrap();
        let targets = self.cluster.targets().into_iter().zip(1..);
        let text = targets.fold(text, |text, ((_, http), id)| {
            text.replace(&format!("localhost:{}", HTTP + id), &http.to_string())
        });
        self.write(name, &text);
    }

    /// Runs a program that sees an unknown tag refused and takes two texts in vain, as numbers, by one request. Then it
    /// prints ids until it is ended, one a line. Fails if it ends by itself, if no more ids come after a fault, or if one
    /// comes twice.
    fn plays(mut self, command: &mut Command) {
        let log = self.dir().join("program.log");
        let mut program = Process::start("program", command.current_dir(self.dir()), &log).unwrap();
        await_more(&mut program, "before any fault");
        self.cluster.process(1).signal("STOP");
        await_more(&mut program, "while node 1 hangs");
        self.cluster.process(1).signal("CONT");
        self.cluster.await_ready();
        for id in [2, 3] {
            self.cluster.kill(id);
            await_more(&mut program, &format!("without node {id}"));
            self.cluster.start_node(id);
            self.cluster.await_ready();
        }
        let ids = ids(&program);
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "an id came twice");
        assert!(distinct.first() >= Some(&&FIRST));
    }
}

/// The ids that a program has printed.
fn ids(program: &Process) -> Vec<u64> {
    let said = program.said();
    // The last line may still be being written.
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    whole.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{said}"))).collect()
}

fn await_more(program: &mut Process, when: &str) {
    let goal = ids(program).len() + MORE;
    eventually(&format!("{MORE} ids {when}"), secs(30), || {
        assert!(program.is_running(), "{when}: {}", program.said());
        (ids(program).len() >= goal).then_some(())
    });
}

const LOOP_IN_PYTHON: &str = "\
import time
import ids
try:
    ids.next_ids('nobody')
except Exception as refusal:
    assert '404' in str(refusal), refusal
else:
    raise SystemExit('an unknown tag has ids')
try:
    ids.next_ids('invoices', 2)
except ValueError as refusal:
    assert 'such as INV-000001: use next_texts' in str(refusal), refusal
else:
    raise SystemExit('texts are numbers')
assert ids.next_texts('invoices') == ['INV-000003']
while True:
    for id in ids.next_ids('orders'):
        print(id, flush=True)
    time.sleep(0.005)
";

#[test]
fn python_with_requests_goes_on_when_nodes_hang_and_die() {
    if runs("python3", &["-c", "import requests"]) {
        let stage = Stage::new();
        stage.write_function("ids.py");
        stage.write("main.py", LOOP_IN_PYTHON);
        stage.plays(Command::new("python3").arg("main.py"));
    }
}

const LOOP_IN_NODE: &str = "\
import { setTimeout as sleep } from 'node:timers/promises';
import { nextIds, nextTexts } from './ids.mjs';
const refusal = await nextIds('nobody').catch((error) => error);
if (!/404/.test(refusal.message)) throw refusal;
const texts = await nextIds('invoices', 2).catch((error) => error);
if (!/such as INV-000001: use nextTexts/.test(texts.message)) throw texts;
const [next] = await nextTexts('invoices');
if (next !== 'INV-000003') throw new Error(next);
for (;;) {
  for (const id of await nextIds('orders')) {
    if (typeof id !== 'bigint') throw new Error(`${typeof id} ${id}`);
    console.log(`${id}`);
  }
  await sleep(5);
}
";

#[test]
fn node_with_fetch_goes_on_when_nodes_hang_and_die() {
    if runs("node", &["--eval", "AbortSignal.timeout(1); fetch"]) {
        let stage = Stage::new();
        stage.write_function("ids.mjs");
        stage.write("main.mjs", LOOP_IN_NODE);
        stage.plays(Command::new("node").arg("main.mjs"));
    }
}

const LOOP_IN_PHP: &str = "\
<?php
require 'ids.php';
try {
    next_ids('nobody');
    exit('an unknown tag has ids');
} catch (RuntimeException $refusal) {
    str_contains($refusal->getMessage(), '404') || throw $refusal;
}
try {
    next_ids('invoices', 2);
    exit('texts are numbers');
} catch (UnexpectedValueException $refusal) {
    str_contains($refusal->getMessage(), 'such as INV-000001: use next_texts') || throw $refusal;
}
next_texts('invoices') === ['INV-000003'] || exit('texts are wasted');
for (;;) {
    foreach (next_ids('orders', 2) as $id) {
        fwrite(STDOUT, \"$id\\n\");
    }
    usleep(5000);
}
";

#[test]
fn php_goes_on_when_nodes_hang_and_die() {
    if runs("php", &["-r", "curl_version();"]) {
        let stage = Stage::new();
        stage.write_function("ids.php");
        stage.write("main.php", LOOP_IN_PHP);
        stage.plays(Command::new("php").arg("main.php"));
    }
}

const LOOP_IN_CSHARP: &str = "\
try
{
    await Ids.Next(\"nobody\");
    throw new InvalidOperationException(\"an unknown tag has ids\");
}
catch (HttpRequestException refusal) when (refusal.Message.Contains(\"unknown_tag\")) { }
try
{
    await Ids.Next(\"invoices\", 2);
    throw new InvalidOperationException(\"texts are numbers\");
}
catch (FormatException refusal) when (refusal.Message.Contains(\"such as INV-000001: use NextTexts\")) { }
string next = (await Ids.NextTexts(\"invoices\"))[0];
if (next != \"INV-000003\") throw new InvalidOperationException(next);
while (true)
{
    foreach (long id in await Ids.Next(\"orders\", 2)) Console.WriteLine(id);
    await Task.Delay(5);
}
";

#[test]
fn csharp_goes_on_when_nodes_hang_and_die() {
    if runs("dotnet", &["--version"]) {
        let stage = Stage::new();
        let shop = ["new", "console", "--name", "shop", "--output", "."];
        let made = Finished::of(Command::new("dotnet").args(shop).current_dir(stage.dir()));
        assert_eq!(made.code, Some(0), "{made:?}");
        stage.write_function("Ids.cs");
        stage.write("Program.cs", LOOP_IN_CSHARP);
        let build = ["build", "--output", "out"];
        let built = Finished::of(Command::new("dotnet").args(build).current_dir(stage.dir()));
        assert_eq!(built.code, Some(0), "{built:?}");
        stage.plays(Command::new("dotnet").arg("out/shop.dll"));
    }
}

/// Programs of `tests/redis`, which `tls/redis.rs` runs while nodes are killed, drained and rolled.
const OF_REDIS: [&str; 9] = [
    "redis_py.py",
    "ioredis.cjs",
    "node_redis.cjs",
    "phpredis.php",
    "go/main.go",
    "java/Jedis.java",
    "java/Lettuce.java",
    "java/RedissonIds.java",
    "java/Spring.java",
];

#[test]
fn the_lines_for_each_library_for_redis_are_those_that_tests_run() {
    let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let page = document("docs/redis.md");
    let blocks = page.blocks.iter().filter(|block| !block.is_shell());
    let blocks: Vec<String> = blocks.map(|block| trimmed(block.text.trim())).collect();
    assert_eq!(blocks.len(), OF_REDIS.len(), "one for each library");
    for name in OF_REDIS {
        let program = fs::read_to_string(root().join("tests/redis").join(name)).unwrap();
        let program = trimmed(&program);
        assert!(blocks.iter().any(|block| program.contains(block)), "no lines of {name}");
    }
}
