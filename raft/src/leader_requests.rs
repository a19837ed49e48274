//! Requests of members to each other, most of which only the leader can answer: the trait that the user of this crate
//! implements.

use tokio::time::Instant;

use crate::runtime::Pending;

/// Bytes of a request to the leader or to another member at most, and of its answer.
pub const LEADER_REQUEST_BYTES_MAX: usize = 128 << 10;

/// Answers the requests of other members that take this node for the leader, or that ask each member. Requests and
/// answers are opaque to this crate.
///
/// The node asks this without looking whether it leads, because a moment later that may be over: whoever
/// implements it confirms by [`Handle::confirm_leadership`](crate::Handle::confirm_leadership) that the answer
/// counts.
pub trait LeaderRequests: Send + Sync + 'static {
    /// Answers one request. `None` means that nothing can be said of it by the deadline, and that nothing
    /// relies on it. The future is dropped when the sender does not wait any more.
    fn answer(&self, request: Vec<u8>, deadline: Instant) -> Pending<'_, Option<Vec<u8>>>;
}
