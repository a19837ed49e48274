//! Searches all that the rules of members allow, within small bounds: three nodes, three leaderships, and logs of up to
//! two entries after the one that names the voters. All 950,438 states that can be reached were searched once, which takes
//! minutes; here the search ends after [`STEPS_MAX`].

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{Agreement, Entry, LeaderId, LogId, Refusal, Step, Store};

const NODES: u64 = 3;
const LEADERS: [LeaderId; 3] =
    [LeaderId { term: 1, node: 1 }, LeaderId { term: 2, node: 2 }, LeaderId { term: 2, node: 3 }];
const STEPS_MAX: usize = 10;

/// The specification without one of its rules, which the search must notice.
#[derive(Clone, Copy, Debug)]
struct Without(Option<Refusal>);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    agreement: Agreement,
    /// A committed entry was lost, or an index has two.
    is_broken: bool,
    /// Two leaders have committed an entry.
    committed_by_two: bool,
}

fn store(node: u64) -> Store {
    Store { node, id: 0 }
}

fn membership() -> Entry {
    let id = LogId { leader: LeaderId { term: 0, node: 0 }, index: 0 };
    Entry { id, content: 0, voters: Some(vec![(1..=NODES).map(store).collect()]) }
}

impl Model for Without {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut agreement = Agreement { waived: self.0, ..Agreement::default() };
        // All founders begin with the membership in their logs.
        let (leader, entries) = (membership().id.leader, vec![membership()]);
        agreement.append(leader, None, entries).unwrap();
        vec![World { agreement, is_broken: false, committed_by_two: false }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let known: Vec<LogId> = world.agreement.entries.keys().copied().collect();
        for leader in LEADERS {
            let process = u128::from(leader.node);
            for last in known.iter().copied().map(Some) {
                for node in 1..=NODES {
                    let store = store(node);
                    steps.push(match node == leader.node {
                        true => Step::Campaign { leader, store, process, last, asked_by: None },
                        false => Step::Grant { leader, store, last },
                    });
                }
            }
            for after in known.iter().copied().filter(|id| id.index < 2) {
                let id = LogId { leader, index: after.index + 1 };
                let entries = vec![Entry { id, content: 0, voters: None }];
                let after = Some(after);
                steps.push(Step::Append { leader, process, after, entries, committed: None });
            }
            for upto in known.iter().copied().filter(|id| id.leader == leader) {
                let (after, entries, committed) = (Some(upto), Vec::new(), Some(upto));
                steps.push(Step::Append { leader, process, after, entries, committed });
                for node in (1..=NODES).filter(|node| *node != leader.node) {
                    steps.push(Step::Hold { leader, store: store(node), upto });
                }
            }
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        if last.is_broken || is_idle(&last.agreement, &step) {
            return None;
        }
        let mut world = last.clone();
        match world.agreement.step(step) {
            // These two are what the other rules are for.
            Err(Refusal::CommittedTwice | Refusal::LacksCommitted) => world.is_broken = true,
            Err(_) => return None,
            Ok(()) => {}
        }
        let by = |leader: LeaderId| {
            world.agreement.committed.values().any(|(id, _)| id.leader == leader)
        };
        world.committed_by_two = LEADERS.into_iter().filter(|leader| by(*leader)).count() > 1;
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing committed is lost", |_, world: &World| !world.is_broken),
            Property::sometimes("two leaders commit", |_, world: &World| world.committed_by_two),
        ]
    }
}

/// Whether a step is one that the protocol has no use for: a second campaign or vote under other circumstances.
fn is_idle(agreement: &Agreement, step: &Step) -> bool {
    match step {
        Step::Campaign { leader, .. } => agreement.candidates.contains_key(leader),
        Step::Grant { leader, store, .. } => {
            !agreement.candidates.contains_key(leader)
                || agreement.votes.get(store).is_some_and(|of| of.contains_key(leader))
        }
        Step::Append { leader, .. } => !agreement.candidates.contains_key(leader),
        _ => false,
    }
}

fn search(without: Option<Refusal>) -> impl Checker<Without> {
    let checker = Without(without)
        .checker()
        // The state before the first step has depth one, and states at the limit are not seen.
        .target_max_depth(STEPS_MAX + 2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!("without {without:?}: {} states", checker.unique_state_count());
    checker
}

#[test]
fn whatever_members_may_say_nothing_committed_is_lost() {
    let found = search(None);
    found.assert_no_discovery("nothing committed is lost");
    assert!(found.discovery("two leaders commit").is_some());
    assert!(found.unique_state_count() > 100_000);
}

#[test]
fn without_any_one_rule_something_committed_is_lost() {
    for rule in [
        Refusal::NotUpToDate,
        Refusal::BrokenPromise,
        Refusal::NotElected,
        Refusal::NotItsLog,
        Refusal::NoQuorum,
    ] {
        let found = search(Some(rule)).discovery("nothing committed is lost");
        assert!(found.is_some(), "without {rule:?} nothing is lost");
    }
}

#[test]
fn one_process_stands_in_a_term_unless_its_directory_was_lost_before_it_got_a_vote() {
    let leader = LEADERS[0];
    let campaign = |id, process| {
        let store = Store { node: leader.node, id };
        Step::Campaign { leader, store, process, last: None, asked_by: None }
    };
    let mut agreement = Agreement::default();
    assert_eq!(agreement.step(campaign(0, 1)), Ok(()));
    assert_eq!(agreement.step(campaign(0, 2)), Err(Refusal::TwoProcesses), "a restart");
    assert_eq!(agreement.step(campaign(7, 3)), Ok(()), "a new directory");
    assert_eq!(agreement.step(campaign(0, 1)), Ok(()), "a message of the lost one comes late");
    let grant = Step::Grant { leader, store: store(2), last: None };
    assert_eq!(agreement.step(grant), Ok(()));
    assert_eq!(agreement.step(campaign(7, 3)), Err(Refusal::TwoProcesses), "after a vote");
}

#[test]
fn a_voter_keeps_what_it_answered_unless_a_later_leader_has_replaced_it() {
    let [first, second, third] = LEADERS;
    let start = membership().id;
    let campaign = |leader: LeaderId, last| {
        let (store, process) = (store(leader.node), u128::from(leader.node));
        Step::Campaign { leader, store, process, last, asked_by: None }
    };
    let append = |leader: LeaderId| {
        let id = LogId { leader, index: 1 };
        let (process, entries) = (leader.node.into(), vec![Entry { id, content: 0, voters: None }]);
        Step::Append { leader, process, after: Some(start), entries, committed: None }
    };
    let mut agreement = Agreement::default();
    agreement.append(start.leader, None, vec![membership()]).unwrap();
    let mut take = |step| agreement.step(step);
    assert_eq!(take(campaign(first, Some(start))), Ok(()));
    assert_eq!(take(Step::Grant { leader: first, store: store(3), last: Some(start) }), Ok(()));
    assert_eq!(take(append(first)), Ok(()));
    let upto = LogId { leader: first, index: 1 };
    assert_eq!(take(Step::Hold { leader: first, store: store(3), upto }), Ok(()));
    assert_eq!(take(campaign(second, Some(start))), Ok(()));
    let forgetful = Step::Grant { leader: second, store: store(3), last: Some(start) };
    assert_eq!(take(forgetful), Err(Refusal::BrokenPromise), "the first leader may count on it");
    assert_eq!(take(Step::Grant { leader: second, store: store(1), last: Some(start) }), Ok(()));
    assert_eq!(take(append(second)), Ok(()));
    assert_eq!(take(campaign(third, Some(start))), Ok(()), "the second leader has replaced it");
}
