use super::*;
use crate::machine::clock::SystemClock;

const TEN: Steps = Steps { step: 10, step_max: None };

fn slot() -> Slot {
    Slot::new(BizTag::parse("orders").unwrap(), TEN, Arc::new(SystemClock::default()))
}

fn wait(slot: &Slot, count: u64) -> (oneshot::Receiver<TakenNumbers>, bool) {
    match slot.take(count, Arrangement::Ranges) {
        (TakeOutcome::Wait(answered), wants_grab) => (answered, wants_grab),
        _ => panic!("nothing is held, so the caller waits"),
    }
}

fn ids(answered: &mut oneshot::Receiver<TakenNumbers>) -> Vec<u64> {
    let ranges = answered.try_recv().expect("answered").expect("ids");
    ranges.into_iter().flatten().collect()
}

/// Whether the rate limit refuses a call, and asks the caller to wait for a number of seconds in this range.
fn over_for(outcome: &TakeOutcome, seconds: std::ops::RangeInclusive<u64>) -> bool {
    matches!(outcome, TakeOutcome::Refused(Error::OverRateLimit { after_s }) if seconds.contains(after_s))
}

#[test]
fn waiting_callers_are_served_in_order_of_arrival_by_one_grab() {
    let slot = slot();
    let (mut first, wants_grab) = wait(&slot, 1);
    assert!(wants_grab, "the first caller asks for a grab");
    let (mut second, wants_grab) = wait(&slot, 3);
    assert!(!wants_grab, "one grab in flight per tag");
    let size = slot.begin_grab(TEN).unwrap();
    let end = 1 + u64::from(size);
    slot.install(Segment { start: 1, end }, TEN);
    assert_eq!(ids(&mut first), [1]);
    assert_eq!(ids(&mut second), [2, 3, 4]);
}

#[test]
fn a_grab_is_sized_for_all_who_wait() {
    let slot = slot();
    let waiting: Vec<_> = (0..5).map(|_| wait(&slot, 100)).collect();
    assert_eq!(slot.begin_grab(TEN), Some(500));
    drop(waiting);
}

#[test]
fn a_caller_who_comes_after_the_grab_was_sized_gets_the_next_one() {
    let slot = slot();
    let (mut early, _) = wait(&slot, 10);
    let size = u64::from(slot.begin_grab(TEN).unwrap());
    let (mut late, wants_grab) = wait(&slot, 1_000);
    assert!(!wants_grab, "a grab is in flight");
    assert!(slot.install(Segment { start: 1, end: 1 + size }, TEN), "another is needed");
    assert_eq!(ids(&mut early).len(), 10);
    assert!(late.try_recv().is_err());
    let more = u64::from(slot.begin_grab(TEN).unwrap());
    slot.install(Segment { start: 1 + size, end: 1 + size + more }, TEN);
    assert_eq!(ids(&mut late).len(), 1_000);
}

#[test]
fn a_caller_who_wants_more_than_is_held_holds_nobody_up() {
    let slot = slot();
    let (mut large, _) = wait(&slot, 100);
    let (mut small, _) = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    // Fewer came than were asked for, as when a tag nears its end.
    assert!(slot.install(Segment { start: 1, end: 11 }, TEN));
    assert_eq!(ids(&mut small), [1]);
    assert!(large.try_recv().is_err());
}

#[test]
fn a_caller_who_wants_one_run_waits_for_a_grab_that_is_long_enough() {
    let slot = slot();
    let _ = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.install(Segment { start: 1, end: 11 }, TEN);
    let (take, wants_grab) = slot.take(5, Arrangement::Contiguous);
    assert!(
        matches!(take, TakeOutcome::Ids(ranges) if ranges.first() == Some(&(1..6))) && !wants_grab
    );
    let (TakeOutcome::Wait(mut run), wants_grab) = slot.take(6, Arrangement::Contiguous) else {
        panic!("5 are left")
    };
    assert!(wants_grab);
    let size = slot.begin_grab(TEN).unwrap();
    assert!(size >= 6);
    // Another node's grab lies between, so the two segments do not touch.
    slot.install(Segment { start: 100, end: 100 + u64::from(size) }, TEN);
    assert_eq!(ids(&mut run), [100, 101, 102, 103, 104, 105]);
    assert_eq!(slot.take_some(1).0, Some(106..107), "ids only rise; what was skipped is wasted");
}

