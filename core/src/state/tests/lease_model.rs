//! Searches every behaviour, within small bounds, of two programs that lease the one worker id of a pool.
//!
//! The rules are the real ones, [`LeasePools`]. The world around them is as bad as it gets. Stamps of entries are
//! arbitrary, and so are the programs' clocks: a program stamps any millisecond of its lease at any time, long after
//! the lease has ended by all clocks. A command may be applied late, and twice; its answer may be lost. A copy may be
//! taken at any time, and become the state of a new cluster, which the programs go on to ask.
//!
//! Each step is one of the specification's (`specification.rs`), to which the simulation is held as well.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds their repeated milliseconds.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::tag;
use crate::limits::AHEAD_MS_MAX;
use crate::specification::{self, Lines};
use crate::state::Response;
use crate::state::lease_pools::{LeasePools, WantedLease};

const LEASE_MS: u64 = 2;
/// Stamps of entries: the first millisecond, within a first lease, and at its end.
const STAMPS_MS: [u64; 3] = [1, 2, 3];
/// The operator says that the old cluster has stopped by then.
const STOPPED_MS: u64 = 4;
/// Stamps of the new cluster's entries: while old leases last, and long after.
const STAMPS_AFTER_MS: [u64; 2] = [STOPPED_MS, STOPPED_MS + AHEAD_MS_MAX];
const PROGRAMS: usize = 2;
/// How many leases each program asks for at most.
const LEASES_MAX: u8 = 2;
/// As deep as the longest way to a repeated millisecond that is known of the wrong designs.
const STEPS_MAX: usize = 11;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    /// As it is.
    AsItIs,
    /// A program that was stopped over the end of its lease stamps once more before it looks.
    StampsPastTheEnd,
    /// A program goes on with its lease until it has heard that it was given back.
    StampsWhileGivingBack,
    /// All leases of a program have one nonce, so that a give-back that comes late hits the next one.
    OneNonceEach,
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
    stamped: BTreeSet<u64>,
    is_repeated: bool,
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
    /// The first millisecond above all that were stamped.
    next_ms: u64,
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
    Renew,
    GiveBack { unused_from_ms: u64 },
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Send(usize, What),
    /// A program waits no longer for the answer to what it sent last, which stays on its way.
    StopWaiting(usize),
    /// A command is applied with a stamp, and answered if that is still awaited.
    Apply(Sent, u64),
    /// A command is applied, its answer is lost, and it stays on its way to be applied again.
    ApplyTwice(Sent, u64),
    Stamp(usize, u64),
    TakeCopy,
    Restore,
}

struct Cluster(Design);

impl Cluster {
    fn send(&self, world: &mut World, program: usize, what: What) -> bool {
        let sender = &mut world.programs[program];
        match what {
            What::Lease => {
                sender.leases += 1;
                sender.awaits = Some(what);
            }
            What::Renew => sender.awaits = Some(what),
            What::GiveBack { .. } if self.0 == Design::StampsWhileGivingBack => {}
            What::GiveBack { .. } => sender.held = None,
        }
        world.sent.insert(Sent { program, lease: sender.leases, what })
    }

    fn nonce(&self, program: usize, lease: u8) -> u128 {
        let number = if self.0 == Design::OneNonceEach { 0 } else { lease };
        (program * 16) as u128 + u128::from(number)
    }

    fn stamp(&self, world: &mut World, program: usize, ms: u64) -> Option<()> {
        world.is_repeated |= !world.stamped.insert(ms);
        let grant = self.nonce(program, world.programs[program].leases);
        let used = specification::Step::Use { line: 0, grant, numbers: ms..ms + 1 };
        world.is_refused |= world.lines.step(used).is_err();
        world.programs[program].held.as_mut()?.next_ms = ms + 1;
        Some(())
    }

