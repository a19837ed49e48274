//! The climate of a run: round trips, lost packets, slow disks and a slow core, which last for the whole run, and what
//! is promised in it. Each bound is a sum of the round trips and syncs that must follow each other, and stands here.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::random::Random;

/// Every seed that is a multiple of this is a run in a bad climate; all others are mild.
const BAD: u64 = 8;

/// TCP sends a lost packet again after a round trip and at least so much more, and waits twice as long each time.
const RETRANSMISSION_MIN: Duration = Duration::from_millis(200);
/// A sync of a disk without a climate of its own, at most.
const SYNC_US: std::ops::Range<u64> = 200..2_000;
/// How long a slow core works between two times at which it does nothing.
const AWAKE: Duration = Duration::from_millis(10);

/// What a cluster needs to form besides syncs, however long round trips are.
const FORMING: Duration = Duration::from_secs(10);
/// Syncs that follow each other while a cluster forms: the founders write down their list, what they are prepared for
/// and whom they are bound to; a vote, perhaps a second one; then some entries, each at the leader and at a follower.
const FORMING_SYNCS: u32 = 60;
/// A leader whose disk or link alone is bad hands over within this.
pub(crate) const HAND_OVER_MAX: Duration = Duration::from_secs(5);
/// What a change takes besides: messages of up to a millisecond, syncs of a good disk, the leader's turn.
const SHARE: Duration = Duration::from_millis(30);
/// Steps of a change at a slow core, each of which may find it asleep.
const STEPS: u32 = 6;
/// A leader may be silent for so long in a bad climate before others stand, at the most; two split elections make it
/// three times.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const SILENCES: u32 = 3;
/// Round trips and syncs that follow each other from the end of all faults until every node serves: three elections, a
/// lost entry that is searched for, a snapshot of many syncs, and the first grabs and windows.
const HEALING_STEPS: u32 = 60;

/// Which nodes have the bad part of a climate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Where {
    Everywhere,
    At(u64),
    /// At the node that leads once the cluster has formed; nowhere until then.
    AtTheLeader,
}

impl Where {
    fn holds(self, node: u64) -> bool {
        self == Self::Everywhere || self == Self::At(node)
    }
}

/// What lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Climate {
    round_trip: Duration,
    /// How much a round trip may differ from that, in hundredths, to either side.
    jitter_percent: u64,
    loss_permille: u64,
    /// The nodes whose links are long.
    far: Where,
    sync: Duration,
    /// The nodes whose disks are slow.
    slow: Where,
    /// A node that does nothing for so long, again and again.
    late: Option<(u64, Duration)>,
    /// Whether faults are injected too.
    pub(crate) has_faults: bool,
}

impl Climate {
    /// That of most runs: nothing lasts.
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

    /// That of a seed, which has so many nodes. `forced` makes it bad or mild whatever the seed says.
    pub(crate) fn of(seed: u64, nodes: u64, forced: Option<bool>) -> Self {
        if !forced.unwrap_or(seed.is_multiple_of(BAD)) {
            return Self::MILD;
        }
        let random = Random::new(seed, "climate");
        let mut climate = Self { has_faults: random.chance(30), ..Self::MILD };
        let one = random.within(1..nodes + 1);
        let places = [Where::Everywhere, Where::Everywhere, Where::At(one), Where::AtTheLeader];
        let place = random.pick(&places);
        // What turns bad at the leader is its disk or its link, and bad enough that others are much better.
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

    /// How long one incarnation of a store lasts: short, so that there are many, or as in production where recording
    /// one takes seconds.
    pub(crate) fn incarnation_max(&self) -> Duration {
        Duration::from_secs(if self.is_mild() { 2 } else { 60 })
    }

    /// Log entries after which a snapshot is taken: few, so that late followers get one, or enough that a node whose link
    /// or disk is slow for good can follow by the log, as in production.
    pub(crate) fn snapshot_entries(&self) -> u64 {
        if self.is_mild() || self.has_faults { 100 } else { 5_000 }
    }

    /// The same once this node leads.
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

    /// Whether a node may lead for long: one whose disk or links alone are bad hands over.
    pub(crate) fn may_lead(&self, node: u64) -> bool {
        [self.far, self.slow].iter().all(|place| *place != Where::At(node))
    }

    /// The longest time from the first start until every node serves.
    pub(crate) fn forming_max(&self) -> Duration {
        let slowest = if self.slow == Where::AtTheLeader { Duration::ZERO } else { self.sync };
        FORMING + slowest * FORMING_SYNCS
    }

    /// A bound for what a cluster does after faults, in this climate.
    pub(crate) fn stretch(&self, mild: Duration) -> Duration {
        if self.is_mild() {
            return mild;
        }
        let late = self.late.map_or(Duration::ZERO, |(_, late)| late);
        mild + SILENCE_MAX * SILENCES + (self.round_trip + self.sync + late) * HEALING_STEPS
    }

    /// The longest median of a change: a round trip to as many followers as a quorum needs, with three tenths for jitter
    /// and loss, and four syncs: the leader's and then a follower's, each behind the rest of one that was under way. At a
    /// follower a round trip to the leader comes first, and it hears of the commit behind a sync of its own.
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

/// The climate as it is now, and the chance in it.
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

    /// What was to turn bad at the leader turns bad at this one.
    pub(crate) fn turn_at(&self, leader: u64) -> Climate {
        let mut now = self.now.lock();
        *now = now.under(leader);
        *now
    }

    /// How much longer a message takes from one host to another. A lost packet is one that comes late.
    pub(crate) fn delay(&self, from: u64, to: u64) -> Duration {
        let climate = self.now();
        // A node that exists twice is at one place.
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

    /// How long a sync takes; `None` in a mild climate, which leaves it to the disk.
    pub(crate) fn sync(&self, node: u64) -> Option<Duration> {
        let climate = self.now();
        let own = || Duration::from_micros(self.random.within(SYNC_US));
        (!climate.is_mild()).then(|| climate.sync(node) + own())
    }

    /// The node whose core is slow, with how long it does nothing and how long it works, in turn.
    pub(crate) fn slow_core(&self) -> Option<(u64, Duration, Duration)> {
        self.now().late.map(|(node, late)| (node, late, AWAKE))
    }
}
