//! Imports in the audit.

use proptest::prelude::*;

use super::{commands, is_import};
use crate::state::{Action, Command, Fact, Field, Response, State};

proptest! {
    /// All that one import does is counted in one entry, whatever else happens in between.
    #[test]
    fn an_import_is_one_entry_that_counts_what_it_changed(commands in commands()) {
        let mut state = State::default();
        let (mut created, mut raised, mut others) = (0, 0, 0);
        for (now_ms, command) in &commands {
            let response = state.apply(*now_ms, command);
            match response {
                Response::Imported { before: None, .. } => created += 1,
                Response::Imported { before: Some(mark), row } if mark < row.max_id => raised += 1,
                _ => {}
            }
            others += u64::from(matches!(command, Command::Administer { .. }) && !is_import(command));
        }
        let entries = state.audit_page(0, usize::MAX, |_| true).entries;
        let imports: Vec<_> =
            entries.iter().filter(|entry| entry.action == Action::ImportTags).collect();
        prop_assert!(others > 60 || imports.len() == usize::from(created + raised > 0));
        let count = |field| imports.iter().flat_map(|entry| &entry.after).filter_map(
            |(given, fact)| match fact {
                Fact::Number(tags) if *given == field => Some(*tags),
                _ => None,
            }
        ).sum::<u64>();
        prop_assert_eq!((count(Field::Created), count(Field::Raised)), (created, raised));
    }
}
