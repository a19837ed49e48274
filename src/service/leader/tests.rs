//! What the ledger gives, which request gets it and when; rounds and grabs are the test's.

mod in_turn;
mod model;

use std::ops::Range;
use std::time::Duration;

use mintleaf_core::segment::Segment;
use mintleaf_core::sequence::Counters;
use mintleaf_core::shape::{Kind, Order, PeriodNumber};
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;
use mintleaf_raft::LeaderRequests;
use tempfile::TempDir;
use tokio::time::timeout;

use super::holdings::Grab;
use super::ledger::Ledger;
use super::*;
use crate::service::admin::member_requests::MemberRequests;
use crate::service::{Actor, TagChange, TagSpec};

const STEP: u32 = 10;

fn steps() -> Steps {
    Steps::from(STEP)
}

fn tag() -> BizTag {
    BizTag::parse("strict").unwrap()
}

fn ids(line: Line, count: u64) -> Request {
    Request { tag: tag(), wanted: Wanted::Ids { line, count, contiguous: false } }
}

fn day(number: u32) -> Line {
    let start_ms = u64::from(number) * 1_000;
    Line::Period { number: PeriodNumber(number), start_ms, end_ms: start_ms + 1_000 }
}

/// A ledger, and a log that grants what it asks for.
struct Node {
    ledger: Ledger<u32>,
    mark: u64,
    asked: u32,
}

impl Node {
    fn new() -> Self {
        Self { ledger: Ledger::new(Counters::new(1 << 20, [1, 2])), mark: 1, asked: 0 }
    }

    fn ask(&mut self, request: Request) -> u32 {
        self.asked += 1;
        self.ledger.enqueue(Batch::new(self.asked, self.asked.into(), vec![request]));
        self.asked
    }

    fn grabs(&mut self) -> Vec<Grab> {
        self.ledger.grabs(100, 0)
    }

    fn interval(&mut self, size: u32) -> Segment {
        let start = self.mark;
        self.mark += u64::from(size.max(STEP));
        Segment { start, end: self.mark }
    }

    fn grant(&mut self, grab: &Grab) -> Vec<(u32, Outcome)> {
        let segment = self.interval(grab.size);
        told(self.ledger.granted([(grab.id, Ok((segment, steps())))], 0))
    }

    /// A round of this term, and every grab that comes of it.
    fn round(&mut self, term: u64) -> Vec<(u32, Outcome)> {
        assert!(self.ledger.begin_round(), "no round is needed");
        let mut answers = told(self.ledger.round_confirmed(term, 0));
        loop {
            let grabs = self.grabs();
            if grabs.is_empty() {
                return answers;
            }
            assert!(grabs.iter().all(|grab| grab.term == term));
            grabs.iter().for_each(|grab| answers.extend(self.grant(grab)));
        }
    }
}

fn told(answered: Vec<Batch<u32>>) -> Vec<(u32, Outcome)> {
    let both = answered.into_iter().map(Batch::finish);
    both.map(|(who, mut outcomes)| (who, outcomes.pop().unwrap())).collect()
}

fn given(range: Range<u64>) -> Outcome {
    Ok(Given::Ids { period: None, ranges: vec![range] })
}

#[test]
fn a_request_waits_for_a_round_that_begins_after_it_came() {
    let mut node = Node::new();
    let first = node.ask(ids(Line::Whole, 2));
    assert!(node.ledger.begin_round());
    let second = node.ask(ids(Line::Whole, 1));
    assert!(!node.ledger.begin_round(), "one round is in flight");
    assert!(node.ledger.round_confirmed(7, 0).is_empty(), "nothing is held yet");
    let grabs = node.grabs();
    assert_eq!(node.grant(&grabs[0]), [(first, given(1..3))]);
    assert_eq!(node.round(7), [(second, given(3..4))]);
    assert!(!node.ledger.begin_round(), "nobody waits");
}

#[test]
fn a_round_that_nobody_confirms_is_followed_by_a_later_one() {
    let mut node = Node::new();
    let asked = node.ask(ids(Line::Whole, 1));
    assert!(node.ledger.begin_round());
    node.ledger.round_failed();
    assert_eq!(node.round(3), [(asked, given(1..2))]);
}

#[test]
fn what_an_earlier_term_reserved_is_given_to_nobody() {
    let mut node = Node::new();
    node.ask(ids(Line::Whole, 1));
    assert_eq!(node.round(1), [(1, given(1..2))]);
    node.ask(ids(Line::Whole, 1));
    let highest = node.mark;
    assert_eq!(node.round(3), [(2, given(highest..highest + 1))]);
}

