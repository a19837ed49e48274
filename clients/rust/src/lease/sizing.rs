//! The size of the next lease.

use std::time::Duration;

/// The shortest time over which a rate is measured.
const ELAPSED_MIN: Duration = Duration::from_millis(1);
/// The largest factor between one size and the next, up or down.
const STEP_MAX: u64 = 4;

/// The rules for sizes of one kind of line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The size of the first lease.
    pub(crate) first: u64,
    /// The smallest size.
    pub(crate) min: u64,
    /// The largest size.
    pub(crate) max: u64,
    /// How long a lease is to last.
    pub(crate) lasts: Duration,
}

/// Chooses the sizes of the leases of one line.
#[derive(Debug)]
pub(crate) struct Sizing {
    rules: Rules,
    /// The last size, without the ids that waiting calls wanted; `None` before the first.
    last: Option<u64>,
    /// When the last lease was asked for, by the client's clock.
    asked_at: Duration,
    /// The size of the next lease, after a node has refused a larger one.
    count_max: Option<u64>,
}

impl Sizing {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, last: None, asked_at: Duration::ZERO, count_max: None }
    }

    /// The size of a lease that is requested now. `used` ids were handed out since the last request for a
    /// lease; the calls that wait want `waiting` more.
    pub(crate) fn next(&mut self, now: Duration, used: u64, waiting: u64) -> u64 {
        if let Some(count_max) = self.count_max.take() {
            (self.last, self.asked_at) = (self.last.map(|last| last.min(count_max)), now);
            return count_max;
        }
        let Rules { first, min, max, lasts } = self.rules;
        let size = match self.last {
            None => first.min(max),
            Some(last) => {
                let elapsed = now.saturating_sub(self.asked_at).max(ELAPSED_MIN);
                let wanted = u128::from(used) * lasts.as_nanos() / elapsed.as_nanos();
                let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
                wanted
                    .clamp(last / STEP_MAX, last.saturating_mul(STEP_MAX))
                    .clamp(min.min(max), max)
            }
        };
        (self.last, self.asked_at) = (Some(size), now);
        size.saturating_add(waiting).min(max)
    }

    /// Limits the next lease to this size, because the node allows one request no more.
    pub(crate) fn at_most(&mut self, count_max: u64) {
        self.count_max = Some(count_max);
    }

    /// Halves the next sizes, because the node reports too many ids.
    pub(crate) fn halve(&mut self) {
        self.last = self.last.map(|last| last / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules =
        Rules { first: 100, min: 10, max: 1_000_000, lasts: Duration::from_secs(10) };

    /// The sizes of a line. Each item holds how many seconds a lease lasted, and how many ids were used in that time.
    fn sizes(rules: Rules, lasted_and_used: &[(f64, u64)]) -> Vec<u64> {
        let mut sizing = Sizing::new(rules);
        let mut now = Duration::from_secs(77);
        let mut sizes = vec![sizing.next(now, 0, 0)];
        for &(lasted, used) in lasted_and_used {
            now += Duration::from_secs_f64(lasted);
            sizes.push(sizing.next(now, used, 0));
        }
        sizes
    }

    #[test]
    fn sizes_follow_use() {
        let steady = [(1.0, 30), (5.0, 150), (5.0, 150)];
        assert_eq!(sizes(RULES, &steady), [100, 300, 300, 300]);
        let burst = [(0.0, 50), (0.001, 400), (0.001, 1_600), (0.001, 6_400)];
        assert_eq!(sizes(RULES, &burst), [100, 400, 1_600, 6_400, 25_600]);
        let slow = [(60.0, 50), (60.0, 13), (3600.0, 5)];
        assert_eq!(sizes(RULES, &slow), [100, 25, 10, 10]);
        assert_eq!(sizes(Rules { max: 300, ..RULES }, &burst)[2..], [300, 300, 300]);
        assert_eq!(sizes(Rules { max: 5, ..RULES }, &burst)[..2], [5, 5]);
    }

    #[test]
    fn what_calls_wait_for_is_added_to_one_lease_only() {
        let mut sizing = Sizing::new(RULES);
        assert_eq!(sizing.next(Duration::ZERO, 0, 5_000), 5_100);
        assert_eq!(sizing.next(Duration::from_secs(10), 200, 0), 200);
        assert_eq!(sizing.next(Duration::from_secs(20), 0, 2_000_000), 1_000_000);
    }

    #[test]
    fn a_size_above_what_one_request_gets_is_followed_by_that() {
        let mut sizing = Sizing::new(RULES);
        sizing.next(Duration::ZERO, 0, 5_000);
        sizing.at_most(50);
        assert_eq!(sizing.next(Duration::ZERO, 0, 5_000), 50);
        assert_eq!(sizing.next(Duration::from_secs(10), 50, 0), 50);
        sizing.at_most(5_000);
        sizing.next(Duration::from_secs(10), 0, 0);
        assert_eq!(sizing.next(Duration::from_secs(20), 50, 0), 50, "small ones stay small");
    }

    #[test]
    fn a_rate_limit_halves_the_next_size() {
        let mut sizing = Sizing::new(RULES);
        sizing.next(Duration::ZERO, 0, 0);
        sizing.halve();
        assert_eq!(sizing.next(Duration::from_millis(1), 10_000, 0), 200);
    }
}
