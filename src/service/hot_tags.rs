//! Which tags of this node are hot: ids were taken of them within the last day, and there is room for them on the list.
//!
//! A restarted node grabs them again before it says that it is ready. The list names tags and says when each was
//! used; it holds no id, no segment and no window, because none of these is carried across a restart.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mintleaf_core::tag::BizTag;

use crate::limits::HOT_TAGS_MAX;

/// How long a tag stays hot after its last use, in seconds.
const HOT_S: u64 = 24 * 60 * 60;

/// The hot tags of a node, 1,000 at most.
#[derive(Debug, Default)]
pub struct HotTags(BTreeMap<BizTag, LastUse>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastUse {
    at_s: u64,
    /// How many ids were taken between the look that saw the use and the look before.
    ids: u64,
}

impl HotTags {
    /// The tags of a list that an earlier process made, without what cannot be a tag.
    pub fn from_list(list: Vec<(String, u64)>, now_s: u64) -> Self {
        let read = |(tag, at_s): (String, u64)| {
            // A clock that went back since must not keep a tag hot for ever.
            Some((BizTag::parse(&tag).ok()?, LastUse { at_s: at_s.min(now_s), ids: 0 }))
        };
        let mut hot = Self(list.into_iter().filter_map(read).collect());
        hot.forget_cold(now_s);
        hot
    }

    /// The list for the next process: each tag, and when it was last used in Unix seconds.
    pub fn list(&self) -> Vec<(String, u64)> {
        self.0.iter().map(|(tag, last)| (tag.as_str().to_owned(), last.at_s)).collect()
    }

    /// The tags.
    pub fn tags(&self) -> Vec<BizTag> {
        self.0.keys().cloned().collect()
    }

    /// Notes that ids of these tags were taken since the last look, and how many. Returns whether the list now has
    /// other tags than before.
    pub fn note(&mut self, used: Vec<(BizTag, u64)>, now_s: u64) -> bool {
        let before: Vec<BizTag> = self.tags();
        for (tag, ids) in used {
            self.0.insert(tag, LastUse { at_s: now_s, ids });
        }
        self.forget_cold(now_s);
        !before.iter().eq(self.0.keys())
    }

    /// Forgets the tags that were not used for a day, and the tags that there is no room for. The tags with the latest
    /// use stay; among tags of the same use, the ones with the most ids taken.
    fn forget_cold(&mut self, now_s: u64) {
        self.0.retain(|_, last| now_s.saturating_sub(last.at_s) < HOT_S);
        if self.0.len() > HOT_TAGS_MAX {
            let mut by_heat: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
            by_heat.sort_by_key(|&(_, last)| Reverse(last));
            by_heat.truncate(HOT_TAGS_MAX);
            self.0 = by_heat.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_S: u64 = 1_800_000_000;

    fn tag(number: usize) -> BizTag {
        BizTag::parse(&format!("tag-{number:05}")).unwrap()
    }

    #[test]
    fn a_tag_is_hot_for_a_day_after_its_last_use_and_over_a_restart() {
        let mut hot = HotTags::default();
        assert!(hot.note(vec![(tag(1), 5)], NOON_S));
        assert!(hot.note(vec![(tag(2), 1)], NOON_S + 3_600));
        assert!(!hot.note(vec![(tag(2), 9)], NOON_S + 7_200), "the same tags as before");
        let mut later = HotTags::from_list(hot.list(), NOON_S + HOT_S - 1);
        assert_eq!(later.tags(), [tag(1), tag(2)]);
        assert!(later.note(Vec::new(), NOON_S + HOT_S));
        assert_eq!(later.tags(), [tag(2)]);
    }

    #[test]
    fn there_is_room_for_those_used_last_and_most() {
        let mut hot = HotTags::default();
        hot.note((0..10).map(|number| (tag(number), 1_000_000)).collect(), NOON_S);
        let used = (10..10 + HOT_TAGS_MAX + 5).map(|number| (tag(number), number as u64)).collect();
        hot.note(used, NOON_S + 60);
        let tags = hot.tags();
        assert_eq!(tags.len(), HOT_TAGS_MAX);
        assert_eq!(tags[0], tag(15), "older uses and fewer ids go first");
    }

    #[test]
    fn a_list_of_the_future_or_of_nonsense_does_no_harm() {
        let list =
            vec![("a".to_owned(), u64::MAX), (String::new(), NOON_S), ("b\n".to_owned(), NOON_S)];
        let mut hot = HotTags::from_list(list, NOON_S);
        assert_eq!(hot.list(), [("a".to_owned(), NOON_S)]);
        assert!(hot.note(Vec::new(), NOON_S + HOT_S));
    }

    #[test]
    fn the_list_names_tags_and_times_and_no_id_of_any_segment() {
        let mut hot = HotTags::default();
        hot.note(vec![(tag(1), 777)], NOON_S);
        assert_eq!(hot.list(), [("tag-00001".to_owned(), NOON_S)]);
    }
}
