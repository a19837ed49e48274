//! What the commands of a log entry learn about the entry.

/// When an entry was appended, with its leader and term. A stamp that has only a time names no leader (term 0, node 0),
/// so a command that names its leader is not carried out in such an entry.
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
