//! The log's warning about a tag that is nearly used up. Numbers are plenty, but a start that was set high, or few
//! digits, leave few.

/// The log warns of a tag with a smaller share of its ids left, and the console names it.
pub(super) const NEAR_END: f64 = 0.10;
/// It warns of the same tag again when this share of what was left at the last warning is used.
const AGAIN_AFTER: f64 = 0.5;

/// What the looks at the tags have found so far.
#[derive(Debug, Default)]
pub struct HeadroomLog {
    /// The tag of the last warning, and the share of its ids that was left.
    warned: Option<(String, f64)>,
    /// The count of changes before the last look.
    changes: Option<u64>,
}

impl HeadroomLog {
    /// Begins a look after this many changes of tags; false if the last look saw them all.
    pub(in crate::service) fn begin(&mut self, changes: u64) -> bool {
        self.changes.replace(changes) != Some(changes)
    }

    /// Takes the tag that is nearest to its end with the share of its ids that is left, and warns of it if that is due.
    pub(in crate::service) fn note(&mut self, lowest: Option<(f64, &str)>) {
        let Some((left, tag)) = lowest.filter(|(left, _)| *left < NEAR_END) else {
            self.warned = None;
            return;
        };
        let is_known = self
            .warned
            .as_ref()
            .is_some_and(|(warned, then)| warned == tag && left > then * AGAIN_AFTER);
        if !is_known {
            let percent = left * 100.0;
            tracing::warn!(tag, "a tag is near its end: {percent:.4} % of its ids are left");
            self.warned = Some((tag.to_owned(), left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_told_of_when_it_is_near_its_end_and_each_time_half_of_that_is_used() {
        let mut log = HeadroomLog::default();
        let mut warned = |left: f64, tag: &str| {
            log.note(Some((left, tag)));
            log.warned.clone().map(|(tag, left)| (tag, (left * 1000.0) as u64))
        };
        let shown = |tag: &str, left| Some((tag.to_owned(), left));
        assert_eq!(warned(0.5, "a"), None);
        assert_eq!(warned(0.08, "a"), shown("a", 80));
        assert_eq!(warned(0.07, "a"), shown("a", 80), "not again yet");
        assert_eq!(warned(0.04, "a"), shown("a", 40));
        assert_eq!(warned(0.03, "b"), shown("b", 30));
        assert_eq!(warned(0.5, "a"), None);
    }

    #[test]
    fn tags_are_looked_at_once_after_each_change() {
        let mut log = HeadroomLog::default();
        assert_eq!(
            [0, 0, 3, 3, 4].map(|changes| log.begin(changes)),
            [true, false, true, false, true]
        );
    }
}
