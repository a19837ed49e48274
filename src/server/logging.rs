//! The log of a process, on standard error: how its lines look, and which there are.
//!
//! A level concerns the lines of this project. Libraries warn, and openraft is silent: its lines are for its
//! developers, a kilobyte each, and a line of this project has what an operator needs of them.

mod lines;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::panic;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload::{self, Handle};

use self::lines::Lines;
use crate::config::{LogFormat, LogLevel, LogSettings};
use crate::machine::clock::{Clock, SystemClock};
use crate::metrics::LOG_LINES_DROPPED;
use crate::text::timestamp::rfc3339;

/// The crates of this project. The targets of its lines begin with these.
const OWN_CRATES: [&str; 3] = ["mintleaf", "mintleaf_raft", "mintleaf_storage"];

/// The lines of this process, once it has a log.
static LINES: OnceLock<Lines> = OnceLock::new();

/// The log of this process, whose level can be changed.
pub struct Log {
    settings: LogSettings,
    level: LogLevel,
    /// Whether `RUST_LOG` sets which lines there are.
    is_fixed: bool,
    filter: Handle<Targets, Registry>,
}

impl Log {
    /// Begins the log. A level in `RUST_LOG` is as good as one of `--log-level`.
    ///
    /// # Errors
    /// When `RUST_LOG` is not a filter, or the system has no thread for the log.
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
        let (filtered, filter) = reload::Layer::new(filter);
        let queue = start_lines().map_err(|error| format!("the log cannot begin: {error}"))?;
        let lines = tracing_subscriber::fmt::layer()
            .with_timer(Milliseconds(SystemClock::default()))
            .with_writer(queue.clone())
            .with_ansi(io::stderr().is_terminal());
        let log = tracing_subscriber::registry().with(filtered);
        match settings.format {
            LogFormat::Text => log.with(lines).init(),
            LogFormat::Json => log.with(lines.json().with_span_list(false)).init(),
        }
        report_panics();
        Ok(Self { settings, level, is_fixed, filter })
    }

    /// Reads the level again from the settings file, the only source that may have changed, and logs the outcome.
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
                if self.filter.reload(filter_of(level)).is_ok() {
                    self.level = level;
                }
                if !is_quieter {
                    say();
                }
            }
        }
    }
}

fn start_lines() -> io::Result<&'static Lines> {
    // A separate descriptor, so that no lock of the standard library is held while a write waits.
    let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let say_dropped = |lines| {
        tracing::warn!(lines, "lines of the log were dropped, because nothing was reading it");
    };
    let lines = Lines::start(out, LOG_LINES_DROPPED.clone(), say_dropped)?;
    Ok(LINES.get_or_init(|| lines))
}

/// Has panics of any thread reported in the log, from here on.
pub fn report_panics() {
    panic::set_hook(Box::new(|what| {
        let Some(lines) = LINES.get() else { return };
        let thread = thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => {
                lines.say(&format_args!("thread '{name}' {what}\n{backtrace}"));
            }
            _ => lines.say(&format_args!("thread '{name}' {what}")),
        }
        if name == "main" {
            lines.flush();
        }
    }));
}

/// Waits until the log is written, for a second at most: the process is about to end.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// Writes these words behind the log, and waits for that as [`flush`] does.
pub fn last_words(words: &impl fmt::Display) {
    if let Some(lines) = LINES.get() {
        lines.say(words);
        lines.flush();
    }
}

/// Has `say` write to standard error itself, behind the log, and waits for both for at most a second.
pub fn say_last(say: impl FnOnce() + Send + 'static) {
    let deadline = LINES.get().map_or_else(Instant::now, Lines::flush);
    let (says, said) = mpsc::sync_channel(1);
    let speak = move || {
        say();
        let _ = says.send(());
    };
    if thread::Builder::new().name("mintleaf-last-words".to_owned()).spawn(speak).is_ok() {
        let _ = said.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

fn parsed(filter: &str) -> Result<Targets, String> {
    let parsed = filter.parse();
    parsed.map_err(|error| format!("RUST_LOG is no filter of log lines: {error}"))
}

/// The level of this name, in upper or lower case.
fn level_named(text: &str) -> Option<LogLevel> {
    <LogLevel as clap::ValueEnum>::from_str(text.trim(), true).ok()
}

/// The lines of this project down to `level`, and the warnings of libraries.
fn filter_of(level: LogLevel) -> Targets {
    let level = LevelFilter::from(level);
    let own = OWN_CRATES.map(|own| (own, level));
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("openraft", LevelFilter::OFF)
        .with_targets(own)
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
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
    use tracing::Level;

    #[test]
    fn a_level_concerns_this_project_and_no_library() {
        let debug = filter_of(LogLevel::Debug);
        let shows = |target, level: Level| debug.would_enable(target, &level);
        for own in OWN_CRATES {
            assert!(shows(own, Level::DEBUG) && !shows(own, Level::TRACE), "{own}");
        }
        assert!(shows("mintleaf::grants", Level::DEBUG), "a module is its crate's");
        assert!(shows("sled", Level::WARN) && !shows("sled", Level::INFO));
        assert!(!shows("openraft::core", Level::ERROR));
        assert!(!filter_of(LogLevel::Error).would_enable("sled", &Level::WARN));
    }

    #[test]
    fn a_filter_names_modules_and_levels() {
        let filter = parsed("info,openraft=off,mintleaf::grants=debug").expect("it is one");
        assert!(filter.would_enable("mintleaf::grants", &Level::DEBUG));
        assert!(!filter.would_enable("mintleaf::service", &Level::DEBUG));
        assert!(!filter.would_enable("openraft", &Level::ERROR));
        for wrong in ["a=b=c", "mintleaf=loud"] {
            let error = parsed(wrong).expect_err(wrong);
            assert!(error.starts_with("RUST_LOG is no filter of log lines: "), "{error}");
        }
    }

    #[test]
    fn a_level_is_named_in_any_case_and_a_filter_is_none() {
        assert_eq!(level_named("Info"), Some(LogLevel::Info));
        assert_eq!(level_named("TRACE"), Some(LogLevel::Trace));
        assert_eq!(level_named("info,openraft=off"), None);
        assert_eq!(level_named("mintleaf=debug"), None);
    }
}
