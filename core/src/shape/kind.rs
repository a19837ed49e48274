//! The kinds of tags, the orders of ids, and what a kind decides: who gives the ids, and what else a shape may have.
//!
//! No `match` on a kind or a giver has a pattern for all others, here or elsewhere: a kind that is added does not compile
//! before each question about it is answered. `CONTRIBUTING.md` lists the few places that the compiler does not see.

use serde::{Deserialize, Serialize};

/// Whether a tag is one sequence of ids, a counter for each of many keys, or a register, by the names that users know.
/// It is on the wire: `core/src/state/level.rs` says how a variant is added.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Kind {
    /// One sequence of ids for all callers, reserved in segments.
    #[default]
    Segment,
    /// A counter for each key, which rises strictly.
    Sequence,
    /// Numbers without a gap, each given to a key for good.
    Register,
}

/// The order that ids of a tag are given in; on the wire, like [`Kind`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Order {
    /// Ids grow over time, and those of two nodes overtake each other.
    #[default]
    Trend,
    /// A request that begins after another was answered gets higher ids, over the whole cluster.
    Strict,
}

/// Who gives the ids of a tag. It follows from the shape.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Giver {
    /// Any node, from segments that it holds.
    AnyNode,
    /// The leader, in strict order, from what it reserved under its leadership.
    Leader,
    /// The leader, likewise, to the keys of a sequence.
    LeaderByKey,
    /// The log: the command that names a key gives it its number. No number is reserved without a key.
    Log,
}

impl Kind {
    /// Every kind, the one of plain tags first.
    pub const ALL: [Self; 3] = [Self::Segment, Self::Sequence, Self::Register];

    /// The name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Sequence => "sequence",
            Self::Register => "register",
        }
    }

    /// Who gives the ids of a tag of this kind whose shape has this order.
    pub(super) fn giver(self, order: Order) -> Giver {
        match (self, order) {
            (Self::Segment, Order::Trend) => Giver::AnyNode,
            (Self::Segment, Order::Strict) => Giver::Leader,
            (Self::Sequence, Order::Trend | Order::Strict) => Giver::LeaderByKey,
            (Self::Register, Order::Trend | Order::Strict) => Giver::Log,
        }
    }

    /// The other fields of a shape, as the HTTP API calls them, that a tag of this kind cannot have, and why.
    pub(super) fn excludes(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Segment => (&[], ""),
            Self::Sequence => (
                &["order", "period", "format", "digits"],
                "a sequence gives bare numbers, in strict order for each key",
            ),
            Self::Register => (
                &["order", "digits"],
                "a register gives its numbers in strict order, without a gap, as they are",
            ),
        }
    }
}

impl Order {
    /// Every order, the one of plain tags first.
    pub const ALL: [Self; 2] = [Self::Trend, Self::Strict];

    /// The name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trend => "trend",
            Self::Strict => "strict",
        }
    }
}

impl Giver {
    /// Whether only the leader gives ids, under a [`Leadership`](super::Leadership) that each grab names.
    pub fn is_leader(self) -> bool {
        match self {
            Self::Leader | Self::LeaderByKey => true,
            Self::AnyNode | Self::Log => false,
        }
    }

    /// Whether ids belong to keys, so that a tag has no next id for a caller without one.
    pub fn gives_to_keys(self) -> bool {
        match self {
            Self::LeaderByKey | Self::Log => true,
            Self::AnyNode | Self::Leader => false,
        }
    }

    /// Whether each key gets one number for good, so that the state records which.
    pub fn records_keys(self) -> bool {
        match self {
            Self::Log => true,
            Self::AnyNode | Self::Leader | Self::LeaderByKey => false,
        }
    }
}
