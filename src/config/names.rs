//! The names of settings.

/// How much alike two names must be, in thousandths, for one to count as a misspelling of the other.
const LIKENESS_MIN: u32 = 850;

/// The name that the user may have meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &&str| (strsim::jaro_winkler(name, known) * 1_000.0) as u32;
    known.max_by_key(likeness).filter(|known| likeness(known) >= LIKENESS_MIN)
}

/// The environment variable of a setting.
pub(super) fn variable(setting: &str) -> String {
    format!("MINTLEAF_{}", setting.replace('-', "_").to_uppercase())
}
