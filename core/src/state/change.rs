//! Admin changes: what an administrator asks for, and what the audit says of it.
//!
//! Changes stand in every log: `level.rs` says how a variant is added.

use serde::{Deserialize, Serialize};

use super::audit::{Action, Fact, Facts, Field};
use super::level::{ROOT_KEY, STEP_BOUNDS, level_of};
use super::pool_workers::PoolWorkers;
use super::protection::Protection;
use super::tag_entry::TagRow;
use super::tag_fields::{TagFields, check_description, check_step, require};
use crate::limits::{ADDRESS_BYTES_MAX, FLOOR_MS_MAX, ID_END, ID_MAX};
use crate::shape::{Kind, Order, Period, Shape};
use crate::snowflake::WorkerPool;
use crate::steps::Steps;
use crate::tag::{self, BizTag, OutOfBounds};

/// A change that an administrator asks for.
///
/// The state carries out the changes of tags and of the snowflake floor. `raft/` carries out those of the membership,
/// the leader and the level; the state records that they were made, on the word of the node that was asked.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Creates a tag. Its ids begin at `start`, or above every id the name was ever given.
    CreateTag {
        /// The name, not in use by an existing tag.
        tag: BizTag,
        /// Ids per grab, 1 to [`STEP_MAX`](crate::limits::STEP_MAX).
        step: u32,
        /// First id, 1 to [`ID_MAX`].
        start: u64,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: String,
        /// What keeps callers from taking ids.
        protection: Protection,
    },
    /// Changes the given fields of an existing tag: all of them or, when rejected, none.
    UpdateTag {
        /// The name of an existing tag.
        tag: BizTag,
        /// The fields.
        fields: TagFields,
    },
    /// Deletes a tag. The name remembers how far its ids went.
    DeleteTag {
        /// The name of an existing tag.
        tag: BizTag,
    },
    /// A node was added, or a member was given its vote or lost it.
    SetNode {
        /// The node's Raft id.
        id: u64,
        /// What it was before; absent when it was no member.
        before: Option<MemberFacts>,
        /// What it is now.
        after: MemberFacts,
    },
    /// A node was removed.
    RemoveNode {
        /// The node's Raft id.
        id: u64,
        /// What it was before, as far as the node that was asked knew.
        before: Option<MemberFacts>,
    },
    /// Leadership was handed over.
    TransferLeader {
        /// The leader before, if the node that was asked knew one.
        from: Option<u64>,
        /// The leader now.
        to: u64,
    },
    /// The level of the cluster was raised.
    RaiseLevel {
        /// The level before.
        from: u32,
        /// The level now.
        to: u32,
    },
    /// Raises the snowflake floor, unless it is as high already.
    RaiseSnowflakeFloor {
        /// The first millisecond that windows may have from then on, up to [`FLOOR_MS_MAX`], in Unix time.
        floor_ms: u64,
    },
    /// Creates a tag at a mark of another system, or raises the mark of the existing tag to there. A tag whose mark
    /// is as high already stays as it is, and so do step and description of every existing tag.
    ImportTag {
        /// What the import is called: 1 to [`IMPORT_CHARS_MAX`](crate::limits::IMPORT_CHARS_MAX) characters, none of
        /// them a control character.
        import: Box<str>,
        /// The name.
        tag: BizTag,
        /// Ids per grab of a new tag, 1 to [`STEP_MAX`](crate::limits::STEP_MAX).
        step: u32,
        /// The lowest mark that the tag may have, 1 to [`ID_END`].
        max_id: u64,
        /// Free text for a new tag, of at most
        /// [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: String,
    },
    /// Creates a tag with its own shape. Its lines begin at `start`, or above every number that the name was ever
    /// given, and the first key of hidden ids stays.
    CreateShapedTag {
        /// The name, not in use by an existing tag, and never of a tag with another shape.
        tag: BizTag,
        /// Numbers per grab, 1 to [`STEP_MAX`](crate::limits::STEP_MAX).
        step: u32,
        /// First number, 1 to [`ID_MAX`]; 1 unless the shape [takes](Shape::takes_start) another.
        start: u64,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: String,
        /// What keeps callers from taking ids.
        protection: Protection,
        /// The shape, not that of a plain tag. From the third level on the state makes the key of hidden ids and
        /// ignores the key in here.
        shape: Box<Shape>,
    },
    /// Creates a tag, plain or shaped. No grab of it reserves more than `step_max` ids.
    CreateBoundedTag {
        /// The name, not in use by an existing tag, and never of a tag with another shape.
        tag: BizTag,
        /// Ids per grab: 1 to `step_max`, which is at most [`STEP_MAX`](crate::limits::STEP_MAX).
        step: u32,
        /// Maximum number of ids per grab.
        step_max: u32,
        /// First id, as for [`CreateTag`](Self::CreateTag) and [`CreateShapedTag`](Self::CreateShapedTag).
        start: u64,
        /// Free text of at most [`DESCRIPTION_CHARS_MAX`](crate::limits::DESCRIPTION_CHARS_MAX) characters.
        description: String,
        /// What keeps callers from taking ids.
        protection: Protection,
        /// The shape, as for [`CreateShapedTag`](Self::CreateShapedTag); that of a plain tag for one.
        shape: Box<Shape>,
    },
    /// Changes the given fields of an existing tag, and how many ids a grab of it reserves at most: all of them or,
    /// when rejected, none.
    UpdateBoundedTag {
        /// The name of an existing tag.
        tag: BizTag,
        /// The fields.
        fields: TagFields,
        /// Maximum number of ids per grab: at least the tag's step, at most [`STEP_MAX`](crate::limits::STEP_MAX); any
        /// number for `None`.
        step_max: Option<u32>,
    },
    /// Makes a pool of worker ids for programs, or gives it more worker ids.
    SetPool {
        /// The name.
        pool: BizTag,
        /// Its worker ids, at least those that it has.
        workers: WorkerPool,
        /// Those of them that programs use without a lease, if there are any; `None` leaves those of before.
        taken: Option<Option<WorkerPool>>,
    },
    /// Deletes a pool without a lease that lasts.
    DeletePool {
        /// The name of an existing pool.
        pool: BizTag,
    },
}

