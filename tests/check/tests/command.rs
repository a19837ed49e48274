//! The command as users run it: files, standard input, exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mintleaf-check"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const STALE_READ: &str = include_str!("../histories/i6-stale-read.jsonl");

#[test]
fn a_clean_history_exits_with_0() {
    let output = run(&["histories/clean-small-cluster.jsonl"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).ends_with("no violation\n"));
}

#[test]
fn a_violation_exits_with_1_and_cites_lines_of_the_standard_input() {
    let output = run(&["-"], STALE_READ);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("\n  -:3: {\"op\":\"read\""));
}

#[test]
fn the_report_can_be_had_as_json() {
    let output = run(&["--json", "-"], STALE_READ);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["violations"][0]["invariant"], "I6");
    assert_eq!(report["violations"][0]["lines"][1]["line"], 3);
    assert_eq!(report["verdicts"]["I1"]["violations"], 0);
}

#[test]
fn a_line_that_cannot_be_read_exits_with_2_and_its_number() {
    let output = run(&["-"], "{\"op\":\"healed\",\"at\":1}\n\n{\"op\":\"heeled\"}\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("mintleaf-check: -:3: unknown variant `heeled`"));
    assert_eq!(run(&["no-such-file"], "").status.code(), Some(2));
    assert_eq!(run(&["--skip", "I7", "-"], "").status.code(), Some(2));
}

#[test]
fn several_files_are_one_history() {
    let history = "histories/i1-id-by-two-nodes.jsonl";
    let output = run(&[history, "histories/every-kind.jsonl"], "");
    let told = text(&output.stdout).to_owned();
    assert!(told.contains("`orders`: id 1 was handed out twice"), "{told}");
    assert!(told.contains("histories/every-kind.jsonl:1: "), "{told}");
}

#[test]
fn the_time_to_recover_can_be_set() {
    let history = "histories/i8-no-service-after-healing.jsonl";
    assert_eq!(run(&["--recovery", "12s", history], "").status.code(), Some(0));
    assert_eq!(run(&["--recovery", "11s", history], "").status.code(), Some(1));
}

#[test]
fn a_generated_history_is_the_same_for_the_same_seed_and_clean() {
    let history = run(&["--generate", "60000", "--seed", "7"], "").stdout;
    assert_eq!(history, run(&["--generate", "60000", "--seed", "7"], "").stdout);
    assert_ne!(history, run(&["--generate", "60000", "--seed", "8"], "").stdout);
    let report = run(&["-"], text(&history));
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stdout));
    assert!(!text(&report.stdout).contains("NOT CHECKED"));
}
