//! Ids made of a time, a worker id and a sequence number.
//!
//! Pure: the caller locks, acquires windows and reads the clock; time and randomness come in as arguments.
//!
//! - [`Format`] says which bits of an id are what: a [`Layout`] and the origin of its times.
//! - [`Rules`] are what a cluster settles for good: the format, the [`WorkerPool`], the longest window.
//! - [`Generator`] makes the ids of one process inside the [`Window`]s that it holds.
//!
//! A window is ownership of some milliseconds of a worker id, and no timeout ends it: no other process is ever given a
//! millisecond that this one may have stamped. Only the owner can end it early: it first stops stamping
//! ([`Generator::give_up`]), then gives back the milliseconds that it has not stamped. So uniqueness needs no clock. A
//! clock decides only which of its milliseconds a process stamps, and a process stamps each id above the one before.
//!
//! **Nothing is carried across a restart.** None of the generator's types can be stored: a process
//! that ends wastes what is left of its windows, and a process that starts is given new ones.

mod generator;
mod layout;
mod pool;
mod rules;

pub use generator::{Generator, Refusal, Window};
pub use layout::{EPOCH_MS_MAX, Format, IdParts, InvalidFormat, Layout};
pub use pool::{InvalidPool, WorkerPool};
pub use rules::{BeyondLayout, Rules};

use std::time::Duration;

/// How a node makes snowflake ids.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SnowflakeSettings {
    /// The cluster's format; the first node's becomes the cluster's.
    pub format: Format,
    /// The worker ids that the cluster uses; the first node's become the cluster's.
    pub pool: WorkerPool,
    /// How far a window reaches, which is how long ids go on without the quorum: 1 s to 1 h. The first node's
    /// is the longest that the cluster allows.
    pub window: Duration,
    /// How far the clock may be from the cluster's time for a node to be given windows.
    pub max_clock_skew: Duration,
    /// The worker ids of the pool to use, all of them; when empty, as many free ones as are needed.
    pub worker_ids: Vec<u16>,
}

impl SnowflakeSettings {
    /// Leaf's layout and epoch, all of its worker ids, windows of a minute, and clocks within two seconds.
    pub fn leaf() -> Self {
        Self {
            format: Format::LEAF,
            pool: WorkerPool::all(Layout::LEAF),
            window: Duration::from_secs(60),
            max_clock_skew: Duration::from_secs(2),
            worker_ids: Vec::new(),
        }
    }

    /// The rules of a cluster that this node forms.
    ///
    /// # Panics
    /// If the layout does not have all worker ids of the pool, which the checks of the settings refuse.
    pub fn rules(&self) -> Rules {
        let rules = Rules::new(self.format, self.pool.clone(), self.window_ms());
        rules.expect("the pool was checked against the layout")
    }

    /// The length of a window in milliseconds.
    pub fn window_ms(&self) -> u64 {
        u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX)
    }
}
