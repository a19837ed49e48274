//! What kind of command a line is, and whether what it calls knows its flags.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::harness::{Finished, mintleaf};

/// What is to be done with a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// These arguments of `mintleaf` run a node until it is stopped.
    Node(&'a str),
    /// It builds, runs for long, or runs what was built: held against the help of what it calls.
    Checked,
    /// A variable of the commands that follow, and its value.
    Export(&'a str, &'a str),
    /// The shell carries it out.
    Shell,
}

impl<'a> Kind<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let arguments =
            line.strip_prefix("mintleaf ").or(line.strip_prefix("cargo run --release -- "));
        match arguments {
            Some(arguments) if arguments.starts_with("dev") || arguments.starts_with("serve") => {
                return Self::Node(arguments);
            }
            _ => {}
        }
        if let Some((name, value)) =
            line.strip_prefix("export ").and_then(|rest| rest.split_once('='))
        {
            return Self::Export(name, value);
        }
        let is_checked = |program: &str| line.split(' ').any(|word| word.starts_with(program));
        match ["scripts/", "target/"].into_iter().any(is_checked) || line.starts_with("cargo ") {
            true => Self::Checked,
            false => Self::Shell,
        }
    }
}

/// What is wrong with a command line of cargo, of `scripts/`, or of `mintleaf`: a script that is not there, or flags
/// and words that its help does not name.
pub(super) fn faults(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "--").collect();
    let Some((&program, arguments)) = words.split_first() else { return Vec::new() };
    let help = if let Some(name) = program.strip_prefix("scripts/") {
        let script = super::root().join(program);
        if !script.is_file() {
            return vec![format!("there is no script {name}")];
        }
        help_of(&script.display().to_string(), &[])
    } else if program == "cargo" {
        help_of("cargo", &arguments[..arguments.len().min(1)])
    } else if program == "mintleaf" {
        let is_word = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let commands: Vec<&str> = arguments.iter().take_while(is_word).take(3).copied().collect();
        help_of("mintleaf", deepest(&commands))
    } else {
        return Vec::new();
    };
    let flags = arguments.iter().filter(|word| word.starts_with("--"));
    let flags = flags.map(|word| word.split('=').next().unwrap_or_default());
    let is_unknown = |flag: &&str| {
        !help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == *flag)
    };
    flags.filter(is_unknown).map(|flag| format!("`{program}` knows no {flag}: {line}")).collect()
}

/// As many of these words as are commands of `mintleaf` and not arguments of one.
fn deepest<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let with_parts = ["tag", "cluster"];
    let level = words.first() == Some(&"cluster") && words.get(1) == Some(&"level");
    let depth = match words.first() {
        Some(first) if with_parts.contains(first) => 2 + usize::from(level),
        _ => 1,
    };
    &words[..words.len().min(depth)]
}

/// What a program says of itself. Asked once each.
pub(super) fn help_of(program: &str, commands: &[&str]) -> String {
    static KNOWN: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap();
    let known = known.get_or_insert_default();
    let key = format!("{program} {}", commands.join(" "));
    known
        .entry(key)
        .or_insert_with(|| {
            let mut command = match program {
                "mintleaf" => mintleaf(),
                "cargo" => Command::new(env!("CARGO")),
                script => Command::new(script),
            };
            // `cargo test --help` is a page that needs `man`; -h is text.
            let flag = if program == "cargo" { "-h" } else { "--help" };
            let run = Finished::of(
                command.args(commands).arg(flag).current_dir(Path::new(super::root())),
            );
            assert_eq!(run.code, Some(0), "{program} {commands:?}: {run:?}");
            run.stdout
        })
        .clone()
}

#[test]
fn lines_are_of_the_kind_that_they_look_like() {
    assert_eq!(Kind::of("cargo run --release -- dev"), Kind::Node("dev"));
    assert_eq!(Kind::of("mintleaf serve --node-id 1"), Kind::Node("serve --node-id 1"));
    assert_eq!(Kind::of("export A=b=c"), Kind::Export("A", "b=c"));
    assert_eq!(Kind::of("cargo test --workspace"), Kind::Checked);
    assert_eq!(Kind::of("mintleaf next orders"), Kind::Shell);
}

#[test]
fn flags_that_nobody_knows_are_found() {
    assert!(faults("scripts/cluster start # comes up").is_empty());
    assert!(faults("cargo test --workspace -- --any").is_empty());
    assert!(faults("mintleaf cluster add 4 --raft 127.0.0.1:1 --learner").is_empty());
    for wrong in [
        "scripts/nothing",
        "scripts/simulate --sed 1",
        "cargo test --wrkspace",
        "mintleaf next --tag a",
    ] {
        assert_eq!(faults(wrong).len(), 1, "{wrong}");
    }
}
