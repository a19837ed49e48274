//! What kind of command a line is, and whether what it calls knows its flags.

use std::collections::BTreeMap;
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

/// What is wrong with a command line of cargo, of `scripts/`, or of `mintleaf`: a script that is not there, or a flag or
/// a script's command that its help does not name.
pub(super) fn faults(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let words = line.split_whitespace().skip_while(|word| word.contains('='));
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let Some((&program, arguments)) = words.split_first() else { return Vec::new() };
    let is_script = program.starts_with("scripts/");
    if is_script && !super::root().join(program).is_file() {
        return vec![format!("there is no {program}")];
    }
    let help = match program {
        "cargo" => help_of(program, &arguments[..arguments.len().min(1)]),
        "mintleaf" => help_of(program, commands_of(arguments)),
        _ if is_script => help_of(program, &[]),
        _ => return Vec::new(),
    };
    let known: Vec<&str> = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    let flags = arguments.iter().filter(|word| word.starts_with("--"));
    let flags = flags.map(|word| word.split('=').next().unwrap_or_default());
    let command = arguments.first().filter(|word| is_script && is_lower_case(word)).copied();
    let unknown = command.into_iter().chain(flags).filter(|word| !known.contains(word));
    unknown.map(|word| format!("`{program}` knows no {word}: {line}")).collect()
}

fn is_lower_case(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// As many of these words as are commands of `mintleaf` and not arguments of one.
fn commands_of<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let depth = match words {
        ["cluster", "level", ..] => 3,
        [
            "tag" | "cluster" | "token" | "secret" | "cert" | "worker" | "pool" | "register"
            | "sequence",
            ..,
        ] => 2,
        _ => 1,
    };
    let are_commands = words.iter().take(depth).take_while(|word| is_lower_case(word)).count();
    &words[..are_commands]
}

/// What a program says of itself. Asked once each.
pub(super) fn help_of(program: &str, commands: &[&str]) -> String {
    static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let key = format!("{program} {}", commands.join(" "));
    let ask = || {
        let mut command = match program {
            "mintleaf" => mintleaf().command(),
            "cargo" => Command::new(env!("CARGO")),
            script => Command::new(super::root().join(script)),
        };
        // `cargo test --help` opens a manual; -h prints text.
        let flag = if program == "cargo" { "-h" } else { "--help" };
        let run = Finished::of(command.args(commands).arg(flag).current_dir(super::root()));
        assert_eq!(run.code, Some(0), "{program} {commands:?}: {run:?}");
        run.stdout
    };
    known.entry(key).or_insert_with(ask).clone()
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
        "scripts/cluster strat",
        "scripts/simulate --sed 1",
        "cargo test --wrkspace",
        "mintleaf next --tag a",
    ] {
        assert_eq!(faults(wrong).len(), 1, "{wrong}");
    }
}
