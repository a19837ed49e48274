//! The contents of a history, packed: some forty bytes for each range of ids.

use std::collections::BTreeMap;

use crate::history::{Admin, Call, Grant, Interval, Layout, Outcome, Record, Release, Row, Window};
use crate::names::{IssuerId, Issuers, Names};
use crate::report::{Findings, Invariant};

/// The number of a line in the whole input.
pub(crate) type Line = u32;

/// Ids are positive in a signed 64-bit column.
const IDS: std::ops::Range<u64> = 1..1 << 63;

/// Everything that the checks use.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) tags: Names,
    pub(crate) texts: Names,
    pub(crate) issuers: Issuers,
    /// By tag.
    pub(crate) lines: Vec<TagLine>,
    pub(crate) flakes: Vec<Span>,
    /// By worker id.
    pub(crate) windows: BTreeMap<u16, Vec<WindowEvent>>,
    pub(crate) layout: Option<(Layout, Line)>,
    pub(crate) served: BTreeMap<(u64, Kind), Served>,
    /// When faults began, in milliseconds.
    pub(crate) faults_ms: Vec<u64>,
    pub(crate) heals: Vec<(u64, Line)>,
    pub(crate) totals: Totals,
}

/// Counts for the summary.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) outcomes: BTreeMap<(Kind, &'static str), u64>,
    pub(crate) ids: u128,
    pub(crate) flakes: u128,
    pub(crate) grants: u64,
    pub(crate) windows: u64,
    pub(crate) flakes_without_boot: u64,
    pub(crate) first_ns: Option<u64>,
    pub(crate) last_ns: u64,
}

/// The evidence about one tag.
#[derive(Default)]
pub(crate) struct TagLine {
    pub(crate) taken: Vec<Span>,
    pub(crate) granted: Vec<Span>,
    pub(crate) admin: Vec<AdminOp>,
    /// Requests for ids that were refused because the tag is unknown: when each was sent and answered, and its line.
    pub(crate) unknown: Vec<(u64, u64, Line)>,
    /// Whether ids rise over all nodes.
    pub(crate) strict: bool,
    /// The index of the line under whose name its ids are granted, if that is another line.
    pub(crate) drawn_from: Option<usize>,
}

/// Ids that were handed out, or granted. For a grant, `inv` and `ret` are the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) inv: u64,
    pub(crate) ret: u64,
    pub(crate) line: Line,
    pub(crate) issuer: IssuerId,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Ids,
    Flakes,
    Create,
    Update,
    Delete,
    Read,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Flakes => "flakes",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Read => "read",
        }
    }
}

/// A request about a tag itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminOp {
    pub(crate) kind: Kind,
    pub(crate) told: Told,
    pub(crate) inv: u64,
    /// `u64::MAX` when the request may still take effect.
    pub(crate) ret: u64,
    pub(crate) row: Option<PackedRow>,
    pub(crate) seen: Option<PackedRow>,
    pub(crate) line: Line,
}

/// What the client of an admin operation learned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    Done,
    Exists,
    Absent,
    Unknown,
}

/// A row with its description in [`Evidence::texts`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PackedRow {
    pub(crate) step: Option<u32>,
    pub(crate) description: Option<u32>,
    pub(crate) max_id: Option<u64>,
}

/// A window that was given, extended, or released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowEvent {
    pub(crate) issuer: IssuerId,
    pub(crate) at: u64,
    pub(crate) line: Line,
    pub(crate) change: WindowChange,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowChange {
    Given(Interval),
    Released(u64),
}

/// When requests of one kind were answered with success by one node, and when they were not.
#[derive(Default)]
pub(crate) struct Served {
    /// The milliseconds with a success, without consecutive duplicates.
    pub(crate) well_ms: Vec<u64>,
    /// Requests that failed or took long, by the time when they began; at most one for each millisecond.
    pub(crate) badly_ms: Vec<(u64, Line)>,
    pub(crate) first_ms: Option<u64>,
    pub(crate) last_ms: u64,
}

/// A request that takes longer is noted even if it succeeds.
const LONG_NS: u64 = 1_000_000_000;

