//! Every behaviour of a few process starts that share one worker id, explored exhaustively.
//!
//! The rules are the real ones, [`WorkerEntries`] and [`Generator`]; the world around them is as bad as
//! it gets. Stamps and clocks are arbitrary at every step. A command may be applied late,
//! after its process gave up waiting, and twice; its reply may be lost. A process may be paused
//! between any two steps (a crash is a pause that does not end), and its data directory may be
//! cloned, or restored from an older copy.
//!
//! The specification (`specification.rs`) must allow each step. The simulation is judged by the same specification.
//!
//! The right design keeps nothing on disk, so that the disk does not matter to it. The other
//! [`Design`]s are known to be wrong, and the same search finds their repeated ids.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::workers::format;
use crate::snowflake::{Format, Generator, Window};
use crate::specification::{self, Lines};
use crate::state::Response;
use crate::state::worker_entries::{WantedWindow, WorkerEntries};

const WINDOW_MS: u64 = 2;
/// Stamps of commands: the first millisecond, within a first window, and at its end.
const STAMPS_MS: [u64; 3] = [1, 2, 3];
/// Readings of clocks: before everything, and within windows.
const CLOCKS_MS: [u64; 3] = [0, 2, 4];
/// Maximum number of process starts; the third only where the code is optimised, because it trebles the states.
const STARTS_MAX: usize = if cfg!(debug_assertions) { 2 } else { 3 };

/// The memory and the disk of a process, and how it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    /// Every start takes a new window through the log; nothing is on disk.
    FreshThroughTheLog,
    /// The window is on disk with the next millisecond to use, written after the ids are out.
    EmitThenSync,
    /// The window is on disk, written before the ids are out, and the next start goes on from there.
    ResumeFromLocalMark,
    /// A release is proposed while ids still come from the window.
    ReleaseWhileEmitting,
    /// A start that takes a worker id again does so under the same nonce, so that a release that
    /// was late in coming hits the new window.
    OneNoncePerStart,
}

/// One moment of the cluster and everything in it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    workers: WorkerEntries,
    starts: Vec<Start>,
    /// Commands that were sent and may yet be applied.
    sent: BTreeSet<Sent>,
    disk: Option<Mark>,
    /// An older copy of the disk.
    image: Option<Mark>,
    issued: BTreeSet<u64>,
    repeated: bool,
    lines: Lines<u16, u128>,
    /// Whether the specification refused a step.
    is_refused: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Start {
    generator: Generator,
    /// How often it has tried to take the worker id.
    grant: u8,
    /// The command whose reply it awaits. It sends nothing else until then, or until it gives up.
    awaits: Option<What>,
}

/// A command on its way, by the start that sent it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Sent {
    start: usize,
    grant: u8,
    what: What,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum What {
    Acquire,
    Renew,
    Release { unused_from_ms: u64 },
}

/// The disk of a wrong design: its window, from the next millisecond that was not used.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Mark {
    from_ms: u64,
    fence_ms: u64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// A process starts, on the disk as it is: also beside another, on a clone of it.
    Begin,
    Send(usize, What),
    /// A process waits no longer for the command it sent last, which stays on its way.
    StopWaiting(usize),
    /// A command is applied with a stamp, and answered if that is still awaited.
    Apply(Sent, u64),
    /// A command is applied, its answer is lost, and it stays on its way to be applied again.
    ApplyTwice(Sent, u64),
    Emit(usize, u64),
    Sync(usize),
    TakeImage,
    RestoreImage,
}

struct Cluster {
    design: Design,
}

impl Cluster {
    fn format(&self) -> Format {
        format("39+0+1")
    }

    fn keeps_a_mark(&self) -> bool {
        matches!(self.design, Design::EmitThenSync | Design::ResumeFromLocalMark)
    }

    fn begin(&self, world: &mut World) {
        let mut generator = Generator::new(self.format(), u64::MAX, 0);
        let resumed = world.disk.filter(|mark| self.keeps_a_mark() && mark.from_ms < mark.fence_ms);
        if let Some(Mark { from_ms, fence_ms }) = resumed {
            generator.install(Window { worker_id: 0, floor_ms: from_ms, fence_ms });
        }
        let resumes = !generator.windows().is_empty();
        world.starts.push(Start { generator, grant: 0, awaits: None });
        if !resumes {
            self.send(world, world.starts.len() - 1, What::Acquire);
        }
    }

