//! The commands that are proposed to the log.
//!
//! Commands stand in every log and cross between nodes of different releases: `level.rs` says how a variant is added.

use serde::{Deserialize, Serialize};

use super::actor::Actor;
use super::change::Change;
use super::level::{REGISTERS, ROOT_KEY, SHAPES};
use super::tag_fields::{check_description, check_step, is_holder, require};
use crate::limits::{AHEAD_MS_MAX, ID_END, ID_MAX, LEASE_MS_MIN, STEP_MAX};
use crate::sequence::SequenceKey;
use crate::shape::{Leadership, Line, RootKey};
use crate::snowflake::{Format, Rules};
use crate::tag::{BizTag, OutOfBounds};

/// One change of the state, as it is proposed to the log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Creates a tag because its first id was asked for; the audit says nothing of it. Its ids begin at
    /// `start`, or above every id the name was ever given.
    CreateTag {
        /// The name, not in use by an existing tag.
        tag: BizTag,
        /// Ids per grab, 1 to [`STEP_MAX`].
        step: u32,
        /// First id, 1 to [`ID_MAX`].
        start: u64,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: String,
    },
    /// Changes the given fields of an existing tag: all of them or, when rejected, none. The audit says
    /// nothing of it, so no node may propose it; what an administrator asks for is [`Change::UpdateTag`].
    UpdateTag {
        /// The name of an existing tag.
        tag: BizTag,
        /// Ids per grab from the next grab on, 1 to [`STEP_MAX`].
        step: Option<u32>,
        /// The new watermark, up to [`ID_END`]. It may stand still or rise.
        max_id: Option<u64>,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: Option<String>,
    },
    /// Deletes a tag. The name remembers how far its ids went. As with [`UpdateTag`](Self::UpdateTag), no node
    /// may propose it.
    DeleteTag {
        /// The name of an existing tag.
        tag: BizTag,
    },
    /// Reserves the next ids of a tag: the larger of `size` and its step, or all that is left when
    /// that is fewer.
    Grab {
        /// The name of an existing tag.
        tag: BizTag,
        /// Ids wanted, at most [`STEP_MAX`]; 0 leaves it to the tag's step.
        size: u32,
    },
    /// Settles how the cluster makes snowflake ids, by all worker ids and in windows of an hour at most, unless
    /// that was settled before. Nodes propose [`FixRules`](Self::FixRules) instead.
    FixFormat {
        /// The format that this node would use.
        format: Format,
    },
    /// Notes what a node's clock shows.
    ReportClock {
        /// The node whose clock it is.
        node_id: u64,
        /// Unix milliseconds.
        clock_ms: u64,
    },
    /// Reserves milliseconds of a worker id for one process.
    AcquireWorker {
        /// The node that asks.
        node_id: u64,
        /// Names the grant for as long as it lasts; no other grant, to any process, has the same.
        nonce: u128,
        /// A certain worker id; when absent, the first that was never used, else the one whose fence
        /// is lowest.
        worker_id: Option<u16>,
        /// Milliseconds wanted, 1 to [`AHEAD_MS_MAX`].
        window_ms: u64,
    },
    /// Reserves more milliseconds of a worker id, for the grant that holds it.
    RenewWorker {
        /// The worker id.
        worker_id: u16,
        /// The grant.
        nonce: u128,
        /// How far the window shall reach from now on, 1 to [`AHEAD_MS_MAX`] milliseconds.
        window_ms: u64,
    },
    /// Gives a worker id back, with all of its milliseconds that were not used.
    ReleaseWorker {
        /// The worker id.
        worker_id: u16,
        /// The grant.
        nonce: u128,
        /// First millisecond that the holder has not stamped and never will.
        unused_from_ms: u64,
    },
    /// Raises the cluster's level, unless the level is as high already. No client proposes it: a
    /// leader that has asked every member appends it by itself.
    RaiseLevel {
        /// The level from this entry on. A build that does not support it stops at this entry.
        to: u32,
        /// The first version that supports that level.
        version: String,
    },
    /// Carries out what an administrator asked for, and records it in the audit.
    Administer {
        /// Who asked for it.
        actor: Actor,
        /// What was asked for.
        change: Change,
    },
    /// Settles what all snowflake ids of the cluster keep to, unless that or their format was settled before.
    FixRules {
        /// The rules that this node would have.
        rules: Rules,
    },
    /// Gives back the beginning of a window, so that its holder may go on in the rest once the snowflake floor
    /// has risen above where the window began.
    LiftWindow {
        /// The worker id.
        worker_id: u16,
        /// The grant.
        nonce: u128,
        /// First millisecond that the holder may stamp from now on; it has no way left to stamp one below.
        floor_ms: u64,
    },
    /// Reserves the next numbers of one line of a tag with its own shape, as a [`Grab`](Self::Grab) does for a plain
    /// tag.
    GrabLine {
        /// The name of an existing tag.
        tag: BizTag,
        /// Numbers wanted, at most [`STEP_MAX`]; 0 leaves it to the tag's step.
        size: u32,
        /// Which line of the tag.
        line: Line,
        /// The leadership that hands the numbers out: set for a strict tag or a sequence, and for no other. The entry
        /// must be appended under this leadership, or nothing is reserved.
        by: Option<Leadership>,
    },
    /// Settles the root key of hidden ids, unless the cluster has one. As with [`RaiseLevel`](Self::RaiseLevel), which
    /// precedes it in the same entry, a leader appends it by itself.
    DrawRoot {
        /// The key, drawn for this.
        root: RootKey,
    },
    /// Leases a worker id of a pool to one program.
    LeaseWorker {
        /// The name of an existing pool.
        pool: BizTag,
        /// Makes the lease's [name](super::lease_name), with its first millisecond; no other command ever has the same.
        nonce: u128,
        /// What the program calls itself: at most [`HOLDER_CHARS_MAX`](crate::limits::HOLDER_CHARS_MAX) characters.
        holder: Box<str>,
        /// How long the lease lasts from now on, [`LEASE_MS_MIN`] to [`AHEAD_MS_MAX`] milliseconds.
        window_ms: u64,
    },
    /// Extends the lease of a worker id, for the program that holds it.
    RenewLease {
        /// The name of an existing pool.
        pool: BizTag,
        /// The worker id.
        worker_id: u16,
        /// The [name](super::lease_name) of the lease.
        nonce: u128,
        /// How far the lease shall reach from now on, [`LEASE_MS_MIN`] to [`AHEAD_MS_MAX`] milliseconds.
        window_ms: u64,
    },
    /// Gives a leased worker id back, with all of its milliseconds that were not used.
    GiveBackLease {
        /// The name of an existing pool.
        pool: BizTag,
        /// The worker id.
        worker_id: u16,
        /// The [name](super::lease_name) of the lease.
        nonce: u128,
        /// First millisecond that the program has not stamped and never will.
        unused_from_ms: u64,
    },
    /// Gives a key of a register the next number, unless it has one.
    Register {
        /// The name of an existing register.
        tag: BizTag,
        /// The key: 1 to [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX) bytes.
        key: Box<str>,
        /// The line that a new number comes from.
        line: Line,
        /// How many keys all registers together may have, as the proposer was started with.
        keys_max: u64,
    },
}

