//! The log of a process, on standard error: how its lines look, and which there are.
//!
//! A level concerns the lines of this project. Libraries warn, and openraft is silent: its lines are for those who
//! develop it, of a kilobyte each, and whatever an operator needs of them is in a line of this project.

use std::fmt::{self, Write};
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::clock::{Clock, SystemClock};
use crate::config::{LogFormat, LogLevel, LogSettings};
use crate::timestamp::rfc3339;

/// The crates of this project, by which the targets of its lines begin.
const OWN_CRATES: [&str; 3] = ["mintleaf", "mintleaf_raft", "mintleaf_storage"];

/// The log of this process, whose level can be changed.
pub struct Log {
    settings: LogSettings,
    level: LogLevel,
    /// Whether `RUST_LOG` says which lines there are.
    is_fixed: bool,
    set: Box<dyn Fn(EnvFilter) -> bool + Send>,
}

impl Log {
    /// Begins the log. A level in `RUST_LOG` is as good as one of `--log-level`.
    ///
    /// # Errors
    /// When `RUST_LOG` is no filter.
    ///
    /// # Panics
    /// When this process has a log already.
    pub fn begin(settings: LogSettings) -> Result<Self, String> {
        let named = settings.filter.as_deref().map(|text| (level_named(text), text));
        let is_fixed = named.is_some();
        let (level, filter) = match named {
            None => (settings.level, filter_of(settings.level)),
            Some((Some(level), _)) => (level, filter_of(level)),
            Some((None, text)) => (settings.level, parsed(text)?),
        };
        let log = tracing_subscriber::fmt()
            .with_timer(Milliseconds(SystemClock::default()))
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal());
        let set: Box<dyn Fn(EnvFilter) -> bool + Send> = match settings.format {
            LogFormat::Text => {
                let log = log.with_env_filter(filter).with_filter_reloading();
                let handle = log.reload_handle();
                log.init();
                Box::new(move |filter| handle.reload(filter).is_ok())
            }
            LogFormat::Json => {
                let log = log.json().with_env_filter(filter).with_filter_reloading();
                let handle = log.reload_handle();
                log.init();
                Box::new(move |filter| handle.reload(filter).is_ok())
            }
        };
        Ok(Self { settings, level, is_fixed, set })
    }

    /// Reads the level again where it may have changed, which is the settings file, and says what came of it.
    pub fn read_level_again(&mut self) {
        if self.is_fixed {
            return tracing::info!("the log level is unchanged: RUST_LOG decides");
        }
        match self.settings.read_level_again() {
            Err(error) => {
                tracing::error!(%error, "cannot read the log level again; the old one stays");
            }
            Ok(level) if level == self.level => {
                tracing::info!("the log level is unchanged: {}", level.name());
            }
            Ok(level) => {
                let before = self.level.name();
                // The line is written while the more verbose of both levels is in force, so that it is seen.
                let say = || {
                    tracing::info!("the log level is {} from now on, was {before}", level.name());
                };
                let is_quieter = (level as u8) < self.level as u8;
                if is_quieter {
                    say();
                }
                if (self.set)(filter_of(level)) {
                    self.level = level;
                }
                if !is_quieter {
                    say();
                }
            }
        }
    }
}

fn parsed(filter: &str) -> Result<EnvFilter, String> {
    let parsed = EnvFilter::try_new(filter);
    parsed.map_err(|error| format!("RUST_LOG is no filter of log lines: {error}"))
}

/// The level of this name, in any case of its letters.
fn level_named(text: &str) -> Option<LogLevel> {
    <LogLevel as clap::ValueEnum>::from_str(text.trim(), true).ok()
}

/// The lines of this project down to `level`, and the warnings of libraries.
fn filter_of(level: LogLevel) -> EnvFilter {
    EnvFilter::new(directives(level))
}

fn directives(level: LogLevel) -> String {
    let libraries = if level == LogLevel::Error { "error" } else { "warn" };
    let mut directives = format!("{libraries},openraft=off");
    for own in OWN_CRATES {
        // Writing to a `String` cannot fail.
        let _ = write!(directives, ",{own}={}", level.name());
    }
    directives
}

/// Times as they are everywhere: RFC 3339 in UTC, with three decimals.
struct Milliseconds(SystemClock);

impl FormatTime for Milliseconds {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        line.write_str(&rfc3339(self.0.now_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_concerns_this_project_and_no_library() {
        assert_eq!(
            directives(LogLevel::Debug),
            "warn,openraft=off,mintleaf=debug,mintleaf_raft=debug,mintleaf_storage=debug"
        );
        assert!(directives(LogLevel::Error).starts_with("error,"));
    }

    #[test]
    fn a_level_is_named_in_any_case_and_a_filter_is_none() {
        assert_eq!(level_named("Info"), Some(LogLevel::Info));
        assert_eq!(level_named("TRACE"), Some(LogLevel::Trace));
        assert_eq!(level_named("info,openraft=off"), None);
        assert_eq!(level_named("mintleaf=debug"), None);
    }
}
