//! What callers of snowflake ids meet while clocks, the quorum or worker ids fail.

use std::time::Duration;

use mintleaf_core::snowflake::Layout;

use super::*;

const START_MS: u64 = 1_800_000_000_000;

/// Clocks that stand still until they are set.
#[derive(Default)]
struct SetClock {
    wall_ms: Mutex<u64>,
    monotonic_ms: Mutex<u64>,
}

impl SetClock {
    fn pass(&self, ms: u64) {
        *self.wall_ms.lock() += ms;
        *self.monotonic_ms.lock() += ms;
    }

    fn set(&self, wall_ms: u64) {
        *self.wall_ms.lock() = wall_ms;
    }
}

impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        *self.wall_ms.lock()
    }

    fn monotonic_ms(&self) -> u64 {
        *self.monotonic_ms.lock()
    }
}

fn settings(window: Duration) -> SnowflakeSettings {
    SnowflakeSettings {
        format: Format::new(Layout::LEAF, 0).unwrap(),
        window,
        ..SnowflakeSettings::leaf()
    }
}

struct Fixture {
    clock: Arc<SetClock>,
    snowflakes: Arc<Snowflakes>,
}

#[test]
fn a_node_that_gave_ids_from_the_future_is_not_ready_until_then() {
    let clock = Arc::new(SetClock::default());
    clock.set(START_MS + 3_600_000);
    let settings = settings(Duration::from_secs(60));
    let snowflakes = Snowflakes::new(&settings, Arc::clone(&clock) as _, 1);
    let window = |floor_ms| Window { worker_id: 3, floor_ms, fence_ms: floor_ms + 60_000 };
    snowflakes.install(window(START_MS + 3_600_000));
    assert!(snowflakes.take_now(1).is_some());
    clock.set(START_MS);
    snowflakes.install(Window { worker_id: 4, ..window(START_MS) });
    assert_eq!(snowflakes.take_now(1), None);
    assert_eq!(snowflakes.error(Refusal::Spent), Error::ClockBehind { by_ms: 3_600_000 });
    snowflakes.report(LeaseStatus::InOrder);
    let mut readiness = Readiness { ready: true, reasons: Vec::new() };
    snowflakes.add_readiness(&mut readiness);
    assert!(!readiness.ready, "{readiness:?}");
    clock.set(START_MS + 3_600_000);
    assert!(snowflakes.take_now(1).is_some());
}

/// A process that holds worker id 3 for `window_ms`.
fn holding(window_ms: u64) -> Fixture {
    let clock = Arc::new(SetClock::default());
    clock.set(START_MS);
    let snowflakes = Snowflakes::new(&settings(Duration::MAX), Arc::clone(&clock) as _, 1);
    let snowflakes = Arc::new(snowflakes);
    let fixture = Fixture { clock, snowflakes };
    fixture.grant(window_ms);
    fixture
}

impl Fixture {
    fn grant(&self, window_ms: u64) {
        let (floor_ms, fence_ms) = (START_MS, START_MS + window_ms);
        self.snowflakes.install(Window { worker_id: 3, floor_ms, fence_ms });
        self.snowflakes.report(LeaseStatus::InOrder);
    }

    fn readiness(&self) -> Readiness {
        let mut readiness = Readiness { ready: true, reasons: Vec::new() };
        self.snowflakes.add_readiness(&mut readiness);
        readiness
    }
}

#[tokio::test]
async fn a_clock_that_went_back_is_ridden_out_until_the_window_is_spent() {
    let node = holding(100);
    node.clock.pass(90);
    assert!(node.snowflakes.take_now(1).is_some());
    node.clock.set(START_MS - 3_600_000);
    assert!(node.snowflakes.take(8 * 4096).await.is_ok());
    assert!(node.readiness().ready);
    let refused = node.snowflakes.take(3 * 4096).await.unwrap_err();
    assert_eq!(refused, Error::ClockBehind { by_ms: 3_600_090 });
    node.snowflakes.take(4096).await.unwrap();
    assert!(!node.readiness().ready, "{:?}", node.readiness());
    assert!(node.snowflakes.readings(None).clock_behind);
    node.clock.set(START_MS + 100);
    node.grant(200);
    assert!(node.snowflakes.take_now(1).is_some());
    assert!(node.readiness().ready);
}

#[tokio::test]
async fn more_than_a_window_holds_is_overload_while_the_clock_is_right() {
    let node = holding(100);
    let refused = node.snowflakes.take(1_000_000).await.unwrap_err();
    assert_eq!(refused, Error::Overloaded);
    assert!(node.readiness().ready);
}

#[test]
fn a_node_is_ready_with_its_first_window_and_not_before() {
    let node = holding(100);
    node.snowflakes.report(LeaseStatus::Starting);
    assert_eq!(node.readiness(), Readiness { ready: true, reasons: Vec::new() });
    node.clock.pass(150);
    assert!(!node.readiness().ready);
}

#[tokio::test]
async fn a_wrong_clock_takes_the_node_out_of_rotation_and_is_named() {
    let node = holding(100);
    node.clock.pass(40);
    node.snowflakes.report(LeaseStatus::Skewed { own_ms: 7, cluster_ms: 9 });
    let Readiness { ready, reasons } = node.readiness();
    assert!(!ready && reasons[0].contains("shows 7 and the median of the cluster's 9"));
    assert!(node.snowflakes.take_now(1).is_some(), "what is held is still good");
    node.clock.set(START_MS + 3_600_000);
    let refused = node.snowflakes.take(1).await.unwrap_err().to_string();
    assert!(refused.contains("shows 7"), "{refused}");
}

#[tokio::test]
async fn a_quorum_that_is_lost_leaves_the_node_ready_and_says_for_how_long() {
    let node = holding(60_000);
    node.clock.pass(20_000);
    node.snowflakes.report(LeaseStatus::NoQuorum);
    let Readiness { ready, reasons } = node.readiness();
    assert!(ready && reasons[0].contains("40 s with what is held"), "{reasons:?}");
    assert_eq!(node.snowflakes.readings(None).worker_ids, 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_window_that_is_on_its_way() {
    let node = holding(100);
    node.clock.pass(150);
    let waiting = tokio::spawn({
        let snowflakes = Arc::clone(&node.snowflakes);
        async move { snowflakes.take(1).await }
    });
    node.snowflakes.wanted.notified().await;
    node.grant(300);
    assert!(waiting.await.unwrap().is_ok());
    node.clock.pass(300);
    let refused = node.snowflakes.take(1).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
}

#[tokio::test]
async fn nobody_waits_for_a_pool_that_is_used_up() {
    let node = holding(100);
    node.clock.pass(150);
    node.snowflakes.report(LeaseStatus::NoWorkerFree { pinned: None, until_ms: 5 });
    let refused = node.snowflakes.take(1).await.unwrap_err().to_string();
    assert!(refused.contains("every worker id is in use"), "{refused}");
    assert!(node.snowflakes.readings(None).pool_exhausted && node.readiness().ready);
}
