//! Which calls fail, and how slow a sync is.

use std::time::Duration;

use fuser::Errno;

use crate::glob;

/// Kinds of calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading a file.
    Read,
    /// All calls that take space or change a name: writing, growing, creating, renaming.
    Write,
    /// `fsync` and `fdatasync`, also of directories.
    Fsync,
}

/// The error of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device failed.
    Eio,
    /// The device is full.
    Enospc,
}

impl Failure {
    /// The kernel's number of the error.
    pub fn errno(self) -> Errno {
        match self {
            Failure::Eio => Errno::EIO,
            Failure::Enospc => Errno::ENOSPC,
        }
    }

    /// The text that programs print for it.
    pub fn text(self) -> &'static str {
        match self {
            Failure::Eio => "Input/output error",
            Failure::Enospc => "No space left on device",
        }
    }
}

/// A rule that makes calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kind of calls.
    pub operation: Operation,
    /// The error that they return.
    pub failure: Failure,
    /// Only the nth call from now on, counted from 1; `None` for all.
    pub nth: Option<u64>,
    /// Only calls on files whose path matches.
    pub pattern: Option<String>,
}

/// The rules in force.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Each with the number of calls that matched it.
    rules: Vec<(Rule, u64)>,
    /// The shortest time that a sync takes.
    pub(crate) slow_fsync: Duration,
    /// Calls that failed because of a rule.
    pub(crate) failed: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.rules.push((rule, 0));
    }

    pub(crate) fn heal(&mut self) {
        self.rules.clear();
        self.slow_fsync = Duration::ZERO;
    }

    /// Fails a call that a rule matches. `path` is called only when a rule has a pattern.
    pub(crate) fn check(
        &mut self,
        operation: Operation,
        path: impl Fn() -> Option<String>,
    ) -> Result<(), Errno> {
        for (rule, seen) in &mut self.rules {
            let on_it = || match &rule.pattern {
                None => true,
                Some(pattern) => path().is_some_and(|path| glob::matches(pattern, &path)),
            };
            if rule.operation != operation || !on_it() {
                continue;
            }
            *seen += 1;
            if rule.nth.is_none_or(|nth| nth == *seen) {
                self.failed += 1;
                return Err(rule.failure.errno());
            }
        }
        Ok(())
    }
}
