//! Snowflake ids of a leased worker id.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::owner::Owner;
use crate::clock;
use crate::engine::workers::{Lease, OVER};
use crate::error::Error;
use crate::stamps::Ids;

/// The bits of a positive 64 bit integer.
const ID_BITS: u32 = 63;

/// What the bits of an id mean: a time in milliseconds since an epoch, then a worker id, then a sequence.
///
/// The default has 41, 10 and 12 bits, and the epoch 2010-11-04T01:42:54.657Z, as Twitter's Snowflake and Leaf have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Layout {
    epoch_ms: u64,
    worker_bits: u32,
    sequence_bits: u32,
}

impl Default for Layout {
    fn default() -> Self {
        Self { epoch_ms: 1_288_834_974_657, worker_bits: 10, sequence_bits: 12 }
    }
}

impl Layout {
    /// The Unix millisecond where the time in ids is 0.
    pub fn epoch_ms(mut self, epoch_ms: u64) -> Self {
        self.epoch_ms = epoch_ms;
        self
    }

    /// How many bits the worker id has, 1 to 22.
    pub fn worker_bits(mut self, bits: u32) -> Self {
        self.worker_bits = bits;
        self
    }

    /// How many bits the sequence in one millisecond has, 1 to 22. The time has what is left of 63 bits.
    pub fn sequence_bits(mut self, bits: u32) -> Self {
        self.sequence_bits = bits;
        self
    }

    fn check(&self) -> Result<(), Error> {
        let bits = [("worker_bits", self.worker_bits), ("sequence_bits", self.sequence_bits)];
        match bits.into_iter().find(|(_, bits)| !(1..=22).contains(bits)) {
            Some((name, bits)) => {
                Err(Error::InvalidArgument(format!("{name} must be 1 to 22, not {bits}")))
            }
            None => Ok(()),
        }
    }

    /// Whether ids of the lease fit. Ends of time that no lease reaches are left to [`Layout::time`].
    fn check_lease(&self, lease: &Lease) -> Result<(), Error> {
        if lease.worker_id >> self.worker_bits != 0 {
            let fault =
                format!("worker id {} has more than {} bits", lease.worker_id, self.worker_bits);
            return Err(Error::InvalidArgument(fault));
        }
        let from_ms = lease.stamps.from_ms;
        match self.time(from_ms) {
            Some(_) => Ok(()),
            None => Err(Error::InvalidArgument(format!(
                "epoch_ms must be before the lease, which begins at {from_ms}, and not too long before"
            ))),
        }
    }

    /// The time in ids of this Unix millisecond.
    fn time(&self, ms: u64) -> Option<u64> {
        let time = ms.checked_sub(self.epoch_ms)?;
        let bits = ID_BITS - self.worker_bits - self.sequence_bits;
        (time > 0 && time >> bits == 0).then_some(time)
    }
}

/// Snowflake ids that a process makes by itself, of a worker id that it leases.
///
/// An id costs no request. The time in ids is that of the lease: it begins at the millisecond that a node named, and
/// goes on with this machine's monotonic clock. So a clock of the machine that is wrong, or set, changes nothing. Threads share a
/// generator by reference.
pub struct WorkerSnowflakes {
    ids: Ids,
    layout: Layout,
    /// Held while a millisecond is begun.
    begin: Mutex<()>,
    owner: Owner,
}

impl WorkerSnowflakes {
    pub(super) fn new(owner: Owner, layout: Layout) -> Result<Self, Error> {
        layout.check()?;
        let lease = owner.worker().lease();
        layout.check_lease(&lease)?;
        owner.worker().generate(lease.ahead_of_clock(layout.epoch_ms));
        // Milliseconds that the owner stamped by itself are its own.
        let last = lease.stamps.highest() - layout.epoch_ms;
        Ok(Self {
            ids: Ids::after(last, layout.worker_bits, layout.sequence_bits),
            layout,
            begin: Mutex::new(()),
            owner,
        })
    }

    /// The next id. It is above all ids that the generator gave before. It never waits.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the lease has ended and no node could be reached for more, [`Error::Closed`].
    #[inline]
    pub fn next_id(&self) -> Result<u64, Error> {
        let ahead = self.owner.worker().ahead_of_clock.load(Ordering::Relaxed);
        match self.ids.next(ahead.wrapping_add(clock::now_ms())) {
            Some(id) => Ok(id),
            None => self.begin(),
        }
    }

    /// The first id of a millisecond. Another thread may have begun it already.
    #[cold]
    #[inline(never)]
    fn begin(&self) -> Result<u64, Error> {
        let _begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = self.owner.worker().lease();
        if self.owner.worker().is_closed() {
            return Err(self.ended(&lease));
        }
        self.layout.check_lease(&lease)?;
        let now = lease.now_ms();
        if let Some(id) = self.ids.next(now.saturating_sub(self.layout.epoch_ms)) {
            return Ok(id);
        }
        // A new lease has another clock. This is stored before the millisecond is granted: after a close, it is not.
        let ahead = lease.ahead_of_clock(self.layout.epoch_ms);
        self.owner.worker().ahead_of_clock.store(ahead, Ordering::Relaxed);
        let ms = now.max(self.ids.time() + self.layout.epoch_ms + 1);
        match self.layout.time(ms).filter(|_| lease.stamps.grant(ms)) {
            Some(time) => Ok(self.ids.begin(time, u64::from(lease.worker_id))),
            None => Err(self.ended(&lease)),
        }
    }

    #[cold]
    fn ended(&self, lease: &Lease) -> Error {
        let worker = self.owner.worker();
        if worker.is_closed() {
            worker.ahead_of_clock.store(OVER, Ordering::Relaxed);
            return Error::Closed;
        }
        Error::Unavailable(format!(
            "the lease of worker id {} ended at {}, and no node has renewed it",
            lease.worker_id,
            lease.stamps.until_ms()
        ))
    }

    /// The worker id of the next id, unless that is of a new lease.
    pub fn worker_id(&self) -> u32 {
        self.owner.worker().lease().worker_id
    }

    /// As [`super::WorkerLease::close`].
    pub async fn close(&self) {
        self.owner.close().await;
    }

    /// As [`WorkerSnowflakes::close`], for threads.
    pub fn close_blocking(&self) {
        self.owner.close_blocking();
    }
}

impl fmt::Debug for WorkerSnowflakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSnowflakes").field("layout", &self.layout).finish_non_exhaustive()
    }
}