#[test]
fn a_grab_of_an_earlier_term_is_wasted_when_its_answer_comes() {
    let mut node = Node::new();
    let asked = node.ask(ids(Line::Whole, 1));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let late = node.grabs().pop().unwrap();
    node.ledger.grabs_failed([late.id]);
    assert!(node.ledger.begin_round(), "it has to be confirmed anew that this node leads");
    assert!(node.ledger.round_confirmed(2, 0).is_empty());
    assert!(node.grant(&late).is_empty());
    let grab = node.grabs().pop().unwrap();
    assert_eq!(grab.term, 2);
    let (start, answered) = (node.mark, node.grant(&grab));
    assert_eq!(answered, [(asked, given(start..start + 1))]);
}

#[test]
fn a_grab_for_a_tag_that_was_deleted_meanwhile_is_wasted() {
    let mut node = Node::new();
    let asked = node.ask(ids(Line::Whole, 1));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let grab = node.grabs().pop().unwrap();
    node.ledger.drop_tag("strict");
    assert!(node.grant(&grab).is_empty());
    assert!(node.ledger.begin_round(), "the request is looked at again");
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let again = node.grabs().pop().unwrap();
    let gone = node.ledger.granted([(again.id, Err(Refused::UnknownTag))], 0);
    assert_eq!(told(gone), [(asked, Err(Refused::UnknownTag))]);
}

#[test]
fn a_raised_mark_is_a_floor_for_what_the_leader_holds_and_for_its_grab() {
    let mut node = Node::new();
    node.ask(ids(Line::Whole, 1));
    assert_eq!(node.round(1), [(1, given(1..2))]);
    node.ledger.rise_to("strict", 5);
    node.ask(ids(Line::Whole, 1));
    assert_eq!(node.round(1), [(2, given(5..6))]);
    let asked = node.ask(ids(Line::Whole, 100));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let grab = node.grabs().pop().unwrap();
    let before_the_mark = node.interval(grab.size);
    node.mark = 9_000;
    node.ledger.rise_to("strict", 9_000);
    let answered = node.ledger.granted([(grab.id, Ok((before_the_mark, steps())))], 0);
    assert!(answered.is_empty(), "nothing is left of it");
    let again = node.grabs().pop().expect("the request goes on");
    assert_eq!(node.grant(&again), [(asked, given(9_000..9_100))]);
}

#[test]
fn requests_go_on_when_their_tag_is_dropped_before_its_grab_has_begun() {
    let mut node = Node::new();
    let asked = node.ask(ids(Line::Whole, 1));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    // It was deleted and made again, say.
    node.ledger.drop_tag("strict");
    assert!(node.grabs().is_empty());
    assert_eq!(node.round(1), [(asked, given(1..2))]);
}

#[test]
fn lines_take_turns_whatever_their_tags_are_called() {
    let mut node = Node::new();
    let of = |name: &str, count| {
        let wanted = Wanted::Ids { line: Line::Whole, count, contiguous: false };
        Request { tag: BizTag::parse(name).unwrap(), wanted }
    };
    node.ask(of("zzz", 1));
    let mut turns = Vec::new();
    for _ in 0..4 {
        // More of this tag is wanted again whenever a line has got its grab.
        node.ask(of("aaa", 50));
        assert!(node.ledger.begin_round());
        node.ledger.round_confirmed(1, 0);
        let grab = node.ledger.grabs(1, 0).pop().unwrap();
        node.grant(&grab);
        turns.push(grab.tag.to_string());
    }
    assert!(turns[..2].contains(&"zzz".to_owned()), "{turns:?}");
}

#[tokio::test]
async fn no_more_requests_wait_than_there_are_places_for() {
    let (queue, mut asked) = mpsc::channel(QUEUE_MAX);
    let ordered = LeaderQueue::asking_by(queue);
    let soon = Instant::now() + Duration::from_secs(60);
    let ask = || ordered.send(1, vec![ids(Line::Whole, 1); ASKED_MAX], soon, false);
    let waiting: Vec<_> = (0..REQUESTS_MAX / ASKED_MAX).map(|_| ask().unwrap()).collect();
    assert_eq!(ask().unwrap_err(), Error::Overloaded);
    // An ask that is answered makes room for another.
    drop(asked.recv().await.unwrap().finish());
    ask().unwrap();
    assert_eq!(ask().unwrap_err(), Error::Overloaded);
    // A member gets the same refusal for each of its requests, rather than no answer.
    let told = encode(&vec![ids(Line::Whole, 1); ASKED_MAX]);
    let told = ordered.answer_member(&told, soon, |_| false).await;
    let told: Vec<Outcome> = decode(&told.unwrap()).unwrap();
    assert_eq!(told, vec![Err(Refused::Overloaded); ASKED_MAX]);
    drop(waiting);
}