/// What the audit says of a member.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct MemberFacts {
    /// Its internal address.
    pub raft: String,
    /// Its client address.
    pub http: String,
    /// Whether it votes.
    pub voter: bool,
}

impl Change {
    /// Checks every bound that does not depend on the state.
    ///
    /// # Errors
    /// The first bound that is broken.
    pub(super) fn check(&self) -> Result<(), OutOfBounds> {
        match self {
            Self::CreateTag { step, start, description, protection, .. } => {
                check_step(*step)?;
                require((1..=ID_MAX).contains(start), OutOfBounds::Start)?;
                require(protection.is_sound(), OutOfBounds::RateLimit)?;
                check_description(description)
            }
            Self::CreateShapedTag { tag: _, step, start, description, protection, shape } => {
                check_step(*step)?;
                let starts = if shape.takes_start() { 1..=ID_MAX } else { 1..=1 };
                require(starts.contains(start), OutOfBounds::Start)?;
                require(protection.is_sound(), OutOfBounds::RateLimit)?;
                require(!shape.is_plain() && shape.check().is_ok(), OutOfBounds::Shape)?;
                check_description(description)
            }
            Self::CreateBoundedTag {
                tag: _,
                step,
                step_max,
                start,
                description,
                protection,
                shape,
            } => {
                check_step(*step)?;
                require(
                    Steps { step: *step, step_max: Some(*step_max) }.is_sound(),
                    OutOfBounds::StepMax,
                )?;
                let starts = if shape.takes_start() { 1..=ID_MAX } else { 1..=1 };
                require(starts.contains(start), OutOfBounds::Start)?;
                require(protection.is_sound(), OutOfBounds::RateLimit)?;
                require(shape.is_plain() || shape.check().is_ok(), OutOfBounds::Shape)?;
                check_description(description)
            }
            Self::UpdateTag { fields, .. } => fields.check(),
            Self::UpdateBoundedTag { tag: _, fields, step_max } => {
                fields.check()?;
                let steps = Steps { step: fields.step.unwrap_or(1), step_max: *step_max };
                require(steps.is_sound(), OutOfBounds::StepMax)
            }
            Self::SetNode { before, after, .. } => {
                before.as_ref().map_or(Ok(()), MemberFacts::check)?;
                after.check()
            }
            Self::RemoveNode { before, .. } => before.as_ref().map_or(Ok(()), MemberFacts::check),
            Self::RaiseSnowflakeFloor { floor_ms } => {
                require(*floor_ms <= FLOOR_MS_MAX, OutOfBounds::Floor)
            }
            Self::ImportTag { import, tag: _, step, max_id, description } => {
                tag::check_import(import)?;
                check_step(*step)?;
                require((1..=ID_END).contains(max_id), OutOfBounds::MaxId)?;
                check_description(description)
            }
            Self::SetPool { pool: _, workers, taken } => {
                let (workers, taken) = (workers.clone(), taken.clone().flatten());
                require(PoolWorkers { workers, taken }.is_sound(), OutOfBounds::Taken)
            }
            Self::DeleteTag { .. }
            | Self::TransferLeader { .. }
            | Self::RaiseLevel { .. }
            | Self::DeletePool { .. } => Ok(()),
        }
    }

