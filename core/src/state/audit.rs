//! The last admin changes, each with its actor, its time, and what it changed.
//!
//! Entries are numbered from 1 on, without a gap, over the life of the cluster. The last [`AUDIT_MAX`] are kept.
//! An entry has at most 4 KiB of texts and 512 bytes besides, so all of them take 46 MB at most; of usual
//! changes, 3 MB.
//!
//! Entries live in chunks, which a copy of the state shares until the next change.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::actor::Actor;
use crate::limits::AUDIT_MAX;

/// Entries of one chunk at most: what the first change after a snapshot copies.
const CHUNK_ENTRIES_MAX: usize = 64;
/// How many entries from the last one back are looked through for the one of an import that goes on.
const IMPORT_ENTRIES_BACK: usize = 64;
/// Bytes of all texts of an entry, at most: an actor, a tag and two descriptions, four addresses, or a pool with four
/// sets of worker ids.
const TEXT_BYTES_MAX: usize = 4096;
/// Numbers are below it, so that JSON can hold them.
const INDEX_END: u64 = 1 << 53;

/// One admin change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Its number: 1 for the first change of the cluster, and 1 more for each next one.
    pub index: u64,
    /// When it was carried out, in Unix milliseconds of the log's time.
    pub time_ms: u64,
    /// The actor that asked for it.
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// What was changed: the name of a tag, a pool, an import or `cluster`, or the id of a node.
    pub target: Box<str>,
    /// What was there before, of what was changed.
    pub before: Facts,
    /// What is there now, of what was changed.
    pub after: Facts,
}

/// What an admin change does. Variants are only ever appended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Action {
    /// A tag was created.
    CreateTag,
    /// Fields of a tag were changed.
    UpdateTag,
    /// A tag was deleted.
    DeleteTag,
    /// A node became a member.
    AddNode,
    /// A member was given its vote or lost it.
    UpdateNode,
    /// A member was removed.
    RemoveNode,
    /// Leadership was handed over.
    TransferLeader,
    /// The level of the cluster was raised.
    RaiseLevel,
    /// The snowflake floor was raised.
    RaiseSnowflakeFloor,
    /// The cluster was made of a copy of another one.
    Restore,
    /// Tags were created, and marks of tags raised, by one import.
    ImportTags,
    /// A pool of worker ids was made, or given more of them.
    SetPool,
    /// A pool of worker ids was deleted.
    DeletePool,
}

impl Action {
    /// The name in answers and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateTag => "tag.create",
            Self::UpdateTag => "tag.update",
            Self::DeleteTag => "tag.delete",
            Self::AddNode => "node.add",
            Self::UpdateNode => "node.update",
            Self::RemoveNode => "node.remove",
            Self::TransferLeader => "leader.transfer",
            Self::RaiseLevel => "level.raise",
            Self::RaiseSnowflakeFloor => "snowflake.floor",
            Self::Restore => "cluster.restore",
            Self::ImportTags => "tags.import",
            Self::SetPool => "pool.set",
            Self::DeletePool => "pool.delete",
        }
    }
}

/// What an audit entry says of its target; empty where the target did not or does not exist.
pub type Facts = Vec<(Field, Fact)>;

/// What a fact is about. Variants are only ever appended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Field {
    /// The watermark of a tag.
    MaxId,
    /// The step of a tag.
    Step,
    /// The description of a tag.
    Description,
    /// The rate limit of a tag.
    RateLimit,
    /// Whether a tag is frozen.
    Frozen,
    /// The internal address of a node.
    Raft,
    /// The client address of a node.
    Http,
    /// Whether a node votes.
    Voter,
    /// The leader's id.
    Leader,
    /// The level of the cluster.
    Level,
    /// The snowflake floor, in Unix milliseconds.
    FloorMs,
    /// The id of a cluster.
    ClusterId,
    /// The last log entry that a copy held.
    LogIndex,
    /// How many ids every line rose by.
    Advance,
    /// How many tags an import has created.
    Created,
    /// How many tags an import has raised.
    Raised,
    /// Whether a tag is a sequence.
    Kind,
    /// Whether a tag is in strict order.
    Order,
    /// How long the periods of a tag are.
    Period,
    /// The time zone that the periods of a tag begin in.
    TimeZone,
    /// The format of a tag.
    Format,
    /// How many digits the hidden ids of a tag have.
    Digits,
    /// The most ids that a grab of a tag reserves.
    StepMax,
    /// The worker ids of a pool.
    Workers,
    /// The worker ids of a pool that programs use without a lease.
    Taken,
}

