//! Shaped tags of a node whose clock is set as it runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use mintleaf_core::encoding::decode_command;
use mintleaf_core::limits::TAG_CHARS_MAX;
use mintleaf_core::shape::{
    Calendar, Hidden, HiddenKey, Kind, Period, PeriodLength, Shape, TextFormat,
};
use mintleaf_core::state::{Change, Command, Protection, Response};
use mintleaf_core::tag::BizTag;
use mintleaf_raft::{Stamp, StateMachine};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::alone_by;
use super::altered::Altered;
use crate::machine::clock::{Clock, SystemClock};
use crate::replica::StateReplica;
use crate::server::AssembledNode;
use crate::service::{Actor, Error, KeyName, KeyRequest, TakenIds};

/// After this time, no reading from before the clock was set is used any more.
const NOTICED: Duration = Duration::from_millis(15);

/// A wall clock that is set, beside a monotonic one that goes on.
struct SetClock {
    wall_ms: AtomicU64,
    machine: SystemClock,
}

impl SetClock {
    fn at(wall_ms: u64) -> Arc<Self> {
        Arc::new(Self { wall_ms: wall_ms.into(), machine: SystemClock::default() })
    }

    /// Sets the clock, and waits until no earlier reading of it is used any more.
    async fn set(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, SeqCst);
        sleep(NOTICED).await;
    }
}

impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        self.wall_ms.load(SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.machine.monotonic_ms()
    }
}

/// A node of level 2 that is a cluster by itself. The stamp of each grab of a line is moved ahead by
/// `stamped_ahead_ms`, and the clock advances by `passes_ms` once the grab was applied.
async fn open(
    dir: &TempDir,
    clock: &Arc<SetClock>,
    (stamped_ahead_ms, passes_ms): (u64, u64),
) -> AssembledNode {
    let (own, its) = (Arc::clone(clock), Arc::clone(clock));
    let meddling = move |inner: &StateReplica, stamp: Stamp, command: &[u8]| {
        if !matches!(decode_command(command), Ok(Command::GrabLine { .. })) {
            return inner.apply(stamp, command);
        }
        let now_ms = stamp.now_ms + stamped_ahead_ms;
        let reply = inner.apply(Stamp { now_ms, ..stamp }, command);
        if passes_ms > 0 {
            its.wall_ms.fetch_add(passes_ms, SeqCst);
            // The thread that applies stands still, as on a machine that is slow here.
            #[expect(clippy::disallowed_methods)]
            std::thread::sleep(NOTICED);
        }
        reply
    };
    let node = alone_by(own, dir, 20, move |inner| Altered::over(inner, meddling)).await;
    node.replica.node().raise_level().await.unwrap();
    node
}

async fn create(node: &AssembledNode, tag: &str, shape: &Shape) -> Response {
    let change = Change::CreateShapedTag {
        tag: BizTag::parse(tag).unwrap(),
        step: 3,
        start: 1,
        description: String::new(),
        protection: Protection::default(),
        shape: Box::new(shape.clone().completed()),
    };
    let command = Command::Administer { actor: Actor::default(), change };
    let deadline = Instant::now() + Duration::from_secs(10);
    node.replica.propose(&command, deadline).await.unwrap()
}

fn days(time_zone: &str) -> Shape {
    let period = Period { length: PeriodLength::Day, time_zone: time_zone.into() };
    Shape { period: Some(period), ..Shape::default() }.completed()
}

fn ms(time: &str) -> u64 {
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond().try_into().unwrap()
}

/// The period and the numbers of ids that were taken.
fn told(taken: &TakenIds) -> (u32, Vec<u64>) {
    let period = taken.text.as_ref().unwrap().period().unwrap().0;
    (period, taken.numbers.iter().cloned().flatten().collect())
}

/// The midnights that days of a time zone begin at. Two of the days have 23 and 25 hours.
const MIDNIGHTS: [(&str, &str); 3] = [
    ("Asia/Kolkata", "2026-11-20T18:30:00Z"),
    ("America/New_York", "2026-03-08T05:00:00Z"),
    ("America/New_York", "2026-11-02T05:00:00Z"),
];

/// Where the clock is set, in milliseconds from midnight: two seconds to and fro, days ahead and back again.
const JUMPS_MS: [i64; 16] = [
    -5_000,
    -2_000,
    -1,
    0,
    -1_500,
    1_500,
    -1,
    1_999,
    -2_500,
    2_500,
    -90_000_000,
    90_000_000,
    10,
    -10,
    700_000,
    0,
];

#[tokio::test]
async fn no_pair_of_period_and_id_comes_twice_however_the_clock_jumps_around_midnight() {
    for (time_zone, midnight) in MIDNIGHTS {
        let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(ms(midnight) - 10_000));
        let node = open(&dir, &clock, (0, 0)).await;
        let shape = days(time_zone);
        assert!(matches!(create(&node, "orders", &shape).await, Response::ShapedTag { .. }));
        let calendar = Calendar::of(shape.period.as_ref().unwrap()).unwrap();
        let mut seen = BTreeSet::new();
        for jump_ms in JUMPS_MS {
            let now_ms = ms(midnight).checked_add_signed(jump_ms).unwrap();
            clock.set(now_ms).await;
            let (period, numbers) = told(&node.services.ids.take("orders", 4).await.unwrap());
            assert_eq!(period, calendar.period_at(now_ms).unwrap().number.0, "{jump_ms} ms");
            for number in numbers {
                let is_first = !seen.iter().any(|(its, _)| *its == period);
                assert!(!is_first || number == 1, "{period} begins at {number}");
                assert!(seen.insert((period, number)), "{period} {number} came twice");
            }
        }
        assert!(
            seen.len() == 4 * JUMPS_MS.len() && seen.first().unwrap().0 < seen.last().unwrap().0
        );
        node.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_until_the_period_is_over_gets_ids_of_the_next() {
    let midnight = ms("2026-11-21T00:00:00Z");
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(midnight - 4_000));
    let node = open(&dir, &clock, (0, 3_500)).await;
    create(&node, "orders", &days("UTC")).await;
    // The grab is stamped before midnight. When it has been answered, the day before is over by 3 s.
    clock.set(midnight - 500).await;
    let (period, numbers) = told(&node.services.ids.take("orders", 2).await.unwrap());
    assert_eq!((period, numbers), (20_261_121, vec![1, 2]));
    node.stop().await;
}

