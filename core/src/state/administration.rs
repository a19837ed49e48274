//! Admin changes: carried out, and recorded in the audit.

use super::actor::Actor;
use super::apply::{NewTag, State};
use super::audit::{AuditEntry, Fact, Facts, Field};
use super::change::{Change, floor_facts, pool_facts};
use super::response::Response;
use super::tag_entry::TagRow;
use super::tag_fields::TagFields;
use crate::limits::ID_END;
use crate::tag::BizTag;

/// One page of the audit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditPage {
    /// The entries, in the order that was asked for.
    pub entries: Vec<AuditEntry>,
    /// The next page begins after this number, in that order; `None` on the last page.
    pub next: Option<u64>,
}

impl State {
    /// One page of the audit, beginning after the entry `after`: up to `limit` entries. It ends before the first entry
    /// that `has_room` refuses, except that its first entry is always on it.
    pub fn audit_page(
        &self,
        after: u64,
        limit: usize,
        has_room: impl FnMut(&AuditEntry) -> bool,
    ) -> AuditPage {
        page_of(self.audit.after(after), limit, has_room)
    }

    /// The same from the newest entry back: the page begins with the entry before the entry `before`.
    pub fn audit_page_back(
        &self,
        before: u64,
        limit: usize,
        has_room: impl FnMut(&AuditEntry) -> bool,
    ) -> AuditPage {
        let newest_first = self.audit.after(0).rev();
        page_of(newest_first.skip_while(|entry| entry.index >= before), limit, has_room)
    }

    /// Carries a change out. A change that has an effect gets an entry in the audit. A change that was rejected gets
    /// none, and neither does one that sets what a tag has already: such changes can be requested without end, and
    /// would push the others out.
    pub(super) fn administer(&mut self, now_ms: u64, actor: &Actor, change: &Change) -> Response {
        let row_before = change.tag().and_then(|tag| self.tag(tag.as_str()));
        let response = match change {
            Change::CreateTag { tag, step, start, description, protection } => {
                let plain = NewTag::plain(*step, *start, description);
                self.create(tag, &NewTag { protection: *protection, ..plain })
            }
            Change::CreateShapedTag { tag, step, start, description, protection, shape } => {
                let plain = NewTag::plain(*step, *start, description);
                let (protection, shape) = (*protection, Some(&**shape));
                self.create(tag, &NewTag { protection, shape, ..plain })
            }
            Change::CreateBoundedTag {
                tag,
                step,
                step_max,
                start,
                description,
                protection,
                shape,
            } => {
                let plain = NewTag::plain(*step, *start, description);
                let shape = (!shape.is_plain()).then_some(&**shape);
                let (protection, step_max) = (*protection, Some(*step_max));
                self.create(tag, &NewTag { protection, shape, step_max, ..plain })
            }
            Change::UpdateTag { tag, fields } => self.update(tag, fields, None),
            Change::UpdateBoundedTag { tag, fields, step_max } => {
                self.update(tag, fields, Some(*step_max))
            }
            Change::DeleteTag { tag } => self.delete(tag),
            Change::RaiseSnowflakeFloor { floor_ms } => {
                let before_ms = self.workers.bounds_mut().raise_floor(*floor_ms);
                Response::Floor { before_ms, floor_ms: self.snowflake_floor_ms() }
            }
            Change::ImportTag { import: _, tag, step, max_id, description } => {
                self.import(tag, *step, *max_id, description)
            }
            Change::SetPool { pool, workers, taken } => {
                self.pools.set(now_ms, pool, workers, taken)
            }
            Change::DeletePool { pool } => self.pools.delete(now_ms, pool),
            Change::SetNode { .. }
            | Change::RemoveNode { .. }
            | Change::TransferLeader { .. }
            | Change::RaiseLevel { .. } => Response::Noted,
        };
        self.record_effect(actor, change, row_before.as_ref(), &response);
        response
    }