impl Served {
    fn note(&mut self, call: &Call<'_>, well: bool, line: Line) {
        let (began_ms, ended_ms) = (to_ms(call.inv), to_ms(call.ret.unwrap_or(call.inv)));
        self.first_ms = Some(self.first_ms.map_or(began_ms, |first| first.min(began_ms)));
        self.last_ms = self.last_ms.max(ended_ms);
        if well && self.well_ms.last() != Some(&ended_ms) {
            self.well_ms.push(ended_ms);
        }
        let long = ended_ms - began_ms > to_ms(LONG_NS);
        if (!well || long) && self.badly_ms.last().is_none_or(|&(last, _)| last != began_ms) {
            self.badly_ms.push((began_ms, line));
        }
    }
}

pub(crate) fn to_ms(ns: u64) -> u64 {
    ns / 1_000_000
}

impl Evidence {
    /// Adds one line. Violations that the line shows by itself go to `findings`.
    ///
    /// # Errors
    /// When the line contradicts the lines before it.
    pub(crate) fn add(
        &mut self,
        record: Record<'_>,
        line: Line,
        findings: &mut Findings,
    ) -> Result<(), String> {
        match record {
            Record::Ids(ids) => {
                self.note(Kind::Ids, &ids.call, line);
                let tag = self.tag(&ids.key.0);
                let refused = ids.call.code.as_ref().is_some_and(|code| code.0 == "unknown_tag");
                if let (Outcome::Fail, true, Some(ret)) = (ids.call.out, refused, ids.call.ret) {
                    self.lines[tag].unknown.push((ids.call.inv, ret, line));
                }
                rising(&ids.r, line, findings);
                let spans = self.spans(&ids.call, &ids.r, line);
                self.totals.ids += count(&ids.r);
                self.lines[tag].taken.extend(spans);
            }
            Record::Flakes(flakes) => {
                self.note(Kind::Flakes, &flakes.call, line);
                rising(&flakes.r, line, findings);
                let without_boot = flakes.call.boot.is_none() && !flakes.r.is_empty();
                self.totals.flakes_without_boot += u64::from(without_boot);
                let spans = self.spans(&flakes.call, &flakes.r, line);
                self.totals.flakes += count(&flakes.r);
                self.flakes.extend(spans);
            }
            Record::Create(op) => self.admin(Kind::Create, &op, line),
            Record::Update(op) => self.admin(Kind::Update, &op, line),
            Record::Delete(op) => self.admin(Kind::Delete, &op, line),
            Record::Read(op) => self.admin(Kind::Read, &op, line),
            Record::Grant(grant) => self.grant(&grant, line),
            Record::Window(window) => self.window(&window, line),
            Record::Release(release) => self.release(&release, line),
            Record::Layout(layout) => match self.layout {
                Some((known, _)) if known != layout => return Err("a second layout".to_owned()),
                _ => self.layout = Some((layout, line)),
            },
            Record::Fault(fault) => self.faults_ms.push(to_ms(fault.inv)),
            Record::Healed(healed) => self.heals.push((healed.at, line)),
            Record::Strict(strict) => {
                let tag = self.tag(&strict.key.0);
                self.lines[tag].strict = true;
            }
            Record::Drawn(drawn) => {
                let (tag, from) = (self.tag(&drawn.key.0), self.tag(&drawn.from.0));
                match self.lines[tag].drawn_from.replace(from) {
                    Some(known) if known != from => {
                        return Err("a tag is drawn from two names".to_owned());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, kind: Kind, call: &Call<'_>, line: Line) {
        let outcome = match call.out {
            Outcome::Ok => "ok",
            Outcome::Fail => "fail",
            Outcome::Info => "info",
        };
        let totals = &mut self.totals;
        *totals.outcomes.entry((kind, outcome)).or_default() += 1;
        totals.first_ns = Some(totals.first_ns.map_or(call.inv, |first| first.min(call.inv)));
        totals.last_ns = totals.last_ns.max(call.ret.unwrap_or(call.inv));
        let well = call.out == Outcome::Ok || told(call) != Told::Unknown;
        self.served.entry((call.node, kind)).or_default().note(call, well, line);
    }

    fn tag(&mut self, tag: &str) -> usize {
        let number = self.tags.number(tag) as usize;
        if number == self.lines.len() {
            self.lines.push(TagLine::default());
        }
        number
    }

    fn spans<'r>(
        &mut self,
        call: &Call<'_>,
        ranges: &'r [Interval],
        line: Line,
    ) -> impl Iterator<Item = Span> + use<'r> {
        let issuer = self.issuers.number(call.node, call.boot.as_ref().map(|boot| &*boot.0));
        let (inv, ret) = (call.inv, call.ret.unwrap_or(u64::MAX));
        ranges.iter().map(move |&(start, end)| Span { start, end, inv, ret, line, issuer })
    }

    fn admin(&mut self, kind: Kind, op: &Admin<'_>, line: Line) {
        if op.stale {
            return;
        }
        self.note(kind, &op.call, line);
        let tag = self.tag(&op.key.0);
        let told = told(&op.call);
        // A refusal for a reason unrelated to the tag, or a read without an answer, contains no information.
        let silent = op.call.out == Outcome::Fail || kind == Kind::Read;
        if told == Told::Unknown && silent {
            return;
        }
        let told = match (kind, told, &op.row) {
            (Kind::Read, Told::Done, None) => Told::Absent,
            _ => told,
        };
        let ret = if told == Told::Unknown { u64::MAX } else { op.call.ret.unwrap_or(u64::MAX) };
        let row = op.row.as_ref().map(|row| self.row(row));
        let seen = op.seen.as_ref().map(|row| self.row(row));
        let op = AdminOp { kind, told, inv: op.call.inv, ret, row, seen, line };
        self.lines[tag].admin.push(op);
    }

    fn row(&mut self, row: &Row<'_>) -> PackedRow {
        let description = row.description.as_ref().map(|text| self.texts.number(&text.0));
        PackedRow { step: row.step, description, max_id: row.max_id }
    }

    fn grant(&mut self, grant: &Grant<'_>, line: Line) {
        let issuer = self.issuers.number(grant.node, grant.boot.as_ref().map(|boot| &*boot.0));
        let tag = self.tag(&grant.key.0);
        self.totals.grants += 1;
        let spans = grant.r.iter().map(|&(start, end)| {
            let (inv, ret) = (grant.at, grant.at);
            Span { start, end, inv, ret, line, issuer }
        });
        self.lines[tag].granted.extend(spans);
    }

    fn window(&mut self, window: &Window<'_>, line: Line) {
        let issuer = self.issuers.number(window.node, window.boot.as_ref().map(|boot| &*boot.0));
        self.totals.windows += 1;
        let change = WindowChange::Given(window.w);
        let event = WindowEvent { issuer, at: window.at, line, change };
        self.windows.entry(window.worker).or_default().push(event);
    }

    fn release(&mut self, release: &Release<'_>, line: Line) {
        let boot = release.boot.as_ref().map(|boot| &*boot.0);
        let issuer = self.issuers.number(release.node, boot);
        let change = WindowChange::Released(release.from_ms);
        let event = WindowEvent { issuer, at: release.at, line, change };
        self.windows.entry(release.worker).or_default().push(event);
    }
}

fn told(call: &Call<'_>) -> Told {
    match (call.out, call.code.as_ref().map(|code| &*code.0)) {
        (Outcome::Ok, _) => Told::Done,
        (Outcome::Fail, Some("tag_exists" | "conflict")) => Told::Exists,
        (Outcome::Fail, Some("unknown_tag")) => Told::Absent,
        (Outcome::Fail | Outcome::Info, _) => Told::Unknown,
    }
}

fn count(ranges: &[Interval]) -> u128 {
    ranges.iter().map(|(start, end)| u128::from(end - start)).sum()
}

/// Checks that the ids of one answer are valid and rise.
fn rising(ranges: &[Interval], line: Line, findings: &mut Findings) {
    for &(start, end) in ranges {
        if !IDS.contains(&start) || end > IDS.end {
            let what = format!("{start}..{end} are not positive ids of 63 bits");
            findings.violation(Invariant::I1, what, [line]);
        }
    }
    for pair in ranges.windows(2) {
        let ((_, end), (start, _)) = (pair[0], pair[1]);
        if start < end {
            let what = format!("the ids of one answer fall, from {} to {start}", end - 1);
            findings.violation(Invariant::I5, what, [line]);
        }
    }
}
