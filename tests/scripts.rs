//! Stories of the state: commands and the answers to them.
//!
//! Each file under `tests/scripts/` is one story on one state. A block is a comment, commands, a
//! line `---` and the expected output; blank lines separate blocks. `UPDATE=1 cargo test --test
//! scripts` writes the actual output into the files. Read it before you keep it.
//!
//! | command | |
//! | --- | --- |
//! | `at MS` | stamps the commands that follow; 0 at the start |
//! | `create TAG [step=N] [start=N] [description=TEXT]` | |
//! | `update TAG [step=N] [max_id=N] [description=TEXT]` | |
//! | the same with `[by=NAME] [rate_limit=N\|none] [frozen=BOOL]` | admin changes, by `ops`; a `create` without a name is one on first use |
//! | `transfer TO [from=N]` · `demote NODE` · `remove NODE` | changes that are only recorded, by `ops` |
//! | `audit [after=N] [limit=N]` | reads |
//! | `import TAG max_id=N [from=NAME] [step=N] [description=TEXT] [by=NAME]` | from `leaf.sql`, by `ops` |
//! | `delete TAG` · `grab TAG [size=N]` | |
//! | `get TAG` · `list [after=TAG] [limit=N]` · `clock` | reads |
//! | `format LAYOUT [epoch=MS]` | fixes the format of snowflake ids; epoch 0 |
//! | `acquire NONCE [node=N] [worker=N] [window=MS]` | node 1, a window of 60,000 |
//! | `renew WORKER nonce=N [window=MS]` · `release WORKER nonce=N from=MS` | |
//! | `report NODE clock=MS` | |
//! | `workers` · `reports` | reads |
//! | `snapshot` · `restore` | writes the state to a snapshot; goes back to the last snapshot |
//!
//! Double quotes enclose a word with spaces.
//!
//! This is one long file on purpose: the words of the stories' language follow one after the other.

#![allow(clippy::unwrap_used, reason = "a story that cannot be read or written fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use mintleaf_core::encoding::{read_snapshot, write_snapshot};
use mintleaf_core::snowflake::{Format, Rules};
use mintleaf_core::state::{
    Actor, Change, Command, Facts, MemberFacts, Protection, Response, State, TagFields, TagRow,
};
use mintleaf_core::tag::BizTag;

#[test]
fn scripts_tell_what_the_state_does() {
    let update = std::env::var_os("UPDATE").is_some();
    for path in script_paths() {
        let told = fs::read_to_string(&path).unwrap();
        let happened = play(&told);
        if update {
            fs::write(&path, &happened).unwrap();
        }
        if let Some((told, happened)) = first_difference(&told, &happened).filter(|_| !update) {
            panic!("{}: told\n\n{told}\n\nbut what happened is\n\n{happened}\n", path.display());
        }
    }
}

fn script_paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are no scripts");
    paths
}

/// The script with the actual output of its commands.
fn play(script: &str) -> String {
    let mut stage = Stage::default();
    let blocks: Vec<String> = script
        .split("\n\n")
        .map(|block| block.trim_matches('\n'))
        .filter(|block| !block.is_empty())
        .map(|block| {
            let lines: Vec<&str> = block.lines().take_while(|line| *line != "---").collect();
            let commands = lines.iter().filter(|line| !line.starts_with('#'));
            let outputs: String = commands.map(|line| stage.run(line)).collect();
            match outputs.trim_end() {
                "" => lines.join("\n"),
                outputs => format!("{}\n---\n{outputs}", lines.join("\n")),
            }
        })
        .collect();
    blocks.join("\n\n") + "\n"
}

fn first_difference<'a>(told: &'a str, happened: &'a str) -> Option<(&'a str, &'a str)> {
    let mut blocks = told.split("\n\n").zip(happened.split("\n\n"));
    blocks
        .find(|(told, happened)| told != happened)
        .or_else(|| (told != happened).then_some((told, happened)))
}

