//! Searches every behaviour, within small bounds, of two programs that lease the one worker id of a pool.
//!
//! The rules are the real ones, [`LeasePools`]. The world around them is as bad as it gets. Stamps of entries are
//! arbitrary, and so are the programs' clocks: a program stamps any millisecond of its lease at any time, long after
//! the lease has ended by all clocks. So a stamp is no step of its own: in each world every program may have stamped all
//! that it holds, and how much it did stamp is decided when it gives its lease back. A command may be applied late, and
//! again after its answer; its answer may be lost. A copy may be taken at any time, and become the state of a new cluster,
//! which the programs go on to ask.
//!
//! The specification (`specification.rs`) must allow each step and each stamp. The simulation is judged by the same
//! specification.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds their repeated milliseconds.

use std::collections::BTreeSet;
use std::thread;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::tag;
use crate::limits::AHEAD_MS_MAX;
use crate::specification::{self, Lines};
use crate::state::Response;
use crate::state::lease_pools::{LeasePools, WantedLease, lease_name};

const LEASE_MS: u64 = 2;
/// Stamps of entries: the first millisecond, the end of a first lease, and that of the next.
const STAMPS_MS: [u64; 3] = [1, 3, 5];
/// The operator says that the old cluster has stopped by then.
const STOPPED_MS: u64 = 5;
/// Stamps of the new cluster's entries: while old leases last, and long after.
const STAMPS_AFTER_MS: [u64; 2] = [STOPPED_MS, STOPPED_MS + AHEAD_MS_MAX];
const PROGRAMS: usize = 2;
/// Of a lease that is longer, a program stamps all or less than this.
const STAMPED_MS_MAX: u64 = 8;
/// How many leases each program asks for at most.
const LEASES_MAX: u8 = 2;
/// As deep as the longest way to a repeated millisecond that is known of the wrong designs.
const STEPS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    /// As it is.
    AsItIs,
    /// A program that was stopped over the end of its lease stamps once more before it looks.
    StampsPastTheEnd,
    /// A program goes on with its lease until it has heard that it was given back.
    StampsWhileGivingBack,
    /// All leases of a program have one name, so that a give-back that comes late hits the next one.
    OneNameEach,
    /// Whatever a command reserves has one name, so that a renewal of the first window extends a later one.
    OneNameForACommand,
    /// A copy becomes the state of the new cluster as it is.
    RestoredWithoutFloor,
    /// Leases of the new cluster begin where the old one stopped, although older ones may last longer.
    FloorWhereItStopped,
    /// The new cluster renews leases that its copy has.
    RenewsOverARestore,
}

/// One moment of the cluster, its programs and its copy.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    pools: LeasePools,
    programs: [Program; PROGRAMS],
    /// Commands that were sent and may yet be applied.
    sent: BTreeSet<Sent>,
    copy: Option<LeasePools>,
    is_restored: bool,
    /// The milliseconds that programs stamped before they gave their leases back, each from and up to one, in order.
    stamped: Vec<(u64, u64)>,
    lines: Lines<u16, u128>,
    /// Whether the specification refused a step.
    is_refused: bool,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Program {
    held: Option<Held>,
    /// How many leases it has asked for.
    leases: u8,
    /// The command whose answer it awaits. It sends nothing else until then, or until it gives up.
    awaits: Option<What>,
}

/// A lease in the memory of its program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Held {
    name: u128,
    /// The first millisecond that it may not have stamped before.
    from_ms: u64,
    until_ms: u64,
}

/// A command on its way.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Sent {
    program: usize,
    /// Which of the program's leases it is about.
    lease: u8,
    what: What,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum What {
    Lease,
    Renew { name: u128 },
    GiveBack { name: u128, unused_from_ms: u64 },
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Send(usize, What),
    /// A program waits no longer for the answer to what it sent last, which stays on its way.
    StopWaiting(usize),
    /// A command is applied with a stamp.
    Apply(Sent, u64, Then),
    TakeCopy,
    Restore,
}