    /// The lowest level of a cluster that has this change.
    pub(super) fn level(&self) -> u32 {
        match self {
            Self::CreateTag { .. }
            | Self::UpdateTag { .. }
            | Self::DeleteTag { .. }
            | Self::SetNode { .. }
            | Self::RemoveNode { .. }
            | Self::TransferLeader { .. }
            | Self::RaiseLevel { .. }
            | Self::RaiseSnowflakeFloor { .. }
            | Self::ImportTag { .. } => 1,
            Self::CreateShapedTag { shape, .. } => level_of(shape),
            // It holds both, and an older member must be able to read both.
            Self::CreateBoundedTag { shape, .. } => STEP_BOUNDS.max(level_of(shape)),
            Self::UpdateBoundedTag { .. } => STEP_BOUNDS,
            Self::SetPool { .. } | Self::DeletePool { .. } => ROOT_KEY,
        }
    }

    /// The tag that the state changes; `None` if the change is of no tag.
    pub fn tag(&self) -> Option<&BizTag> {
        match self {
            Self::CreateTag { tag, .. }
            | Self::CreateShapedTag { tag, .. }
            | Self::CreateBoundedTag { tag, .. }
            | Self::UpdateTag { tag, .. }
            | Self::UpdateBoundedTag { tag, .. }
            | Self::DeleteTag { tag }
            | Self::ImportTag { tag, .. } => Some(tag),
            _ => None,
        }
    }

    /// The mark that the change names for an existing tag: no id below it may be given once the change is carried out,
    /// even if it raises nothing.
    pub fn mark(&self) -> Option<u64> {
        match self {
            Self::UpdateTag { fields, .. } | Self::UpdateBoundedTag { fields, .. } => fields.max_id,
            Self::ImportTag { max_id, .. } => Some(*max_id),
            _ => None,
        }
    }

    /// What was done.
    pub fn action(&self) -> Action {
        match self {
            Self::CreateTag { .. }
            | Self::CreateShapedTag { .. }
            | Self::CreateBoundedTag { .. } => Action::CreateTag,
            Self::UpdateTag { .. } | Self::UpdateBoundedTag { .. } => Action::UpdateTag,
            Self::DeleteTag { .. } => Action::DeleteTag,
            Self::SetNode { before: None, .. } => Action::AddNode,
            Self::SetNode { before: Some(_), .. } => Action::UpdateNode,
            Self::RemoveNode { .. } => Action::RemoveNode,
            Self::TransferLeader { .. } => Action::TransferLeader,
            Self::RaiseLevel { .. } => Action::RaiseLevel,
            Self::RaiseSnowflakeFloor { .. } => Action::RaiseSnowflakeFloor,
            Self::ImportTag { .. } => Action::ImportTags,
            Self::SetPool { .. } => Action::SetPool,
            Self::DeletePool { .. } => Action::DeletePool,
        }
    }

    /// What was changed: the name of a tag, a pool, an import or `cluster`, or the id of a node.
    pub fn target(&self) -> String {
        match self {
            Self::SetNode { id, .. } | Self::RemoveNode { id, .. } => id.to_string(),
            Self::TransferLeader { .. }
            | Self::RaiseLevel { .. }
            | Self::RaiseSnowflakeFloor { .. } => "cluster".to_owned(),
            Self::ImportTag { import, .. } => import.to_string(),
            Self::SetPool { pool, .. } | Self::DeletePool { pool } => pool.to_string(),
            _ => self.tag().map(BizTag::to_string).unwrap_or_default(),
        }
    }

    /// What the audit says of the tag that this changes, as the tag is in `row`: nothing without a row.
    pub fn facts(&self, row: Option<&TagRow>) -> Facts {
        match (self, row) {
            (Self::UpdateTag { fields, .. }, Some(row)) => facts_of(row, fields),
            (Self::UpdateBoundedTag { fields, .. }, Some(row)) => {
                let mut facts = facts_of(row, fields);
                facts.push((Field::StepMax, step_max_fact(row).unwrap_or(Fact::Nothing)));
                facts
            }
            (_, Some(row)) => tag_facts(row),
            (_, None) => Facts::default(),
        }
    }

