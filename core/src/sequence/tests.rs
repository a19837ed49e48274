//! Keys against a model that forgets nothing, and the memory that they take.

mod memory;
mod model;

use super::*;
use crate::limits::SECTIONS;
use crate::tag::BizTag;

const MIB: usize = 1024 * 1024;

fn tag(name: &str) -> BizTag {
    BizTag::parse(name).expect("a tag")
}

fn key(name: &str) -> SequenceKey<'_> {
    SequenceKey::parse(name).expect("a key")
}

fn counters() -> Counters {
    Counters::new(MIB, [1, 2])
}

#[test]
fn each_key_counts_on_its_own_inside_what_its_section_holds() {
    let mut counters = counters();
    let [section, other] = ["a", "b"].map(|name| section_of(key(name)));
    assert_eq!(counters.take("chat", key("a"), 1), Err(NotHeld { section }));
    counters.granted(&tag("chat"), section, 1, 1_001);
    counters.granted(&tag("chat"), other, 5_001, 6_001);
    assert_eq!(counters.take("chat", key("a"), 1), Ok(1..=1));
    assert_eq!(counters.take("chat", key("b"), 10), Ok(5_001..=5_010));
    assert_eq!(counters.take("chat", key("a"), 999), Ok(2..=1_000));
    assert_eq!(counters.take("chat", key("a"), 1), Err(NotHeld { section }));
    assert_eq!(counters.take("other", key("b"), 1), Err(NotHeld { section: other }));
    counters.granted(&tag("chat"), section, 1_001, 2_001);
    assert_eq!(counters.take("chat", key("a"), 1), Ok(1_001..=1_001));
    assert_eq!(counters.last("chat", key("a")), Last::Is(1_001));
    assert_eq!(counters.keys_held(), 2);
}

#[test]
fn a_request_that_cannot_be_given_whole_takes_nothing() {
    let mut counters = counters();
    let section = section_of(key("a"));
    counters.granted(&tag("chat"), section, 1, 11);
    assert_eq!(counters.take("chat", key("a"), 11), Err(NotHeld { section }));
    assert_eq!(counters.take("chat", key("a"), u64::MAX), Err(NotHeld { section }));
    assert_eq!(counters.last("chat", key("a")), Last::Below(1));
    assert_eq!(counters.take("chat", key("a"), 10), Ok(1..=10));
}

#[test]
fn a_gap_between_intervals_is_left_out_by_every_key() {
    let mut counters = counters();
    let section = section_of(key("a"));
    counters.granted(&tag("chat"), section, 1, 11);
    assert_eq!(counters.take("chat", key("a"), 5), Ok(1..=5));
    // Numbers 11 to 20 went to another process.
    counters.granted(&tag("chat"), section, 21, 31);
    assert_eq!(counters.last("chat", key("a")), Last::Is(5));
    assert_eq!(counters.take("chat", key("a"), 1), Ok(21..=21));
    // An earlier interval comes late.
    counters.granted(&tag("chat"), section, 11, 21);
    assert_eq!(counters.take("chat", key("a"), 9), Ok(22..=30));
    assert_eq!(counters.take("chat", key("a"), 1), Err(NotHeld { section }));
}

#[test]
fn what_is_known_of_a_last_number_is_exact_or_a_bound() {
    let mut counters = counters();
    let section = section_of(key("a"));
    assert_eq!(counters.last("chat", key("a")), Last::NotHeld { section });
    counters.granted(&tag("chat"), section, 501, 601);
    assert_eq!(counters.last("chat", key("a")), Last::Below(501));
    counters.take("chat", key("a"), 3).expect("numbers");
    assert_eq!(counters.last("chat", key("a")), Last::Is(503));
    counters.forget_all();
    assert_eq!(counters.last("chat", key("a")), Last::NotHeld { section });
    assert_eq!((counters.keys_held(), counters.keys_forgotten()), (0, 1));
}

#[test]
fn nothing_is_handed_out_of_what_a_forgotten_tag_held() {
    let mut counters = counters();
    let section = section_of(key("a"));
    counters.granted(&tag("chat"), section, 1, 1_001);
    counters.take("chat", key("a"), 3).expect("numbers");
    counters.forget_tag("chat");
    assert_eq!(counters.take("chat", key("a"), 1), Err(NotHeld { section }));
    counters.granted(&tag("chat"), section, 1_001, 2_001);
    assert_eq!(counters.take("chat", key("a"), 1), Ok(1_001..=1_001));
}

#[test]
fn a_key_that_was_forgotten_goes_on_higher() {
    let mut counters = Counters::new(64 * 1024, [1, 2]);
    for section in 0..SECTIONS {
        counters.granted(&tag("chat"), section, 1, 1 << 40);
    }
    let rooms: Vec<String> = (0..10_000).map(|n| format!("room-{n}")).collect();
    let mut given = Vec::new();
    let mut mark = 1 << 40;
    for room in rooms.iter().chain(&rooms) {
        let numbers = loop {
            match counters.take("chat", key(room), 7) {
                Ok(numbers) => break numbers,
                Err(NotHeld { section }) => {
                    counters.granted(&tag("chat"), section, mark, mark + 1_000);
                    mark += 1_000;
                }
            }
        };
        given.push(numbers);
    }
    assert!(counters.keys_forgotten() > 5_000, "{}", counters.keys_forgotten());
    let (earlier, later) = given.split_at(rooms.len());
    for (earlier, later) in earlier.iter().zip(later) {
        assert!(earlier.end() < later.start(), "{earlier:?}, then {later:?}");
    }
}