    fn send(&self, world: &mut World, start: usize, what: What) -> Option<()> {
        let sender = &mut world.starts[start];
        let generator = &mut sender.generator;
        match what {
            What::Acquire => {
                sender.grant += 1;
                sender.awaits = Some(what);
            }
            What::Renew => sender.awaits = Some(what),
            What::Release { .. } if self.design == Design::ReleaseWhileEmitting => {}
            What::Release { .. } => drop(generator.give_up(0)),
        }
        world.sent.insert(Sent { start, grant: sender.grant, what }).then_some(())
    }

    fn nonce(&self, sent: Sent) -> u128 {
        let grant = if self.design == Design::OneNoncePerStart { 0 } else { sent.grant };
        (sent.start * 16) as u128 + u128::from(grant)
    }

    fn apply(&self, world: &mut World, sent: Sent, stamp_ms: u64, again: bool) {
        let now_ms = self.format().epoch_ms() + stamp_ms;
        let nonce = self.nonce(sent);
        if !again {
            world.sent.remove(&sent);
        }
        let response = match sent.what {
            What::Acquire => {
                let (node_id, worker_id, window_ms) = (1, None, WINDOW_MS);
                let wanted = WantedWindow { node_id, nonce, worker_id, window_ms };
                world.workers.acquire(now_ms, wanted, 2)
            }
            What::Renew => world.workers.renew(now_ms, 0, nonce, WINDOW_MS),
            What::Release { unused_from_ms } => world.workers.release(0, nonce, unused_from_ms),
        };
        self.specify(world, sent.what, nonce, &response);
        let receiver = &mut world.starts[sent.start];
        if receiver.awaits != Some(sent.what) || receiver.grant != sent.grant {
            return;
        }
        receiver.awaits = None;
        let Response::Window { worker_id, floor_ms, fence_ms } = response else { return };
        if !again {
            receiver.generator.install(Window { worker_id, floor_ms, fence_ms });
            if self.keeps_a_mark() {
                world.disk = Some(Mark { from_ms: floor_ms, fence_ms });
            }
        }
    }

    /// Takes what the rules did as a step of the specification.
    fn specify(&self, world: &mut World, what: What, nonce: u128, response: &Response) {
        let (line, grant) = (0, nonce);
        let step = match (what, response) {
            (What::Acquire, &Response::Window { floor_ms, fence_ms, .. }) => {
                specification::Step::Grant { line, grant, numbers: floor_ms..fence_ms }
            }
            (What::Renew, &Response::Window { floor_ms, fence_ms, .. }) => {
                specification::Step::Extend { line, grant, numbers: floor_ms..fence_ms }
            }
            (What::Release { unused_from_ms }, Response::Noted) => {
                specification::Step::GiveBack { line, grant, unused_from: unused_from_ms }
            }
            _ => return,
        };
        world.is_refused |= world.lines.step(step).is_err();
    }

    fn emit(&self, world: &mut World, start: usize, clock_ms: u64) -> Option<()> {
        let grant = world.starts[start].grant;
        let generator = &mut world.starts[start].generator;
        let id = generator.take_one(self.format().epoch_ms() + clock_ms).ok()?;
        let ms = self.format().decode(id)?.time_ms;
        let sent = Sent { start, grant, what: What::Renew };
        let (grant, numbers) = (self.nonce(sent), ms..ms + 1);
        let used = world.lines.step(specification::Step::Use { line: 0, grant, numbers });
        world.is_refused |= used.is_err();
        let generator = &mut world.starts[start].generator;
        if self.design == Design::ResumeFromLocalMark {
            world.disk = mark(generator);
        }
        world.repeated |= !world.issued.insert(id);
        Some(())
    }
}

/// The mark that a process writes down: its window, from the next millisecond on.
fn mark(generator: &Generator) -> Option<Mark> {
    let fence_ms = generator.windows().first()?.fence_ms;
    let from_ms = generator.clone().give_up(0)?;
    Some(Mark { from_ms, fence_ms })
}