    /// Puts a change that had an effect into the audit. `row_before` is the tag's row of before, if it is about a tag.
    fn record_effect(
        &mut self,
        actor: &Actor,
        change: &Change,
        row_before: Option<&TagRow>,
        response: &Response,
    ) {
        match response {
            Response::Tag(_)
            | Response::ShapedTag { .. }
            | Response::BoundedTag { .. }
            | Response::Deleted => {
                let row_after = change.tag().and_then(|tag| self.tag(tag.as_str()));
                let facts = (change.facts(row_before), change.facts(row_after.as_ref()));
                if facts.0 != facts.1 {
                    self.record(actor, change, facts);
                }
            }
            &Response::Floor { before_ms, floor_ms } if before_ms < floor_ms => {
                self.record(actor, change, (floor_facts(before_ms), floor_facts(floor_ms)));
            }
            Response::Pool { before, after } if before != after => {
                let facts = (pool_facts(before.as_ref()), pool_facts(after.as_ref()));
                self.record(actor, change, facts);
            }
            Response::Imported { before, row } if before.is_none_or(|mark| mark < row.max_id) => {
                self.count_import(actor, change, before.is_none());
            }
            Response::Noted => self.record(actor, change, change.recorded_facts()),
            _ => {}
        }
    }

    /// Creates a tag at this mark, or raises it to there. A mark never falls: a lower one changes nothing.
    fn import(&mut self, tag: &BizTag, step: u32, max_id: u64, description: &str) -> Response {
        let Some(row) = self.tag(tag.as_str()) else {
            return match self.create(tag, &NewTag::plain(step, max_id, description)) {
                Response::Tag(row) => Response::Imported { before: None, row },
                rejection => rejection,
            };
        };
        if row.shape.as_ref().is_some_and(|shape| !shape.takes_max_id()) {
            return Response::OtherShape;
        }
        let before = Some(row.max_id);
        if row.max_id >= max_id {
            return Response::Imported { before, row };
        }
        let fields = TagFields { max_id: Some(max_id), ..TagFields::default() };
        let updated = self.update(tag, &fields, None);
        match updated.row() {
            Some(row) => Response::Imported { before, row: row.clone() },
            None => updated,
        }
    }

    /// The mark of a tag that would be made now, to begin at `start`, under a name without a tag. It is above every id
    /// that the name was ever given, and above the ids that the cluster before a restore may have given of it.
    pub fn first_mark(&self, name: &str, start: u64) -> u64 {
        match self.entries.get(name) {
            Some(tag) => start.max(tag.entry.max_id()),
            None => start.saturating_add(self.advance).min(ID_END),
        }
    }

    /// Counts a tag in the one entry that its import has in the audit.
    fn count_import(&mut self, actor: &Actor, change: &Change, is_new: bool) {
        let import = change.target();
        if self.audit.import_mut(actor, &import).is_none() {
            let none = [(Field::Created, Fact::Number(0)), (Field::Raised, Fact::Number(0))];
            self.record(actor, change, (Facts::default(), none.into()));
        }
        let counted = if is_new { Field::Created } else { Field::Raised };
        let entry = self.audit.import_mut(actor, &import);
        for (field, fact) in entry.into_iter().flat_map(|entry| &mut entry.after) {
            if let (true, Fact::Number(tags)) = (*field == counted, fact) {
                *tags += 1;
            }
        }
    }

    fn record(&mut self, actor: &Actor, change: &Change, (before, after): (Facts, Facts)) {
        self.audit.push(AuditEntry {
            index: self.audit.next_index(),
            time_ms: self.clock_ms,
            actor: actor.clone(),
            action: change.action(),
            target: change.target().into(),
            before,
            after,
        });
    }
}

/// The first of these entries: up to `limit`, and up to the first that `has_room` refuses, except that the first entry
/// is always taken.
fn page_of<'a>(
    entries: impl Iterator<Item = &'a AuditEntry>,
    limit: usize,
    mut has_room: impl FnMut(&AuditEntry) -> bool,
) -> AuditPage {
    let mut page = AuditPage::default();
    for entry in entries {
        let has_room = has_room(entry);
        if page.entries.len() == limit || !(has_room || page.entries.is_empty()) {
            page.next = page.entries.last().map(|last| last.index);
            break;
        }
        page.entries.push(entry.clone());
    }
    page
}