    fn apply(&self, world: &mut World, sent: Sent, now_ms: u64, again: bool) {
        if !again {
            world.sent.remove(&sent);
        }
        let nonce = self.nonce(sent.program, sent.lease);
        let (pools, pool) = (&mut world.pools, tag("shops"));
        let response = match sent.what {
            What::Lease => {
                let wanted = WantedLease { nonce, holder: "a program", window_ms: LEASE_MS };
                pools.lease(now_ms, &pool, wanted)
            }
            What::Renew => {
                let floor_ms = pools.floor_ms();
                if self.0 == Design::RenewsOverARestore {
                    let _ = pools.take_floor(0);
                }
                let response = pools.renew(now_ms, &pool, (0, nonce), LEASE_MS);
                let _ = pools.take_floor(floor_ms);
                response
            }
            What::GiveBack { unused_from_ms } => pools.give_back(&pool, (0, nonce), unused_from_ms),
        };
        let (line, grant) = (0, nonce);
        let step = match (sent.what, &response) {
            (What::Lease, &Response::Window { floor_ms, fence_ms, .. }) => {
                Some(specification::Step::Grant { line, grant, numbers: floor_ms..fence_ms })
            }
            (What::Renew, &Response::Window { floor_ms, fence_ms, .. }) => {
                Some(specification::Step::Extend { line, grant, numbers: floor_ms..fence_ms })
            }
            (What::GiveBack { unused_from_ms }, Response::Noted) => {
                Some(specification::Step::GiveBack { line, grant, unused_from: unused_from_ms })
            }
            _ => None,
        };
        world.is_refused |= step.is_some_and(|step| world.lines.step(step).is_err());
        let receiver = &mut world.programs[sent.program];
        if again || receiver.awaits != Some(sent.what) || receiver.leases != sent.lease {
            return;
        }
        receiver.awaits = None;
        let Response::Window { floor_ms, fence_ms, .. } = response else { return };
        let next_ms = receiver.held.map_or(0, |held| held.next_ms).max(floor_ms);
        receiver.held = Some(Held { next_ms, until_ms: fence_ms });
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
            stamped: BTreeSet::new(),
            is_repeated: false,
            lines: Lines::default(),
            is_refused: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let stamps_ms: &[u64] = if world.is_restored { &STAMPS_AFTER_MS } else { &STAMPS_MS };
        for &sent in &world.sent {
            steps.extend(stamps_ms.iter().map(|stamp_ms| Step::Apply(sent, *stamp_ms)));
            steps.extend(stamps_ms.iter().map(|stamp_ms| Step::ApplyTwice(sent, *stamp_ms)));
        }
        for (at, program) in world.programs.iter().enumerate() {
            if let Some(Held { next_ms, until_ms }) = program.held {
                let past = u64::from(self.0 == Design::StampsPastTheEnd);
                // The first and the last one that are left: what lies between is like either.
                let ends: BTreeSet<u64> = [next_ms, until_ms + past - 1].into();
                let may = ends.into_iter().filter(|ms| (next_ms..until_ms + past).contains(ms));
                steps.extend(may.map(|ms| Step::Stamp(at, ms)));
            }
            if program.awaits.is_some() {
                steps.push(Step::StopWaiting(at));
            } else if let Some(Held { next_ms, .. }) = program.held {
                let give_back = What::GiveBack { unused_from_ms: next_ms };
                steps.extend([What::Renew, give_back].map(|what| Step::Send(at, what)));
            } else if program.leases < LEASES_MAX {
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
            Step::Send(program, what) => drop(self.send(&mut world, program, what)),
            Step::StopWaiting(program) => world.programs[program].awaits = None,
            Step::Apply(sent, stamp_ms) => self.apply(&mut world, sent, stamp_ms, false),
            Step::ApplyTwice(sent, stamp_ms) => self.apply(&mut world, sent, stamp_ms, true),
            Step::Stamp(program, ms) => self.stamp(&mut world, program, ms)?,
            Step::TakeCopy => world.copy = Some(world.pools.clone()),
            Step::Restore => self.restore(&mut world)?,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no millisecond twice", |_, world: &World| !world.is_repeated),
            Property::always("specified", |_, world: &World| !world.is_refused),
            Property::sometimes("a lease of a restored cluster", |_, world: &World| {
                world.stamped.iter().any(|ms| *ms > AHEAD_MS_MAX)
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
    for design in [
        Design::StampsPastTheEnd,
        Design::StampsWhileGivingBack,
        Design::OneNonceEach,
        Design::RestoredWithoutFloor,
        Design::FloorWhereItStopped,
        Design::RenewsOverARestore,
    ] {
        let found = search(design);
        assert!(found.discovery("no millisecond twice").is_some(), "{design:?} repeats nothing");
        // Under one name the specification sees one user, whatever that stamps twice.
        let is_specified = found.discovery("specified").is_none();
        assert_eq!(is_specified, design == Design::OneNonceEach, "{design:?}");
    }
}
