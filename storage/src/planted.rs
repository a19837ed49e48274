//! Planted bugs: proof that the tests can fail.
//!
//! `if planted("name")` stands next to a line that keeps a promise, and breaks it. Without the
//! feature `planted-bugs` the function is constant and nothing of it is compiled. With it, the
//! environment variable `MINTLEAF_PLANTED` names the one bug that is switched on. Every name is in
//! the table `tests/planted-bugs`, beside the promise it breaks and the test that must notice;
//! `scripts/mutants` goes through them all.

/// Whether the bug of this name is switched on: never, in this build.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
#[must_use]
pub const fn planted(_name: &str) -> bool {
    false
}

/// Whether the bug of this name is switched on.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(chosen).as_deref() == Some(name)
}

/// The bug that the environment names. One that is not in the table ends the process: a test that
/// passes under a misspelt name must not count.
#[cfg(feature = "planted-bugs")]
fn chosen() -> Option<String> {
    const TABLE: &str = include_str!("../../tests/planted-bugs");
    let name = std::env::var_os("MINTLEAF_PLANTED")?.into_string().unwrap_or_default();
    let names = TABLE.lines().filter_map(|line| line.split_whitespace().next());
    if names.filter(|known| !known.starts_with('#')).any(|known| known == name) {
        return Some(name);
    }
    eprintln!("MINTLEAF_PLANTED: there is no bug {name:?} in tests/planted-bugs");
    std::process::abort();
}
