//! Searches every behaviour, within small bounds, of two nodes that were both started as node 1, and of the
//! founders 2 and 3 that both of them ask.
//!
//! The rules are the real ones, [`decide`], [`Participant::judge`] and [`Prepared`]. Messages overtake each
//! other, are lost, and come twice; what was asked is used at any later time; every process may
//! crash between any two steps, and a coordinator that does nothing any more is lost for good.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds what they break.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{Accepted, Decision, FounderAnswer, Participant, decide};
use crate::message::{Prepare, Prepared};

/// Both coordinators are node 1; their stores are 10 and 11.
const COORDINATORS: usize = 2;
const FOUNDERS: usize = 2;
/// Tickets that each founder may spend.
const TICKETS_MAX: u128 = 4;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    PreparedBeforeMembership,
    /// The first membership follows the handshakes.
    OneStep,
    /// The coordinator commits with a majority of founders.
    MajorityIsEnough,
    /// A founder that is bound is bound anew by whoever asks.
    PreparedAgain,
    /// A founder accepts before its record is on its disk.
    PreparedInMemory,
    /// A coordinator that aborts an id writes that down later, or never.
    AbortedInMemory,
    /// A founder frees itself by what its coordinator said before it prepared.
    FreedByAnOldAnswer,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    coordinators: [Coordinator; COORDINATORS],
    founders: [Founder; FOUNDERS],
    sent: BTreeSet<Sent>,
    crashes: u8,
    /// First memberships, by cluster id; each names both founders and the coordinator.
    written: BTreeSet<u128>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Coordinator {
    drawn: u128,
    on_disk: Option<Prepared>,
    prepared: Option<Prepared>,
    answers: [Option<Participant>; FOUNDERS],
    /// Who accepted the present prepared, as far as this process knows.
    accepted: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Founder {
    on_disk: Option<Prepared>,
    prepared: Option<Prepared>,
    ticket: u128,
    /// What it was bound to when it asked a coordinator, and what that answered.
    heard: Option<(Option<Prepared>, usize, Participant)>,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Sent {
    to: usize,
    what: What,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum What {
    Bind { prepared: Prepared, ticket: u128 },
    Release { cluster: u128, by: u128 },
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    /// A coordinator hears how a founder stands.
    Ask(usize, usize),
    /// A coordinator acts on all answers.
    Act(usize),
    /// A coordinator has waited long enough.
    Abort(usize),
    Form(usize),
    /// A message arrives, and the answer to it, unless that is lost; it may come once more.
    Deliver {
        sent: Sent,
        answered: bool,
        again: bool,
    },
    /// A founder hears how a coordinator stands.
    Hear(usize, usize),
    /// A founder acts on that.
    Settle(usize),
    CrashCoordinator(usize),
    CrashFounder(usize),
}

/// What is searched.
#[derive(Clone, Debug)]
struct Bootstrap {
    design: Design,
    /// Ids that each coordinator may draw.
    draws_max: u128,
    /// How often any process crashes.
    crashes_max: u8,
    /// Whether messages come twice.
    doubled: bool,
}

fn store(coordinator: usize) -> u128 {
    10 + coordinator as u128
}

impl Coordinator {
    fn participant(&self) -> Participant {
        Participant { cluster: None, prepared: self.prepared.clone(), ticket: 0 }
    }
}

impl Founder {
    fn participant(&self) -> Participant {
        Participant { cluster: None, prepared: self.prepared.clone(), ticket: self.ticket }
    }

    fn keep(&mut self, prepared: Option<Prepared>, on_disk: bool) {
        self.ticket += 1;
        if on_disk {
            self.on_disk.clone_from(&prepared);
        }
        self.prepared = prepared;
    }

    fn release(&mut self, cluster: u128, by: u128) {
        if self.prepared.as_ref().is_some_and(|prepared| prepared.may_be_aborted(cluster, by)) {
            self.keep(None, true);
        } else {
            self.ticket += 1;
        }
    }
}

impl Bootstrap {
    fn act(&self, world: &mut World, at: usize) -> Option<()> {
        let me = store(at);
        let coordinator = &mut world.coordinators[at];
        let participants: Option<Vec<Participant>> = coordinator.answers.iter().cloned().collect();
        let participants = participants?;
        for (to, participant) in participants.iter().enumerate() {
            let theirs = participant.prepared.as_ref();
            if let Some(theirs) =
                theirs.filter(|prepared| prepared.is_aborted(me, &coordinator.participant()))
            {
                let what = What::Release { cluster: theirs.cluster, by: me };
                world.sent.insert(Sent { to, what });
            }
        }
        let answers: Vec<FounderAnswer> =
            participants.iter().cloned().map(FounderAnswer::Participant).collect();
        let planned = decide(me, coordinator.prepared.as_ref(), "", (2..).zip(&answers));
        coordinator.answers = Default::default();
        match planned {
            Decision::Wait(_) => {}
            Decision::Abort(_) => self.give_up(world, at),
            Decision::Draw if coordinator.drawn == self.draws_max => return None,
            Decision::Draw => {
                coordinator.drawn += 1;
                let cluster = me * 10 + coordinator.drawn;
                let prepared =
                    Prepared { cluster, coordinator: 1, store: me, founders: String::new() };
                coordinator.on_disk = Some(prepared.clone());
                coordinator.prepared = Some(prepared);
                self.prepare(world, at, &participants);
            }
            Decision::Prepare => self.prepare(world, at, &participants),
        }
        Some(())
    }

    fn prepare(&self, world: &mut World, at: usize, participants: &[Participant]) {
        let coordinator = &mut world.coordinators[at];
        let Some(prepared) = coordinator.prepared.clone() else { return };
        if self.design == Design::OneStep {
            coordinator.accepted = (0..FOUNDERS).collect();
            return;
        }
        for (to, participant) in participants.iter().enumerate() {
            let what = What::Bind { prepared: prepared.clone(), ticket: participant.ticket };
            world.sent.insert(Sent { to, what });
        }
    }

    fn give_up(&self, world: &mut World, at: usize) {
        let coordinator = &mut world.coordinators[at];
        let Some(prepared) = coordinator.prepared.take() else { return };
        coordinator.accepted.clear();
        if self.design != Design::AbortedInMemory {
            coordinator.on_disk = None;
        }
        let what = What::Release { cluster: prepared.cluster, by: prepared.store };
        world.sent.extend((0..FOUNDERS).map(|to| Sent { to, what: what.clone() }));
    }

    fn has_formed(world: &World, at: usize) -> bool {
        let prepared = world.coordinators[at].prepared.as_ref();
        prepared.is_some_and(|prepared| world.written.contains(&prepared.cluster))
    }

    fn deliver(&self, world: &mut World, sent: &Sent, answered: bool) {
        let founder = &mut world.founders[sent.to];
        match &sent.what {
            What::Release { cluster, by } => founder.release(*cluster, *by),
            What::Bind { prepared, ticket } => {
                let mut participant = founder.participant();
                if self.design == Design::PreparedAgain {
                    (participant.prepared, participant.ticket) = (None, *ticket);
                }
                let request = Prepare { prepared: prepared.clone(), ticket: *ticket };
                let judged = participant.judge(2 + sent.to as u64, "", &request);
                if judged == Ok(Accepted::Now) {
                    let on_disk = self.design != Design::PreparedInMemory;
                    founder.keep(Some(prepared.clone()), on_disk);
                }
                let at = (prepared.store - store(0)) as usize;
                if !answered || world.coordinators[at].prepared.as_ref() != Some(prepared) {
                    return;
                }
                match judged {
                    Ok(_) => drop(world.coordinators[at].accepted.insert(sent.to)),
                    Err(_) if Self::has_formed(world, at) => {}
                    Err(_) => self.give_up(world, at),
                }
            }
        }
    }

    fn settle(&self, founder: &mut Founder) -> Option<()> {
        let (before, at, participant) = founder.heard.take()?;
        let old = self.design == Design::FreedByAnOldAnswer;
        let prepared = if old { founder.prepared.clone() } else { before }?;
        if prepared.is_aborted(store(at), &participant) {
            founder.release(prepared.cluster, store(at));
        }
        Some(())
    }
}

impl Model for Bootstrap {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            coordinators: Default::default(),
            founders: Default::default(),
            sent: BTreeSet::new(),
            crashes: 0,
            written: BTreeSet::new(),
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for at in 0..COORDINATORS {
            if Self::has_formed(world, at) {
                continue;
            }
            // One after the other, as the code asks.
            let next = world.coordinators[at].answers.iter().position(Option::is_none);
            steps.push(next.map_or(Step::Act(at), |of| Step::Ask(at, of)));
            steps.extend([Step::Form(at), Step::Abort(at), Step::CrashCoordinator(at)]);
        }
        for at in 0..FOUNDERS {
            let founder = &world.founders[at];
            // What it hears while it is not bound is of no use to it, where the design is right.
            if founder.prepared.is_some() || self.design == Design::FreedByAnOldAnswer {
                steps.extend((0..COORDINATORS).map(|of| Step::Hear(at, of)));
            }
            steps.extend([Step::Settle(at), Step::CrashFounder(at)]);
        }
        for sent in &world.sent {
            let ways = [(true, false), (false, false), (true, true)];
            for (answered, again) in ways.into_iter().filter(|(_, again)| self.doubled || !again) {
                let sent = sent.clone();
                steps.push(Step::Deliver { sent, answered, again });
            }
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Ask(at, of) => {
                world.coordinators[at].answers[of] = Some(world.founders[of].participant());
            }
            Step::Act(at) => self.act(&mut world, at)?,
            Step::Abort(at) => self.give_up(&mut world, at),
            Step::Form(at) => {
                let coordinator = &world.coordinators[at];
                let prepared = coordinator.prepared.as_ref()?;
                let enough = if self.design == Design::MajorityIsEnough { 1 } else { FOUNDERS };
                if coordinator.accepted.len() < enough {
                    return None;
                }
                world.written.insert(prepared.cluster);
            }
            Step::Deliver { sent, answered, again } => {
                if !again {
                    world.sent.remove(&sent);
                }
                self.deliver(&mut world, &sent, answered);
            }
            Step::Hear(at, of) => {
                let before = world.founders[at].prepared.clone();
                let participant = world.coordinators[of].participant();
                world.founders[at].heard = Some((before, of, participant));
            }
            Step::Settle(at) => self.settle(&mut world.founders[at])?,
            Step::CrashCoordinator(at) => {
                world.crashes += 1;
                let Coordinator { drawn, on_disk, .. } = world.coordinators[at].clone();
                let prepared = on_disk.clone();
                world.coordinators[at] =
                    Coordinator { drawn, on_disk, prepared, ..Default::default() };
            }
            Step::CrashFounder(at) => {
                world.crashes += 1;
                let Founder { on_disk, ticket, .. } = world.founders[at].clone();
                let prepared = on_disk.clone();
                world.founders[at] = Founder { on_disk, prepared, ticket: ticket + 1, heard: None };
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("one cluster", |_, world| world.written.len() <= 1),
            Property::<Self>::always("who is named is bound", |_, world| {
                let prepared_for = |cluster: &u128| {
                    let founders = world.founders.iter().map(|founder| &founder.on_disk);
                    let mut prepared_for =
                        founders.map(|prepared| prepared.as_ref().map(|prepared| prepared.cluster));
                    prepared_for.all(|bound| bound == Some(*cluster))
                };
                world.written.iter().all(prepared_for)
            }),
            Property::<Self>::sometimes("a cluster forms", |_, world| !world.written.is_empty()),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.crashes <= self.crashes_max
            && world.founders.iter().all(|founder| founder.ticket <= TICKETS_MAX)
    }
}

const SAFE: [&str; 2] = ["one cluster", "who is named is bound"];

/// Searches all behaviours of up to `steps` steps, shortest first; answers the length of one that
/// breaks something, and how many states were seen.
fn search(bootstrap: Bootstrap, steps: usize) -> (Option<usize>, usize) {
    let checker = bootstrap
        .clone()
        .checker()
        // The state before the first step is one deep, and those of the depth named are not seen.
        .target_max_depth(steps + 2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let formed = checker.discovery("a cluster forms").is_some();
    let broken = SAFE.into_iter().filter_map(|name| Some((name, checker.discovery(name)?)));
    let broken = broken.map(|(name, path)| (name, path.into_actions()));
    let broken = broken.min_by_key(|(_, steps)| steps.len());
    println!("{bootstrap:?}, {} states: {broken:?}", checker.unique_state_count());
    assert!(formed || broken.is_some(), "nothing was ever formed");
    (broken.map(|(_, steps)| steps.len()), checker.unique_state_count())
}

/// The length of the way that is found to what a wrong design breaks.
fn found(design: Design, draws_max: u128, crashes_max: u8) -> Option<usize> {
    search(Bootstrap { design, draws_max, crashes_max, doubled: false }, 10).0
}

/// As deep as the longest way to two clusters that is known of the wrong designs, where the code is
/// optimised; with all that may happen to a process and to a message.
#[test]
fn two_nodes_that_were_started_as_one_never_form_two_clusters() {
    let design = Design::PreparedBeforeMembership;
    let (steps, states_min) = if cfg!(debug_assertions) { (8, 20_000) } else { (12, 1_000_000) };
    let bootstrap = Bootstrap { design, draws_max: 2, crashes_max: 1, doubled: true };
    let (broken, states) = search(bootstrap, steps);
    assert_eq!(broken, None);
    assert!(states > states_min, "only {states} states were seen");
}

/// The same without crashes and with one id for each, which reaches further in the same time.
#[test]
fn two_coordinators_in_each_others_way_never_form_two_clusters() {
    let design = Design::PreparedBeforeMembership;
    let steps = if cfg!(debug_assertions) { 10 } else { 16 };
    let bootstrap = Bootstrap { design, draws_max: 1, crashes_max: 0, doubled: true };
    assert_eq!(search(bootstrap, steps).0, None);
}

#[test]
fn founding_after_the_hellos_is_found_to_form_two_clusters() {
    assert!(found(Design::OneStep, 1, 0).is_some());
}

#[test]
fn founding_with_a_majority_is_found_to_name_who_is_not_bound() {
    assert!(found(Design::MajorityIsEnough, 1, 0).is_some());
}

#[test]
fn binding_a_bound_founder_anew_is_found_to_break_its_first_prepared() {
    assert!(found(Design::PreparedAgain, 1, 0).is_some());
}

#[test]
fn answering_before_the_prepared_is_on_disk_is_found_to_break_it() {
    assert!(found(Design::PreparedInMemory, 1, 1).is_some());
}

#[test]
fn giving_an_id_up_in_memory_only_is_found_to_free_who_is_bound_again() {
    assert!(found(Design::AbortedInMemory, 1, 1).is_some());
}

#[test]
fn being_freed_by_an_answer_of_before_the_prepared_is_found_to_break_it() {
    assert!(found(Design::FreedByAnOldAnswer, 1, 0).is_some());
}
