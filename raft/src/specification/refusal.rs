//! The rules that a step can break.

use std::fmt;

/// Why a step is not allowed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refusal {
    /// Two entries at one position, or two entries before it.
    TwoEntries,
    /// A vote for a candidate whose log is behind the voter's.
    NotUpToDate,
    /// A voter, or a candidate, no longer has what it said to hold under an earlier leader.
    BrokenPromise,
    /// A leader without the votes of a quorum.
    NotElected,
    /// A leader whose log does not continue the candidate's.
    NotItsLog,
    /// A leadership of two processes.
    TwoProcesses,
    /// A commit without a quorum that holds it under the leader that wrote the entry.
    NoQuorum,
    /// An index with two committed entries.
    CommittedTwice,
    /// A leader that lacks what was committed before it was elected.
    LacksCommitted,
    /// A leader believes more of a follower than the follower said.
    Unanswered,
    /// A candidate that claims to be asked by a leader that did not ask it.
    NotHandedOver,
    /// A read that misses a commit from before it began.
    StaleRead,
    /// A data directory that is prepared for one cluster says something in another.
    TwoClusters,
    /// A first membership with a founder that did not say that it was prepared.
    NotPrepared,
    /// A cluster begins though its coordinator aborted it, or the reverse.
    Aborted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::TwoEntries => "two entries have one position",
            Self::NotUpToDate => "the candidate's log is behind the voter's",
            Self::BrokenPromise => "the node said that it held more",
            Self::NotElected => "no quorum voted for this leader",
            Self::NotItsLog => "the entries do not continue the leader's log",
            Self::TwoProcesses => "another process leads by this vote",
            Self::NoQuorum => "no quorum holds what is said to be committed",
            Self::CommittedTwice => "another entry is committed there",
            Self::LacksCommitted => "the leader lacks a committed entry",
            Self::Unanswered => "the follower never said so",
            Self::NotHandedOver => "no leader asked this candidate",
            Self::StaleRead => "the read misses an earlier commit",
            Self::TwoClusters => "the node is prepared for another cluster",
            Self::NotPrepared => "a founder is not prepared",
            Self::Aborted => "the coordinator aborted the cluster",
        })
    }
}
