//! The format of a history: JSON lines, one finished operation or one fact a line.
//!
//! Times are nanoseconds of one monotonic clock, the recording process's. Lines may stand in any
//! order. Whoever records builds [`Record`]s and writes them with [`Record::write`];
//! [`Record::parse`] reads them back without copying what the line holds.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Deserializer, Serialize};

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
    /// A process gave up the rest of a window. To be recorded when it stops using the window,
    /// before anybody else can be given the rest.
    Release(Release<'a>),
    /// How snowflake ids are taken apart. At most once in a history.
    Layout(Layout),
    /// Something was broken on purpose.
    Fault(Fault<'a>),
    /// All that was broken is whole again.
    Healed(Healed),
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

impl<'a> Record<'a> {
    /// Reads one line.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the line.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        let wire: Wire<'a> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        wire.record().map_err(str::to_owned)
    }

    /// Writes one line, its end included.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut to, self)?;
        to.write_all(b"\n")
    }
}

/// A line as it stands: every field of every kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    op: Op,
    p: Option<u32>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    node: Option<u64>,
    #[serde(borrow)]
    boot: Option<Text<'a>>,
    inv: Option<u64>,
    ret: Option<u64>,
    at: Option<u64>,
    out: Option<Outcome>,
    #[serde(borrow)]
    code: Option<Text<'a>>,
    r: Option<Vec<Interval>>,
    /// Missing is not the same as null.
    #[serde(borrow, default, deserialize_with = "present")]
    row: Option<Option<Row<'a>>>,
    #[serde(borrow)]
    seen: Option<Row<'a>>,
    #[serde(default)]
    stale: bool,
    w: Option<Interval>,
    worker: Option<u16>,
    from_ms: Option<u64>,
    epoch_ms: Option<u64>,
    worker_bits: Option<u8>,
    sequence_bits: Option<u8>,
    #[serde(borrow)]
    what: Option<Text<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Ids,
    Flakes,
    Create,
    Update,
    Delete,
    Read,
    Grant,
    Window,
    Release,
    Layout,
    Fault,
    Healed,
}

fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

type Read<T> = Result<T, &'static str>;