#[test]
fn a_tag_of_one_id_a_grab_reserves_the_next_one_only_when_a_caller_waits() {
    let slot = slot();
    let one = Steps { step: 1, step_max: Some(1) };
    for id in 1..5 {
        let (mut waiting, wants_grab) = wait(&slot, 1);
        assert!(wants_grab);
        assert_eq!(slot.begin_grab(one), Some(1));
        assert!(!slot.install(Segment { start: id, end: id + 1 }, one), "nothing is fetched ahead");
        assert_eq!(ids(&mut waiting), [id]);
    }
}

#[test]
fn a_caller_who_wants_more_than_a_grab_may_reserve_gets_it_from_several() {
    let slot = slot();
    let two = Steps { step: 1, step_max: Some(2) };
    let (mut waiting, _) = wait(&slot, 5);
    for start in [1, 11, 21] {
        assert_eq!(slot.begin_grab(two), Some(2));
        slot.install(Segment { start, end: start + 2 }, two);
    }
    assert_eq!(ids(&mut waiting), [1, 2, 11, 12, 21]);
}

#[test]
fn a_failed_grab_is_asked_for_again_only_while_somebody_waits() {
    let slot = slot();
    let (waiting, _) = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    assert!(slot.grab_failed());
    slot.begin_grab(TEN).unwrap();
    drop(waiting);
    assert!(!slot.grab_failed());
    let (_, wants_grab) = wait(&slot, 1);
    assert!(wants_grab, "the next caller asks again");
}

#[test]
fn an_exhausted_tag_gives_what_is_held_and_asks_for_no_more() {
    let slot = slot();
    let _ = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.install(Segment { start: 1, end: 3 }, TEN);
    slot.exhausted();
    assert_eq!(slot.take_some(1), (Some(1..2), false));
    assert_eq!(slot.take_some(9), (Some(2..3), false));
    assert!(matches!(
        slot.take(1, Arrangement::Ranges),
        (TakeOutcome::Refused(Error::Exhausted), false)
    ));
}

#[test]
fn a_closed_slot_gives_nothing_even_when_a_grab_comes_back() {
    let slot = slot();
    let (mut waiting, _) = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.close();
    assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    assert!(!slot.install(Segment { start: 1, end: 11 }, TEN));
    assert_eq!(slot.take_some(1), (None, false));
    assert!(matches!(slot.take(1, Arrangement::Ranges), (TakeOutcome::Closed, false)));
}
fn protection(rate_limit: Option<u32>, frozen: bool) -> Protection {
    Protection { rate_limit, frozen }
}

/// A slot that holds the ids from 1 to `held`.
fn holding(held: u64) -> Slot {
    let slot = slot();
    let _ = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.install(Segment { start: 1, end: held + 1 }, TEN);
    slot
}

#[test]
fn a_frozen_slot_gives_nothing_of_what_it_holds_until_it_thaws() {
    let slot = holding(100);
    slot.protect(protection(None, true));
    assert_eq!(slot.take_some(1), (None, false));
    assert_eq!(slot.take_exactly(1), (None, false));
    for arrangement in [Arrangement::Ranges, Arrangement::Contiguous] {
        assert!(matches!(slot.take(1, arrangement), (TakeOutcome::Refused(Error::Frozen), false)));
    }
    assert_eq!((slot.remaining(), slot.would_admit(1)), (0, Err(Error::Frozen)));
    slot.protect(protection(None, false));
    assert_eq!(slot.take_some(1).0, Some(1..2), "the watermark is not given back");
}

#[test]
fn freezing_tells_those_who_wait_and_ends_the_fetching() {
    let slot = slot();
    let (mut waiting, wants_grab) = wait(&slot, 1);
    assert!(wants_grab);
    slot.protect(protection(None, true));
    assert_eq!(waiting.try_recv().unwrap(), Err(Error::Frozen));
    assert_eq!(slot.begin_grab(TEN), None, "a frozen tag asks for no grab");
    slot.protect(protection(None, false));
    let (_, wants_grab) = wait(&slot, 1);
    assert!(wants_grab, "the next caller asks again");
}

