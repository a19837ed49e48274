//! The log of a run, line by line. The same seed gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Arguments;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::random::fnv;

/// The log of a run. It keeps a hash, counts and violations.
pub(crate) struct Trace {
    began: Instant,
    printed: bool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    hash: u64,
    lines: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Trace {
    /// A trace that begins now.
    pub(crate) fn new(printed: bool) -> Self {
        Self { began: Instant::now(), printed, kept: Mutex::default() }
    }

    /// Simulated milliseconds since the beginning.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes one event.
    pub(crate) fn note(&self, event: Arguments<'_>) {
        let micros = self.began.elapsed().as_micros();
        let line = format!("{:>5}.{:06} {event}", micros / 1_000_000, micros % 1_000_000);
        let mut kept = self.kept.lock();
        kept.hash = fnv(kept.hash, line.as_bytes());
        kept.lines += 1;
        if self.printed {
            println!("{line}");
        }
    }

    /// Notes a fault that was injected.
    pub(crate) fn fault(&self, kind: &'static str, detail: Arguments<'_>) {
        *self.kept.lock().faults.entry(kind).or_default() += 1;
        self.note(format_args!("FAULT {kind} {detail}"));
    }

    /// Notes a broken promise.
    pub(crate) fn violation(&self, what: &str) {
        self.note(format_args!("VIOLATION {what}"));
        self.kept.lock().violations.push(what.to_owned());
    }

    /// The hash of all lines, and their number.
    pub(crate) fn digest(&self) -> (u64, u64) {
        let kept = self.kept.lock();
        (kept.hash, kept.lines)
    }

    /// How often each kind of fault was injected.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.kept.lock().faults.clone()
    }

    /// Whether a promise was broken so far.
    pub(crate) fn is_broken(&self) -> bool {
        !self.kept.lock().violations.is_empty()
    }

    /// Every promise that was broken.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.kept.lock().violations.clone()
    }
}
