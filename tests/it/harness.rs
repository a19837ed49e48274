//! What every test here starts with: the binary under test, and `mintleaf-harness`, which does the rest.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use mintleaf_harness::*;

/// The binary under test: the one that was built with it, or one of a release, as `scripts/release-check` names it.
pub(crate) fn mintleaf() -> Binary {
    let named = std::env::var_os("MINTLEAF_BINARY");
    named.map_or_else(|| Binary::at(env!("CARGO_BIN_EXE_mintleaf")), Binary::at)
}

/// Says that it is over when it goes out of scope, so that a test that fails ends the threads that it would wait for.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a program is installed. If not, it prints a message.
pub(crate) fn runs(program: &str, args: &[&str]) -> bool {
    let runs = Command::new(program).args(args).output().is_ok_and(|probe| probe.status.success());
    if !runs {
        eprintln!("SKIPPED: {program} {} does not run here", args.join(" "));
    }
    runs
}

/// Whether npm can install these packages into a directory. If not, it prints a message.
pub(crate) fn npm_installs(packages: &[&str], place: &Path) -> bool {
    let place = place.to_str().unwrap();
    let install = ["120", "npm", "install", "--silent", "--prefix", place];
    runs("timeout", &[&install[..], packages].concat())
}

/// A Python with redis-py: the system's, or another one.
pub(crate) fn python_with_redis() -> Option<Command> {
    let pythons = ["/usr/bin/python3", "python3"];
    let python = pythons.into_iter().find(|python| runs(python, &["-c", "import redis"]))?;
    Some(Command::new(python))
}