/// The state of a story.
#[derive(Default)]
struct Stage {
    state: State,
    now_ms: u64,
    snapshot: Vec<u8>,
}

impl Stage {
    /// Executes one line and returns its output, in whole lines.
    fn run(&mut self, line: &str) -> String {
        let words = split(line);
        let words = Words { line, words: &words };
        match words.verb() {
            "at" => self.now_ms = words.name().parse().unwrap(),
            "get" => return self.get(words.name()),
            "list" => return self.list(&words),
            "audit" => return self.audit(&words),
            "transfer" | "demote" | "remove" | "floor" => {
                return told_of_workers(&self.state.apply(self.now_ms, &words.recorded()));
            }
            "clock" => return format!("clock={}\n", self.state.clock_ms()),
            "workers" => return self.workers(),
            "reports" => return self.reports(),
            "format" | "rules" | "acquire" | "renew" | "lift" | "release" | "report" => {
                return told_of_workers(&self.state.apply(self.now_ms, &words.worker_command()));
            }
            "snapshot" => return self.snapshot(),
            "restore" => return self.restore(),
            _ => return self.apply(&words),
        }
        String::new()
    }

    fn apply(&mut self, words: &Words) -> String {
        let tag = match BizTag::parse(words.name()) {
            Ok(tag) => tag,
            Err(invalid) => return format!("invalid: {invalid}\n"),
        };
        let name = tag.to_string();
        let response = self.state.apply(self.now_ms, &words.command(tag));
        match response {
            Response::Tag(row) => format!("{}d {}\n", words.verb(), told(&row)),
            Response::Imported { before: None, row } => format!("created {}\n", told(&row)),
            Response::Imported { before: Some(before), row } if before < row.max_id => {
                format!("raised {}\n", told(&row))
            }
            Response::Imported { row, .. } => format!("unchanged {}\n", told(&row)),
            Response::Deleted => format!("deleted {name}\n"),
            Response::Segment { start, end, step: _ } => {
                let max_id = self.state.tag(&name).unwrap().max_id;
                format!("[{start}, {end}) max_id={max_id}\n")
            }
            Response::UnknownTag => format!("unknown tag {name}\n"),
            Response::TagExists => format!("{name} exists\n"),
            Response::MaxIdBehind { max_id } => format!("max_id stays at {max_id}\n"),
            Response::Exhausted => format!("{name} is exhausted\n"),
            Response::Frozen => format!("{name} is frozen\n"),
            other => told_of_workers(&other),
        }
    }

    fn get(&self, name: &str) -> String {
        let Some(row) = self.state.tag(name) else { return format!("unknown tag {name}\n") };
        format!(
            "{} created_at={} updated_at={}\n",
            told(&row),
            row.created_at_ms,
            row.updated_at_ms
        )
    }

    fn list(&self, words: &Words) -> String {
        let limit = words.number("limit").unwrap_or(usize::MAX);
        let rows = self.state.tags_after(words.value("after"), limit);
        let mut output = format!("{} of {}\n", rows.len(), self.state.len());
        for row in rows {
            writeln!(output, "  {}", told(&row)).unwrap();
        }
        output
    }

    fn audit(&self, words: &Words) -> String {
        let limit = words.number("limit").unwrap_or(usize::MAX);
        let page = self.state.audit_page(words.number("after").unwrap_or(0), limit, |_| true);
        let mut output = String::new();
        for entry in page.entries {
            let (index, action, target) = (entry.index, entry.action.name(), entry.target);
            let by = format_args!("at {} by {}", entry.time_ms, entry.actor);
            let (before, after) = (facts(&entry.before), facts(&entry.after));
            writeln!(output, "{index} {action} {target} {by}: {before} -> {after}").unwrap();
        }
        if let Some(next) = page.next {
            writeln!(output, "more after {next}").unwrap();
        }
        output
    }