    /// What was there before and what is there now, for a change that the state only records; for the snowflake floor,
    /// the value that it is raised to.
    pub fn recorded_facts(&self) -> (Facts, Facts) {
        let leader = |id: u64| Facts::from([(Field::Leader, Fact::Number(id))]);
        let level = |level: &u32| Facts::from([(Field::Level, Fact::Number((*level).into()))]);
        let member = |facts: &Option<MemberFacts>| {
            facts.as_ref().map_or_else(Facts::default, MemberFacts::facts)
        };
        match self {
            Self::SetNode { before, after, .. } => (member(before), after.facts()),
            Self::RemoveNode { before, .. } => (member(before), Facts::default()),
            Self::TransferLeader { from, to } => {
                (from.map_or_else(Facts::default, leader), leader(*to))
            }
            Self::RaiseLevel { from, to } => (level(from), level(to)),
            Self::CreateTag { .. }
            | Self::CreateShapedTag { .. }
            | Self::CreateBoundedTag { .. }
            | Self::UpdateTag { .. }
            | Self::UpdateBoundedTag { .. }
            | Self::DeleteTag { .. }
            | Self::ImportTag { .. }
            | Self::SetPool { .. }
            | Self::DeletePool { .. } => Default::default(),
            Self::RaiseSnowflakeFloor { floor_ms } => (Facts::default(), floor_facts(*floor_ms)),
        }
    }
}

/// What the audit says of the worker ids of a pool; nothing of none.
pub fn pool_facts(pool: Option<&PoolWorkers>) -> Facts {
    let text = |workers: &WorkerPool| Fact::Text(workers.to_string().into());
    let facts = |PoolWorkers { workers, taken }: &PoolWorkers| {
        let taken = taken.as_ref().map(|taken| (Field::Taken, text(taken)));
        [(Field::Workers, text(workers))].into_iter().chain(taken).collect()
    };
    pool.map(facts).unwrap_or_default()
}

/// What the audit says of the snowflake floor; nothing of none.
pub(super) fn floor_facts(floor_ms: u64) -> Facts {
    match floor_ms {
        0 => Facts::default(),
        _ => Facts::from([(Field::FloorMs, Fact::Number(floor_ms))]),
    }
}

impl MemberFacts {
    fn check(&self) -> Result<(), OutOfBounds> {
        let fits = [&self.raft, &self.http].iter().all(|text| text.len() <= ADDRESS_BYTES_MAX);
        require(fits, OutOfBounds::Address)
    }

    fn facts(&self) -> Facts {
        Facts::from([
            (Field::Raft, Fact::Text(self.raft.as_str().into())),
            (Field::Http, Fact::Text(self.http.as_str().into())),
            (Field::Voter, Fact::Flag(self.voter)),
        ])
    }
}

fn tag_facts(row: &TagRow) -> Facts {
    let rate = row.protection.rate_limit;
    let mut facts = Facts::from([
        (Field::MaxId, Fact::Id(row.max_id)),
        (Field::Step, Fact::Number(row.step.into())),
        (Field::Description, Fact::Text(row.description.as_str().into())),
        (Field::RateLimit, rate.map_or(Fact::Nothing, |rate| Fact::Number(rate.into()))),
        (Field::Frozen, Fact::Flag(row.protection.frozen)),
    ]);
    facts.extend(step_max_fact(row).map(|fact| (Field::StepMax, fact)));
    facts.extend(row.shape.as_deref().map(shape_facts).unwrap_or_default());
    facts
}

fn step_max_fact(row: &TagRow) -> Option<Fact> {
    row.step_max.map(|step_max| Fact::Number(step_max.into()))
}

/// What the audit says of a shape: its differences from a plain tag, and nothing of the key.
fn shape_facts(shape: &Shape) -> Facts {
    let Shape { kind, order, period, format, hidden } = shape;
    let text = |text: &str| Fact::Text(text.into());
    let mut facts = Facts::new();
    if *kind != Kind::default() {
        facts.push((Field::Kind, text(kind.name())));
    }
    if *order != Order::default() {
        facts.push((Field::Order, text(order.name())));
    }
    if let Some(Period { length, time_zone }) = period {
        facts.push((Field::Period, text(length.name())));
        facts.push((Field::TimeZone, text(time_zone)));
    }
    facts.extend(format.as_ref().map(|format| (Field::Format, text(format.as_str()))));
    facts.extend(hidden.as_ref().map(|h| (Field::Digits, Fact::Number(h.digits.into()))));
    facts
}

/// The given fields, as they are in a row.
fn facts_of(row: &TagRow, given: &TagFields) -> Facts {
    let is_given = |field: Field| match field {
        Field::MaxId => given.max_id.is_some(),
        Field::Step => given.step.is_some(),
        Field::Description => given.description.is_some(),
        Field::RateLimit => given.rate_limit.is_some(),
        Field::Frozen => given.frozen.is_some(),
        _ => false,
    };
    tag_facts(row).into_iter().filter(|(field, _)| is_given(*field)).collect()
}
