//! The format of a history: JSON lines, one finished operation or one fact on each.
//!
//! Times are nanoseconds of one monotonic clock, that of the recording process. Lines may be in any order. A
//! recording program builds [`Record`]s and writes them with [`Record::write`]. [`Record::parse`] reads them
//! back without copying the texts of the line.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Serialize};

/// A text, borrowed from its line unless it had escapes.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'a, T: Into<Cow<'a, str>>> From<T> for Text<'a> {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// A half-open range of ids or of milliseconds: the first, and the first after the range.
pub type Interval = (u64, u64);

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Record<'a> {
    /// A request for ids of a tag.
    Ids(Ids<'a>),
    /// A request for snowflake ids.
    Flakes(Flakes<'a>),
    /// A request to create a tag. Its row is what the tag would have, with `max_id` for the first id.
    Create(Admin<'a>),
    /// A request to change a tag. Its row has the fields to change, and no others.
    Update(Admin<'a>),
    /// A request to delete a tag. It has no row.
    Delete(Admin<'a>),
    /// A read of a tag. Its row is the answer; it has none if the tag does not exist.
    Read(Admin<'a>),
    /// A process received ids of a tag to hand out.
    Grant(Grant<'a>),
    /// A process received milliseconds of a worker id, or more of them.
    Window(Window<'a>),
    /// A process gave up the rest of a window. Record this when the process stops using the window, before the
    /// rest can be given to another process.
    Release(Release<'a>),
    /// The layout of snowflake ids. At most once in a history.
    Layout(Layout),
    /// A deliberate fault.
    Fault(Fault<'a>),
    /// All faults have been healed.
    Healed(Healed),
    /// Ids of a tag rise over all nodes.
    Strict(Strict<'a>),
    /// Ids of a tag come from grants under another name.
    Drawn(Drawn<'a>),
}

/// What all client requests have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call<'a> {
    /// The client. It has one request at a time.
    pub p: u32,
    /// The node that was asked.
    pub node: u64,
    /// The process start of that node that answered, if it is known for certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the request was sent.
    pub inv: u64,
    /// When the answer arrived. May be missing when the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ret: Option<u64>,
    /// How it ended.
    pub out: Outcome,
    /// The service's code for a refusal: `tag_exists`, `unknown_tag`, `conflict`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Text<'a>>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was carried out.
    Ok,
    /// It was certainly not carried out.
    Fail,
    /// Unknown: it may take effect at any time from `inv` on, or never.
    Info,
}

/// A request for ids of a tag.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ids<'a> {
    /// Client, node, times and outcome.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// The tag.
    pub key: Text<'a>,
    /// The ids that were handed out, in the order of the answer.
    pub r: Vec<Interval>,
}

/// A request for snowflake ids.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flakes<'a> {
    /// Client, node, times and outcome.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// The ids that were handed out, in the order of the answer.
    pub r: Vec<Interval>,
}

/// A request about a tag itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Admin<'a> {
    /// Client, node, times and outcome.
    #[serde(flatten)]
    pub call: Call<'a>,
    /// The tag.
    pub key: Text<'a>,
    /// What was written or read; see [`Record`].
    pub row: Option<Row<'a>>,
    /// The whole row in the answer to a create or an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Row<'a>>,
    /// The read may return an older state.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A tag's row, or parts of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row<'a> {
    /// Ids of one grab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Free text. The check is sharper, and faster, if no other write has the same text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text<'a>>,
    /// The first id that is not yet reserved.
    #[serde(default, alias = "max_id_min", skip_serializing_if = "Option::is_none")]
    pub max_id: Option<u64>,
}

/// Ids that a process received to hand out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grant<'a> {
    /// The tag.
    pub key: Text<'a>,
    /// The node.
    pub node: u64,
    /// The process start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the process received them.
    pub at: u64,
    /// The ranges.
    pub r: Vec<Interval>,
}

/// Milliseconds of a worker id that a process received.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window<'a> {
    /// The worker id.
    pub worker: u16,
    /// The node.
    pub node: u64,
    /// The process start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Text<'a>>,
    /// When the process received them.
    pub at: u64,
    /// The whole window, in Unix milliseconds. A window that begins at the start of the holder's last one extends it.
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

/// The fields of a snowflake id: time since the epoch, worker id, sequence, from high to low.
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
    /// A description for people.
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

/// A tag whose ids rise over all nodes, not only at each node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Strict<'a> {
    /// The tag.
    pub key: Text<'a>,
}

/// A tag whose ids come from grants under another name, which any process may have received: a counter that
/// shares grants with other counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn<'a> {
    /// The tag.
    pub key: Text<'a>,
    /// The name in the grants.
    pub from: Text<'a>,
}

impl<'a> Record<'a> {
    /// Writes one line, including the line end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut to, self)?;
        to.write_all(b"\n")
    }
}
