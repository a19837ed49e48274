use super::*;
use crate::state::audit::Action;
use crate::state::tag_entry::TagEntry;
use crate::state::tests::{tag, with_worker_ids};
use crate::state::{Actor, Protection};

/// The error of a run of these sections.
fn refusal(sections: Vec<SectionRead>) -> UnfitSnapshot {
    let restored = || {
        let mut sections = sections.into_iter();
        let mut restorer = Restorer::begin(9, sections.next().unwrap())?;
        while restorer.take(sections.next().unwrap())? {}
        restorer.finish()
    };
    restored().unwrap_err()
}

#[test]
fn sections_that_make_no_state_are_refused() {
    let entry = |name: &str| NamedTag { name: tag(name), entry: TagEntry::unborn() };
    let mut stepless = entry("a");
    stepless.entry.create(0, 1, "", Protection::default(), 0);
    let header = |entries| Section::Header { clock_ms: 0, entries };
    let chunk = |names: &[&str]| Section::Entries(names.iter().map(|name| entry(name)).collect());
    let none = Section::Workers(WorkerEntries::default());
    let workers = || Section::Workers(with_worker_ids().workers);
    let recorded = |index| {
        let (actor, action, target) = (Actor::default(), Action::RaiseLevel, "cluster".into());
        let (before, after) = Default::default();
        Section::Audit(vec![AuditEntry { index, time_ms: 0, actor, action, target, before, after }])
    };
    let level = |number| Section::Level(Level::new(number, "0.2.0"));
    let cases = [
        (vec![Section::End], "it does not begin with a header"),
        (vec![header(0), header(0), Section::End], "it has two headers"),
        (
            vec![header(2), chunk(&["a"]), Section::End],
            "it has another number of entries than it says",
        ),
        (vec![header(2), chunk(&["b", "a"]), Section::End], "its names do not ascend"),
        (vec![header(2), chunk(&["a"]), chunk(&["a"]), Section::End], "its names do not ascend"),
        (
            vec![header(1), Section::Entries(vec![stepless]), Section::End],
            "a step is out of bounds",
        ),
        (vec![header(0), none, Section::End], "its worker ids come twice or not at all"),
        (
            vec![header(0), workers(), workers(), Section::End],
            "its worker ids come twice or not at all",
        ),
        (vec![header(0), level(1), Section::End], "its level stands in the wrong place"),
        (vec![header(0), level(2), level(3), Section::End], "its level stands in the wrong place"),
        (vec![header(0), workers(), level(2), Section::End], "its level stands in the wrong place"),
        (
            vec![header(0), recorded(1), recorded(3), Section::End],
            "its audit is out of order or out of bounds",
        ),
        (
            vec![header(0), recorded(1), workers(), Section::End],
            "its audit stands in the wrong place",
        ),
        (
            vec![header(1), recorded(1), chunk(&["a"]), Section::End],
            "its audit stands in the wrong place",
        ),
    ];
    for (sections, reason) in cases {
        assert_eq!(refusal(sections), UnfitSnapshot::Malformed(reason));
    }
}

#[test]
fn an_advance_that_no_state_has_is_refused() {
    let header = || Section::Header { clock_ms: 0, entries: 0 };
    for sections in [
        vec![header(), Section::Advance(0), Section::End],
        vec![header(), Section::Advance(1), Section::Advance(2), Section::End],
    ] {
        let why = "its advance comes twice or not at all";
        assert_eq!(refusal(sections), UnfitSnapshot::Malformed(why));
    }
}

#[test]
fn what_the_third_level_has_is_refused_below_it_and_twice() {
    let header = || Section::Header { clock_ms: 0, entries: 0 };
    let level = |number| Section::Level(Level::new(number, "0.3.0"));
    let mut before = PeriodsBefore::default();
    before.await_stamp();
    let sections: [fn(PeriodsBefore) -> SectionRead; 3] = [
        |_| Section::Root(RootKey([7; 32])),
        Section::PeriodsBefore,
        |_| Section::ReassignedUntil(5),
    ];
    let why = "a section of the third level comes twice, empty, or below that level";
    for section in sections {
        for (number, times) in [(2, 1), (3, 2)] {
            let mut stream = vec![header(), level(number)];
            stream.extend((0..times).map(|_| section(before)));
            stream.push(Section::End);
            assert_eq!(refusal(stream), UnfitSnapshot::Malformed(why));
        }
    }
}