#[test]
fn a_grab_of_before_the_freeze_is_kept_and_given_to_nobody_meanwhile() {
    let slot = slot();
    let _ = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.protect(protection(None, true));
    assert!(!slot.install(Segment { start: 1, end: 11 }, TEN));
    assert_eq!(slot.take_some(1), (None, false));
    slot.protect(protection(None, false));
    assert_eq!(slot.take_some(9).0, Some(1..10));
}

#[test]
fn a_grab_that_met_a_frozen_tag_tells_those_who_wait_and_leaves_the_guard() {
    let slot = slot();
    let (mut waiting, _) = wait(&slot, 1);
    slot.begin_grab(TEN).unwrap();
    slot.grab_refused(&Error::Frozen);
    assert_eq!(waiting.try_recv().unwrap(), Err(Error::Frozen));
    let (_, wants_grab) = wait(&slot, 1);
    assert!(wants_grab, "the tag may have thawed since");
}

#[test]
fn every_way_to_ids_counts_against_one_limit() {
    let slot = holding(1_000);
    slot.protect(protection(Some(1), false));
    assert_eq!(slot.take_some(9).0, Some(1..2));
    assert_eq!(slot.take_some(1).0, None);
    assert_eq!(slot.take_exactly(1).0, None);
    let (refused, wants_grab) = slot.take(1, Arrangement::Contiguous);
    assert!(over_for(&refused, 1..=1) && !wants_grab);
    slot.protect(protection(None, false));
    assert_eq!(slot.take_some(5).0, Some(2..7));
}

#[test]
fn a_request_for_more_than_the_bucket_holds_passes_once() {
    let slot = holding(1_000);
    slot.protect(protection(Some(10), false));
    assert_eq!(slot.take_exactly(100).0.map(|ids| ids.len()), Some(1));
    let (again, _) = slot.take(100, Arrangement::Ranges);
    assert!(over_for(&again, 9..=10), "it is paid off first");
    assert_eq!(slot.take_some(1).0, None);
}

#[test]
fn a_request_for_more_than_ten_seconds_of_the_limit_takes_nothing() {
    let slot = holding(1_000);
    slot.protect(protection(Some(10), false));
    let (refused, wants_grab) = slot.take(101, Arrangement::Ranges);
    let of_all = Error::CountOverRateLimit { count_max: 100 };
    assert!(matches!(refused, TakeOutcome::Refused(error) if error == of_all) && !wants_grab);
    assert_eq!(slot.take_exactly(101).0, None);
    let ids = slot.take_exactly(100).0.unwrap_or_default();
    assert!(ids.into_iter().flatten().eq(1..101), "all of the bucket is there");
}

#[test]
fn callers_that_wait_have_paid() {
    let slot = slot();
    slot.protect(protection(Some(10), false));
    let (mut waiting, _) = wait(&slot, 10);
    let (refused, _) = slot.take(10, Arrangement::Ranges);
    assert!(over_for(&refused, 1..=1));
    slot.begin_grab(TEN).unwrap();
    slot.install(Segment { start: 1, end: 1_001 }, TEN);
    assert_eq!(ids(&mut waiting).len(), 10);
}

#[test]
fn a_change_of_something_else_fills_no_bucket() {
    let slot = holding(1_000);
    slot.protect(protection(Some(1), false));
    assert_eq!(slot.take_some(9).0, Some(1..2));
    slot.protect(protection(Some(1), true));
    slot.protect(protection(Some(1), false));
    assert_eq!(slot.take_some(1).0, None);
}

#[test]
fn a_limit_that_is_lifted_and_set_again_forgives_no_debt() {
    let slot = holding(1_000);
    slot.protect(protection(Some(10), false));
    assert_eq!(slot.take_exactly(100).0.map(|ids| ids.len()), Some(1));
    slot.protect(protection(None, false));
    assert_eq!(slot.would_admit(1), Ok(()));
    assert!(slot.take_some(5).0.is_some());
    for rate in [10, 11] {
        slot.protect(protection(Some(rate), false));
        assert_eq!(slot.take_some(1).0, None, "what was taken is not forgiven");
        let refused = slot.would_admit(1);
        assert!(matches!(refused, Err(Error::OverRateLimit { after_s: 2.. })), "{refused:?}");
    }
}
