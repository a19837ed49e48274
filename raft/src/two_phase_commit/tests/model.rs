//! Searches every behaviour, within small bounds, of two nodes that were both started as node 1, and of the founders
//! 2 and 3 that both of them ask.
//!
//! The rules are the real ones, [`decide`], [`Participant::judge`] and [`Prepared`]. Messages overtake each other,
//! are lost, and arrive twice. An answer may be used at any later time. Every process may crash between any two
//! steps, and a coordinator that takes no more steps is lost for good.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds what they break.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::message::{Prepare, Prepared};
use crate::two_phase_commit::{Accepted, Decision, FounderAnswer, Participant, decide};

/// Both coordinators are node 1; their stores are 10 and 11.
const COORDINATORS: usize = 2;
const FOUNDERS: usize = 2;
/// Number of tickets that each founder may use up.
const TICKETS_MAX: u128 = 4;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Design {
    PreparedBeforeMembership,
    /// The first membership follows the handshakes.
    OneStep,
    /// The coordinator commits with a majority of founders.
    MajorityIsEnough,
    /// A prepared founder prepares anew for every coordinator that asks.
    PreparedAgain,
    /// A founder accepts before its record is on its disk.
    PreparedInMemory,
    /// A coordinator that aborts an id writes that down later, or never.
    AbortedInMemory,
    /// A founder frees itself because of an answer that its coordinator gave before the founder prepared.
    FreedByAnOldAnswer,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct World {
    coordinators: [Coordinator; COORDINATORS],
    founders: [Founder; FOUNDERS],
    sent: BTreeSet<Sent>,
    crashes: u8,
    /// First memberships, by cluster id; each names both founders and the coordinator.
    written: BTreeSet<u128>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Coordinator {
    drawn: u128,
    on_disk: Option<Prepared>,
    prepared: Option<Prepared>,
    answers: [Option<Participant>; FOUNDERS],
    /// The founders that accepted the current id, as far as this process knows.
    accepted: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Founder {
    on_disk: Option<Prepared>,
    prepared: Option<Prepared>,
    ticket: u128,
    /// What the founder was prepared for when it asked a coordinator, and the coordinator's answer.
    heard: Option<(Option<Prepared>, usize, Participant)>,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Sent {
    to: usize,
    what: What,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum What {
    Prepare { prepared: Prepared, ticket: u128 },
    Abort { cluster: u128, by: u128 },
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// A coordinator learns the state of a founder.
    Ask(usize, usize),
    /// A coordinator acts on all answers.
    Act(usize),
    /// A coordinator has waited long enough, and aborts.
    Abort(usize),
    /// A coordinator commits.
    Commit(usize),
    /// A message arrives, and so does its answer unless that is lost. The message may arrive once more.
    Deliver {
        sent: Sent,
        answered: bool,
        again: bool,
    },
    /// A founder learns the state of a coordinator.
    Hear(usize, usize),
    /// A founder acts on the state that it learned.
    Settle(usize),
    CrashCoordinator(usize),
    CrashFounder(usize),
}

/// The model: a design, and the bounds of the search.
#[derive(Clone, Debug)]
pub(super) struct Bootstrap {
    pub(super) design: Design,
    /// How many ids each coordinator may draw.
    pub(super) draws_max: u128,
    /// How many crashes there may be in all.
    pub(super) crashes_max: u8,
    /// Whether messages arrive twice.
    pub(super) doubled: bool,
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

    fn write(&mut self, prepared: Option<Prepared>, on_disk: bool) {
        self.ticket += 1;
        if on_disk {
            self.on_disk.clone_from(&prepared);
        }
        self.prepared = prepared;
    }

    fn abort(&mut self, cluster: u128, by: u128) {
        if self.prepared.as_ref().is_some_and(|prepared| prepared.may_be_aborted(cluster, by)) {
            self.write(None, true);
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
                let what = What::Abort { cluster: theirs.cluster, by: me };
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
            let what = What::Prepare { prepared: prepared.clone(), ticket: participant.ticket };
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
        let what = What::Abort { cluster: prepared.cluster, by: prepared.store };
        world.sent.extend((0..FOUNDERS).map(|to| Sent { to, what: what.clone() }));
    }

    fn has_committed(world: &World, at: usize) -> bool {
        let prepared = world.coordinators[at].prepared.as_ref();
        prepared.is_some_and(|prepared| world.written.contains(&prepared.cluster))
    }

    fn deliver(&self, world: &mut World, sent: &Sent, answered: bool) {
        let founder = &mut world.founders[sent.to];
        match &sent.what {
            What::Abort { cluster, by } => founder.abort(*cluster, *by),
            What::Prepare { prepared, ticket } => {
                let mut participant = founder.participant();
                if self.design == Design::PreparedAgain {
                    (participant.prepared, participant.ticket) = (None, *ticket);
                }
                let request = Prepare { prepared: prepared.clone(), ticket: *ticket };
                let judged = participant.judge(2 + sent.to as u64, "", &request);
                if judged == Ok(Accepted::Now) {
                    let on_disk = self.design != Design::PreparedInMemory;
                    founder.write(Some(prepared.clone()), on_disk);
                }
                let at = (prepared.store - store(0)) as usize;
                if !answered || world.coordinators[at].prepared.as_ref() != Some(prepared) {
                    return;
                }
                match judged {
                    Ok(_) => drop(world.coordinators[at].accepted.insert(sent.to)),
                    Err(_) if Self::has_committed(world, at) => {}
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
            founder.abort(prepared.cluster, store(at));
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
            if Self::has_committed(world, at) {
                continue;
            }
            // The coordinator asks one founder after the other, as the code does.
            let next = world.coordinators[at].answers.iter().position(Option::is_none);
            steps.push(next.map_or(Step::Act(at), |of| Step::Ask(at, of)));
            steps.extend([Step::Commit(at), Step::Abort(at), Step::CrashCoordinator(at)]);
        }
        for at in 0..FOUNDERS {
            let founder = &world.founders[at];
            // An answer that a founder gets while it is not prepared changes nothing in the right design.
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
            Step::Commit(at) => {
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
            Property::<Self>::always("every named founder is prepared", |_, world| {
                let prepared_for = |cluster: &u128| {
                    let founders = world.founders.iter().map(|founder| &founder.on_disk);
                    let mut prepared_for =
                        founders.map(|prepared| prepared.as_ref().map(|prepared| prepared.cluster));
                    prepared_for.all(|id| id == Some(*cluster))
                };
                world.written.iter().all(prepared_for)
            }),
            Property::<Self>::sometimes("a cluster is committed", |_, world| {
                !world.written.is_empty()
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.crashes <= self.crashes_max
            && world.founders.iter().all(|founder| founder.ticket <= TICKETS_MAX)
    }
}
