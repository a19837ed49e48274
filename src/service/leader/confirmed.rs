//! What a round of messages to a quorum has confirmed, and which requests may be given numbers because of it.
//!
//! Pure, and the whole rule of strict order: a request gets numbers of an interval only from a round that began after
//! the request arrived, and only if round and interval are of one term. `raft/DESIGN.md` ("Confirmed leadership") says
//! why a request that begins after another was answered then never gets lower numbers. `tests/model.rs` explores this
//! very code.

/// A position in one order, which both the arrivals of requests in this process and the starts of its rounds follow.
pub(super) type Turn = u64;

/// A round that a quorum has answered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Confirmed {
    began: Turn,
    term: u64,
}

impl Confirmed {
    /// A round that began in this turn. The quorum confirmed this node as the leader of `term`.
    pub(super) fn new(began: Turn, term: u64) -> Self {
        Self { began, term }
    }

    /// When the round began.
    pub(super) fn began(self) -> Turn {
        self.began
    }

    /// Whether a request that arrived in turn `came` may get numbers that an entry of term `reserved_in` reserved for
    /// this process.
    #[inline]
    pub(super) fn lets_give(self, came: Turn, reserved_in: u64) -> bool {
        came < self.began && reserved_in == self.term
    }
}