/// What comes of a command that was applied. A program hears only an answer that it still awaits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Then {
    Answered,
    /// Its answer is lost, and it stays on its way, to be applied again.
    Repeated,
    /// So it does, and is answered.
    AnsweredAndRepeated,
}

const THENS: [Then; 3] = [Then::Answered, Then::Repeated, Then::AnsweredAndRepeated];

impl Held {
    /// All of it below `end_ms` is used.
    fn use_of(&self, end_ms: u64) -> specification::Step<u16, u128> {
        specification::Step::Use { line: 0, grant: self.name, numbers: self.from_ms..end_ms }
    }
}

struct Cluster(Design);

impl Cluster {
    fn send(&self, world: &mut World, program: usize, what: What) -> Option<()> {
        if let What::GiveBack { unused_from_ms, .. } = what {
            self.stamp(world, program, unused_from_ms)?;
        }
        let sender = &mut world.programs[program];
        match what {
            What::Lease => {
                sender.leases += 1;
                sender.awaits = Some(what);
            }
            What::Renew { .. } => sender.awaits = Some(what),
            What::GiveBack { .. } if self.0 == Design::StampsWhileGivingBack => {}
            What::GiveBack { .. } => sender.held = None,
        }
        world.sent.insert(Sent { program, lease: sender.leases, what });
        Some(())
    }

    /// A program has stamped all of its lease below `end_ms` by now.
    fn stamp(&self, world: &mut World, program: usize, end_ms: u64) -> Option<()> {
        let held = world.programs[program].held.as_mut()?;
        if end_ms > held.from_ms {
            world.is_refused |= world.lines.step(held.use_of(end_ms)).is_err();
            world.stamped.push((held.from_ms, end_ms));
            world.stamped.sort_unstable();
            held.from_ms = end_ms;
        }
        Some(())
    }

    /// One past the last millisecond that the holder of a lease stamps.
    fn end_ms(&self, held: &Held) -> u64 {
        held.until_ms + u64::from(self.0 == Design::StampsPastTheEnd)
    }

