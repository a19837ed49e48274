//! The error of a setting that cannot be used.

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

use super::sources::Sources;

/// A setting that cannot be used. The message names it and says what would work.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
    /// Whether it names a file that is not there.
    is_missing: bool,
}

impl ConfigError {
    /// The error of a setting that names itself.
    pub(super) fn of(error: impl fmt::Display) -> Self {
        Self { message: error.to_string(), is_missing: false }
    }

    /// The same error, with settings named as they were given.
    pub(super) fn naming_sources(self, sources: &Sources) -> Self {
        Self { message: sources.name_sources(&self.message), ..self }
    }

    /// Whether a file that the setting names is missing. That may be so for a moment while it is replaced.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing
    }
}

/// The error for the setting `name`; `what` continues the sentence after its flag.
pub(super) fn fault(name: &str, what: impl fmt::Display) -> ConfigError {
    ConfigError::of(format_args!("--{name} {what}"))
}

/// The error for a file that the setting `name` names, and that cannot be read.
pub(super) fn unreadable(name: &str, path: &Path, error: &io::Error) -> ConfigError {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    ConfigError { is_missing, ..fault(name, format_args!("{}: {error}", path.display())) }
}
