//! What a log entry says of itself to the commands in it.

/// When an entry was appended, and by which leader. A time alone stands for an entry of no leader: no command that
/// names its leader is carried out by one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// The cluster's time as the leader stamped it, in Unix milliseconds; it may go back from entry to entry.
    pub now_ms: u64,
    /// The term of the leader that appended the entry.
    pub term: u64,
    /// The node that led.
    pub leader_id: u64,
}

impl From<u64> for Stamp {
    fn from(now_ms: u64) -> Self {
        Self { now_ms, ..Self::default() }
    }
}
