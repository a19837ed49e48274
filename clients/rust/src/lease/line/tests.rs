use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::error::Refusal;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn kind() -> Kind {
    let rules = Rules { first: 100, min: 10, max: 1_000, lasts: secs(10) };
    Kind { rules, fresh_for: None, ahead: secs(10), is_leased: false }
}

fn call(count: u64, now: Duration, reply: u64) -> Call<u64> {
    Call { count, got: Vec::new(), deadline: now + secs(10), reply }
}

#[test]
fn ids_for_a_call_that_has_ended_go_to_nobody() {
    let (mut line, cursor) = (Line::new(kind()), Cursor::new());
    let order = line.want(&cursor, secs(0), call(1, secs(0), 1)).flight.unwrap();
    assert_eq!((order.count, order.as_ranges), (1, false));
    line.want(&cursor, secs(5), call(3, secs(5), 2));
    assert_eq!(line.expire(secs(10)).replies.len(), 1);
    let step = line.not_for_keeping(&cursor, secs(11), Some(vec!["7".to_owned()]));
    assert_eq!(step.replies, []);
    let own: Vec<_> = step.own.iter().map(|call| (call.count, call.reply)).collect();
    assert_eq!(own, [(3, 2)], "the second call asks for itself");
}

#[test]
fn a_step_on_a_closed_line_changes_nothing() {
    let (mut line, cursor) = (Line::new(kind()), Cursor::new());
    line.want(&cursor, secs(0), call(1, secs(0), 1));
    let step = line.close(&cursor);
    assert_eq!(step.replies, [(1, Reply::Failed(Error::Closed))]);
    let landed = line.landed(&cursor, secs(1), vec![1..500, 500..1_000]);
    assert!(landed.replies.is_empty() && landed.flight.is_none());
    assert!(cursor.take(1).ids.is_empty());
    let late = line.want(&cursor, secs(1), call(1, secs(1), 2));
    assert_eq!(late.replies, [(2, Reply::Failed(Error::Closed))]);
    assert!(line.half_used(&cursor, secs(2)).flight.is_none());
}

#[derive(Clone, Debug)]
enum Event {
    /// A call takes what the cursor has, and waits for the rest.
    Call(u64),
    /// The flight returns what it asked for, in this number of ranges.
    Lands(u64),
    Refused(u16),
    GivesUp,
    NotForKeeping,
    Seconds(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (1..40_u64).prop_map(Event::Call),
        1 => (1..1_500_u64).prop_map(Event::Call),
        5 => (1..4_u64).prop_map(Event::Lands),
        1 => prop_oneof![Just(404), Just(423)].prop_map(Event::Refused),
        1 => Just(Event::GivesUp),
        1 => Just(Event::NotForKeeping),
        1 => (1..8_u64).prop_map(Event::Seconds),
    ];
    prop::collection::vec(event, 1..100)
}

/// What a run has observed.
#[derive(Default)]
struct Seen {
    ids: HashSet<u64>,
    /// The flight under way, and whether another may start.
    flight: Option<Order>,
    waiting: Vec<u64>,
}

impl Seen {
    fn ids(&mut self, range: Range<u64>) {
        for id in range {
            assert!(self.ids.insert(id), "{id} was handed out twice");
        }
    }

    fn step(&mut self, step: Step<u64>, counts: &[u64]) {
        if let Some(order) = step.flight {
            assert!(self.flight.is_none(), "two flights at a time");
            assert!((1..=10_000).contains(&order.count));
            self.flight = Some(order);
        }
        for (call, reply) in step.replies {
            assert_eq!(self.waiting.first(), Some(&call), "calls end in their order");
            self.waiting.remove(0);
            if let Reply::Ids(ranges) = reply {
                let total: u64 = ranges.iter().map(len).sum();
                assert_eq!(total, counts[call as usize], "exactly what was wanted");
                ranges.into_iter().for_each(|range| self.ids(range));
            }
        }
        self.waiting.retain(|call| !step.own.iter().any(|own| own.reply == *call));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any order of events: no id twice, one flight at a time, calls served in their order and in full.
    #[test]
    fn no_id_is_handed_out_twice(events in events()) {
        let (mut line, cursor) = (Line::new(kind()), Cursor::new());
        let (mut seen, mut counts, mut next, mut now) = (Seen::default(), Vec::new(), 1, secs(1));
        for event in events {
            let step = match event {
                Event::Call(count) => {
                    let taken = cursor.take(count);
                    if taken.refill {
                        let step = line.half_used(&cursor, now);
                        seen.step(step, &counts);
                    }
                    let reply = counts.len() as u64;
                    counts.push(count);
                    if len(&taken.ids) == count {
                        seen.ids(taken.ids);
                        continue;
                    }
                    seen.waiting.push(reply);
                    let got = Some(taken.ids).into_iter().filter(|ids| !ids.is_empty()).collect();
                    line.want(&cursor, now, Call { got, ..call(count, now, reply) })
                }
                Event::Seconds(seconds) => {
                    now += secs(seconds);
                    line.expire(now)
                }
                flown => {
                    let Some(order) = seen.flight.take() else { continue };
                    match flown {
                        Event::Lands(pieces) => {
                            let mut ranges = Vec::new();
                            let piece = order.count.div_ceil(pieces);
                            let mut left = order.count;
                            while left > 0 {
                                let count = left.min(piece);
                                ranges.push(next..next + count);
                                next += count + 5;
                                left -= count;
                            }
                            line.landed(&cursor, now, ranges)
                        }
                        Event::Refused(status) => {
                            let refusal =
                                Refusal { status, code: String::new(), detail: String::new() };
                            line.refused(&cursor, now, &Error::Refused(refusal))
                        }
                        Event::NotForKeeping if order.as_ranges => {
                            line.not_for_keeping(&cursor, now, None)
                        }
                        _ => line.gave_up(&cursor, now),
                    }
                }
            };
            seen.step(step, &counts);
        }
        let step = line.close(&cursor);
        seen.step(step, &counts);
        prop_assert!(cursor.take(1).ids.is_empty());
        prop_assert!(seen.waiting.is_empty(), "a call that nobody ends");
    }
}
