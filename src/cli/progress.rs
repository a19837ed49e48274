//! How far a long command has come, for whoever watches it on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line on stderr that is written over and over, and is gone at the end. Nothing where stderr is no terminal.
pub(super) struct Progress {
    what: &'static str,
    unit: Unit,
    shown: bool,
    next: Option<Instant>,
}

/// In what is counted.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Bytes,
    Entries,
}

impl Progress {
    pub(super) fn new(what: &'static str, unit: Unit) -> Self {
        let next = io::stderr().is_terminal().then(Instant::now);
        Self { what, unit, shown: false, next }
    }

    /// Reports that so much is done.
    pub(super) fn at(&mut self, done: u64) {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        self.next = Some(Instant::now() + INTERVAL);
        self.shown = true;
        let amount = match self.unit {
            Unit::Bytes => format!("{}.{} MB", done / 1_000_000, done / 100_000 % 10),
            Unit::Entries => format!("{done} entries"),
        };
        // Whoever does not see it misses nothing.
        let _ = write!(io::stderr(), "\r{} {amount}\u{1b}[K", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
