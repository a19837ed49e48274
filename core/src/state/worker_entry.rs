//! One worker id's number line of milliseconds, and the holder of its end.

use serde::{Deserialize, Serialize};

use super::response::Response;
use crate::limits::AHEAD_MS_MAX;

/// One worker id that was ever used.
///
/// Its fence is the first millisecond that no process can have stamped, and every window raises it. It falls only in
/// [`release`](Self::release), where the holder gives back the end of its window. No other process knows how much of
/// the window was used, so the release must carry the nonce of the grant that holds the worker id. The holder has
/// stopped stamping before it proposes the release (`end_use` in `service/snowflake/lease_task.rs`), and the fence stays within
/// its window. So a millisecond that may have been stamped is never given again, and one that certainly was not may be.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(super) struct WorkerEntry {
    node_id: u64,
    /// Names the grant that holds the worker id; `None` once it was released.
    nonce: Option<u128>,
    floor_ms: u64,
    fence_ms: u64,
}

impl WorkerEntry {
    pub(super) fn node_id(&self) -> u64 {
        self.node_id
    }

    pub(super) fn nonce(&self) -> Option<u128> {
        self.nonce
    }

    pub(super) fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    pub(super) fn fence_ms(&self) -> u64 {
        self.fence_ms
    }

    /// The response to the holder; this entry is `worker_id`'s.
    pub(super) fn window(&self, worker_id: u16) -> Response {
        Response::Window { worker_id, floor_ms: self.floor_ms, fence_ms: self.fence_ms }
    }

    /// Whether an entry that was read could have been written.
    pub(super) fn is_sound(&self) -> bool {
        self.floor_ms <= self.fence_ms
    }

    /// Gives `[start_ms, end_ms)` to one grant, named by a nonce that no other grant ever had.
    ///
    /// # Panics
    /// If any of it may have been stamped, or the window is empty or reaches too far ahead: ids
    /// could repeat, so the replica stops instead.
    pub(super) fn grant(&mut self, node_id: u64, nonce: u128, start_ms: u64, end_ms: u64) {
        assert!(self.fence_ms <= start_ms, "fence {} lies past {start_ms}", self.fence_ms);
        self.floor_ms = start_ms;
        self.raise(start_ms, end_ms);
        self.node_id = node_id;
        self.nonce = Some(nonce);
    }

    /// Extends the window of the grant that holds it to `end_ms`; a window that reaches further
    /// stays as it is. `false` when another grant holds the worker id by now, or none.
    #[must_use]
    pub(super) fn extend(&mut self, nonce: u128, now_ms: u64, end_ms: u64) -> bool {
        let holds = self.nonce == Some(nonce);
        if holds && end_ms > self.fence_ms {
            self.raise(now_ms, end_ms);
        }
        holds
    }

    /// Takes back the beginning of a window, all below `floor_ms`, which its holder says it will never stamp
    /// from now on. `false` when another grant holds the worker id by now, or none.
    #[must_use]
    pub(super) fn lift(&mut self, nonce: u128, floor_ms: u64) -> bool {
        let holds = self.nonce == Some(nonce);
        if holds {
            self.floor_ms = floor_ms.clamp(self.floor_ms, self.fence_ms);
        }
        holds
    }

    /// Ends the hold of a grant, and takes back what its holder says it will never stamp: all from
    /// `unused_from_ms` on. `false` when another grant holds the worker id by now, or none.
    #[must_use]
    pub(super) fn release(&mut self, nonce: u128, unused_from_ms: u64) -> bool {
        let holds = self.nonce == Some(nonce);
        if holds {
            self.fence_ms = unused_from_ms.clamp(self.floor_ms, self.fence_ms);
            self.nonce = None;
        }
        holds
    }

    /// Ends the hold of whichever grant has it. What it may have stamped stays below the fence.
    pub(super) fn end(&mut self) {
        self.nonce = None;
    }

    fn raise(&mut self, now_ms: u64, end_ms: u64) {
        assert!(end_ms > self.fence_ms, "fence would fall from {} to {end_ms}", self.fence_ms);
        assert!(end_ms - now_ms <= AHEAD_MS_MAX, "window reaches from {now_ms} to {end_ms}");
        self.fence_ms = end_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u128 = 7;

    fn held() -> WorkerEntry {
        let mut worker = WorkerEntry::default();
        worker.grant(1, NONCE, 1_000, 2_000);
        worker
    }

    #[test]
    #[should_panic(expected = "fence 2000 lies past 1999")]
    fn giving_what_may_have_been_stamped_stops_the_replica() {
        held().grant(2, 8, 1_999, 3_000);
    }

    #[test]
    #[should_panic(expected = "window reaches")]
    fn reaching_too_far_ahead_stops_the_replica() {
        let mut worker = held();
        assert!(worker.extend(NONCE, 1_500, 1_500 + AHEAD_MS_MAX));
        worker.grant(1, NONCE, 1_500 + AHEAD_MS_MAX, 1_501 + 2 * AHEAD_MS_MAX);
    }

    #[test]
    fn only_the_holder_extends_and_releases() {
        let mut worker = held();
        let before = worker.clone();
        assert!(!worker.extend(8, 1_500, 2_500) && !worker.release(8, 1_000));
        assert_eq!(worker, before);
        assert!(worker.extend(NONCE, 1_500, 2_500) && worker.release(NONCE, 1_234));
        assert_eq!((worker.floor_ms(), worker.fence_ms()), (1_000, 1_234));
        assert!(!worker.extend(NONCE, 1_500, 2_500) && !worker.release(NONCE, 1_000));
        assert_eq!(worker.fence_ms(), 1_234);
    }

    #[test]
    fn a_lift_moves_the_floor_within_the_window_only_and_is_the_holders_alone() {
        for (lifted_to_ms, floor_ms) in [(0, 1_000), (1_500, 1_500), (9_999, 2_000)] {
            let mut worker = held();
            assert!(!worker.lift(8, lifted_to_ms) && worker == held());
            assert!(worker.lift(NONCE, lifted_to_ms));
            assert_eq!((worker.floor_ms(), worker.fence_ms()), (floor_ms, 2_000));
            assert!(worker.release(NONCE, 0) && !worker.lift(NONCE, 1_800));
            assert_eq!((worker.floor_ms(), worker.fence_ms()), (floor_ms, floor_ms));
        }
    }

    #[test]
    fn an_extension_never_shortens() {
        let mut worker = held();
        assert!(worker.extend(NONCE, 500, 1_500));
        assert_eq!(worker.fence_ms(), 2_000);
    }

    #[test]
    fn a_release_moves_the_fence_within_the_window_only() {
        for (unused_from_ms, fence_ms) in [(0, 1_000), (1_500, 1_500), (9_999, 2_000)] {
            let mut worker = held();
            assert!(worker.release(NONCE, unused_from_ms));
            assert_eq!(worker.fence_ms(), fence_ms);
        }
    }
}
