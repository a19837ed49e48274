//! Reads a line of a history: all fields of all kinds of lines, and which ones each kind requires.

use serde::{Deserialize, Deserializer};

use crate::history::{
    Admin, Call, Drawn, Fault, Flakes, Grant, Healed, Ids, Interval, Layout, Outcome, Record,
    Release, Row, Strict, Text, Window,
};

impl<'a> Record<'a> {
    /// Reads one line.
    ///
    /// # Errors
    /// A sentence that describes the fault of the line.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        let fields: Fields<'a> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        fields.record().map_err(str::to_owned)
    }
}

/// A line before it is checked: every field of every kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
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
    #[serde(borrow)]
    from: Option<Text<'a>>,
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
    Strict,
    Drawn,
}

fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Fields<'a> {
    fn record(mut self) -> Parsed<Record<'a>> {
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
            Op::Strict => Record::Strict(Strict { key: self.key()? }),
            Op::Drawn => {
                let from = self.from.take().ok_or("`from` is missing")?;
                Record::Drawn(Drawn { key: self.key()?, from })
            }
        })
    }

    fn call(&mut self) -> Parsed<Call<'a>> {
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

    fn admin(&mut self) -> Parsed<Admin<'a>> {
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

    fn grant(&mut self) -> Parsed<Grant<'a>> {
        let (key, node, boot, at) = (self.key()?, self.node()?, self.boot.take(), self.at()?);
        Ok(Grant { key, node, boot, at, r: self.ranges()? })
    }

    fn window(&mut self) -> Parsed<Window<'a>> {
        let w = self.w.ok_or("`w` is missing")?;
        if w.0 >= w.1 {
            return Err("a window is empty");
        }
        let (worker, node, at) = (self.worker()?, self.node()?, self.at()?);
        Ok(Window { worker, node, boot: self.boot.take(), at, w })
    }

    fn release(&mut self) -> Parsed<Release<'a>> {
        let (worker, node, at) = (self.worker()?, self.node()?, self.at()?);
        let from_ms = self.from_ms.ok_or("`from_ms` is missing")?;
        Ok(Release { worker, node, boot: self.boot.take(), at, from_ms })
    }

    fn layout(&self) -> Parsed<Layout> {
        let layout = Layout {
            epoch_ms: self.epoch_ms.ok_or("`epoch_ms` is missing")?,
            worker_bits: self.worker_bits.ok_or("`worker_bits` is missing")?,
            sequence_bits: self.sequence_bits.ok_or("`sequence_bits` is missing")?,
        };
        let sound = layout.worker_bits <= 16 && layout.sequence_bits <= 32;
        if sound && layout.epoch_ms < 1 << 62 { Ok(layout) } else { Err("an impossible layout") }
    }

    /// The ids that were handed out. There must be some exactly when the outcome is ok.
    fn ranges_taken(&mut self) -> Parsed<Vec<Interval>> {
        if self.out == Some(Outcome::Ok) {
            return self.ranges();
        }
        match self.r.take() {
            Some(ranges) if !ranges.is_empty() => Err("`r` has ids, and `out` is not \"ok\""),
            _ => Ok(Vec::new()),
        }
    }

    fn ranges(&mut self) -> Parsed<Vec<Interval>> {
        let ranges = self.r.take().filter(|ranges| !ranges.is_empty()).ok_or("`r` is missing")?;
        let sound = ranges.iter().all(|&(start, end)| start < end);
        if sound { Ok(ranges) } else { Err("a range in `r` is empty") }
    }

    fn key(&mut self) -> Parsed<Text<'a>> {
        self.key.take().ok_or("`key` is missing")
    }

    fn node(&self) -> Parsed<u64> {
        self.node.ok_or("`node` is missing")
    }

    fn worker(&self) -> Parsed<u16> {
        self.worker.ok_or("`worker` is missing")
    }

    fn at(&self) -> Parsed<u64> {
        self.at.ok_or("`at` is missing")
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

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
