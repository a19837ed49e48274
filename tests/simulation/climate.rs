//! The climate of a run: round trips, lost packets, slow disks and a slow core, which last for the whole run,
//! and the promises in it. Each bound is a sum of the round trips and syncs that must follow one another. This
//! file defines them.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::random::Random;

/// Every seed that is a multiple of this is a run in a bad climate; all others are mild.
const BAD: u64 = 8;

/// TCP sends a lost packet again after a round trip and at least this time, and doubles the wait each time.
const RETRANSMISSION_MIN: Duration = Duration::from_millis(200);
/// The range of a sync on a disk without a climate.
const SYNC_US: std::ops::Range<u64> = 200..2_000;
/// How long a slow core works between two pauses.
const AWAKE: Duration = Duration::from_millis(10);

/// How long a cluster takes to form in addition to its syncs, with any round trips.
const FORMING: Duration = Duration::from_secs(10);
/// The number of syncs in a row while a cluster forms. The founders record their list, what they are prepared
/// for and which cluster they are bound to. Then comes a vote, perhaps a second one, and then some entries,
/// each at the leader and at a follower.
const FORMING_SYNCS: u32 = 60;
/// A leader that alone has a bad disk or link hands over within this time.
pub(crate) const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// The rest of a change: messages of up to a millisecond, syncs of a good disk, the leader's turn.
const SHARE: Duration = Duration::from_millis(30);
/// The number of steps of a change at a slow core. Each may come during a pause.
const STEPS: u32 = 6;
/// The longest that a leader may be silent in a bad climate before other nodes stand for election. Two split
/// elections make it three times as long.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const SILENCES: u32 = 3;
/// The number of round trips and syncs in a row from the end of all faults until every node serves: three
/// elections, a lost entry that is searched for, a snapshot of many syncs, and the first grabs and windows.
const HEALING_STEPS: u32 = 60;

/// The nodes that have the bad part of a climate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Where {
    Everywhere,
    At(u64),
    /// The node that leads once the cluster has formed; no node until then.
    AtTheLeader,
}

impl Where {
    fn holds(self, node: u64) -> bool {
        self == Self::Everywhere || self == Self::At(node)
    }
}

/// The conditions that last for the whole run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Climate {
    round_trip: Duration,
    /// How many per cent longer or shorter a round trip may be.
    jitter_percent: u64,
    loss_permille: u64,
    /// The nodes whose links are long.
    far: Where,
    sync: Duration,
    /// The nodes whose disks are slow.
    slow: Where,
    /// A node that repeatedly pauses for this time.
    late: Option<(u64, Duration)>,
    /// Whether faults are injected, too.
    pub(crate) has_faults: bool,
}

impl Climate {
    /// The climate of most runs, without any of these conditions.
    pub(crate) const MILD: Self = Self {
        round_trip: Duration::ZERO,
        jitter_percent: 0,
        loss_permille: 0,
        far: Where::Everywhere,
        sync: Duration::ZERO,
        slow: Where::Everywhere,
        late: None,
        has_faults: true,
    };

    /// The climate of a seed with this number of nodes. `forced` makes it bad or mild, whatever the seed decides.
    pub(crate) fn of(seed: u64, nodes: u64, forced: Option<bool>) -> Self {
        if !forced.unwrap_or(seed.is_multiple_of(BAD)) {
            return Self::MILD;
        }
        let random = Random::new(seed, "climate");
        let mut climate = Self { has_faults: random.chance(30), ..Self::MILD };
        let one = random.within(1..nodes + 1);
        let places = [Where::Everywhere, Where::Everywhere, Where::At(one), Where::AtTheLeader];
        let place = random.pick(&places);
        // Only its disk or its link can turn bad at the leader, and badly enough that other nodes are much better.
        let what = random.within(0..if place == Where::AtTheLeader { 2 } else { 4 });
        let own = place != Where::Everywhere;
        if what == 0 || what == 2 {
            let ms =
                random.pick(&[120, 300, 500, random.within(if own { 100..501 } else { 1..501 })]);
            (climate.round_trip, climate.far) = (Duration::from_millis(ms), place);
            climate.jitter_percent = random.within(0..21);
            climate.loss_permille = random.within(0..11);
        }
        if what == 1 || what == 2 {
            let ms = random.pick(&[
                250,
                1_000,
                5_000,
                random.within(if own { 500..5_001 } else { 1..5_001 }),
            ]);
            (climate.sync, climate.slow) = (Duration::from_millis(ms), place);
        }
        if what == 3 {
            climate.late = Some((one, Duration::from_millis(random.within(10..101))));
        }
        climate
    }

    pub(crate) fn is_mild(&self) -> bool {
        self.round_trip.is_zero() && self.sync.is_zero() && self.late.is_none()
    }

    /// How long one incarnation of a store lasts. It is short, so that there are many; or as long as in
    /// production if recording one takes seconds.
    pub(crate) fn incarnation_max(&self) -> Duration {
        Duration::from_secs(if self.is_mild() { 2 } else { 60 })
    }

    /// A snapshot is taken after this many log entries. There are few, so that late followers get a snapshot;
    /// or as many as in production, so that a node whose link or disk alone is slow can follow by the log. The
    /// others would have replaced the log by the next snapshot before it has written the last one.
    pub(crate) fn snapshot_entries(&self) -> u64 {
        let all_alike = [self.far, self.slow].iter().all(|place| *place == Where::Everywhere);
        if self.is_mild() || self.has_faults && all_alike { 100 } else { 20_000 }
    }

