//! Searches every behaviour, within small bounds, of callers that ask a register for the numbers of their keys while
//! answers are lost, requests are sent again, and two nodes of one term after the other append them.
//!
//! The rules are the real ones: each node's state applies the committed commands. An entry of a deposed leader may be
//! committed late or never, a node may begin anew from the snapshot of another, and a caller that lost its answer asks
//! again with the same key.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds what they break.

use stateright::{Checker, Model, Property};

use super::{tag, written};
use crate::encoding::read_snapshot;
use crate::shape::{Kind, Line, Shape};
use crate::state::tests::shaped::create_shaped;
use crate::state::{Command, Response, State};

/// Keys, each with a caller of its own.
const KEYS: [&str; 2] = ["a", "b"];
/// Entries of the log at most.
const ENTRIES_MAX: usize = 4;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    /// As it is: the entry names the key, and applying it finds the key or numbers it.
    KeyInTheEntry,
    /// An entry numbers its key whether or not the key has a number.
    NumberedAgain,
    /// A node answers from what it has appended, committed or not.
    AnsweredBeforeCommit,
    /// A snapshot has the mark of the line and not the keys.
    SnapshotWithoutKeys,
}

/// Which key each entry of a log asks for.
type Log = Vec<usize>;

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct World {
    /// What a quorum holds.
    committed: Log,
    /// What the deposed leader and the present one have appended behind that.
    appended: [Option<usize>; 2],
    /// The entry where the state began anew from a snapshot, if it did.
    snapshot: Option<usize>,
    /// The numbers that callers were answered, by key.
    answered: [Vec<u64>; KEYS.len()],
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// A caller asks, for the first time or again.
    Ask { key: usize, leader: usize },
    /// A quorum takes over what a leader has appended.
    Commit(usize),
    /// What a leader has appended is overwritten.
    Lose(usize),
    /// The answer to an entry arrives; it may also be lost.
    Answer(usize),
    /// A node answers before its entry is committed.
    AnswerEarly(usize),
    /// The state is read from a snapshot of what is committed now.
    Snapshot,
}

struct Register(Design);

impl Register {
    /// The answers to the entries of a log.
    fn answers(&self, log: &[usize], snapshot: Option<usize>) -> Vec<u64> {
        let mut state = fresh();
        let mut answers = Vec::new();
        for (at, key) in log.iter().enumerate() {
            if snapshot == Some(at) {
                state = self.through_a_snapshot(&state);
            }
            let name = match self.0 {
                Design::NumberedAgain => format!("{}-{at}", KEYS[*key]),
                _ => KEYS[*key].to_owned(),
            };
            let register = Command::Register {
                tag: tag("inv"),
                key: name.into(),
                line: Line::Whole,
                keys_max: 100,
            };
            match state.apply(0, &register) {
                Response::Registered { number, .. } => answers.push(number),
                other => panic!("{other:?}"),
            }
        }
        answers
    }

    fn through_a_snapshot(&self, state: &State) -> State {
        let mut restored = read_snapshot(&written(state)[..]).unwrap();
        if self.0 == Design::SnapshotWithoutKeys {
            restored.registers = Default::default();
        }
        restored
    }
}

fn fresh() -> State {
    let mut state = State::default();
    state.apply(0, &Command::RaiseLevel { to: 3, version: "0.3.0".to_owned() });
    let shape = Shape { kind: Kind::Register, ..Shape::default() };
    state.apply(0, &create_shaped("inv", &shape));
    state
}

impl Model for Register {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for leader in 0..world.appended.len() {
            match world.appended[leader] {
                None if world.committed.len() < ENTRIES_MAX => {
                    steps.extend((0..KEYS.len()).map(|key| Step::Ask { key, leader }));
                }
                None => {}
                Some(_) => {
                    steps.extend([Step::Commit(leader), Step::Lose(leader)]);
                    if self.0 == Design::AnsweredBeforeCommit {
                        steps.push(Step::AnswerEarly(leader));
                    }
                }
            }
        }
        steps.extend((0..world.committed.len()).map(Step::Answer));
        if world.snapshot.is_none() {
            steps.push(Step::Snapshot);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut world = world.clone();
        match step {
            Step::Ask { key, leader } => world.appended[leader] = Some(key),
            Step::Lose(leader) => world.appended[leader] = None,
            Step::Commit(leader) if world.committed.len() < ENTRIES_MAX => {
                world.committed.extend(world.appended[leader].take());
            }
            Step::Commit(_) => return None,
            Step::Snapshot => world.snapshot = Some(world.committed.len()),
            Step::Answer(at) => {
                let answers = self.answers(&world.committed, world.snapshot);
                note(&mut world.answered[world.committed[at]], answers[at]);
            }
            Step::AnswerEarly(leader) => {
                let key = world.appended[leader]?;
                let log: Log = world.committed.iter().copied().chain([key]).collect();
                let answers = self.answers(&log, world.snapshot);
                note(&mut world.answered[key], *answers.last()?);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a key has one number", |_, world: &World| {
                world.answered.iter().all(|numbers| numbers.len() <= 1)
            }),
            Property::always("a number has one key", |_, world: &World| {
                let mut all: Vec<u64> = world.answered.iter().flatten().copied().collect();
                let count = all.len();
                all.sort_unstable();
                all.dedup();
                all.len() == count
            }),
            Property::always("there is no gap", |model: &Self, world: &World| {
                let answers = model.answers(&world.committed, world.snapshot);
                let mut keys = world.committed.clone();
                keys.sort_unstable();
                keys.dedup();
                // As many numbers are used up as keys were asked for.
                answers.iter().max().copied().unwrap_or(0) == keys.len() as u64
            }),
            Property::sometimes("every key is answered", |_, world: &World| {
                world.answered.iter().all(|numbers| !numbers.is_empty())
            }),
        ]
    }
}

/// Keeps a number once, so that asking again and again ends.
fn note(numbers: &mut Vec<u64>, number: u64) {
    if !numbers.contains(&number) {
        numbers.push(number);
        numbers.sort_unstable();
    }
}

#[test]
fn a_register_has_no_gap_and_each_key_one_number_whatever_is_lost_and_sent_again() {
    Register(Design::KeyInTheEntry).checker().spawn_bfs().join().assert_properties();
}

#[test]
fn each_wrong_design_is_found() {
    for (design, broken) in [
        (Design::NumberedAgain, "there is no gap"),
        (Design::NumberedAgain, "a key has one number"),
        (Design::AnsweredBeforeCommit, "a number has one key"),
        (Design::SnapshotWithoutKeys, "a key has one number"),
    ] {
        let found = Register(design).checker().spawn_bfs().join();
        assert!(found.discovery(broken).is_some(), "{design:?} breaks nothing");
    }
}