impl Command {
    /// Checks every bound that does not depend on the state. [`State::apply`](super::State::apply) does so again; an
    /// earlier check saves a trip through the log.
    ///
    /// # Errors
    /// The first bound that is broken.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        match self {
            Self::CreateTag { step, start, description, .. } => {
                check_step(*step)?;
                require((1..=ID_MAX).contains(start), OutOfBounds::Start)?;
                check_description(description)
            }
            Self::UpdateTag { step, max_id, description, .. } => {
                step.map_or(Ok(()), check_step)?;
                let max_id_fits = max_id.is_none_or(|max_id| (1..=ID_END).contains(&max_id));
                require(max_id_fits, OutOfBounds::MaxId)?;
                description.as_deref().map_or(Ok(()), check_description)
            }
            Self::DeleteTag { .. } => Ok(()),
            Self::Administer { change, .. } => change.check(),
            Self::Grab { size, .. } => require(*size <= STEP_MAX, OutOfBounds::Size),
            Self::GrabLine { size, line, .. } => {
                require(*size <= STEP_MAX, OutOfBounds::Size)?;
                require(line.is_sound(), OutOfBounds::Line)
            }
            Self::AcquireWorker { window_ms, .. } | Self::RenewWorker { window_ms, .. } => {
                require((1..=AHEAD_MS_MAX).contains(window_ms), OutOfBounds::Window)
            }
            Self::FixRules { rules } => {
                require((1..=AHEAD_MS_MAX).contains(&rules.window_ms_max()), OutOfBounds::Window)
            }
            Self::LeaseWorker { holder, window_ms, .. } => {
                require(is_holder(holder), OutOfBounds::Holder)?;
                check_lease(*window_ms)
            }
            Self::RenewLease { window_ms, .. } => check_lease(*window_ms),
            Self::Register { key, line, .. } => {
                require(SequenceKey::parse(key).is_ok(), OutOfBounds::Key)?;
                require(line.is_sound(), OutOfBounds::Line)
            }
            Self::GiveBackLease { .. }
            | Self::FixFormat { .. }
            | Self::ReportClock { .. }
            | Self::ReleaseWorker { .. }
            | Self::LiftWindow { .. }
            | Self::RaiseLevel { .. }
            | Self::DrawRoot { .. } => Ok(()),
        }
    }

    /// The lowest level of a cluster that has this command.
    pub fn level(&self) -> u32 {
        match self {
            Self::CreateTag { .. }
            | Self::UpdateTag { .. }
            | Self::DeleteTag { .. }
            | Self::Grab { .. }
            | Self::FixFormat { .. }
            | Self::ReportClock { .. }
            | Self::AcquireWorker { .. }
            | Self::RenewWorker { .. }
            | Self::ReleaseWorker { .. }
            | Self::RaiseLevel { .. }
            | Self::FixRules { .. }
            | Self::LiftWindow { .. } => 1,
            Self::Administer { change, .. } => change.level(),
            Self::GrabLine { .. } => SHAPES,
            Self::DrawRoot { .. }
            | Self::LeaseWorker { .. }
            | Self::RenewLease { .. }
            | Self::GiveBackLease { .. } => ROOT_KEY,
            Self::Register { .. } => REGISTERS,
        }
    }
}

fn check_lease(window_ms: u64) -> Result<(), OutOfBounds> {
    require((LEASE_MS_MIN..=AHEAD_MS_MAX).contains(&window_ms), OutOfBounds::Lease)
}
