//! The error of a setting that cannot be used.

use std::fmt;

use thiserror::Error;

/// A setting that cannot be used; the message names it and says what would do.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// The error of a setting that names itself.
    pub(super) fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The error for the setting `name`; `what` goes on after its flag.
pub(super) fn fault(name: &str, what: impl fmt::Display) -> ConfigError {
    ConfigError(format!("--{name} {what}"))
}