#[tokio::test]
async fn an_entry_that_is_stamped_in_another_period_gives_no_id() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(ms("2026-11-21T12:00:00Z")));
    let node = open(&dir, &clock, (24 * 60 * 60 * 1000, 0)).await;
    create(&node, "orders", &days("UTC")).await;
    let refused = node.services.ids.take("orders", 1).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable(detail) if detail.contains("do not agree")));
    node.stop().await;
}

#[tokio::test]
async fn a_period_older_than_those_whose_marks_are_kept_is_refused() {
    let noon = ms("2026-11-01T12:00:00Z");
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(noon));
    let node = open(&dir, &clock, (0, 0)).await;
    create(&node, "orders", &days("UTC")).await;
    for day in 0..17 {
        clock.set(noon + day * 24 * 60 * 60 * 1000).await;
        node.services.ids.take("orders", 1).await.unwrap();
    }
    clock.set(noon).await;
    let refused = node.services.ids.take("orders", 1).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable(detail) if detail.contains("20261101")));
    node.stop().await;
}

#[tokio::test]
async fn hidden_ids_and_texts_stay_distinct_over_a_deletion() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(ms("2026-11-21T12:00:00Z")));
    let node = open(&dir, &clock, (0, 0)).await;
    let hidden = |key| Some(Hidden { digits: 6, key: HiddenKey([key; 32]) });
    let format = Some(TextFormat::parse("C-{id}").unwrap());
    let shape = |key| Shape { hidden: hidden(key), format: format.clone(), ..Shape::default() };
    let mut seen = BTreeSet::new();
    for key in 1..=3 {
        // The key of the first creation stays, so ids of the later ones cannot repeat earlier ones.
        assert!(matches!(create(&node, "coupons", &shape(key)).await, Response::ShapedTag { .. }));
        let TakenIds { numbers, text } = node.services.ids.take("coupons", 7).await.unwrap();
        for number in numbers.into_iter().flatten() {
            let mut shown = Vec::new();
            text.as_ref().unwrap().append(number, &mut shown);
            assert!(shown.starts_with(b"C-") && shown.len() == 8, "{shown:?}");
            assert!(seen.insert(shown), "{number} came twice");
        }
        let change = Change::DeleteTag { tag: BizTag::parse("coupons").unwrap() };
        let command = Command::Administer { actor: Actor::default(), change };
        let deadline = Instant::now() + Duration::from_secs(10);
        assert_eq!(node.replica.propose(&command, deadline).await.unwrap(), Response::Deleted);
        // The tag is created on first use here, but not as another kind.
        let refused = node.services.ids.take("coupons", 1).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    node.stop().await;
}

#[tokio::test]
async fn many_keys_of_a_sequence_with_the_longest_name_get_their_numbers_at_once() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(ms("2026-11-21T12:00:00Z")));
    let mut node = open(&dir, &clock, (0, 0)).await;
    let name = "\u{10ffff}".repeat(TAG_CHARS_MAX);
    let sequence = Shape { kind: Kind::Sequence, ..Shape::default() };
    assert!(matches!(create(&node, &name, &sequence).await, Response::ShapedTag { .. }));
    // Nearly every key falls into a section that no other key falls into, so the most grabs possible are proposed
    // together.
    let requests = (0..200)
        .map(|n| KeyRequest { of: KeyName::parse(&name, &format!("room-{n}")).unwrap(), count: 1 });
    let requests: Vec<KeyRequest> = requests.collect();
    let ids = Arc::clone(&node.services.ids);
    let taken = tokio::select! {
        taken = ids.take_of_keys(requests) => taken,
        why = node.ended() => panic!("the node stops: {why}"),
    };
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
    node.stop().await;
}

#[tokio::test]
async fn ids_of_a_line_are_held_and_told_without_taking_any() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), SetClock::at(ms("2026-11-21T12:00:00Z")));
    let node = open(&dir, &clock, (0, 0)).await;
    create(&node, "orders", &days("UTC")).await;
    let ids = &node.services.ids;
    ids.could_take("orders", 2).await.unwrap();
    assert_eq!(told(&ids.take("orders", 1).await.unwrap()).1, [1]);
    assert!(
        ids.take_note_of_use().iter().any(|(tag, taken)| tag.as_str() == "orders" && *taken == 1)
    );
    ids.could_take("orders", 2).await.unwrap();
    assert_eq!(told(&ids.take("orders", 1).await.unwrap()).1, [2]);
    assert!(ids.next_now("orders").is_none(), "the fast way gives bare numbers of plain tags only");
    node.stop().await;
}
