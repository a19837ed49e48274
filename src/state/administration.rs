//! Admin changes: carried out, and recorded in the audit.

use super::actor::Actor;
use super::apply::State;
use super::audit::{AuditEntry, Facts};
use super::change::{Change, floor_facts};
use super::response::Response;

/// One page of the audit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditPage {
    /// The entries, ascending.
    pub entries: Vec<AuditEntry>,
    /// The number after which the next page begins; `None` on the last page.
    pub next: Option<u64>,
}

impl State {
    /// One page of the audit, beginning after the entry `after`: up to `limit` entries, and none that
    /// `has_room` refuses but a first one.
    pub fn audit_page(
        &self,
        after: u64,
        limit: usize,
        mut has_room: impl FnMut(&AuditEntry) -> bool,
    ) -> AuditPage {
        let mut page = AuditPage::default();
        for entry in self.audit.after(after) {
            let has_room = has_room(entry);
            if page.entries.len() == limit || !(has_room || page.entries.is_empty()) {
                page.next = page.entries.last().map(|last| last.index);
                break;
            }
            page.entries.push(entry.clone());
        }
        page
    }

    /// Carries a change out. One that changed something has its entry in the audit. One that was rejected has
    /// none, and neither has one that gives a tag what it has already: such changes can be asked for without end,
    /// and would push the others out.
    pub(super) fn administer(&mut self, actor: &Actor, change: &Change) -> Response {
        let row = |state: &Self| change.tag().and_then(|tag| state.tag(tag.as_str()));
        let row_before = row(self);
        let response = match change {
            Change::CreateTag { tag, step, start, description, protection } => {
                self.create(tag, *step, *start, description, *protection)
            }
            Change::UpdateTag { tag, fields } => self.update(tag, fields),
            Change::DeleteTag { tag } => self.delete(tag),
            Change::RaiseSnowflakeFloor { floor_ms } => {
                let before_ms = self.workers.bounds_mut().raise_floor(*floor_ms);
                Response::Floor { before_ms, floor_ms: self.snowflake_floor_ms() }
            }
            Change::SetNode { .. }
            | Change::RemoveNode { .. }
            | Change::TransferLeader { .. }
            | Change::RaiseLevel { .. } => Response::Noted,
        };
        match &response {
            Response::Tag(_) | Response::Deleted => {
                let row_after = row(self);
                let facts = (change.facts(row_before.as_ref()), change.facts(row_after.as_ref()));
                if facts.0 != facts.1 {
                    self.record(actor, change, facts);
                }
            }
            &Response::Floor { before_ms, floor_ms } if before_ms < floor_ms => {
                self.record(actor, change, (floor_facts(before_ms), floor_facts(floor_ms)));
            }
            Response::Noted => self.record(actor, change, change.told()),
            _ => {}
        }
        response
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
