//! How many ids the next grab reserves.
//!
//! What any node holds should last about a quarter of an hour: long enough to ride out an outage of the quorum, short
//! enough that a crash wastes little. What the leader holds of a strict tag is useless in an outage, and a change of
//! leaders wastes it: it should last for a few commits, and no longer. Like Leaf, this module finds the size by
//! doubling and halving, beginning with two grabs of the tag's own step. Doubling alone catches up with a hundredfold
//! surge only at the seventh grab, so the rate measured in the current segment may raise the size at once. A grab that
//! begins in the first moments of a surge measures mostly the time before it and may miss the surge; the next grab does
//! not.
//!
//! A few ids show no rate: one id, just given, looks like one a second. So the ids given so far limit, by their square,
//! how far a measured rate raises a size. A tag that is hardly used grows by doubling alone; under full load the square
//! limits only two or three grabs. No size exceeds the tag's `step_max`.

use crate::limits::STEP_MAX;
use crate::steps::Steps;

/// How long the ids of one grab last, and how many there are at most.
struct Pace {
    /// A segment that lasted less doubles the next one; a size covers the measured rate for this long.
    lasts_ms_min: u64,
    /// A segment that lasted this long halves the next one.
    lasts_ms_max: u64,
    /// Largest size, unless the tag's own step is larger.
    size_max: u32,
}

/// For what any node holds.
const HELD: Pace =
    Pace { lasts_ms_min: 15 * 60 * 1000, lasts_ms_max: 30 * 60 * 1000, size_max: 1_000_000 };
/// For what the leader holds.
const LED: Pace = Pace { lasts_ms_min: 1_000, lasts_ms_max: 10_000, size_max: 1 << 18 };

/// A size is at most one in this many ids of the whole line, unless the tag's own step is larger. So of a short line,
/// nodes hold only a small part while others reach its end, and a process takes only a small part with it.
const LINE_PARTS: u64 = 1_000;
/// Shortest time to measure a rate over, so that the first ids of a segment do not look like a flood.
const RATE_MS_MIN: u64 = 1000;
/// After this many ids, a measured rate may reserve as many again; after ten times as many, a hundred times that.
const BEARING_IDS: u64 = 10;
/// How many grabs reserve the tag's own step before sizes begin to move.
const UNSIZED_GRABS: u8 = 2;

/// How the ids of one tag were used on one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// How many were given so far.
    pub(super) given: u64,
    /// How many of them from the current segment.
    pub(super) used: u64,
    /// How long ago the cursor entered that segment.
    pub(super) entered_ms_ago: u64,
}

/// Chooses the sizes of the grabs of one tag on one node.
#[derive(Debug)]
pub(super) struct Sizing {
    /// The tag's bounds of grabs, as this node last learned them: the bounds of every size.
    steps: Steps,
    /// Largest size of this line.
    size_max: u32,
    /// The size of the latest grab installed, before the callers' demand was added.
    size: u32,
    /// Grabs installed since `step` became the tag's own, up to [`UNSIZED_GRABS`].
    grabs: u8,
    /// Whether the leader holds what it grabs.
    is_led: bool,
    /// When the latest grab was installed; `None` before the first.
    installed_ms: Option<u64>,
}

impl Sizing {
    pub(super) fn new(steps: Steps) -> Self {
        let size_max = HELD.size_max;
        Self { steps, size_max, size: steps.step, grabs: 0, is_led: false, installed_ms: None }
    }

    /// For what the leader holds.
    pub(super) fn led(steps: Steps) -> Self {
        Self { size_max: LED.size_max, is_led: true, ..Self::new(steps) }
    }

    /// For a line that ends at `line_end`.
    pub(super) fn of_line(steps: Steps, line_end: u64) -> Self {
        let size_max = capped(line_end / LINE_PARTS).clamp(1, HELD.size_max);
        Self { size_max, ..Self::new(steps) }
    }

    /// The size of a grab that begins now, after this use.
    pub(super) fn next_size(&mut self, now_ms: u64, steps: Steps, usage: Use) -> u32 {
        self.observe(steps);
        let by_lifetime = match self.installed_ms {
            Some(installed_ms) if self.grabs >= UNSIZED_GRABS => {
                self.by_lifetime(now_ms.saturating_sub(installed_ms))
            }
            _ => steps.step,
        };
        let Use { given, used, entered_ms_ago } = usage;
        let by_rate =
            used.saturating_mul(self.pace().lasts_ms_min) / entered_ms_ago.max(RATE_MS_MIN);
        let by_rate = by_rate.min(given.saturating_mul(given) / BEARING_IDS);
        steps.size(by_lifetime.max(capped(by_rate)).min(self.size_max))
    }