impl<'a> Wire<'a> {
    fn record(mut self) -> Read<Record<'a>> {
        Ok(match self.op {
            Op::Ids => {
                Record::Ids(Ids { key: self.key()?, r: self.ranges_taken()?, call: self.call()? })
            }
            Op::Flakes => Record::Flakes(Flakes { r: self.ranges_taken()?, call: self.call()? }),
            Op::Create => Record::Create(self.admin()?),
            Op::Update => Record::Update(self.admin()?),
            Op::Delete => Record::Delete(self.admin()?),
            Op::Read => Record::Read(self.admin()?),
            Op::Grant => Record::Grant(self.grant()?),
            Op::Window => Record::Window(self.window()?),
            Op::Release => Record::Release(self.release()?),
            Op::Layout => Record::Layout(self.layout()?),
            Op::Fault => Record::Fault(Fault {
                what: self.what.ok_or("`what` is missing")?,
                inv: self.inv.ok_or("`inv` is missing")?,
                ret: self.ret,
            }),
            Op::Healed => Record::Healed(Healed { at: self.at()? }),
        })
    }

    fn call(&mut self) -> Read<Call<'a>> {
        let call = Call {
            p: self.p.ok_or("`p` is missing")?,
            node: self.node()?,
            boot: self.boot.take(),
            inv: self.inv.ok_or("`inv` is missing")?,
            ret: self.ret,
            out: self.out.ok_or("`out` is missing")?,
            code: self.code.take(),
        };
        match call.ret {
            None if call.out != Outcome::Info => Err("`ret` is missing, and `out` is not \"info\""),
            Some(ret) if ret < call.inv => Err("`ret` lies before `inv`"),
            _ => Ok(call),
        }
    }

    fn admin(&mut self) -> Read<Admin<'a>> {
        let (call, key) = (self.call()?, self.key()?);
        let written = matches!(self.op, Op::Create | Op::Update);
        let answered = matches!(self.op, Op::Read) && call.out == Outcome::Ok;
        let row = match self.row.take() {
            None if written || answered => return Err("`row` is missing"),
            Some(None) if written => return Err("`row` is null, and something was written"),
            row => row.flatten(),
        };
        let seen = self.seen.take();
        if matches!(self.op, Op::Delete) && row.is_some() {
            return Err("a delete has no row");
        }
        let whole = |row: &Row<'_>| row.step.is_some() && row.description.is_some();
        let partial = matches!(self.op, Op::Update) || row.as_ref().is_none_or(whole);
        if !partial || !seen.as_ref().is_none_or(whole) {
            return Err("a row has `step` and `description`, save an update's");
        }
        Ok(Admin { call, key, row, seen, stale: self.stale })
    }

    fn grant(&mut self) -> Read<Grant<'a>> {
        let (key, node, boot, at) = (self.key()?, self.node()?, self.boot.take(), self.at()?);
        Ok(Grant { key, node, boot, at, r: self.ranges()? })
    }

    fn window(&mut self) -> Read<Window<'a>> {
        let w = self.w.ok_or("`w` is missing")?;
        if w.0 >= w.1 {
            return Err("a window is empty");
        }
        let (worker, node, at) = (self.worker()?, self.node()?, self.at()?);
        Ok(Window { worker, node, boot: self.boot.take(), at, w })
    }

    fn release(&mut self) -> Read<Release<'a>> {
        let (worker, node, at) = (self.worker()?, self.node()?, self.at()?);
        let from_ms = self.from_ms.ok_or("`from_ms` is missing")?;
        Ok(Release { worker, node, boot: self.boot.take(), at, from_ms })
    }

    fn layout(&self) -> Read<Layout> {
        let layout = Layout {
            epoch_ms: self.epoch_ms.ok_or("`epoch_ms` is missing")?,
            worker_bits: self.worker_bits.ok_or("`worker_bits` is missing")?,
            sequence_bits: self.sequence_bits.ok_or("`sequence_bits` is missing")?,
        };
        let sound = layout.worker_bits <= 16 && layout.sequence_bits <= 32;
        if sound && layout.epoch_ms < 1 << 62 { Ok(layout) } else { Err("an impossible layout") }
    }

    /// What was handed out: something exactly when the outcome is ok.
    fn ranges_taken(&mut self) -> Read<Vec<Interval>> {
        if self.out == Some(Outcome::Ok) {
            return self.ranges();
        }
        match self.r.take() {
            Some(ranges) if !ranges.is_empty() => Err("`r` has ids, and `out` is not \"ok\""),
            _ => Ok(Vec::new()),
        }
    }

    fn ranges(&mut self) -> Read<Vec<Interval>> {
        let ranges = self.r.take().filter(|ranges| !ranges.is_empty()).ok_or("`r` is missing")?;
        let sound = ranges.iter().all(|&(start, end)| start < end);
        if sound { Ok(ranges) } else { Err("a range in `r` is empty") }
    }

    fn key(&mut self) -> Read<Text<'a>> {
        self.key.take().ok_or("`key` is missing")
    }

    fn node(&self) -> Read<u64> {
        self.node.ok_or("`node` is missing")
    }

    fn worker(&self) -> Read<u16> {
        self.worker.ok_or("`worker` is missing")
    }

    fn at(&self) -> Read<u64> {
        self.at.ok_or("`at` is missing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line of every kind, in the form in which it is written.
    const LINES: &str = include_str!("../histories/every-kind.jsonl");

    #[test]
    fn what_is_written_is_what_is_read() {
        for line in LINES.lines() {
            let mut written = Vec::new();
            Record::parse(line.as_bytes()).unwrap().write(&mut written).unwrap();
            assert_eq!(String::from_utf8(written).unwrap().trim_end(), line);
        }
    }

    #[test]
    fn texts_are_borrowed() {
        let Record::Ids(ids) = Record::parse(LINES.lines().next().unwrap().as_bytes()).unwrap()
        else {
            panic!("the first line is a request for ids");
        };
        assert!(matches!(ids.key.0, Cow::Borrowed("orders")));
        assert!(matches!(ids.call.boot, Some(Text(Cow::Borrowed("2-7")))));
    }

    #[test]
    fn a_line_that_says_too_little_or_too_much_is_refused() {
        let cases = [
            (r#"{"op":"ids"}"#, "`key` is missing"),
            (r#"{"op":"nothing"}"#, "unknown variant"),
            (r#"{"op":"healed","at":1,"ta":2}"#, "unknown field `ta`"),
            (r#"{"op":"healed"}"#, "`at` is missing"),
            (r#"{"op":"flakes","p":1,"node":1,"inv":2,"ret":1,"out":"fail"}"#, "before `inv`"),
            (r#"{"op":"flakes","p":1,"node":1,"inv":2,"out":"fail"}"#, "`ret` is missing"),
            (r#"{"op":"flakes","p":1,"node":1,"inv":2,"ret":3,"out":"ok","r":[]}"#, "`r` is"),
            (r#"{"op":"flakes","p":1,"node":1,"inv":2,"ret":3,"out":"ok","r":[[4,4]]}"#, "empty"),
            (r#"{"op":"flakes","p":1,"node":1,"inv":2,"out":"info","r":[[4,5]]}"#, "has ids"),
            (r#"{"op":"read","p":1,"node":1,"inv":2,"ret":3,"out":"ok","key":"a"}"#, "`row` is"),
            (r#"{"op":"window","worker":1,"node":1,"at":1,"w":[5,5]}"#, "a window is empty"),
            (r#"{"op":"layout","epoch_ms":1,"worker_bits":99,"sequence_bits":1}"#, "impossible"),
        ];
        for (line, why) in cases {
            let told = Record::parse(line.as_bytes()).unwrap_err();
            assert!(told.contains(why), "{line}: {told}");
        }
    }
}
