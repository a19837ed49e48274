//! Requests of one call for one line or key are given what they ask for in turn, whatever counts they ask for, whatever
//! is held, and whichever messages are lost.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn of_key(key: &str, count: u64) -> Request {
    Request { tag: tag(), wanted: Wanted::Numbers { key: key.into(), count } }
}

/// The first number that each request got.
fn starts(outcomes: &[Outcome]) -> Vec<u64> {
    let start = |outcome: &Outcome| match outcome {
        Ok(Given::Ids { ranges, .. }) => ranges[0].start,
        other => panic!("no numbers: {other:?}"),
    };
    outcomes.iter().map(start).collect()
}

/// Confirms a round and carries out grabs until nothing is left to do.
fn settle(node: &mut Node) -> Vec<(u32, Vec<Outcome>)> {
    let mut answered = Vec::new();
    if node.ledger.begin_round() {
        answered.extend(node.ledger.round_confirmed(1, 0));
    }
    for _ in 0..1_000 {
        let grabs = node.grabs();
        if grabs.is_empty() {
            return answered.into_iter().map(Batch::finish).collect();
        }
        for grab in grabs {
            let segment = node.interval(grab.size);
            answered.extend(node.ledger.granted([(grab.id, Ok((segment, steps())))], 0));
        }
    }
    panic!("grabs without end")
}

#[test]
fn requests_of_a_call_that_ask_for_much_and_little_are_carried_out_in_turn() {
    for request in [of_key as fn(&str, u64) -> Request, |_, count| ids(Line::Whole, count)] {
        let mut node = Node::new();
        node.ledger.enqueue(Batch::new(1, 1, vec![request("k", 1)]));
        settle(&mut node);
        let call = [100, 1, 1].map(|count| request("k", count)).to_vec();
        node.ledger.enqueue(Batch::new(2, 2, call));
        let [(2, outcomes)] = &settle(&mut node)[..] else { panic!("one answer") };
        assert!(starts(outcomes).is_sorted(), "{outcomes:?}");
    }
}

#[test]
fn one_grab_is_sized_for_all_that_a_call_wants_of_a_key() {
    let mut node = Node::new();
    node.ledger.enqueue(Batch::new(1, 1, vec![of_key("k", 100); 50]));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    assert_eq!(node.grabs()[0].size, 5_000);
}

#[test]
fn another_call_does_not_wait_behind_a_large_request() {
    let mut node = Node::new();
    node.ledger.enqueue(Batch::new(1, 1, vec![ids(Line::Whole, 1)]));
    settle(&mut node);
    node.ledger.enqueue(Batch::new(2, 2, vec![ids(Line::Whole, 100)]));
    node.ledger.enqueue(Batch::new(3, 3, vec![ids(Line::Whole, 1)]));
    assert!(node.ledger.begin_round());
    let answered = told(node.ledger.round_confirmed(1, 0));
    assert_eq!(answered, [(3, given(2..3))]);
}

