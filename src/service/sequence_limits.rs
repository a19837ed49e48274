//! The rate limits of sequences on this node.

use std::collections::BTreeMap;

use mintleaf_core::tag::BizTag;
use parking_lot::Mutex;

use super::error::Error;
use super::rate_limit::RateLimit;

/// Once there are this many buckets, the full ones are removed for the first time.
const BUCKETS_BEFORE_PRUNING: usize = 64;

/// The buckets of sequences that have a limit.
pub(super) struct SequenceLimits(Mutex<Buckets>);

struct Buckets {
    of: BTreeMap<BizTag, RateLimit>,
    /// With this many buckets, the full ones go: a full bucket is the same as a new one. The buckets of deleted tags
    /// become full in time, so they go too.
    prune_at: usize,
}

/// A call for numbers of one tag, which has this rate limit.
#[derive(Clone, Copy)]
pub(super) struct LimitedCall<'t> {
    pub(super) tag: &'t BizTag,
    /// Numbers a second.
    pub(super) rate: u32,
    pub(super) count: u64,
    /// The time, in milliseconds of the clock that never falls.
    pub(super) now_ms: u64,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self(Mutex::new(Buckets { of: BTreeMap::new(), prune_at: BUCKETS_BEFORE_PRUNING }))
    }
}

impl SequenceLimits {
    /// Takes the numbers of a call out of its tag's bucket.
    ///
    /// # Errors
    /// [`Error::OverRateLimit`] where it has too few, and [`Error::CountOverRateLimit`].
    pub(super) fn pay(&self, call: LimitedCall<'_>) -> Result<(), Error> {
        self.0.lock().admitting(call)?.pay(call.count);
        Ok(())
    }

    /// Whether [`pay`](Self::pay) would let a call through now. Takes nothing.
    ///
    /// # Errors
    /// As [`pay`](Self::pay).
    pub(super) fn would_admit(&self, call: LimitedCall<'_>) -> Result<(), Error> {
        self.0.lock().admitting(call).map(drop)
    }
}

impl Buckets {
    /// The bucket of a call that is let through.
    fn admitting(&mut self, call: LimitedCall<'_>) -> Result<&mut RateLimit, Error> {
        let LimitedCall { tag, rate, count, now_ms } = call;
        if self.of.len() >= self.prune_at {
            self.of.retain(|_, limit| !limit.is_full(now_ms));
            self.prune_at = (2 * self.of.len()).max(BUCKETS_BEFORE_PRUNING);
        }
        let limit = RateLimit::following(self.of.remove(tag.as_str()), rate, now_ms);
        let limit = self.of.entry(tag.clone()).or_insert(limit);
        limit.admit(now_ms, count)?;
        Ok(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_tags_that_nobody_asks_for_any_more_are_forgotten() {
        let limits = SequenceLimits::default();
        let pay = |number: u64, count| {
            let tag = BizTag::parse(&format!("tag-{number}")).expect("a tag");
            // Ten seconds for each tag: the bucket of the last one is full again.
            limits.pay(LimitedCall { tag: &tag, rate: 10, count, now_ms: number * 10_000 })
        };
        for number in 0..1_000 {
            pay(number, 10).expect("a full bucket");
        }
        assert!(limits.0.lock().of.len() <= BUCKETS_BEFORE_PRUNING);
    }

    #[test]
    fn a_bucket_that_is_not_full_stays_however_many_there_are() {
        let limits = SequenceLimits::default();
        let tags: Vec<BizTag> = (0..1_000)
            .map(|number| BizTag::parse(&format!("tag-{number}")).expect("a tag"))
            .collect();
        let call = |tag| LimitedCall { tag, rate: 10, count: 10, now_ms: 7 };
        for tag in &tags {
            assert_eq!(limits.would_admit(call(tag)), Ok(()));
            limits.pay(call(tag)).expect("a full bucket");
        }
        for tag in &tags {
            assert_eq!(limits.would_admit(call(tag)), Err(Error::OverRateLimit { after_s: 1 }));
        }
    }
}
