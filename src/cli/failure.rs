//! Why a command failed, in words for a person.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use hyper::StatusCode;
use mintleaf_core::shape::Kind;
use serde_json::Value;

use super::table::{shown, word};

/// Longest line of text that is shown of an answer that is no problem.
const LINE_BYTES_MAX: usize = 200;

/// Why a command failed, and what may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) detail: String,
    pub(super) hint: Option<Cow<'static, str>>,
    /// The `code` of the problem in the node's refusal, if a node refused.
    code: Option<String>,
    /// The tag that the user named and that does not exist, if that is what failed.
    pub(super) unknown_tag: Option<String>,
    /// Whether no node could be asked, or none has answered.
    unanswered: bool,
    /// The exit code of the command.
    pub(super) exit_code: u8,
}

impl Failure {
    pub(super) fn new(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            hint: None,
            code: None,
            unknown_tag: None,
            unanswered: false,
            exit_code: 1,
        }
    }

    pub(super) fn hinting(detail: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: Some(hint.into()), ..Self::new(detail) }
    }

    /// The same, with another exit code than 1.
    pub(super) fn exiting(self, exit_code: u8) -> Self {
        Self { exit_code, ..self }
    }

    /// The failure of a request without an answer.
    pub(super) fn unanswered(self) -> Self {
        Self { unanswered: true, ..self }
    }

    /// Whether no node could be asked, or none has answered.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Whether a node refused with a problem of this code.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// The same failure for the user who named this tag of this kind: an unknown one is named, with the command that
    /// creates it.
    pub(super) fn about_tag(self, name: &str, kind: Kind) -> Self {
        if !self.is("unknown_tag") {
            return self;
        }
        let kind = match kind {
            kind if kind == Kind::default() => String::new(),
            kind => format!(" --kind {}", kind.name()),
        };
        Self {
            detail: format!("there is no such tag: {}", shown(name)),
            hint: Some(format!("mintleaf tag create {}{kind} creates it", word(name)).into()),
            unknown_tag: Some(name.to_owned()),
            ..self
        }
    }

    /// The failure of a request that a node refused.
    pub(super) fn refused(status: StatusCode, body: &[u8]) -> Self {
        let problem = serde_json::from_slice::<Value>(body).unwrap_or_default();
        // Only what is no node, or another port of one, answers in text.
        let line = str::from_utf8(body).ok().and_then(|text| text.lines().next());
        let line = line.filter(|line| {
            (1..=LINE_BYTES_MAX).contains(&line.len()) && !line.starts_with(['<', '{'])
        });
        let detail = match (problem["detail"].as_str(), line) {
            (Some(detail), _) => shown(detail),
            (None, Some(line)) => format!("the answer was {status}: {}", shown(line)),
            (None, None) => format!("the node answered {status}"),
        };
        let code = problem["code"].as_str().map(str::to_owned);
        let hint = match code.as_deref() {
            Some("unknown_tag") => Some("mintleaf tag create NAME creates a tag"),
            Some("tag_exists") => Some(
                "mintleaf tag update NAME changes a tag; create --if-not-exists leaves it as it is",
            ),
            Some("unauthenticated") => {
                Some("--token-file or MINTLEAF_TOKEN_FILE names a file with the token to show")
            }
            Some("unavailable") => Some("mintleaf cluster status shows which nodes can be reached"),
            _ => None,
        };
        Self { hint: hint.map(Cow::Borrowed), code, ..Self::new(detail) }
    }
}

/// A file or a directory that could not be read, written, or the like.
pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_the_nodes_words() {
        let body = br#"{"detail":"there is no such tag","code":"unknown_tag"}"#;
        let failure = Failure::refused(StatusCode::NOT_FOUND, body);
        assert_eq!(failure.detail, "there is no such tag");
        assert!(failure.hint.is_some_and(|hint| hint.contains("tag create")));
        let body = r#"{"detail":"no\u001b[2J\nerror: forged"}"#;
        let failure = Failure::refused(StatusCode::NOT_FOUND, body.as_bytes());
        assert_eq!(failure.detail, "no\\u{1b}[2J\\u{a}error: forged");
        let failure = Failure::refused(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(failure.detail, "the node answered 502 Bad Gateway");
        let failure = Failure::refused(StatusCode::BAD_REQUEST, b"not here\x1b\nbut there");
        assert_eq!(failure.detail, "the answer was 400 Bad Request: not here\\u{1b}");
    }
}
