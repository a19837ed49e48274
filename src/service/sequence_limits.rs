//! The rate limits of sequences on this node.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::error::Error;
use super::rate_limit::RateLimit;
use crate::tag::BizTag;

/// The buckets of sequences that have a limit.
#[derive(Default)]
pub(super) struct SequenceLimits(Mutex<BTreeMap<BizTag, RateLimit>>);

impl SequenceLimits {
    /// Takes so many numbers out of a tag's bucket.
    ///
    /// # Errors
    /// [`Error::OverRateLimit`] where it has too few.
    pub(super) fn pay(
        &self,
        tag: &BizTag,
        rate: u32,
        count: u64,
        now_ms: u64,
    ) -> Result<(), Error> {
        let mut limits = self.0.lock();
        let limit = match limits.remove(tag.as_str()) {
            Some(limit) if limit.per_second() == rate => limit,
            Some(limit) => limit.at(rate, now_ms),
            None => RateLimit::new(rate, now_ms),
        };
        let limit = limits.entry(tag.clone()).or_insert(limit);
        limit.admit(now_ms, count).map_err(|after_s| Error::OverRateLimit { after_s })?;
        limit.pay(count);
        Ok(())
    }
}