#[tokio::test]
async fn a_member_that_asks_for_what_nobody_can_have_gets_no_answer() {
    let (queue, mut asked) = mpsc::channel(QUEUE_MAX);
    let ordered = LeaderQueue::asking_by(queue);
    let soon = Instant::now() + Duration::from_secs(60);
    let one = |line, count| vec![ids(line, count)];
    let backwards = Line::Period { number: PeriodNumber(20_261_121), start_ms: 2, end_ms: 1 };
    for unfit in [
        vec![ids(Line::Whole, 1); FORWARDED_MAX + 1],
        one(Line::Whole, RANGED_IDS_MAX + 1),
        one(Line::Whole, 0),
        one(Line::Section(1), 1),
        one(backwards, 1),
    ] {
        let unfit = encode(&unfit);
        let answered = ordered.answer_member(&unfit, soon, |_| false);
        let answered = timeout(Duration::ZERO, answered).await;
        assert_eq!(answered, Ok(None), "at once");
    }
    assert!(asked.try_recv().is_err(), "nothing of that is waited for");
}

#[test]
fn a_line_that_is_used_up_gives_its_rest_and_refuses_more() {
    let mut node = Node::new();
    let first = node.ask(ids(Line::Whole, 4));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let grab = node.grabs().pop().unwrap();
    assert_eq!(node.grant(&grab), [(first, given(1..5))]);
    let (much, rest) = (node.ask(ids(Line::Whole, 7)), node.ask(ids(Line::Whole, 6)));
    assert!(node.ledger.begin_round());
    assert_eq!(told(node.ledger.round_confirmed(1, 0)), [(rest, given(5..11))]);
    let next = node.grabs().pop().expect("a caller waits for more");
    let refused = told(node.ledger.granted([(next.id, Err(Refused::Exhausted))], 0));
    assert_eq!(refused, [(much, Err(Refused::Exhausted))]);
}

#[test]
fn a_tag_never_goes_back_to_an_earlier_period() {
    let mut node = Node::new();
    let of = |number, range| {
        Ok(Given::Ids { period: Some(PeriodNumber(number)), ranges: vec![range] }) as Outcome
    };
    node.ask(ids(day(5), 1));
    assert_eq!(node.round(1), [(1, of(5, 1..2))]);
    node.ask(ids(day(6), 1));
    let start = node.mark;
    assert_eq!(node.round(1), [(2, of(6, start..start + 1))]);
    // A node whose clock is late asks for the day before.
    node.ask(ids(day(5), 1));
    assert_eq!(node.round(1), [(3, of(6, start + 1..start + 2))]);
}

#[test]
fn a_period_that_the_log_refuses_leaves_the_present_one_as_it_is() {
    let mut node = Node::new();
    node.ask(ids(day(5), 1));
    node.round(1);
    let early = node.ask(ids(day(6), 1));
    assert!(node.ledger.begin_round());
    assert!(node.ledger.round_confirmed(1, 0).is_empty());
    let grab = node.grabs().into_iter().find(|grab| grab.line == day(6)).unwrap();
    let refused = node.ledger.granted([(grab.id, Err(Refused::PeriodClosed))], 0);
    assert_eq!(told(refused), [(early, Err(Refused::PeriodClosed))]);
    node.ask(ids(day(5), 1));
    let [(_, Ok(Given::Ids { period, .. }))] = &node.round(1)[..] else { panic!("no ids") };
    assert_eq!(*period, Some(PeriodNumber(5)));
}

