use super::*;

fn entry(index: u64) -> AuditEntry {
    AuditEntry {
        index,
        time_ms: index,
        actor: Actor::default(),
        action: Action::DeleteTag,
        target: "orders".into(),
        before: vec![(Field::Frozen, Fact::Flag(true))],
        after: Facts::new(),
    }
}

fn audit(entries: u64) -> Audit {
    let mut audit = Audit::default();
    (1..=entries).for_each(|index| audit.push(entry(index)));
    audit
}

fn indexes(audit: &Audit, after: u64) -> Vec<u64> {
    audit.after(after).map(|entry| entry.index).collect()
}

#[test]
fn the_last_ten_thousand_are_kept() {
    let max = AUDIT_MAX as u64;
    for entries in [0, 1, 63, 64, 65, max, max + 1, max + 100, 3 * max + 7] {
        let audit = audit(entries);
        let first = entries.saturating_sub(max) + 1;
        assert_eq!(indexes(&audit, 0), (first..=entries).collect::<Vec<_>>());
        assert!(audit.chunks.len() <= AUDIT_MAX / CHUNK_ENTRIES_MAX + 2);
    }
}

#[test]
fn reading_goes_on_behind_any_number() {
    let audit = audit(200);
    for after in 0..=201 {
        assert_eq!(indexes(&audit, after), (after + 1..=200).collect::<Vec<_>>());
    }
}

#[test]
fn a_copy_stands_still_and_shares_all_but_what_changes() {
    let mut audit = audit(150);
    let copy = audit.clone();
    audit.push(entry(151));
    assert_eq!((indexes(&copy, 149), indexes(&audit, 149)), (vec![150], vec![150, 151]));
    let shared = audit.chunks.iter().zip(&copy.chunks).filter(|(a, b)| Arc::ptr_eq(a, b));
    assert_eq!(shared.count(), 2);
}

#[test]
fn what_was_read_goes_on_as_what_was_written() {
    let whole = audit(AUDIT_MAX as u64 + 70);
    let mut read = Audit::default();
    let entries: Vec<_> = whole.after(0).cloned().collect();
    entries.chunks(100).for_each(|chunk| read.extend(chunk.to_vec()).unwrap());
    let (mut one, mut other) = (whole, read);
    for audit in [&mut one, &mut other] {
        audit.push(entry(audit.next_index()));
    }
    assert_eq!(indexes(&one, 0), indexes(&other, 0));
}

#[test]
fn an_import_finds_its_entry_among_the_last_ones_only() {
    let mut audit = audit(3);
    let mut import = entry(4);
    (import.action, import.target) = (Action::ImportTags, "leaf.sql".into());
    audit.push(import);
    let actor = Actor::default();
    let copy = audit.clone();
    audit.import_mut(&actor, "leaf.sql").unwrap().after = vec![(Field::Raised, Fact::Number(1))];
    assert!(audit.import_mut(&actor, "other.sql").is_none());
    assert!(audit.import_mut(&Actor::parse("ops").unwrap(), "leaf.sql").is_none());
    assert_eq!(audit.after(3).next().unwrap().after, [(Field::Raised, Fact::Number(1))]);
    assert_eq!(copy.after(3).next().unwrap().after, []);
    (5..5 + 2 * IMPORT_ENTRIES_BACK as u64).for_each(|index| audit.push(entry(index)));
    assert!(audit.import_mut(&actor, "leaf.sql").is_none());
}

#[test]
fn entries_that_no_state_has_are_refused() {
    let mut long = entry(1);
    long.target = "x".repeat(TEXT_BYTES_MAX).into();
    let mut many = entry(1);
    many.after = vec![(Field::Frozen, Fact::Nothing); 24];
    for entries in [vec![], vec![entry(0)], vec![entry(7), entry(9)], vec![long], vec![many]] {
        assert!(Audit::default().extend(entries).is_err());
    }
    let mut audit = audit(3);
    assert!(audit.extend(vec![entry(3)]).is_err());
    assert!(audit.extend(vec![entry(4)]).is_ok());
}