    /// Records that a grab of `size` was installed, and the tag's bounds of grabs.
    pub(super) fn installed(&mut self, now_ms: u64, steps: Steps, size: u32) {
        self.observe(steps);
        self.size = steps.size(size);
        self.grabs = UNSIZED_GRABS.min(self.grabs + 1);
        self.installed_ms = Some(now_ms);
    }

    /// Bounds that an operator changed start the sizing over.
    fn observe(&mut self, steps: Steps) {
        if steps != self.steps {
            let Self { size_max, is_led, .. } = *self;
            *self = Self { size_max, is_led, ..Self::new(steps) };
        }
    }

    fn by_lifetime(&self, lasted_ms: u64) -> u32 {
        match lasted_ms {
            short if short < self.pace().lasts_ms_min => self.size.saturating_mul(2),
            long if long >= self.pace().lasts_ms_max => self.size / 2,
            _ => self.size,
        }
    }

    fn pace(&self) -> &'static Pace {
        if self.is_led { &LED } else { &HELD }
    }
}

/// `ids`, or the most that one grab may ask for.
pub(super) fn capped(ids: u64) -> u32 {
    ids.min(u64::from(STEP_MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: u64 = 60 * 1000;
    /// Enough ids given for every rate.
    const GIVEN: u64 = 1 << 20;

    fn used(used: u64, entered_ms_ago: u64) -> Use {
        Use { given: GIVEN, used, entered_ms_ago }
    }

    /// A tag whose segments each last for a given time, and are hardly used.
    struct Tag {
        sizing: Sizing,
        now_ms: u64,
        step: u32,
    }

    impl Tag {
        fn new(step: u32) -> Self {
            Self { sizing: Sizing::new(Steps::from(step)), now_ms: 0, step }
        }

        fn next_after(&mut self, lasted_ms: u64) -> u32 {
            self.now_ms += lasted_ms;
            let steps = Steps::from(self.step);
            let size = self.sizing.next_size(self.now_ms, steps, used(0, lasted_ms));
            self.sizing.installed(self.now_ms, steps, size);
            size
        }
    }

    #[test]
    fn little_of_a_short_line_is_held() {
        let mut short = Tag { sizing: Sizing::of_line(Steps::from(50), 900_000), ..Tag::new(50) };
        assert_eq!([0; 8].map(|ms| short.next_after(ms)), [50, 50, 100, 200, 400, 800, 900, 900]);
        let mut wide =
            Tag { sizing: Sizing::of_line(Steps::from(5_000), 900_000), ..Tag::new(5_000) };
        assert_eq!([0; 4].map(|ms| wide.next_after(ms)), [5_000; 4]);
        assert_eq!(Sizing::of_line(Steps::from(50), u64::MAX / 2).size_max, HELD.size_max);
    }

    #[test]
    fn two_grabs_of_the_own_step_come_first() {
        let mut tag = Tag::new(1000);
        assert_eq!([0; 4].map(|lasted_ms| tag.next_after(lasted_ms)), [1000, 1000, 2000, 4000]);
    }

    #[test]
    fn a_segment_doubles_keeps_or_halves_the_next_by_how_long_it_lasted() {
        let mut tag = Tag::new(1000);
        let lasted_ms = [
            0,
            0,
            15 * MINUTE_MS - 1,
            14 * MINUTE_MS,
            15 * MINUTE_MS,
            30 * MINUTE_MS - 1,
            30 * MINUTE_MS,
            24 * 60 * MINUTE_MS,
            30 * MINUTE_MS,
        ];
        let sizes = lasted_ms.map(|lasted_ms| tag.next_after(lasted_ms));
        assert_eq!(sizes, [1000, 1000, 2000, 4000, 4000, 4000, 2000, 1000, 1000]);
    }

    #[test]
    fn sizes_stay_between_the_own_step_and_the_cap() {
        let mut tag = Tag::new(700_000);
        assert_eq!([0; 4].map(|ms| tag.next_after(ms)), [700_000, 700_000, 1_000_000, 1_000_000]);
        assert_eq!([30 * MINUTE_MS; 2].map(|ms| tag.next_after(ms)), [700_000, 700_000]);
        let mut large = Tag::new(STEP_MAX);
        assert_eq!([0; 4].map(|ms| large.next_after(ms)), [STEP_MAX; 4]);
    }

    #[test]
    fn a_changed_step_starts_over() {
        let mut tag = Tag::new(1000);
        assert_eq!([0; 4].map(|ms| tag.next_after(ms)), [1000, 1000, 2000, 4000]);
        tag.step = 300;
        assert_eq!([0; 3].map(|ms| tag.next_after(ms)), [300, 300, 600]);
        let mut short = Tag { sizing: Sizing::of_line(Steps::from(50), 200_000), ..Tag::new(50) };
        short.step = 60;
        assert_eq!(
            [0; 4].map(|ms| short.next_after(ms)),
            [60, 60, 120, 200],
            "a line stays as short"
        );
    }

    #[test]
    fn a_step_that_changed_while_the_grab_was_in_flight_counts_from_that_grab() {
        let mut sizing = Sizing::new(Steps::from(1000));
        assert_eq!(sizing.next_size(0, Steps::from(1000), used(0, 0)), 1000);
        sizing.installed(0, Steps::from(5000), 1000);
        let sizes = [0; 3].map(|now_ms| {
            let size = sizing.next_size(now_ms, Steps::from(5000), used(0, 0));
            sizing.installed(now_ms, Steps::from(5000), size);
            size
        });
        assert_eq!(sizes, [5000, 10_000, 20_000]);
    }

    #[test]
    fn the_measured_rate_is_covered_for_a_quarter_of_an_hour() {
        let mut sizing = Sizing::new(Steps::from(100));
        let steps = Steps::from(100);
        sizing.installed(0, steps, 100);
        assert_eq!(sizing.next_size(2000, steps, used(100, 2000)), 50 * 900);
        assert_eq!(
            sizing.next_size(1, steps, used(10, 1)),
            10 * 900,
            "a rate is per second at least"
        );
        assert_eq!(sizing.next_size(2000, steps, used(1_000_000, 2000)), HELD.size_max);
        assert_eq!(sizing.next_size(2000, steps, used(u64::MAX, 0)), HELD.size_max);
    }

    #[test]
    fn few_ids_bear_no_rate_and_many_bear_any() {
        let mut sizing = Sizing::new(Steps::from(1));
        let sizes = [1, 10, 30, 100, 1_000, 10_000].map(|given| {
            let usage = Use { given, used: given, entered_ms_ago: 0 };
            sizing.next_size(0, Steps::from(1), usage)
        });
        assert_eq!(sizes, [1, 10, 90, 1_000, 100_000, HELD.size_max]);
    }

    #[test]
    fn a_bound_holds_whatever_the_use_and_a_raised_one_lets_sizes_grow() {
        let mut sizing = Sizing::new(Steps::from(2));
        for (step_max, size) in
            [(Some(2), 2), (Some(500), 500), (None, 90_000), (Some(1_000), 1_000)]
        {
            let steps = Steps { step: 2, step_max };
            assert_eq!(sizing.next_size(0, steps, used(100, 0)), size, "{step_max:?}");
            sizing.installed(0, steps, size);
        }
    }

    #[test]
    fn what_the_leader_holds_lasts_for_seconds() {
        let mut strict = Tag { sizing: Sizing::led(Steps::from(100)), ..Tag::new(100) };
        let lasted_ms = [0, 0, 999, 1_000, 9_999, 10_000];
        assert_eq!(lasted_ms.map(|ms| strict.next_after(ms)), [100, 100, 200, 200, 200, 100]);
        let mut busy = Tag { sizing: Sizing::led(Steps::from(100_000)), ..Tag::new(100_000) };
        let sizes = [0; 5].map(|ms| busy.next_after(ms));
        assert_eq!(sizes, [100_000, 100_000, 200_000, LED.size_max, LED.size_max]);
        assert_eq!(
            strict.sizing.next_size(strict.now_ms, Steps::from(100), used(5_000, 1_000)),
            5_000
        );
    }
}
