//! Tags that an operator should look at: those whose callers were refused lately because no ids are left or the tag is
//! frozen, and the tag that is nearest to its end.
//!
//! For people who monitor a node. Nothing here decides what is handed out.

use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

use super::error::Error;

/// How long a refusal is shown.
const SHOWN_MS: u64 = 60_000;
/// Tags whose refusals are kept at most.
const TAGS_MAX: usize = 8;

/// What the callers of a tag were refused for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusedFor {
    /// The tag has fewer ids left than a caller asked for.
    Exhausted,
    /// The tag is frozen.
    Frozen,
}

impl RefusedFor {
    fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Exhausted => Some(Self::Exhausted),
            Error::Frozen => Some(Self::Frozen),
            _ => None,
        }
    }
}

/// A refusal that was lately.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The tag.
    pub tag: BizTag,
    /// What for.
    pub why: RefusedFor,
    /// How long ago its last caller was refused.
    pub ago_ms: u64,
}

/// The refusals of a node, by tag, and the tag that is nearest to its end.
#[derive(Default)]
pub(super) struct Refusals {
    /// Oldest first; the times are those of the monotonic clock.
    last: Mutex<Vec<(BizTag, RefusedFor, u64)>>,
    nearest: Mutex<Option<(f64, BizTag)>>,
}

impl Refusals {
    /// Notes that a caller was refused, if it is for one of these reasons. Drops the note if another caller writes at
    /// this moment: a flood of refusals must not queue up here.
    #[cold]
    pub(super) fn note(&self, tag: &BizTag, error: &Error, now_ms: impl FnOnce() -> u64) {
        let Some(why) = RefusedFor::of(error) else { return };
        let Some(mut last) = self.last.try_lock() else { return };
        last.retain(|(noted, ..)| noted != tag);
        if last.len() == TAGS_MAX {
            last.remove(0);
        }
        last.push((tag.clone(), why, now_ms()));
    }

    /// The refusals of the last minute, the latest first.
    pub(super) fn lately(&self, now_ms: u64) -> Vec<Refusal> {
        let last = self.last.lock();
        let refusal = |(tag, why, at_ms): &(BizTag, RefusedFor, u64)| {
            let ago_ms = now_ms.saturating_sub(*at_ms);
            (ago_ms < SHOWN_MS).then(|| Refusal { tag: tag.clone(), why: *why, ago_ms })
        };
        last.iter().rev().filter_map(refusal).collect()
    }

    pub(super) fn set_nearest(&self, nearest: Option<(f64, BizTag)>) {
        *self.nearest.lock() = nearest;
    }

    /// The tag that was nearest to its end at the last look, if it was near, and the share of its ids that was left.
    pub(super) fn nearest(&self) -> Option<(f64, BizTag)> {
        self.nearest.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(number: usize) -> BizTag {
        BizTag::parse(&format!("tag-{number}")).unwrap()
    }

    #[test]
    fn refusals_are_shown_for_a_minute_the_latest_first_and_of_a_few_tags() {
        let refusals = Refusals::default();
        refusals.note(&tag(0), &Error::Exhausted, || 0);
        refusals.note(&tag(1), &Error::Overloaded, || 1);
        refusals.note(&tag(2), &Error::Frozen, || 2);
        refusals.note(&tag(0), &Error::Exhausted, || 3);
        let shown = |now_ms| {
            let lately = refusals.lately(now_ms).into_iter();
            lately.map(|it| (it.tag.to_string(), it.why, it.ago_ms)).collect::<Vec<_>>()
        };
        let (exhausted, frozen) = (RefusedFor::Exhausted, RefusedFor::Frozen);
        assert_eq!(shown(10), [("tag-0".into(), exhausted, 7), ("tag-2".into(), frozen, 8)]);
        assert_eq!(shown(SHOWN_MS + 2), [("tag-0".into(), exhausted, SHOWN_MS - 1)]);
        assert_eq!(shown(SHOWN_MS + 3), []);
        (0..3 * TAGS_MAX).for_each(|number| refusals.note(&tag(number), &Error::Frozen, || 50));
        let newest = (2 * TAGS_MAX..3 * TAGS_MAX).rev().map(|number| tag(number).to_string());
        assert!(shown(50).into_iter().map(|(tag, ..)| tag).eq(newest));
    }
}