    fn workers(&self) -> String {
        let mut output = String::new();
        for row in self.state.workers() {
            let holder = row.nonce.map_or("nobody".to_owned(), |nonce| format!("nonce {nonce}"));
            let (worker_id, node_id) = (row.worker_id, row.node_id);
            let window = format_args!("[{}, {})", row.floor_ms, row.fence_ms);
            writeln!(output, "worker {worker_id} {window} node {node_id} {holder}").unwrap();
        }
        output
    }

    fn reports(&self) -> String {
        let mut output = String::new();
        for (node_id, report) in self.state.reports() {
            let (clock_ms, stamped_ms) = (report.clock_ms, report.stamped_ms);
            writeln!(output, "node {node_id} showed {clock_ms} at {stamped_ms}").unwrap();
        }
        output
    }

    fn snapshot(&mut self) -> String {
        self.snapshot = written(&self.state);
        format!("{} tags\n", self.state.len())
    }

    fn restore(&mut self) -> String {
        self.state = read_snapshot(self.snapshot.as_slice()).unwrap();
        assert_eq!(written(&self.state), self.snapshot, "a restored state has another snapshot");
        format!("{} tags\n", self.state.len())
    }
}

fn written(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(&state.freeze(), &mut bytes).unwrap();
    bytes
}

fn told(row: &TagRow) -> String {
    let mut told = format!("{} max_id={} step={}", row.tag, row.max_id, row.step);
    if !row.description.is_empty() {
        write!(told, " description={:?}", row.description).unwrap();
    }
    if let Some(rate_limit) = row.protection.rate_limit {
        write!(told, " rate_limit={rate_limit}").unwrap();
    }
    told + if row.protection.frozen { " frozen" } else { "" }
}

fn facts(facts: &Facts) -> String {
    let shown: Vec<_> =
        facts.iter().map(|(field, fact)| format!("{}={fact}", field.name())).collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") }
}

fn told_of_workers(response: &Response) -> String {
    match response {
        Response::Format { format } => {
            format!("layout={} epoch={}\n", format.layout(), format.epoch_ms())
        }
        Response::Window { worker_id, floor_ms, fence_ms } => {
            format!("worker {worker_id} [{floor_ms}, {fence_ms})\n")
        }
        Response::Rules { rules } => {
            format!("{}, pool={} window={}\n", rules.format(), rules.pool(), rules.window_ms_max())
        }
        Response::Floor { before_ms, floor_ms } => format!("floor {before_ms} -> {floor_ms}\n"),
        Response::BelowFloor { floor_ms } => format!("below the floor {floor_ms}\n"),
        Response::Noted => "noted\n".to_owned(),
        Response::NoFormat => "no format yet\n".to_owned(),
        Response::NoWorkerFree { free_from_ms } => format!("none free before {free_from_ms}\n"),
        Response::NoSuchWorker => "no such worker id\n".to_owned(),
        Response::NotHolder => "not the holder\n".to_owned(),
        Response::OutOfTime => "out of time\n".to_owned(),
        Response::Invalid { what } => format!("invalid: {what}\n"),
        other => panic!("not an answer about worker ids: {other:?}"),
    }
}

/// The words of one line.
struct Words<'a> {
    line: &'a str,
    words: &'a [String],
}

