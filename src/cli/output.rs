//! Text and JSON on a stdout that may close early, and what goes wrong on stderr. Colour is for terminals alone, and
//! `NO_COLOR` keeps it off them.
//!
//! What a server sent may hold anything. Before it is printed here, everything that a terminal could take for more than
//! text is removed. ([`cell`] and tables escape it before that, so that it cannot bring its own styles or lines.)

use std::io::{self, BufRead, IsTerminal, Write};

use anstyle::Style;
use serde_json::Value;

use super::failure::Failure;
use super::style::{BAD, DOUBTFUL, HELPFUL};
use super::table::{TextTable, shown, shown_json, shown_lines, shown_styled};

/// Prints lines of text.
///
/// # Errors
/// When stdout fails; a reader that left is not a failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_as_it_is(&shown_lines(text))
}

/// Prints a text for a program, which takes it as it is.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_as_it_is(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignoring_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints text with styles, which only terminals get. Text that others have written is [`shown`] in it, so that it
/// brings no styles.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_styled(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let text = shown_styled(text);
    ignoring_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints a table.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_table<const N: usize>(table: &TextTable<N>) -> Result<(), Failure> {
    print_styled(&table.styled())
}

/// Prints one JSON document and a line break.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_json(value: &Value) -> Result<(), Failure> {
    print_as_it_is(&shown_json(&format!("{value:#}\n")))
}

fn ignoring_closed_pipe(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints on stderr what went wrong, and what may help.
pub(super) fn complain(failure: &Failure) {
    say(BAD, "error", &failure.detail);
    if let Some(hint) = &failure.hint {
        say(HELPFUL, "hint", hint);
    }
}

/// Prints a warning on stderr for the user, and goes on.
pub(super) fn warn(what: &str) {
    say(DOUBTFUL, "warning", what);
}

fn say(style: Style, kind: &str, what: &str) {
    // If stderr fails, there is no place left to report it.
    let _ = writeln!(anstream::stderr().lock(), "{style}{kind}{style:#}: {}", shown_lines(what));
}

/// Asks the user at the terminal whether to go on; `yes` is the answer if it is set. Without a terminal there is no
/// user to ask, and the command wants `--yes`.
///
/// # Errors
/// When the user does not want to, or cannot be asked.
pub(super) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let why = format!("{question} Without a terminal to ask at, this wants --yes");
        return Err(Failure::new(why).exiting(2));
    }
    let _ = write!(anstream::stderr().lock(), "{DOUBTFUL}{}{DOUBTFUL:#} [y/N] ", shown(question));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        true => Ok(()),
        false => Err(Failure::hinting("nothing was done", "--yes does it without a question")),
    }
}

/// A field of a node's answer for people, [`shown`]; `-` when it is missing, null or empty.
pub(super) fn cell(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => shown(text),
        other => shown(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_show_text_bare_and_nothing_as_a_dash() {
        let object = json!({"a": "x", "b": 7, "c": null, "d": ""});
        assert_eq!(cell(&json!({"a": "x\u{1b}[2J\n\u{9b}"}), "a"), "x\\u{1b}[2J\\u{a}\\u{9b}");
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(|field| cell(&object, field)),
            ["x", "7", "-", "-", "-"]
        );
    }

    #[test]
    fn styles_are_all_that_a_terminal_is_told() {
        for (text, told) in [
            (
                "\u{1b}[1mHEAD\u{1b}[0m\na\u{1b}[38;5;1mb\n",
                "\u{1b}[1mHEAD\u{1b}[0m\na\u{1b}[38;5;1mb\n",
            ),
            ("a\u{1b}[2Jb\u{1b}]0;c\u{7}", "a\\u{1b}[2Jb\\u{1b}]0;c\\u{7}"),
            ("\u{1b}[\u{1b}[1m\u{1b}[", "\\u{1b}[\u{1b}[1m\\u{1b}["),
            ("é\u{1b}[1", "é\\u{1b}[1"),
        ] {
            assert_eq!(shown_styled(text), told, "{text:?}");
        }
    }

    #[test]
    fn json_is_shown_without_what_a_terminal_would_act_on_and_says_the_same() {
        let value = json!({"tag": "a\u{1b}\u{9b}\u{7f}\u{202e}\n\u{2028}é"});
        let document = shown_json(&format!("{value:#}"));
        assert!(!document.chars().any(|c| c.is_control() && c != '\n'), "{document:?}");
        assert!(!document.contains(['\u{202e}', '\u{2028}']), "{document:?}");
        assert_eq!(serde_json::from_str::<Value>(&document).unwrap(), value);
    }

    #[test]
    fn a_reader_that_left_is_not_a_failure() {
        assert!(ignoring_closed_pipe(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(ignoring_closed_pipe(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
