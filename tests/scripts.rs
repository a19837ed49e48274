//! Stories of the state, told in commands and what they answer.
//!
//! Each file under `tests/scripts/` is one story on one state. A block is a comment, commands, a
//! line `---` and the expected output; blank lines part blocks. `UPDATE=1 cargo test --test
//! scripts` writes down what really comes out, to be read before it is kept.
//!
//! | command | |
//! | --- | --- |
//! | `at MS` | stamps the commands that follow; 0 at the start |
//! | `create TAG [step=N] [start=N] [description=TEXT]` | |
//! | `update TAG [step=N] [max_id=N] [description=TEXT]` | |
//! | `delete TAG` · `grab TAG [size=N]` | |
//! | `get TAG` · `list [after=TAG] [limit=N]` · `clock` | reads |
//! | `snapshot` · `restore` | writes the state out; goes back to what was last written |
//!
//! A word with spaces stands in double quotes.

#![allow(clippy::unwrap_used, reason = "a story that cannot be read or written fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use mintleaf::state::{Command, Response, State, TagRow};
use mintleaf::tag::BizTag;

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

/// The script with the output that its commands really have.
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

/// What a story plays on.
#[derive(Default)]
struct Stage {
    state: State,
    now_ms: u64,
    snapshot: Vec<u8>,
}

impl Stage {
    /// Carries out one line and tells what came of it, in whole lines.
    fn run(&mut self, line: &str) -> String {
        let words = split(line);
        let words = Words { line, words: &words };
        match words.verb() {
            "at" => self.now_ms = words.name().parse().unwrap(),
            "get" => return self.get(words.name()),
            "list" => return self.list(&words),
            "clock" => return format!("clock={}\n", self.state.clock_ms()),
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
            Response::Deleted => format!("deleted {name}\n"),
            Response::Segment { start, end, step: _ } => {
                let max_id = self.state.tag(&name).unwrap().max_id;
                format!("[{start}, {end}) max_id={max_id}\n")
            }
            Response::UnknownTag => format!("unknown tag {name}\n"),
            Response::TagExists => format!("{name} exists\n"),
            Response::MaxIdBehind { max_id } => format!("max_id stays at {max_id}\n"),
            Response::Exhausted => format!("{name} is exhausted\n"),
            Response::Invalid { what } => format!("invalid: {what}\n"),
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

    fn snapshot(&mut self) -> String {
        self.snapshot = written(&self.state);
        format!("{} tags\n", self.state.len())
    }

    fn restore(&mut self) -> String {
        self.state = State::restore(self.snapshot.as_slice()).unwrap();
        assert_eq!(written(&self.state), self.snapshot, "a restored state has another snapshot");
        format!("{} tags\n", self.state.len())
    }
}

fn written(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.freeze().write_to(&mut bytes).unwrap();
    bytes
}

fn told(row: &TagRow) -> String {
    let mut told = format!("{} max_id={} step={}", row.tag, row.max_id, row.step);
    if !row.description.is_empty() {
        write!(told, " description={:?}", row.description).unwrap();
    }
    told
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
        let description = self.value("description").map(str::to_owned);
        match self.verb() {
            "create" => Command::CreateTag {
                tag,
                step: self.number("step").unwrap_or(1000),
                start: self.number("start").unwrap_or(1),
                description: description.unwrap_or_default(),
            },
            "update" => Command::UpdateTag {
                tag,
                step: self.number("step"),
                max_id: self.number("max_id"),
                description,
            },
            "delete" => Command::DeleteTag { tag },
            "grab" => Command::Grab { tag, size: self.number("size").unwrap_or(0) },
            _ => panic!("no such command: {:?}", self.line),
        }
    }
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