impl Words<'_> {
    fn verb(&self) -> &str {
        &self.words[0]
    }

    fn name(&self) -> &str {
        self.words.get(1).unwrap_or_else(|| panic!("no name in {:?}", self.line))
    }

    /// The value of `key=value`.
    fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        let parse = |text: &str| {
            text.parse().unwrap_or_else(|_| panic!("{key} is no number in {:?}", self.line))
        };
        self.value(key).map(parse)
    }

    fn command(&self, tag: BizTag) -> Command {
        match (self.verb(), self.value("by")) {
            ("create", None) => Command::CreateTag {
                tag,
                step: self.number("step").unwrap_or(1000),
                start: self.number("start").unwrap_or(1),
                description: self.value("description").unwrap_or_default().to_owned(),
            },
            ("grab", _) => Command::Grab { tag, size: self.number("size").unwrap_or(0) },
            (_, by) => administer(by.unwrap_or("ops"), self.change(tag)),
        }
    }

    fn change(&self, tag: BizTag) -> Change {
        let description = self.value("description").map(str::to_owned);
        let rate_limit = self.value("rate_limit").map(|rate| rate.parse().ok());
        let frozen = self.value("frozen").map(|frozen| frozen == "true");
        let step = self.number("step");
        match self.verb() {
            "create" => Change::CreateTag {
                tag,
                step: step.unwrap_or(1000),
                start: self.number("start").unwrap_or(1),
                description: description.unwrap_or_default(),
                protection: Protection {
                    rate_limit: rate_limit.flatten(),
                    frozen: frozen.unwrap_or(false),
                },
            },
            "update" => {
                let max_id = self.number("max_id");
                let fields = TagFields { step, max_id, description, rate_limit, frozen };
                Change::UpdateTag { tag, fields }
            }
            "delete" => Change::DeleteTag { tag },
            "import" => Change::ImportTag {
                import: self.value("from").unwrap_or("leaf.sql").into(),
                tag,
                step: step.unwrap_or(1000),
                max_id: self.number("max_id").unwrap_or(1),
                description: description.unwrap_or_default(),
            },
            _ => panic!("no such command: {:?}", self.line),
        }
    }

    /// An action of `ops` that concerns no tag.
    fn recorded(&self) -> Command {
        let id = self.name().parse().unwrap();
        let node = |voter| MemberFacts { raft: "n:1".to_owned(), http: String::new(), voter };
        let change = match self.verb() {
            "floor" => Change::RaiseSnowflakeFloor { floor_ms: id },
            "transfer" => Change::TransferLeader { from: self.number("from"), to: id },
            "demote" => Change::SetNode { id, before: Some(node(true)), after: node(false) },
            _ => Change::RemoveNode { id, before: Some(node(true)) },
        };
        administer("ops", change)
    }
}

impl Words<'_> {
    fn worker_command(&self) -> Command {
        let nonce = || self.number("nonce").unwrap();
        let window_ms = || self.number("window").unwrap_or(60_000);
        let number = || self.name().parse().unwrap();
        let format = || {
            let epoch_ms = self.number("epoch").unwrap_or(0);
            Format::new(self.name().parse().unwrap(), epoch_ms).unwrap()
        };
        match self.verb() {
            "format" => Command::FixFormat { format: format() },
            "rules" => {
                let pool = self.value("pool").unwrap().parse().unwrap();
                Command::FixRules { rules: Rules::new(format(), pool, window_ms()).unwrap() }
            }
            "lift" => {
                let floor_ms = self.number("floor").unwrap();
                Command::LiftWindow { worker_id: number(), nonce: nonce(), floor_ms }
            }
            "acquire" => Command::AcquireWorker {
                node_id: self.number("node").unwrap_or(1),
                nonce: self.name().parse().unwrap(),
                worker_id: self.number("worker"),
                window_ms: window_ms(),
            },
            "renew" => {
                Command::RenewWorker { worker_id: number(), nonce: nonce(), window_ms: window_ms() }
            }
            "release" => Command::ReleaseWorker {
                worker_id: number(),
                nonce: nonce(),
                unused_from_ms: self.number("from").unwrap(),
            },
            "report" => Command::ReportClock {
                node_id: self.name().parse().unwrap(),
                clock_ms: self.number("clock").unwrap(),
            },
            _ => panic!("no such command: {:?}", self.line),
        }
    }
}

fn administer(name: &str, change: Change) -> Command {
    Command::Administer { actor: Actor::parse(name).unwrap(), change }
}

/// Splits at spaces, but not inside double quotes, which are dropped.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for char in line.chars() {
        match char {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(char),
        }
    }
    words
}
