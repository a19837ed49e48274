//! The settings of a process's log.

use std::path::PathBuf;

use super::args::{LogFormat, LogLevel};
use super::error::ConfigError;
use super::settings_file::read_file;

/// The settings of a process's log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// How lines look.
    pub format: LogFormat,
    /// Which lines there are.
    pub level: LogLevel,
    /// `RUST_LOG`: a level alone, or a filter by module, which wins over the level.
    pub filter: Option<String>,
    /// The file that may set which lines there are; a flag and the environment win over it.
    pub(super) level_file: Option<PathBuf>,
}

impl LogSettings {
    pub(super) fn of(format: Option<LogFormat>, level: Option<LogLevel>) -> Self {
        let (format, level) = (format.unwrap_or_default(), level.unwrap_or_default());
        // Users who look for a fault know this variable from other programs, so it does not have this program's prefix.
        #[expect(clippy::disallowed_methods)]
        let filter = std::env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
        Self { format, level, filter, level_file: None }
    }

    /// The level as the file says it now; without a file, the one that the process was started with.
    ///
    /// # Errors
    /// When the file cannot be read, or is not TOML of settings.
    pub fn read_level_again(&self) -> Result<LogLevel, ConfigError> {
        match &self.level_file {
            Some(path) => Ok(read_file(path)?.0.service.log_level.unwrap_or_default()),
            None => Ok(self.level),
        }
    }
}
