//! The auth file on disk.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::error::{ConfigError, fault};
use super::pem_file::is_exposed;
use crate::access::{AUTH_FILE_BYTES_MAX, AuthFile};

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
    /// When it cannot be read, is too long, or somebody other than its owner may read it.
    pub fn read(&self) -> Result<Vec<u8>, ConfigError> {
        let unreadable = |error| self.fault(error);
        let file = File::open(&self.0).map_err(unreadable)?;
        if is_exposed(&file.metadata().map_err(unreadable)?) {
            return Err(self.fault("other users may read or write it; chmod 600 it"));
        }
        let mut text = Vec::new();
        file.take(AUTH_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
        Ok(text)
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
        fault("auth-file", format_args!("{}: {what}", self.0.display()))
    }
}