impl Model for Cluster {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut workers = WorkerEntries::default();
        workers.fix(self.format());
        vec![World {
            workers,
            starts: Vec::new(),
            sent: BTreeSet::new(),
            disk: None,
            image: None,
            issued: BTreeSet::new(),
            repeated: false,
            lines: Lines::default(),
            is_refused: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.starts.len() < STARTS_MAX {
            steps.push(Step::Begin);
        }
        for &sent in &world.sent {
            steps.extend(STAMPS_MS.map(|stamp_ms| Step::Apply(sent, stamp_ms)));
            steps.extend(STAMPS_MS.map(|stamp_ms| Step::ApplyTwice(sent, stamp_ms)));
        }
        for (at, start) in world.starts.iter().enumerate() {
            let generator = &start.generator;
            steps.extend(CLOCKS_MS.map(|clock_ms| Step::Emit(at, clock_ms)));
            let holds = !generator.windows().is_empty();
            if start.awaits.is_some() {
                steps.push(Step::StopWaiting(at));
                continue;
            }
            steps.push(Step::Send(at, if holds { What::Renew } else { What::Acquire }));
            if holds {
                let unused_from_ms = generator.clone().give_up(0).unwrap_or(0);
                steps.push(Step::Send(at, What::Release { unused_from_ms }));
            }
            if self.design == Design::EmitThenSync {
                steps.push(Step::Sync(at));
            }
        }
        if self.keeps_a_mark() {
            steps.extend([Step::TakeImage, Step::RestoreImage]);
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Begin => self.begin(&mut world),
            Step::Send(start, what) => self.send(&mut world, start, what)?,
            Step::StopWaiting(start) => world.starts[start].awaits = None,
            Step::Apply(sent, stamp_ms) => self.apply(&mut world, sent, stamp_ms, false),
            Step::ApplyTwice(sent, stamp_ms) => self.apply(&mut world, sent, stamp_ms, true),
            Step::Emit(start, clock_ms) => self.emit(&mut world, start, clock_ms)?,
            Step::Sync(start) => {
                world.disk = mark(&world.starts[start].generator);
            }
            Step::TakeImage => world.image = world.disk,
            Step::RestoreImage => world.disk = world.image,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("no id twice", |_, world| !world.repeated),
            Property::<Self>::always("specified", |_, world| !world.is_refused),
        ]
    }
}

/// Searches all behaviours of up to `steps` steps, shortest first. Returns the length of the first that repeats an id,
/// and how many states were seen. The specification must have refused a step by then, and otherwise none.
fn search(design: Design, steps: usize) -> (Option<usize>, usize) {
    let checker = Cluster { design }
        .checker()
        // The state before the first step has depth one, and states at the limit are not seen.
        .target_max_depth(steps + 2)
        .finish_when(HasDiscoveries::AnyOf(["no id twice"].into()))
        .spawn_bfs()
        .join();
    let repeating = checker.discovery("no id twice").map(|path| path.into_actions());
    println!("{design:?}, {} states: {repeating:?}", checker.unique_state_count());
    let refused = checker.discovery("specified").map(|path| path.into_actions().len());
    let shortest = repeating.as_ref().map(Vec::len);
    assert_eq!(refused.is_some(), shortest.is_some(), "refused after {refused:?}");
    assert!(refused <= shortest, "an id is repeated before a step is refused");
    (repeating.map(|steps| steps.len()), checker.unique_state_count())
}

/// As deep as the longest way to a repeated id that is known of the wrong designs.
#[test]
fn fresh_windows_through_the_log_never_repeat_an_id() {
    let (repeating, states) = search(Design::FreshThroughTheLog, 10);
    assert_eq!(repeating, None);
    assert!(states > 100_000, "only {states} states were seen");
}

#[test]
fn emitting_before_the_sync_is_found_to_repeat_an_id() {
    assert_eq!(search(Design::EmitThenSync, 10).0, Some(5));
}

#[test]
fn resuming_from_a_local_mark_is_found_to_repeat_an_id() {
    assert_eq!(search(Design::ResumeFromLocalMark, 10).0, Some(5));
}

#[test]
fn releasing_while_emitting_is_found_to_repeat_an_id() {
    assert_eq!(search(Design::ReleaseWhileEmitting, 10).0, Some(8));
}

#[test]
fn a_release_that_can_hit_a_later_window_is_found_to_repeat_an_id() {
    assert_eq!(search(Design::OneNoncePerStart, 10).0, Some(10));
}