#[test]
fn what_is_left_of_a_call_waits_for_the_message_that_has_its_beginning() {
    let mut node = Node::new();
    let other = 7;
    for (who, call) in [(1, 1), (2, 1), (3, other)] {
        node.ledger.enqueue(Batch::new(who, call, vec![of_key("k", 1)]));
    }
    let mut room = 1;
    let mut first_only = |_: &Batch<u32>| std::mem::take(&mut room) > 0;
    let sent = node.ledger.take_for_message(&mut first_only);
    assert_eq!(sent.iter().map(|ask| ask.caller).collect::<Vec<_>>(), [1]);
    let meanwhile = node.ledger.take_for_message(|_| true);
    assert_eq!(meanwhile.iter().map(|ask| ask.caller).collect::<Vec<_>>(), [3], "not the second");
    // The message is lost. It goes again before what was behind it.
    node.ledger.message_ended(&sent);
    node.ledger.requeue(sent);
    let again = node.ledger.take_for_message(|_| true);
    assert_eq!(again.iter().map(|ask| ask.caller).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_node_that_leads_by_now_gives_nothing_of_a_call_whose_beginning_is_on_its_way() {
    let mut node = Node::new();
    for who in [1, 2] {
        node.ledger.enqueue(Batch::new(who, 1, vec![of_key("k", 1)]));
    }
    let mut room = 1;
    let sent = node.ledger.take_for_message(|_| std::mem::take(&mut room) > 0);
    assert_eq!(settle(&mut node), []);
    node.ledger.message_ended(&sent);
    node.ledger.requeue(sent);
    let answered = settle(&mut node);
    let who: Vec<u32> = answered.iter().map(|(who, _)| *who).collect();
    let numbers: Vec<u64> = answered.iter().flat_map(|(_, all)| starts(all)).collect();
    assert_eq!((who, numbers), (vec![1, 2], vec![1, 2]));
}

/// An event of a follower with calls of several asks, and of the leader behind it.
#[derive(Clone, Debug)]
enum Event {
    /// A call: for each of its asks the requests, each with its key and how many numbers it wants.
    Call(Vec<Vec<(u8, u64)>>),
    /// A message goes to the leader, with at most this many asks.
    Send(usize),
    /// A message is carried out by the leader, and answered, or lost before or behind that.
    End { which: usize, carried_out: bool, answered: bool },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let request = (0..3u8, prop_oneof![Just(1), 1..40u64]);
    let event = prop_oneof![
        2 => vec(vec(request, 1..6), 1..4).prop_map(Event::Call),
        3 => (1..4usize).prop_map(Event::Send),
        4 => (0..2usize, any::<bool>(), prop::bool::weighted(0.7)).prop_map(
            |(which, carried_out, answered)| {
                Event::End { which, carried_out: carried_out || answered, answered }
            }
        ),
    ];
    vec(event, 0..60)
}

proptest! {
    /// Each number that a caller gets of a key is above all that it got of that key before, in the order of its
    /// requests.
    #[test]
    fn a_caller_sees_its_requests_carried_out_in_turn(events in events()) {
        let mut leader = Node::new();
        let mut follower: Ledger<(u64, usize)> = Ledger::new(Counters::new(1 << 16, [1, 2]));
        let mut messages: std::collections::VecDeque<Vec<Batch<(u64, usize)>>> = Default::default();
        let mut calls = 0;
        // By call and key, the place of a request in its call, and the first number that it got.
        let mut seen: BTreeMap<(u64, Box<str>), BTreeMap<usize, u64>> = BTreeMap::new();
        let send_and_end =
            || [Event::Send(99), Event::End { which: 0, carried_out: true, answered: true }];
        let end = std::iter::repeat_with(send_and_end).take(99).flatten();
        for event in events.into_iter().chain(end) {
            match event {
                Event::Call(asks) => {
                    calls += 1;
                    let mut place = 0;
                    for ask in asks {
                        let requests: Vec<Request> = ask
                            .iter()
                            .map(|(key, count)| of_key(&format!("k{key}"), *count))
                            .collect();
                        let length = requests.len();
                        follower.enqueue(Batch::new((calls, place), calls, requests));
                        place += length;
                    }
                }
                Event::Send(asks_max) if messages.len() < 2 => {
                    let mut asks = 0;
                    let message = follower.take_for_message(|_| {
                        asks += 1;
                        asks <= asks_max
                    });
                    if !message.is_empty() {
                        messages.push_back(message);
                    }
                }
                Event::End { which, carried_out, answered } => {
                    let Some(mut asks) = messages.remove(which % messages.len().max(1)) else {
                        continue;
                    };
                    let requests: Vec<Request> =
                        asks.iter().flat_map(Batch::open).cloned().collect();
                    follower.message_ended(&asks);
                    let mut outcomes = Vec::new();
                    if carried_out {
                        leader.asked += 1;
                        let asked = leader.asked;
                        leader.ledger.enqueue(Batch::new(asked, asked.into(), requests.clone()));
                        outcomes = settle(&mut leader).pop().expect("the leader answers").1;
                    }
                    if !answered {
                        follower.requeue(asks);
                        continue;
                    }
                    let mut outcomes = outcomes.into_iter();
                    for ask in &mut asks {
                        ask.settle(&mut outcomes);
                    }
                    let mut requests = requests.into_iter();
                    for ask in asks {
                        let ((call, first), outcomes) = ask.finish();
                        for (at, start) in starts(&outcomes).into_iter().enumerate() {
                            let key = requests.next().unwrap().wanted.key().unwrap().into();
                            seen.entry((call, key)).or_default().insert(first + at, start);
                        }
                    }
                }
                Event::Send(_) => {}
            }
        }
        prop_assert_eq!(follower.waiting(), 0);
        for (of, got) in seen {
            let in_turn: Vec<u64> = got.into_values().collect();
            prop_assert!(in_turn.is_sorted(), "{:?}: {:?}", of, in_turn);
        }
    }
}
