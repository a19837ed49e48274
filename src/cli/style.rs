//! What colours mean. They are printed on terminals alone.

use anstyle::{AnsiColor, Style};

/// Heads of tables.
pub(super) const BOLD: Style = Style::new().bold();
/// What went well.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// What the user should look at.
pub(super) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
/// What went wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What may help.
pub(super) const HELPFUL: Style = AnsiColor::Cyan.on_default().bold();