#[test]
fn keys_of_a_section_count_on_their_own_and_begin_anew_with_each_term() {
    let mut node = Node::new();
    let numbers = |key: &str, count| {
        let wanted = Wanted::Numbers { key: key.into(), count };
        Request { tag: tag(), wanted }
    };
    let mut take = |key: &str, count, term| {
        node.ask(numbers(key, count));
        match node.round(term).pop() {
            Some((_, Ok(Given::Ids { ranges, .. }))) => ranges[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((take("a", 1, 1), take("a", 2, 1)), (1..2, 2..4));
    let anew = take("a", 1, 2);
    assert!(anew.start >= 11, "the interval of before is gone: {anew:?}");
    node.ask(Request { tag: tag(), wanted: Wanted::Last { key: "a".into() } });
    assert_eq!(node.round(2), [(4, Ok(Given::LastIs(anew.start)))]);
}

#[test]
fn a_hot_key_finds_more_reserved_before_what_is_held_is_used_up() {
    let mut node = Node::new();
    let (mut waited, mut last) = (0, 0);
    for _ in 0..20 * STEP {
        node.ask(Request { tag: tag(), wanted: Wanted::Numbers { key: "a".into(), count: 1 } });
        assert!(node.ledger.begin_round());
        let mut answers = told(node.ledger.round_confirmed(1, 0));
        waited += u32::from(answers.is_empty());
        let grabs = node.grabs();
        assert!(grabs.len() <= 1, "one grab of a section at a time: {grabs:?}");
        grabs.iter().for_each(|grab| answers.extend(node.grant(grab)));
        let [(_, Ok(Given::Ids { ranges, .. }))] = &answers[..] else { panic!("{answers:?}") };
        let next = last + 1..last + 2;
        assert_eq!(ranges.as_slice(), std::slice::from_ref(&next), "without a jump");
        last += 1;
    }
    assert_eq!(waited, 1, "for the first interval alone");
    assert!(node.mark < last + 2 + 2 * u64::from(STEP), "{} after {last}", node.mark);
}

#[test]
fn asks_that_are_over_are_taken_out_with_what_they_got() {
    let mut node = Node::new();
    node.ask(ids(Line::Whole, 1));
    node.ask(ids(Line::Whole, 1));
    assert_eq!(node.ledger.waiting(), 2);
    let over = node.ledger.take_if(|ask| ask.caller == 1);
    assert_eq!(told(over), [(1, Err(Refused::Unavailable))]);
    assert_eq!(node.round(1), [(2, given(1..2))]);
    assert_eq!(node.ledger.waiting(), 0);
}

#[test]
fn requests_and_outcomes_travel_as_they_are() {
    let requests = vec![ids(day(5), 3), ids(Line::Whole, 1)];
    assert_eq!(decode(&encode(&requests)), Some(requests));
    let outcomes: Vec<Outcome> = vec![given(3..9), Err(Refused::Frozen), Ok(Given::LastBelow(4))];
    let bytes = encode(&outcomes);
    assert_eq!(decode(&bytes), Some(outcomes));
    assert_eq!(decode::<Vec<Outcome>>(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn grabs_grow_with_use_and_shrink_with_rest() {
    let mut node = Node::new();
    let mut size_at = |now_ms| {
        node.ask(ids(Line::Whole, 1));
        assert!(node.ledger.begin_round());
        node.ledger.round_confirmed(1, now_ms);
        loop {
            let Some(grab) = node.ledger.grabs(1, now_ms).pop() else {
                node.ask(ids(Line::Whole, 1));
                assert!(node.ledger.begin_round());
                node.ledger.round_confirmed(1, now_ms);
                continue;
            };
            let segment = node.interval(grab.size);
            node.ledger.granted([(grab.id, Ok((segment, steps())))], now_ms);
            return grab.size;
        }
    };
    let busy: Vec<u32> = (1..=6).map(|turn| size_at(turn * 100)).collect();
    assert!(busy.is_sorted() && busy[5] >= 8 * STEP, "{busy:?}");
    let rest = size_at(60_000);
    assert!(rest < busy[5], "{rest} after {busy:?}");
}

/// A member whose copy lags sends what its callers ask for, although the freeze was answered.
#[tokio::test]
async fn the_leader_refuses_a_member_ids_of_a_tag_that_it_knows_to_be_frozen() {
    let dir = TempDir::new().unwrap();
    let node = crate::service::tests::alone(&dir, 20, |state| state).await;
    node.replica.node().raise_level().await.unwrap();
    let (services, actor) = (&node.services, Actor::default());
    let requests = MemberRequests::of(&services.cluster, &services.ids.leader);
    let asks = async |requests_of: &[Request]| {
        let soon = Instant::now() + Duration::from_secs(20);
        let told = requests.answer(encode(&requests_of), soon).await.unwrap();
        decode::<Vec<Outcome>>(&told).unwrap()
    };
    let named = |name| BizTag::parse(name).unwrap();
    let mut strict = TagSpec { step: Some(1_000), ..TagSpec::default() };
    strict.shape.order = Order::Strict;
    let mut keys = TagSpec::default();
    keys.shape.kind = Kind::Sequence;
    for (name, spec) in [("strict", strict.clone()), ("free", strict), ("keys", keys)] {
        services.tags.create(&actor, named(name), spec).await.unwrap();
    }
    let of = |name, wanted| Request { tag: named(name), wanted };
    let one = || Wanted::Ids { line: Line::Whole, count: 1, contiguous: false };
    let key = || Box::from("key");
    let all = [
        of("strict", one()),
        of("free", one()),
        of("keys", Wanted::Numbers { key: key(), count: 1 }),
        of("keys", Wanted::Last { key: key() }),
    ];
    assert!(asks(&all).await.iter().all(Result::is_ok));
    for name in ["strict", "keys"] {
        let change = TagChange { frozen: Some(true), ..TagChange::default() };
        services.tags.update(&actor, named(name), change).await.unwrap();
    }
    let outcomes = asks(&all).await;
    let frozen = || Err(Refused::Frozen);
    assert_eq!((outcomes[0].clone(), outcomes[2].clone()), (frozen(), frozen()));
    assert_eq!(outcomes[1], given(2..3));
    assert_eq!(outcomes[3], Ok(Given::LastIs(1)));
    drop(requests);
    node.stop().await;
}
