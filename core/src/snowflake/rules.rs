//! What a cluster settles about its snowflake ids, once and for good.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::layout::Format;
use super::pool::WorkerPool;

/// What a cluster settles about its snowflake ids when it forms. All of its nodes keep to it, and it never
/// changes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(Format, WorkerPool, u64)", into = "(Format, WorkerPool, u64)")]
pub struct Rules {
    format: Format,
    pool: WorkerPool,
    window_ms_max: u64,
}

impl Rules {
    /// Ids of `format`, made by the worker ids of `pool`, in windows that reach at most `window_ms_max` ahead.
    ///
    /// # Errors
    /// When the layout does not have all worker ids of the pool.
    pub fn new(format: Format, pool: WorkerPool, window_ms_max: u64) -> Result<Self, BeyondLayout> {
        let highest = format.layout().worker_ids() - 1;
        if pool.highest() > highest {
            return Err(BeyondLayout { highest });
        }
        Ok(Self { format, pool, window_ms_max })
    }

    /// How ids are made.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The worker ids that are used.
    pub fn pool(&self) -> &WorkerPool {
        &self.pool
    }

    /// How far a window may reach past the moment it is given, in milliseconds. So no id that was ever given
    /// shows a time further ahead of the cluster's.
    pub fn window_ms_max(&self) -> u64 {
        self.window_ms_max
    }
}

/// A pool has worker ids that its layout does not have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BeyondLayout {
    /// The highest worker id of the layout.
    pub highest: u16,
}

impl fmt::Display for BeyondLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must have no worker id above {}, the layout's highest", self.highest)
    }
}

impl Error for BeyondLayout {}

impl TryFrom<(Format, WorkerPool, u64)> for Rules {
    type Error = BeyondLayout;

    fn try_from(
        (format, pool, window_ms_max): (Format, WorkerPool, u64),
    ) -> Result<Self, BeyondLayout> {
        Self::new(format, pool, window_ms_max)
    }
}

impl From<Rules> for (Format, WorkerPool, u64) {
    fn from(rules: Rules) -> Self {
        (rules.format, rules.pool, rules.window_ms_max)
    }
}