    /// The leases of which something may yet be stamped, each with its end.
    fn may_stamp<'a>(&'a self, world: &'a World) -> impl Iterator<Item = (&'a Held, u64)> {
        let held = world.programs.iter().filter_map(|program| program.held.as_ref());
        let with_ends = held.map(|held| (held, self.end_ms(held)));
        with_ends.filter(|(held, end_ms)| held.from_ms < *end_ms)
    }

    /// Whether two programs may have stamped one millisecond, or one of them twice.
    fn is_repeated(&self, world: &World) -> bool {
        let may_stamp = self.may_stamp(world).map(|(held, end_ms)| (held.from_ms, end_ms));
        let mut stamps: Vec<(u64, u64)> = may_stamp.chain(world.stamped.iter().copied()).collect();
        stamps.sort_unstable();
        stamps.windows(2).any(|pair| pair[1].0 < pair[0].1)
    }

    /// Whether the specification refused a step, or refuses what a program may stamp.
    fn is_refused(&self, world: &World) -> bool {
        let refuses =
            |(held, end_ms): (&Held, u64)| world.lines.clone().step(held.use_of(end_ms)).is_err();
        world.is_refused || self.may_stamp(world).any(refuses)
    }

    fn apply(&self, world: &mut World, sent: Sent, now_ms: u64, then: Then) {
        if then == Then::Answered {
            world.sent.remove(&sent);
        }
        let (pools, pool) = (&mut world.pools, tag("shops"));
        let response = match sent.what {
            What::Lease => self.lease(pools, now_ms, self.nonce(sent)),
            What::Renew { name } => {
                let floor_ms = pools.floor_ms();
                if self.0 == Design::RenewsOverARestore {
                    let _ = pools.take_floor(0);
                }
                let response = pools.renew(now_ms, &pool, (0, name), LEASE_MS);
                let _ = pools.take_floor(floor_ms);
                response
            }
            What::GiveBack { name, unused_from_ms } => {
                pools.give_back(&pool, (0, name), unused_from_ms)
            }
        };
        let line = 0;
        let step = match (sent.what, &response) {
            (What::Lease, &Response::Window { floor_ms, fence_ms, .. }) => {
                let grant = self.name(self.nonce(sent), floor_ms);
                Some(specification::Step::Grant { line, grant, numbers: floor_ms..fence_ms })
            }
            (What::Renew { name: grant }, &Response::Window { floor_ms, fence_ms, .. }) => {
                Some(specification::Step::Extend { line, grant, numbers: floor_ms..fence_ms })
            }
            (What::GiveBack { name: grant, unused_from_ms: unused_from }, Response::Noted) => {
                Some(specification::Step::GiveBack { line, grant, unused_from })
            }
            _ => None,
        };
        world.is_refused |= step.is_some_and(|step| world.lines.step(step).is_err());
        let receiver = &mut world.programs[sent.program];
        let is_awaited = receiver.awaits == Some(sent.what) && receiver.leases == sent.lease;
        if then == Then::Repeated || !is_awaited {
            return;
        }
        receiver.awaits = None;
        let Response::Window { floor_ms, fence_ms, .. } = response else { return };
        match &mut receiver.held {
            // As the clients do, it takes of a renewal how long the lease lasts, and nothing else.
            Some(held) => held.until_ms = fence_ms,
            None => {
                let name = self.name(self.nonce(sent), floor_ms);
                receiver.held = Some(Held { name, from_ms: floor_ms, until_ms: fence_ms });
            }
        }
    }

    /// What is drawn for a lease.
    fn nonce(&self, sent: Sent) -> u128 {
        let lease = if self.0 == Design::OneNameEach { 0 } else { sent.lease };
        (sent.program as u128 * 16 + u128::from(lease)) << u64::BITS
    }

    fn name(&self, nonce: u128, from_ms: u64) -> u128 {
        if self.names_by_the_nonce() { nonce } else { lease_name(nonce, from_ms) }
    }

    fn names_by_the_nonce(&self) -> bool {
        matches!(self.0, Design::OneNameEach | Design::OneNameForACommand)
    }

    fn lease(&self, pools: &mut LeasePools, now_ms: u64, nonce: u128) -> Response {
        let pool = tag("shops");
        let wanted = |nonce| WantedLease { nonce, holder: "a program", window_ms: LEASE_MS };
        if self.names_by_the_nonce()
            && let Response::Window { floor_ms, .. } =
                pools.clone().lease(now_ms, &pool, wanted(nonce))
        {
            // The name of this one has no first millisecond in it.
            return pools.lease(now_ms, &pool, wanted(lease_name(nonce, floor_ms)));
        }
        pools.lease(now_ms, &pool, wanted(nonce))
    }

    fn restore(&self, world: &mut World) -> Option<()> {
        world.pools = world.copy.take()?;
        world.is_restored = true;
        let restored = world.lines.step(specification::Step::Restore(STOPPED_MS + AHEAD_MS_MAX));
        world.is_refused |= restored.is_err();
        match self.0 {
            Design::RestoredWithoutFloor => {}
            Design::FloorWhereItStopped => drop(world.pools.take_floor(STOPPED_MS)),
            _ => world.pools.rise(STOPPED_MS),
        }
        Some(())
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut pools = LeasePools::default();
        let made = pools.set(0, &tag("shops"), &"0".parse().unwrap(), &None);
        assert!(matches!(made, Response::Pool { .. }));
        vec![World {
            pools,
            programs: Default::default(),
            sent: BTreeSet::new(),
            copy: None,
            is_restored: false,
            stamped: Vec::new(),
            lines: Lines::default(),
            is_refused: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let stamps_ms: &[u64] = if world.is_restored { &STAMPS_AFTER_MS } else { &STAMPS_MS };
        for &sent in &world.sent {
            // Once its answer was heard, only a lease gives anything if it comes again. No stamp matters to a give-back.
            let (stamps_ms, thens) = match sent.what {
                What::Lease => (stamps_ms, &THENS[..]),
                What::Renew { .. } => (stamps_ms, &THENS[..2]),
                What::GiveBack { .. } => (&stamps_ms[..1], &THENS[..2]),
            };
            for &then in thens {
                steps.extend(stamps_ms.iter().map(|stamp_ms| Step::Apply(sent, *stamp_ms, then)));
            }
        }
        // Programs differ in their names alone, so the first of them is the one that asks first.
        let has_asked_before = |at: usize| world.programs[..at].iter().all(|one| one.leases > 0);
        for (at, program) in world.programs.iter().enumerate() {
            if program.awaits.is_some() {
                steps.push(Step::StopWaiting(at));
            } else if let Some(Held { name, from_ms, until_ms }) = program.held {
                steps.push(Step::Send(at, What::Renew { name }));
                // None of it was stamped, some, or all. Only wrong designs renew by more than a few milliseconds.
                let some = from_ms..until_ms.min(from_ms + STAMPED_MS_MAX);
                let give_back = |unused_from_ms| What::GiveBack { name, unused_from_ms };
                let ends = some.chain([until_ms]);
                steps.extend(ends.map(|end_ms| Step::Send(at, give_back(end_ms))));
            } else if program.leases < LEASES_MAX && has_asked_before(at) {
                steps.push(Step::Send(at, What::Lease));
            }
        }
        if !world.is_restored {
            steps.push(if world.copy.is_some() { Step::Restore } else { Step::TakeCopy });
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Send(program, what) => self.send(&mut world, program, what)?,
            Step::StopWaiting(program) => world.programs[program].awaits = None,
            Step::Apply(sent, stamp_ms, then) => self.apply(&mut world, sent, stamp_ms, then),
            Step::TakeCopy => world.copy = Some(world.pools.clone()),
            Step::Restore => self.restore(&mut world)?,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no millisecond twice", |it: &Self, world| !it.is_repeated(world)),
            Property::always("specified", |it: &Self, world| !it.is_refused(world)),
            Property::sometimes("a lease of a restored cluster", |_, world: &World| {
                world
                    .programs
                    .iter()
                    .flat_map(|one| one.held)
                    .any(|held| held.from_ms > AHEAD_MS_MAX)
            }),
        ]
    }
}

/// Searches all behaviours of up to [`STEPS_MAX`] steps, shortest first, until one repeats a millisecond.
fn search(design: Design) -> impl Checker<Cluster> {
    let checker = Cluster(design)
        .checker()
        // The state before the first step has depth one, and states at the limit are not seen.
        .target_max_depth(STEPS_MAX + 2)
        .finish_when(HasDiscoveries::AnyOf(["no millisecond twice"].into()))
        .spawn_bfs()
        .join();
    let repeating = checker.discovery("no millisecond twice").map(|path| path.into_actions());
    println!("{design:?}, {} states: {repeating:?}", checker.unique_state_count());
    checker
}

#[test]
fn leases_never_share_a_millisecond_over_late_renewals_pauses_give_backs_and_restores() {
    let found = search(Design::AsItIs);
    found.assert_no_discovery("no millisecond twice");
    found.assert_no_discovery("specified");
    assert!(found.discovery("a lease of a restored cluster").is_some());
    let states = found.unique_state_count();
    assert!(states > 100_000, "only {states} states were seen");
}

#[test]
fn each_wrong_design_of_leases_is_found() {
    let is_found = |design| {
        let found = search(design);
        assert!(found.discovery("no millisecond twice").is_some(), "{design:?} repeats nothing");
        assert!(found.discovery("specified").is_some(), "{design:?} is as specified");
    };
    thread::scope(|searches| {
        for design in [
            Design::StampsPastTheEnd,
            Design::StampsWhileGivingBack,
            Design::OneNameEach,
            Design::OneNameForACommand,
            Design::RestoredWithoutFloor,
            Design::FloorWhereItStopped,
            Design::RenewsOverARestore,
        ] {
            searches.spawn(move || is_found(design));
        }
    });
}
