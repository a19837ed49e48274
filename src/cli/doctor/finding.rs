//! What a check has found.

use serde_json::{Value, json};

use super::super::style::{BAD, DOUBTFUL, GOOD};
use super::super::table::shown;

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// A node works, but not as well as it could, or not for long.
    Doubtful,
    /// A node does not start, or does not do its work.
    Bad,
    /// The command cannot find out.
    Unknown,
}

impl Health {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Doubtful => "warning",
            Self::Bad => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// What one check has found, in words for a person, and what helps.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) health: Health,
    detail: String,
    hint: Option<String>,
}

/// What all checks have found, each below the name of its check.
pub(super) type Findings = Vec<(&'static str, Finding)>;

impl Finding {
    pub(super) fn good(detail: impl Into<String>) -> Self {
        Self { health: Health::Good, detail: detail.into(), hint: None }
    }

    pub(super) fn doubtful(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with(Health::Doubtful, detail, hint)
    }

    pub(super) fn bad(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with(Health::Bad, detail, hint)
    }

    pub(super) fn unknown(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with(Health::Unknown, detail, hint)
    }

    fn with(health: Health, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { health, detail: detail.into(), hint: Some(hint.into()) }
    }

    pub(super) fn to_json(&self, check: &str) -> Value {
        json!({
            "check": check,
            "status": self.health.name(),
            "detail": self.detail,
            "hint": self.hint,
        })
    }

    pub(super) fn to_text(&self, check: &str) -> String {
        let style = match self.health {
            Health::Good => GOOD,
            Health::Doubtful | Health::Unknown => DOUBTFUL,
            Health::Bad => BAD,
        };
        let (name, detail) = (self.health.name(), shown(&self.detail));
        let hint = self.hint.as_deref().map_or(String::new(), |hint| format!("         {hint}\n"));
        format!("{style}{name:<7}{style:#}  {check}: {detail}\n{hint}")
    }
}
