//! The auth file on disk.

use std::path::PathBuf;

use super::error::{ConfigError, fault};
use super::named_file::{self, Kept};
use crate::access::{AUTH_FILE_BYTES_MAX, AuthFile};

/// The flag that names the file.
const FLAG: &str = "auth-file";

/// Where the tokens of clients are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSource(PathBuf);

impl AuthSource {
    /// The file at this path.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, is too long, or somebody other than its owner may read it.
    pub fn read(&self) -> Result<Vec<u8>, ConfigError> {
        named_file::read(FLAG, &self.0, AUTH_FILE_BYTES_MAX, Kept::Private)
    }

    /// The tokens that its text lists.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn parse(&self, text: &[u8]) -> Result<AuthFile, ConfigError> {
        let text = std::str::from_utf8(text).map_err(|_| self.fault("is not UTF-8"))?;
        AuthFile::parse(text).map_err(|error| self.fault(error))
    }

    fn fault(&self, what: impl std::fmt::Display) -> ConfigError {
        fault(FLAG, format_args!("{}: {what}", self.0.display()))
    }
}
