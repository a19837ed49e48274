//! The table of what holds where two things meet, in `tests/README.md`: no pair is forgotten, and each test is there.

use std::fs;

use super::sources::sources;
use super::{none, root};

/// Everything that the table crosses with everything else, in its order.
const THINGS: [&str; 11] = [
    "delete", "import", "raise", "restore", "periods", "digits", "freeze", "level", "drain",
    "transfer", "removal",
];

#[test]
fn each_pair_of_interactions_is_shown_by_tests_that_exist_or_said_to_mean_nothing() {
    let readme = fs::read_to_string(root().join("tests/README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with("Interactions\n"));
    let section = section.expect("there is a section of interactions");
    let mut complaints = Vec::new();
    for (at, one) in THINGS.iter().enumerate() {
        for other in &THINGS[at + 1..] {
            let pair = format!("{one} × {other}");
            let times = section.split(&pair).skip(1).filter(|rest| !continues(rest)).count();
            if times != 1 {
                complaints.push(format!("{pair} stands there {times} times"));
            }
        }
    }
    let tests: Vec<String> = sources(&["tests/it", "tests/simulation", "core/src", "raft/src", "src"])
        .iter()
        .flat_map(|source| {
            let module = source.module();
            source.tests.iter().map(move |test| format!("{module}::{test}"))
        })
        .collect();
    for row in section.lines().filter(|line| line.starts_with("| ") && line.contains(" × ")) {
        let shown_by = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap();
        let named: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            complaints.push(format!("{row}: no test"));
        }
        let gone = named.iter().filter(|name| !tests.iter().any(|test| test == *name));
        complaints.extend(gone.map(|name| format!("there is no test {name}")));
    }
    none(&complaints);
}

/// Whether a word goes on here, so that another one was found.
fn continues(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_alphabetic())
}
