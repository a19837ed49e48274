//! The names of ids and grants in a history. A part of a tag with its own numbers becomes a separate tag there.

use mintleaf_check::history::Interval;
use siphasher::sip::SipHasher13;

/// A tag whose ids begin at 1 each day, and rise over all nodes and days.
pub(crate) const STRICT_DAYS: &str = "strict-days";
/// The number of a period is multiplied by this and added to its ids. All ids of a run are far smaller.
const PERIOD_BASE: u64 = 10_000_000_000;
/// How many sections of the log share the keys of a sequence; see docs/operating/ids.md.
const SECTIONS: u64 = 4096;

/// The name of a key's numbers.
pub(crate) fn of_key(tag: &str, key: &str) -> String {
    format!("{tag}/{key}")
}

/// The name of what a section of a sequence is granted.
pub(crate) fn of_section(tag: &str, section: u64) -> String {
    format!("{tag}#{section}")
}

/// The section of a key, by the published rule rather than by the code under test.
pub(crate) fn section_of(key: &str) -> u64 {
    SipHasher13::new().hash(key.as_bytes()) % SECTIONS
}

/// The name of ids of one period, and the ids under that name. Only the pair of period and id is unique. The
/// ids of the strict tag share one name, and start with their period instead, so that a judge sees them rise
/// over all periods.
pub(crate) fn of_period(tag: &str, period: u64, ids: Vec<Interval>) -> (String, Vec<Interval>) {
    if tag != STRICT_DAYS {
        return (format!("{tag}/{period}"), ids);
    }
    let first = period * PERIOD_BASE;
    let dated = ids.into_iter().map(|(start, end)| (first + start, first + end));
    (tag.to_owned(), dated.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_apart_and_those_of_the_strict_tag_follow_each_other() {
        assert_eq!(of_period("days", 2026, vec![(3, 7)]), ("days/2026".to_owned(), vec![(3, 7)]));
        let [(name, today), (same, tomorrow)] =
            [20_261_122, 20_261_123].map(|day| of_period(STRICT_DAYS, day, vec![(3, 7)]));
        assert_eq!((&*name, &*same), (STRICT_DAYS, STRICT_DAYS));
        assert_eq!(today, [(202_611_220_000_000_003, 202_611_220_000_000_007)]);
        assert!(today[0].1 < tomorrow[0].0);
    }

    #[test]
    fn a_key_belongs_to_the_section_that_nodes_draw_its_numbers_from() {
        assert_eq!(["a", "room-17", "user/42"].map(section_of), [2067, 261, 994]);
    }
}
