//! How many ids of one tag a node may hand out now.
//!
//! Pure. A bucket that holds the ids of one second and fills at the tag's rate. A request for more than it can
//! ever hold passes when it is full, and leaves a debt that the next seconds pay off. So over any time a node
//! hands out no more than the rate allows, one second's worth and the largest request apart. The largest request is for
//! the ids of ten seconds, so that no request shuts the tag for longer.

use crate::service::error::Error;

/// Seconds of the rate that one request may take.
const REQUEST_S_MAX: u64 = 10;

/// The bucket of one tag on one node, under the lock of the tag's slot.
#[derive(Debug)]
pub(in crate::service) struct RateLimit {
    /// Ids a second, 1 or more.
    per_second: u32,
    /// What is in the bucket, in thousandths of an id: each millisecond adds one thousandth for each id a second of the
    /// rate. Below 0 it is a debt.
    level: i64,
    /// The bucket is filled up to this time, in milliseconds of the clock that never falls.
    filled_ms: u64,
}

/// Thousandths of an id in one.
const ID: i64 = 1_000;

impl RateLimit {
    /// A full bucket.
    pub(in crate::service) fn new(per_second: u32, now_ms: u64) -> Self {
        Self { per_second, level: i64::from(per_second) * ID, filled_ms: now_ms }
    }

    /// The bucket of a tag that has this rate now, and had `before`: a full one where it had none.
    pub(in crate::service) fn following(
        before: Option<Self>,
        per_second: u32,
        now_ms: u64,
    ) -> Self {
        match before {
            None => Self::new(per_second, now_ms),
            Some(limit) if limit.per_second == per_second => limit,
            Some(limit) => limit.at(per_second, now_ms),
        }
    }

    /// The same bucket with another rate: what is in it, or its debt, stays, as far as there is room.
    fn at(mut self, per_second: u32, now_ms: u64) -> Self {
        self.fill(now_ms);
        let mut changed = Self::new(per_second, now_ms);
        changed.level = changed.level.min(self.level);
        changed
    }

    /// How many single ids may be taken now.
    pub(in crate::service) fn available(&mut self, now_ms: u64) -> u64 {
        self.fill(now_ms);
        (self.level / ID).try_into().unwrap_or(0)
    }

    /// Whether a request for `count` ids passes now.
    ///
    /// # Errors
    /// [`Error::CountOverRateLimit`] where it never does; [`Error::OverRateLimit`] says after how many seconds it
    /// would, rounded up, if no other request came.
    pub(in crate::service) fn admit(&mut self, now_ms: u64, count: u64) -> Result<(), Error> {
        let count_max = u64::from(self.per_second) * REQUEST_S_MAX;
        if count > count_max {
            return Err(Error::CountOverRateLimit { count_max });
        }
        self.fill(now_ms);
        let needed = i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(ID).min(self.full());
        let missing = needed.saturating_sub(self.level).max(0).unsigned_abs();
        // At 0 the request passes.
        let after_s = missing.div_ceil(u64::from(self.per_second) * 1_000);
        if after_s == 0 { Ok(()) } else { Err(Error::OverRateLimit { after_s }) }
    }

    /// Takes `count` ids out, more than there are if need be.
    pub(in crate::service) fn pay(&mut self, count: u64) {
        let ids = i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(ID);
        self.level = self.level.saturating_sub(ids);
    }

    fn fill(&mut self, now_ms: u64) {
        let elapsed_ms = i64::try_from(now_ms.saturating_sub(self.filled_ms)).unwrap_or(i64::MAX);
        let comes = elapsed_ms.saturating_mul(self.per_second.into());
        self.level = self.level.saturating_add(comes).min(self.full());
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// What the bucket can hold.
    fn full(&self) -> i64 {
        i64::from(self.per_second) * ID
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RANGED_IDS_MAX;
    use mintleaf_core::limits::RATE_LIMIT_MAX;

    fn after(after_s: u64) -> Result<(), Error> {
        Err(Error::OverRateLimit { after_s })
    }

    /// How many requests for `count` ids pass from `from_ms` until `to_ms`, one tried each millisecond.
    fn passed(limit: &mut RateLimit, times_ms: std::ops::Range<u64>, count: u64) -> u64 {
        let mut passed = 0;
        for now_ms in times_ms {
            if limit.admit(now_ms, count).is_ok() {
                limit.pay(count);
                passed += 1;
            }
        }
        passed
    }

    #[test]
    fn a_second_is_in_the_bucket_and_the_rate_comes_in() {
        let mut limit = RateLimit::new(100, 0);
        assert_eq!(limit.available(0), 100);
        assert_eq!(passed(&mut limit, 0..10_000, 1), 100 + 999);
        assert_eq!(limit.available(20_000), 100, "a rest fills the bucket and no more");
    }

    #[test]
    fn one_id_in_a_second_is_one_id_in_a_second() {
        let mut limit = RateLimit::new(1, 7);
        assert_eq!(passed(&mut limit, 7..60_007, 1), 60);
        limit.pay(2);
        assert_eq!((limit.available(60_500), limit.admit(60_500, 1)), (0, after(2)));
    }

    #[test]
    fn a_larger_request_passes_when_the_bucket_is_full_and_is_paid_off() {
        let mut limit = RateLimit::new(100, 0);
        assert_eq!(limit.admit(0, 1_000), Ok(()));
        limit.pay(1_000);
        assert_eq!(limit.admit(0, 1_000), after(10));
        assert_eq!(limit.admit(0, 1), after(10), "a debt of 900 comes before the first id");
        assert_eq!((limit.available(9_009), limit.available(9_010)), (0, 1));
        assert_eq!(limit.admit(9_999, 1_000), after(1));
        assert_eq!(limit.admit(10_000, 1_000), Ok(()));
        limit.pay(1_000);
        assert_eq!(passed(&mut limit, 10_001..110_000, 1_000), 9);
    }

    #[test]
    fn a_change_of_the_rate_fills_no_bucket() {
        let mut limit = RateLimit::new(100, 0);
        limit.pay(150);
        let mut faster = limit.at(1_000, 0);
        assert_eq!((faster.available(0), faster.available(51)), (0, 1));
        assert_eq!(faster.at(10, 10_000).available(10_000), 10);
    }

    #[test]
    fn the_largest_values_are_counted_exactly() {
        let mut limit = RateLimit::new(RATE_LIMIT_MAX, 0);
        assert_eq!(limit.admit(0, RANGED_IDS_MAX), Ok(()));
        limit.pay(u64::from(RATE_LIMIT_MAX));
        assert_eq!(limit.available(1), u64::from(RATE_LIMIT_MAX) / 1_000);
        assert_eq!(limit.available(u64::MAX), u64::from(RATE_LIMIT_MAX));
    }

    #[test]
    fn no_request_shuts_a_tag_for_longer_than_ten_seconds() {
        for per_second in [1, 7, RATE_LIMIT_MAX] {
            let mut limit = RateLimit::new(per_second, 0);
            let count_max = u64::from(per_second) * 10;
            for much in [count_max + 1, RANGED_IDS_MAX.max(count_max + 1), u64::MAX] {
                let refused = limit.admit(0, much);
                assert_eq!(refused, Err(Error::CountOverRateLimit { count_max }));
            }
            assert_eq!(limit.admit(0, count_max), Ok(()), "nothing was taken by the others");
            limit.pay(count_max);
            assert_eq!(limit.admit(0, count_max), after(10));
            assert_eq!(limit.admit(10_000, 1), Ok(()));
        }
    }
}
