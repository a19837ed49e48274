//! The cursor on one thread. (`tests/cursor_under_loom.rs` has threads; it compiles `cursor.rs` without this file.)

use std::ops::Range;

use super::cursor::{Cursor, EPOCH_MAX, Installed, NEVER, SPENT, TAKE_MAX, Taken};

fn range(ids: Range<u64>) -> Installed {
    Installed { ids, refill_at: NEVER, stale_at: NEVER, block: 8 }
}

#[test]
fn every_id_of_a_range_is_handed_out_once_and_in_order() {
    let cursor = Cursor::<4>::new();
    assert_eq!(cursor.take(1).ids, 0..0);
    assert_eq!(cursor.install(range(5..12)), Ok(0..0));
    assert_eq!(cursor.take(3).ids, 5..8);
    assert_eq!(cursor.take_block().ids, 8..12, "a block ends where the range does");
    assert!(cursor.take(1).ids.is_empty());
}

#[test]
fn what_is_taken_back_is_handed_out_no_more() {
    let cursor = Cursor::<4>::new();
    cursor.install(range(5..12)).unwrap();
    assert_eq!(cursor.take(3).ids, 5..8);
    assert_eq!(cursor.recall(), 8..12);
    assert!(cursor.take(1).ids.is_empty());
    assert_eq!(cursor.recall(), 0..0);
    cursor.install(range(8..12)).unwrap();
    assert_eq!(cursor.install(range(20..21)), Ok(8..12));
    assert_eq!(cursor.take(9).ids, 20..21);
}

#[test]
fn one_taker_asks_for_the_next_lease() {
    let cursor = Cursor::<4>::new();
    cursor.install(Installed { refill_at: 4, ..range(100..110) }).unwrap();
    let asked = [1, 3, 1, 1, 9].map(|count| cursor.take(count).refill);
    assert_eq!(asked, [false, false, true, false, false]);
    cursor.install(Installed { refill_at: 4, ..range(200..210) }).unwrap();
    assert!(cursor.take(10).refill);
}

#[test]
fn after_the_last_epoch_a_cursor_takes_no_range() {
    let cursor = Cursor::<4>::at_epoch(EPOCH_MAX - 2);
    cursor.install(range(5..12)).unwrap();
    assert_eq!(cursor.take(1).ids, 5..6);
    assert_eq!(cursor.install(range(20..30)), Err(range(20..30)));
    assert_eq!(cursor.take(1).ids, 6..7);
    assert_eq!(cursor.recall(), 7..12);
    assert_eq!(cursor.recall(), 0..0);
    assert_eq!(cursor.install(range(20..30)), Err(range(20..30)));
    assert!(cursor.take(9).ids.is_empty());
}

#[test]
fn a_spent_range_stays_spent_however_often_it_is_asked() {
    let cursor = Cursor::<4>::new();
    cursor.install(range(5..6)).unwrap();
    for _ in 0..SPENT / TAKE_MAX + 10 {
        cursor.take(TAKE_MAX);
    }
    assert_eq!(cursor.take(1), Taken::default());
    assert_eq!(cursor.install(range(9..10)), Ok(6..6));
    assert_eq!(cursor.take(1).ids, 9..10);
}
