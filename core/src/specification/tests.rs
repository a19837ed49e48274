//! Searches all that the specification allows, within small bounds: two lines, three
//! grants, three numbers, six steps.

use std::collections::BTreeMap;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{Lines, Step};

const LINES: u8 = 2;
const GRANTS: u8 = 3;
const END: u64 = 3;
const STEPS_MAX: usize = 6;

/// A specification that is weaker in one point, which the search must notice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weaker {
    AsItIs,
    /// A grant may begin below the mark.
    BelowMark,
    /// A holder goes on with what it gave back.
    UsedAfterGivingBack,
    /// A copy becomes a new cluster whose grants may begin at once.
    RestoredWithoutFloor,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    lines: Lines<u8, u8>,
    /// How many names were granted anything.
    names: u8,
    users: BTreeMap<(u8, u64), u8>,
    /// What was given back, where that counts.
    kept: Vec<(u8, u8, u64)>,
    is_repeated: bool,
}

impl World {
    fn used(&mut self, line: u8, grant: u8, number: u64) {
        let user = *self.users.entry((line, number)).or_insert(grant);
        self.is_repeated |= user != grant;
    }
}

impl Model for Weaker {
    type State = World;
    type Action = Step<u8, u8>;

    fn init_states(&self) -> Vec<World> {
        let (lines, names, users, kept) = Default::default();
        vec![World { lines, names, users, kept, is_repeated: false }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step<u8, u8>>) {
        let intervals = || (0..END).flat_map(|start| (start + 1..=END).map(move |end| start..end));
        for line in 0..LINES {
            // Names are alike, so they come in their order.
            for grant in 0..GRANTS.min(world.names + 1) {
                for numbers in intervals() {
                    steps.push(Step::Grant { line, grant, numbers: numbers.clone() });
                    steps.push(Step::Extend { line, grant, numbers: numbers.clone() });
                    steps.push(Step::Lift { line, grant, numbers });
                }
                for number in 0..END {
                    steps.push(Step::GiveBack { line, grant, unused_from: number });
                    steps.push(Step::Use { line, grant, numbers: number..number + 1 });
                }
            }
        }
        steps.extend((0..END).flat_map(|floor| [Step::Floor(floor), Step::Restore(floor)]));
    }

    fn next_state(&self, last: &World, step: Step<u8, u8>) -> Option<World> {
        let mut world = last.clone();
        match (self, &step) {
            (Self::BelowMark, Step::Grant { line, numbers, .. }) => {
                let line = world.lines.lines.entry(*line).or_default();
                line.mark = line.mark.min(numbers.start);
            }
            (Self::UsedAfterGivingBack, Step::GiveBack { line, grant, unused_from }) => {
                world.kept.push((*line, *grant, *unused_from));
            }
            (Self::RestoredWithoutFloor, Step::Restore(_)) => {
                let floor = world.lines.floor;
                world.lines.restore(END).ok()?;
                world.lines.floor = floor;
                return Some(world);
            }
            _ => {}
        }
        match step {
            Step::Use { line, grant, ref numbers } => {
                let number = numbers.start;
                if !world.kept.contains(&(line, grant, number)) {
                    world.lines.step(step).ok()?;
                }
                world.used(line, grant, number);
            }
            step => {
                if let Step::Grant { grant, .. } = step {
                    world.names = world.names.max(grant + 1);
                }
                world.lines.step(step).ok()?;
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no number has two users", |_, world: &World| !world.is_repeated),
            Property::sometimes("three grants of one line are used", |_, world: &World| {
                let of_one = world.users.iter().filter(|((line, _), _)| *line == 0);
                let mut users: Vec<u8> = of_one.map(|(_, user)| *user).collect();
                users.sort_unstable();
                users.dedup();
                users.len() == usize::from(GRANTS)
            }),
        ]
    }
}

/// Searches all behaviours of up to [`STEPS_MAX`] steps.
fn search(weaker: Weaker) -> impl Checker<Weaker> {
    let checker = weaker
        .checker()
        // The state before the first step has depth one, and states at the limit are not seen.
        .target_max_depth(STEPS_MAX + 2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!("{weaker:?}: {} states", checker.unique_state_count());
    checker
}

#[test]
fn whatever_the_specification_allows_no_number_has_two_users() {
    let found = search(Weaker::AsItIs);
    found.assert_no_discovery("no number has two users");
    assert!(found.discovery("three grants of one line are used").is_some());
    assert!(found.unique_state_count() > 50_000);
}

#[test]
fn each_weaker_specification_is_found_to_give_a_number_two_users() {
    for weaker in [Weaker::BelowMark, Weaker::UsedAfterGivingBack, Weaker::RestoredWithoutFloor] {
        let found = search(weaker).discovery("no number has two users");
        assert!(found.is_some(), "{weaker:?} repeats nothing");
    }
}
