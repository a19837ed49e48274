//! Requests of members to each other, mostly to the leader: the trait that the user of this crate implements.

use tokio::time::Instant;

use crate::runtime::Pending;

/// Maximum size of a request to the leader or to another member, and of its answer, in bytes.
pub const LEADER_REQUEST_BYTES_MAX: usize = 128 << 10;

/// Answers the requests of other members that take this node for the leader, or that ask each member. Requests and
/// answers are opaque to this crate.
///
/// The node passes a request on without checking that it leads, because that could change a moment later. The
/// implementation calls [`Handle::confirm_leadership`](crate::Handle::confirm_leadership) to confirm that its answer
/// counts.
pub trait LeaderRequests: Send + Sync + 'static {
    /// Answers one request. `None` means that there is no answer by the deadline, and that nothing relies on one. The
    /// future is dropped when the sender stops waiting.
    fn answer(&self, request: Vec<u8>, deadline: Instant) -> Pending<'_, Option<Vec<u8>>>;
}
