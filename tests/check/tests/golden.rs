//! Small histories, each with its expected report: `histories/NAME.jsonl` and `histories/NAME.txt`. The name
//! begins with the one promise that the history breaks, or with `clean`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mintleaf_check::{Input, Invariant, Options, Report, check};

fn histories() -> Vec<PathBuf> {
    let files = fs::read_dir("histories").unwrap().map(|entry| entry.unwrap().path());
    let mut histories: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    histories.sort();
    histories
}

fn judge(path: &Path, options: &Options) -> Report {
    let mut input = Input::default();
    input.file(path).unwrap();
    check(input, options).unwrap()
}

/// The promise that a history breaks, according to its name.
fn broken(path: &Path) -> Option<Invariant> {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.split('-').next().unwrap().parse().ok()
}

#[test]
fn every_history_gets_its_report() {
    for path in histories() {
        let report = judge(&path, &Options::default()).to_string();
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        assert_eq!(report, expected, "{}", path.display());
    }
}

#[test]
fn a_history_breaks_the_promise_that_it_is_named_after_and_no_other() {
    for path in histories() {
        let report = judge(&path, &Options::default());
        let violated = |invariant: &Invariant| report.verdicts[invariant].violations > 0;
        let violated: Vec<Invariant> = Invariant::ALL.into_iter().filter(violated).collect();
        assert_eq!(violated, Vec::from_iter(broken(&path)), "{}", path.display());
        assert_eq!(report.is_clean(), violated.is_empty());
        assert!(report.violations.iter().all(|violation| !violation.lines.is_empty()));
    }
}

#[test]
fn every_promise_is_broken_by_some_history() {
    let broken: BTreeSet<Invariant> = histories().iter().filter_map(|path| broken(path)).collect();
    assert!(broken.into_iter().eq(Invariant::ALL));
}

#[test]
fn a_promise_that_is_skipped_is_said_to_be() {
    for path in histories() {
        let options = Options { skip: Vec::from_iter(broken(&path)), ..Options::default() };
        let report = judge(&path, &options);
        assert!(report.is_clean(), "{}", path.display());
        for skipped in options.skip {
            let unchecked = &report.verdicts[&skipped].unchecked;
            assert!(unchecked.contains(&"skipped as asked".to_owned()), "{}", path.display());
        }
    }
}
