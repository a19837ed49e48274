//! The settings of a client.

use std::time::Duration;

use crate::error::Error;
use crate::lease::line::Kind;
use crate::lease::sizing::Rules;

/// The most ids of one answer that gives ranges.
pub(crate) const LEASE_MAX: u32 = 1_000_000;
/// How long a lease of a tag is to last.
const TAG_LEASE_LASTS: Duration = Duration::from_secs(10);
/// The most snowflakes of one lease.
const SNOWFLAKES_MAX: u64 = 100_000;
/// How long a lease of snowflakes is to last.
const SNOWFLAKE_LEASE_LASTS: Duration = Duration::from_millis(500);
/// Snowflakes are handed out up to this long after their answer arrived.
const SNOWFLAKES_FRESH_FOR: Duration = Duration::from_secs(1);

/// Deadlines and bounds. The transport has the nodes' addresses.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a call waits.
    pub(crate) timeout: Duration,
    /// How long one attempt may take.
    pub(crate) attempt_timeout: Duration,
    /// The most ids of a lease, 1 to [`LEASE_MAX`].
    pub(crate) lease_max: u32,
    /// The client's zone.
    pub(crate) zone: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_millis(2_500),
            lease_max: LEASE_MAX,
            zone: None,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=LEASE_MAX).contains(&self.lease_max) {
            let fault = format!("lease_max must be 1 to {LEASE_MAX}, not {}", self.lease_max);
            return Err(Error::InvalidArgument(fault));
        }
        let day = Duration::from_secs(24 * 60 * 60);
        let bounds = Duration::from_millis(1)..=day;
        let timeouts = [("timeout", self.timeout), ("attempt_timeout", self.attempt_timeout)];
        match timeouts.into_iter().find(|(_, timeout)| !bounds.contains(timeout)) {
            Some((name, timeout)) => {
                let fault = format!("{name} must be 1 ms to a day, not {timeout:?}");
                Err(Error::InvalidArgument(fault))
            }
            None => Ok(()),
        }
    }

    /// How ids of tags are leased.
    pub(crate) fn tags(&self) -> Kind {
        let max = u64::from(self.lease_max);
        let rules = Rules { first: 100, min: 10, max, lasts: TAG_LEASE_LASTS };
        Kind { rules, fresh_for: None, ahead: self.timeout, is_leased: false }
    }

    /// How snowflakes are leased.
    pub(crate) fn snowflakes(&self) -> Kind {
        let max = u64::from(self.lease_max).min(SNOWFLAKES_MAX);
        let rules = Rules { first: 1, min: 1, max, lasts: SNOWFLAKE_LEASE_LASTS };
        let fresh_for = Some(SNOWFLAKES_FRESH_FOR);
        Kind { rules, fresh_for, ahead: self.timeout, is_leased: true }
    }
}