impl Field {
    /// The name in answers and log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxId => "max_id",
            Self::Step => "step",
            Self::Description => "description",
            Self::RateLimit => "rate_limit",
            Self::Frozen => "frozen",
            Self::Raft => "raft",
            Self::Http => "http",
            Self::Voter => "voter",
            Self::Leader => "leader",
            Self::Level => "level",
            Self::FloorMs => "floor_ms",
            Self::ClusterId => "cluster_id",
            Self::LogIndex => "log_index",
            Self::Advance => "advance",
            Self::Created => "created",
            Self::Raised => "raised",
            Self::Kind => "kind",
            Self::Order => "order",
            Self::Period => "period",
            Self::TimeZone => "time_zone",
            Self::Format => "format",
            Self::Digits => "digits",
            Self::StepMax => "step_max",
            Self::Workers => "workers",
            Self::Taken => "taken",
        }
    }
}

/// One value. Variants are only ever appended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Fact {
    /// No value.
    Nothing,
    /// A truth value.
    Flag(bool),
    /// A number below 2^53.
    Number(u64),
    /// A number that JSON writes as a string.
    Id(u64),
    /// Free text.
    Text(Box<str>),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Number(number) | Self::Id(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl AuditEntry {
    /// Its texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let facts = self.before.iter().chain(&self.after).filter_map(|(_, fact)| match fact {
            Fact::Text(text) => Some(&**text),
            _ => None,
        });
        [self.actor.as_str(), &self.target].into_iter().chain(facts)
    }

    fn is_sound(&self) -> bool {
        let facts_max = Field::StepMax as usize + 1;
        (1..INDEX_END).contains(&self.index)
            && self.texts().map(str::len).sum::<usize>() <= TEXT_BYTES_MAX
            && self.before.len().max(self.after.len()) <= facts_max
    }
}

/// The last [`AUDIT_MAX`] admin changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// No chunk is empty; all entries follow each other by their numbers. Entries that are no longer kept
    /// may stand at the beginning of the first chunk.
    chunks: VecDeque<Arc<Vec<AuditEntry>>>,
    /// The number of the last entry; 0 before the first.
    last: u64,
}

impl Audit {
    /// Whether no change was ever recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// The number of the next entry.
    pub(super) fn next_index(&self) -> u64 {
        self.last + 1
    }

    /// Adds an entry with the next number, and drops the one that thereby becomes too old.
    ///
    /// # Panics
    /// If the entry has another number.
    pub(super) fn push(&mut self, entry: AuditEntry) {
        assert_eq!(entry.index, self.next_index(), "an audit entry is out of its order");
        self.last = entry.index;
        match self.chunks.back_mut().filter(|chunk| chunk.len() < CHUNK_ENTRIES_MAX) {
            Some(chunk) => Arc::make_mut(chunk).push(entry),
            None => self.chunks.push_back(Arc::new(vec![entry])),
        }
        let dropped = self.dropped();
        let is_gone =
            |chunk: &Arc<Vec<AuditEntry>>| chunk.last().is_none_or(|e| e.index <= dropped);
        if self.chunks.front().is_some_and(is_gone) {
            self.chunks.pop_front();
        }
    }

    /// The entry of an import that goes on, if it is one of the last [`IMPORT_ENTRIES_BACK`]. If that many other
    /// changes come between two tags of an import, it gets a second entry.
    pub(super) fn import_mut(&mut self, actor: &Actor, import: &str) -> Option<&mut AuditEntry> {
        let is_it = |entry: &AuditEntry| {
            entry.action == Action::ImportTags && *entry.target == *import && entry.actor == *actor
        };
        let mut back = 0;
        for chunk in self.chunks.iter_mut().rev() {
            if back >= IMPORT_ENTRIES_BACK {
                break;
            }
            if let Some(at) = chunk.iter().rposition(is_it) {
                return Arc::make_mut(chunk).get_mut(at);
            }
            back += chunk.len();
        }
        None
    }

    /// Appends entries that were read: they lie behind the present ones.
    ///
    /// # Errors
    /// When no state has these entries in this order.
    pub(super) fn extend(&mut self, entries: Vec<AuditEntry>) -> Result<(), &'static str> {
        if entries.is_empty() {
            return Err("a section of its audit is empty");
        }
        for entry in entries {
            let is_next = self.chunks.is_empty() || entry.index == self.next_index();
            if !entry.is_sound() || !is_next {
                return Err("its audit is out of order or out of bounds");
            }
            self.last = entry.index - 1;
            self.push(entry);
        }
        Ok(())
    }

    /// The entries behind the number `after`, ascending.
    pub(super) fn after(&self, after: u64) -> impl DoubleEndedIterator<Item = &AuditEntry> {
        let after = after.max(self.dropped());
        let first =
            self.chunks.partition_point(|chunk| chunk.last().is_none_or(|e| e.index <= after));
        self.chunks.range(first..).flat_map(|chunk| chunk.iter()).filter(move |e| e.index > after)
    }

    /// The number of the last entry that is no longer kept.
    fn dropped(&self) -> u64 {
        self.last.saturating_sub(AUDIT_MAX as u64)
    }
}

#[cfg(test)]
mod tests;
