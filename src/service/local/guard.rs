//! Whether ids of a tag may be handed out on this node now: the tag's protection.

use mintleaf_core::state::Protection;

use super::rate_limit::RateLimit;
use crate::service::error::Error;

/// The protection of one tag on one node, under the lock of what it guards.
#[derive(Debug, Default)]
pub(in crate::service) struct Guard {
    gate: Gate,
    /// The bucket of the last rate limit. It stays when that limit is lifted, so a limit that is set again does not
    /// forgive a debt. `None` before the first limit.
    limit: Option<Box<RateLimit>>,
}

/// What is let through.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Gate {
    /// Every call.
    #[default]
    Open,
    /// As many ids as the rate limit allows.
    Limited,
    /// No call, while the tag is frozen. What is held stays.
    Frozen,
}

impl Guard {
    /// Whether every call passes, so that none of them needs to look any further.
    #[inline]
    pub(in crate::service) fn is_open(&self) -> bool {
        self.gate == Gate::Open
    }

    /// Whether the tag is frozen.
    pub(in crate::service) fn is_frozen(&self) -> bool {
        self.gate == Gate::Frozen
    }

    /// Whether a call for `count` ids passes now. Takes nothing out of the limit, and reads the clock only for one.
    ///
    /// # Errors
    /// [`Error::Frozen`], [`Error::OverRateLimit`], [`Error::CountOverRateLimit`].
    pub(in crate::service) fn admit(
        &mut self,
        count: u64,
        now_ms: impl FnOnce() -> u64,
    ) -> Result<(), Error> {
        match (self.gate, &mut self.limit) {
            (Gate::Frozen, _) => Err(Error::Frozen),
            (Gate::Limited, Some(limit)) => limit.admit(now_ms(), count),
            (Gate::Limited, None) | (Gate::Open, _) => Ok(()),
        }
    }

    /// Takes the ids of a call that passed out of what the rate limit allows.
    pub(in crate::service) fn pay(&mut self, count: u64) {
        if self.gate == Gate::Limited
            && let Some(limit) = &mut self.limit
        {
            limit.pay(count);
        }
    }

    /// How many of `count` ids pass now.
    pub(in crate::service) fn available(&mut self, count: u64, now_ms: u64) -> u64 {
        match (self.gate, &mut self.limit) {
            (Gate::Frozen, _) => 0,
            (Gate::Limited, Some(limit)) => limit.available(now_ms).min(count),
            (Gate::Limited, None) | (Gate::Open, _) => count,
        }
    }

    /// Takes over the tag's protection.
    pub(in crate::service) fn protect(&mut self, protection: Protection, now_ms: u64) {
        if let Some(rate) = protection.rate_limit {
            let before = self.limit.take().map(|limit| *limit);
            self.limit = Some(Box::new(RateLimit::following(before, rate, now_ms)));
        }
        self.gate = match protection.rate_limit {
            _ if protection.frozen => Gate::Frozen,
            Some(_) => Gate::Limited,
            None => Gate::Open,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: Protection = Protection { frozen: false, rate_limit: Some(10) };
    const FROZEN: Protection = Protection { frozen: true, rate_limit: Some(10) };
    const FREE: Protection = Protection { frozen: false, rate_limit: None };

    #[test]
    fn a_limit_that_is_lifted_and_set_again_forgives_no_debt() {
        let mut guard = Guard::default();
        guard.protect(LIMITED, 0);
        assert_eq!((guard.admit(100, || 0), guard.available(100, 0)), (Ok(()), 10));
        guard.pay(100);
        guard.protect(FREE, 0);
        assert!(guard.is_open() && guard.available(100, 0) == 100);
        guard.protect(LIMITED, 0);
        assert_eq!(guard.admit(1, || 0), Err(Error::OverRateLimit { after_s: 10 }));
    }

    #[test]
    fn nothing_passes_while_the_tag_is_frozen() {
        let mut guard = Guard::default();
        guard.protect(FROZEN, 0);
        assert_eq!((guard.admit(1, || 0), guard.available(1, 0)), (Err(Error::Frozen), 0));
        guard.protect(LIMITED, 0);
        assert_eq!((guard.admit(1, || 0), guard.available(1, 0)), (Ok(()), 1));
    }
}
