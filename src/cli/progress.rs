//! How far a long command has come, for a user who watches it on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two turns of the spinner.
const TICK: Duration = Duration::from_millis(120);
/// Reports in a second, at most.
const REPORTS_PER_SECOND: u8 = 10;

/// One line on stderr that is rewritten again and again, and is gone at the end. Nothing if stderr is not a terminal.
pub(super) struct Progress(ProgressBar);

/// What is counted.
pub(super) enum Unit {
    Bytes,
    Entries,
    /// Rows, of which there are this many.
    Rows(u64),
}

impl Progress {
    pub(super) fn new(what: &'static str, unit: Unit) -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(REPORTS_PER_SECOND);
        let (all, amount) = match unit {
            Unit::Bytes => (None, "{bytes} ({bytes_per_sec})"),
            Unit::Entries => (None, "{human_pos} entries"),
            Unit::Rows(all) => (Some(all), "{bar:30} {human_pos} of {human_len}"),
        };
        let bar = ProgressBar::with_draw_target(all, target).with_message(what);
        // A template that cannot be read leaves the bar as it is by default.
        if let Ok(style) = ProgressStyle::with_template(&format!("{{spinner}} {{msg}} {amount}")) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Reports that this much is done.
    pub(super) fn at(&mut self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