    /// The same climate once this node leads.
    fn under(self, leader: u64) -> Self {
        let known = |place| if place == Where::AtTheLeader { Where::At(leader) } else { place };
        Self { far: known(self.far), slow: known(self.slow), ..self }
    }

    fn round_trip(&self, one: u64, other: u64) -> Duration {
        let far = one != other && (self.far.holds(one) || self.far.holds(other));
        if far { self.round_trip } else { Duration::ZERO }
    }

    fn sync(&self, node: u64) -> Duration {
        if self.slow.holds(node) { self.sync } else { Duration::ZERO }
    }

    /// How long a sync takes on the slowest disk.
    pub(crate) fn slowest_sync(&self) -> Duration {
        self.sync
    }

    /// Whether a node may lead for long. A node that alone has a bad disk or bad links hands over.
    pub(crate) fn may_lead(&self, node: u64) -> bool {
        [self.far, self.slow].iter().all(|place| *place != Where::At(node))
    }

    /// The longest time from the first start until every node serves.
    pub(crate) fn forming_max(&self) -> Duration {
        let slowest = if self.slow == Where::AtTheLeader { Duration::ZERO } else { self.sync };
        FORMING + slowest * FORMING_SYNCS
    }

    /// Extends a bound for what a cluster does after faults to this climate.
    pub(crate) fn stretch(&self, mild: Duration) -> Duration {
        if self.is_mild() {
            return mild;
        }
        let late = self.late.map_or(Duration::ZERO, |(_, late)| late);
        mild + SILENCE_MAX * SILENCES + (self.round_trip + self.sync + late) * HEALING_STEPS
    }

    /// The largest median time of a change: a round trip to the followers that a quorum needs, with three
    /// tenths added for jitter and loss, and four syncs: the leader's and then a follower's, each after the
    /// rest of one that was under way. At a follower a round trip to the leader comes first, and it learns of
    /// the commit after a sync of the follower's disk.
    pub(crate) fn change_max(&self, leader: u64, at: u64, nodes: u64) -> Duration {
        let mut through: Vec<_> = (1..=nodes)
            .filter(|&follower| follower != leader)
            .map(|follower| self.commit(leader, follower))
            .collect();
        through.sort_unstable();
        let needed = usize::try_from(nodes / 2).unwrap_or(1);
        let quorum = through[needed - 1];
        let late = self.late.map_or(Duration::ZERO, |(_, late)| late);
        let share = SHARE + late * STEPS;
        if at == leader {
            return quorum + share;
        }
        let way = self.round_trip(leader, at) * 11 / 10;
        quorum.max(self.commit(leader, at)) + way + self.sync(at) + share
    }

    fn commit(&self, leader: u64, follower: u64) -> Duration {
        let slower = self.sync(leader).max(self.sync(follower));
        self.round_trip(leader, follower) * 13 / 10 + slower * 4
    }
}

impl fmt::Display for Climate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_mild() {
            return f.write_str("mild");
        }
        let mut said = Vec::new();
        if !self.round_trip.is_zero() {
            let (round_trip, jitter) = (self.round_trip, self.jitter_percent);
            said.push(format!(
                "round trips of {round_trip:?} ({:?}), jitter {jitter} %, loss {} of 1000",
                self.far, self.loss_permille
            ));
        }
        if !self.sync.is_zero() {
            said.push(format!("syncs of {:?} ({:?})", self.sync, self.slow));
        }
        if let Some((node, late)) = self.late {
            said.push(format!("node {node} is late by {late:?}"));
        }
        let faults = if self.has_faults { "with faults" } else { "without faults" };
        write!(f, "{}, {faults}", said.join(", "))
    }
}

/// The current climate, and its random numbers.
pub(crate) struct Sky {
    now: Mutex<Climate>,
    random: Random,
}

impl Sky {
    pub(crate) fn new(climate: Climate, seed: u64) -> Self {
        Self { now: Mutex::new(climate), random: Random::new(seed, "sky") }
    }

    pub(crate) fn mild() -> Self {
        Self::new(Climate::MILD, 0)
    }

    pub(crate) fn now(&self) -> Climate {
        *self.now.lock()
    }

    /// Applies the part of the climate that waits for a leader to this node.
    pub(crate) fn turn_at(&self, leader: u64) -> Climate {
        let mut now = self.now.lock();
        *now = now.under(leader);
        *now
    }

    /// How much longer a message takes from one host to another. A lost packet counts as a late one.
    pub(crate) fn delay(&self, from: u64, to: u64) -> Duration {
        let climate = self.now();
        // A node that exists twice is in one place.
        let round_trip = climate.round_trip(from % 100, to % 100);
        if round_trip.is_zero() {
            return Duration::ZERO;
        }
        let percent =
            100 - climate.jitter_percent + self.random.within(0..2 * climate.jitter_percent + 1);
        let mut delay = round_trip * u32::try_from(percent).unwrap_or(100) / 200;
        let mut wait = round_trip + RETRANSMISSION_MIN;
        while self.random.within(0..1_000) < climate.loss_permille {
            (delay, wait) = (delay + wait, wait * 2);
        }
        delay
    }

    /// How long a sync takes; `None` in a mild climate, where the disk decides.
    pub(crate) fn sync(&self, node: u64) -> Option<Duration> {
        let climate = self.now();
        let own = || Duration::from_micros(self.random.within(SYNC_US));
        (!climate.is_mild()).then(|| climate.sync(node) + own())
    }

    /// The node with the slow core, the length of its pauses, and the time between them.
    pub(crate) fn slow_core(&self) -> Option<(u64, Duration, Duration)> {
        self.now().late.map(|(node, late)| (node, late, AWAKE))
    }
}
