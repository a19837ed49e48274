//! The format of a history: JSON lines, one finished operation or one fact a line.
//!
//! Times are nanoseconds of one monotonic clock, the recording process's. Lines may stand in any
//! order. A program that records builds [`Record`]s and writes them with [`Record::write`]; [`Record::parse`] reads
//! them back without copying what the line holds.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Serialize};

/// A text that is borrowed from the line that it was read from, unless it had escapes.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'a, T: Into<Cow<'a, str>>> From<T> for Text<'a> {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// A half-open range of ids, or of milliseconds: first, and first past it.
pub type Interval = (u64, u64);

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Record<'a> {
    /// Ids of a tag were asked for.
    Ids(Ids<'a>),
    /// Snowflake ids were asked for.
    Flakes(Flakes<'a>),
    /// A tag was to be created; its row is what it would have, with `max_id` for the first id.
    Create(Admin<'a>),
    /// A tag was to be changed; its row has what was to change, and nothing else.
    Update(Admin<'a>),
    /// A tag was to be deleted; no row.
    Delete(Admin<'a>),
    /// A tag was read; its row is what was answered, none where there was no such tag.
    Read(Admin<'a>),
    /// A process was given ids of a tag to hand out.
    Grant(Grant<'a>),
    /// A process was given milliseconds of a worker id, or more of them.
    Window(Window<'a>),
    /// A process gave up the rest of a window. Record it when the process stops using the window, before another
    /// process can be given the rest.
    Release(Release<'a>),
    /// How snowflake ids are taken apart. At most once in a history.
    Layout(Layout),
    /// Something was broken on purpose.
    Fault(Fault<'a>),
    /// All that was broken is whole again.
    Healed(Healed),
    /// Ids of a tag rise over all nodes.
    Strict(Strict<'a>),
    /// Ids of a tag come from what was granted under another name.
    Drawn(Drawn<'a>),
}

/// What all requests of clients have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call<'a> {
    /// The client. It has one request at a time.
    pub p: u32,
    /// The node that was asked.
    pub node: u64,
    /// The process start of that node that answered, where it is known for certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When it was asked.
    pub inv: u64,
    /// When the answer was there; may be missing when the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ret: Option<u64>,
    /// How it ended.
    pub out: Outcome,
    /// Why it was refused, as the service names it: `tag_exists`, `unknown_tag`, `conflict`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Text<'a>>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Ok,
    /// It was certainly not done.
    Fail,
    /// Nobody knows: it may take effect at any time from `inv` on, or never.
    Info,
}

/// A request for ids of a tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ids<'a> {
    /// Who asked whom, when, and how it ended.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// The tag.
    pub key: Text<'a>,
    /// What was handed out, in the order in which it was listed.
    pub r: Vec<Interval>,
}

/// A request for snowflake ids.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flakes<'a> {
    /// Who asked whom, when, and how it ended.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// What was handed out, in the order in which it was listed.
    pub r: Vec<Interval>,
}

/// A request about a tag itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Admin<'a> {
    /// Who asked whom, when, and how it ended.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// The tag.
    pub key: Text<'a>,
    /// What was written or read; see [`Record`].
    pub row: Option<Row<'a>>,
    /// The whole row that was answered to a create or an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Row<'a>>,
    /// A read that may be of the past.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A tag's row, or parts of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row<'a> {
    /// Ids per grab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Free text. One that no other write has makes the check sharper, and faster.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text<'a>>,
    /// The first id that is not yet reserved.
    #[serde(default, alias = "max_id_min", skip_serializing_if = "Option::is_none")]
    pub max_id: Option<u64>,
}

/// Ids that a process was given to hand out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grant<'a> {
    /// The tag.
    pub key: Text<'a>,
    /// The node.
    pub node: u64,
    /// The process start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the process had it.
    pub at: u64,
    /// What it was given.
    pub r: Vec<Interval>,
}

/// Milliseconds of a worker id that a process was given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window<'a> {
    /// The worker id.
    pub worker: u16,
    /// The node.
    pub node: u64,
    /// The process start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the process had it.
    pub at: u64,
    /// The whole window, in Unix milliseconds. One that begins where the holder's last began
    /// extends it.
    pub w: Interval,
}

/// The rest of a window that a process gave up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Release<'a> {
    /// The worker id.
    pub worker: u16,
    /// The node.
    pub node: u64,
    /// The process start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the process stopped using it.
    pub at: u64,
    /// The first millisecond, in Unix milliseconds, that it has not stamped and never will.
    pub from_ms: u64,
}

/// How snowflake ids are taken apart: time since the epoch, worker id, sequence, high to low.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Layout {
    /// The origin of times, in Unix milliseconds.
    pub epoch_ms: u64,
    /// Width of the worker id: 0 to 16.
    pub worker_bits: u8,
    /// Width of the sequence: 0 to 32.
    pub sequence_bits: u8,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault<'a> {
    /// For people.
    pub what: Text<'a>,
    /// When it began.
    pub inv: u64,
    /// When it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ret: Option<u64>,
}

/// The end of all faults for now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Healed {
    /// When.
    pub at: u64,
}

/// A tag whose ids rise over all nodes, and not only at each of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Strict<'a> {
    /// The tag.
    pub key: Text<'a>,
}

/// A tag whose ids come from what was granted under another name, to whichever process: a counter that shares what is
/// granted with others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn<'a> {
    /// The tag.
    pub key: Text<'a>,
    /// The name in the grants.
    pub from: Text<'a>,
}

impl<'a> Record<'a> {
    /// Writes one line, its end included.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut to, self)?;
        to.write_all(b"\n")
    }
}
