//! Searches every behaviour, within small bounds, of three nodes that lead one after the other, of their rounds and
//! intervals, and of the requests that they answer.
//!
//! The rule is the real one, [`Confirmed::lets_give`]. Raft is as the papers have it, in steps as small as a message:
//! a node campaigns, another votes, a follower takes over the leader's log, a voter acknowledges a round. A deposed
//! leader goes on until it learns of that, and may be elected again. Every step may be delayed for any time.
//!
//! The other [`Design`]s are known to be wrong, and the same search finds what they break.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::service::leader::confirmed::{Confirmed, Turn};

const NODES: usize = 3;
/// Nodes that campaign; the other one votes.
const CANDIDATES: usize = 2;
const QUORUM: u32 = 2;
const REQUESTS: usize = 2;
/// Numbers that an entry reserves.
const STEP: usize = 2;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Design {
    /// As it is.
    ConfirmedAfterwards,
    /// A node goes on with what an earlier term reserved for it.
    AnyTerm,
    /// A round counts for requests that came after it had begun.
    EarlyRound,
    /// A node gives while it takes itself for the leader.
    NoRound,
    /// The term of a round is what the node's metric says when the round ends.
    MetricAsFence,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct World {
    nodes: [Node; NODES],
    requests: [Request; REQUESTS],
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Node {
    /// Term and candidate of the last vote.
    vote: (u64, usize),
    /// The terms of the entries. Each entry reserves [`STEP`] numbers.
    log: Vec<u64>,
    /// The term that the node leads in, as far as it knows.
    leads: Option<u64>,
    /// The same as its metric has it, which lags.
    metric: Option<u64>,
    /// How many rounds have begun.
    turn: Turn,
    round: Option<Round>,
    confirmed: Option<Confirmed>,
    /// The entry that is to reserve numbers for this node, by its place in the log.
    grab: Option<(u64, usize)>,
    held: Option<Held>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Round {
    began: Turn,
    term: u64,
    acknowledged: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Held {
    term: u64,
    next: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Request {
    New,
    /// `above` is the highest number that had been answered when the request began.
    Caller {
        at: usize,
        came: Turn,
        above: Option<usize>,
    },
    Answered {
        number: usize,
        above: Option<usize>,
    },
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Campaign(usize),
    Vote { by: usize, candidate: usize },
    Publish(usize),
    Grab(usize),
    Replicate { leader: usize, to: usize },
    Come { request: usize, to: usize },
    BeginRound(usize),
    Acknowledge { by: usize, leader: usize },
    Give { request: usize },
}

#[derive(Clone, Debug)]
struct StrictOrder {
    design: Design,
    /// What has happened before the search begins.
    before: Vec<Step>,
}

/// Terms that there are at most, and rounds of each node.
const TERMS_MAX: u64 = 3;
const ROUNDS_MAX: Turn = 2;

impl Node {
    fn follows(&mut self, vote: (u64, usize)) {
        if vote > self.vote {
            (self.vote, self.leads) = (vote, None);
        }
    }

    fn last(&self) -> (u64, usize) {
        (self.log.last().copied().unwrap_or_default(), self.log.len())
    }
}

impl World {
    /// Node 0 leads, holds numbers, and all nodes have the entry that reserved them.
    fn begin() -> Self {
        let node = Node { vote: (1, 0), log: vec![1], metric: Some(1), ..Node::default() };
        let mut nodes = [node.clone(), node.clone(), node];
        nodes[0].leads = Some(1);
        nodes[0].held = Some(Held { term: 1, next: 0, end: STEP });
        Self { nodes, requests: [Request::New; REQUESTS] }
    }

    fn highest_answered(&self) -> Option<usize> {
        let answered = self.requests.iter().filter_map(|request| match request {
            Request::Answered { number, .. } => Some(*number),
            _ => None,
        });
        answered.max()
    }

    /// A voter votes, unless its log reaches further or it has voted for a later leader.
    fn vote(&mut self, by: usize, candidate: usize) -> Option<()> {
        let (vote, last) = (self.nodes[candidate].vote, self.nodes[candidate].last());
        let is_candidate = vote.1 == candidate && self.nodes[candidate].leads.is_none();
        let voter = &mut self.nodes[by];
        if !is_candidate || voter.vote >= vote || voter.last() > last {
            return None;
        }
        voter.follows(vote);
        self.nodes[candidate].leads = Some(vote.0);
        Some(())
    }

    /// A follower takes over the leader's log, which commits an entry of the leader's own term.
    fn replicate(&mut self, leader: usize, to: usize) -> Option<()> {
        let term = self.nodes[leader].leads?;
        if self.nodes[to].vote > (term, leader) {
            return None;
        }
        let log = self.nodes[leader].log.clone();
        self.nodes[to].follows((term, leader));
        self.nodes[to].log = log;
        let node = &mut self.nodes[leader];
        if let Some((by, at)) = node.grab.take_if(|(by, _)| *by == term) {
            let (next, end) = (at * STEP, (at + 1) * STEP);
            node.held = Some(Held { term: by, next, end });
        }
        Some(())
    }

    /// A voter answers the message of a round.
    fn acknowledge(&mut self, design: Design, by: usize, leader: usize) -> Option<()> {
        let round = self.nodes[leader].round.as_ref()?;
        let vote = (round.term, leader);
        if self.nodes[by].vote > vote {
            let node = &mut self.nodes[leader];
            node.round = None;
            node.leads.take_if(|term| *term == vote.0);
            return Some(());
        }
        self.nodes[by].follows(vote);
        let node = &mut self.nodes[leader];
        let round = node.round.as_mut()?;
        round.acknowledged |= 1 << by;
        if round.acknowledged.count_ones() >= QUORUM {
            let term = match design {
                Design::MetricAsFence => node.metric.unwrap_or_default(),
                _ => round.term,
            };
            node.confirmed = Some(Confirmed::new(round.began, term));
            node.round = None;
        }
        Some(())
    }

    fn give(&mut self, design: Design, request: usize) -> Option<()> {
        let Request::Caller { at, came, above } = self.requests[request] else { return None };
        let node = &mut self.nodes[at];
        let held = node.held.as_mut().filter(|held| held.next < held.end)?;
        let may = match (design, node.confirmed) {
            (Design::NoRound, _) => node.leads == Some(held.term),
            (Design::AnyTerm, Some(confirmed)) => came < confirmed.began(),
            (Design::EarlyRound, Some(confirmed)) => confirmed.lets_give(0, held.term),
            (_, Some(confirmed)) => confirmed.lets_give(came, held.term),
            (_, None) => false,
        };
        if !may {
            return None;
        }
        let number = held.next;
        held.next += 1;
        self.requests[request] = Request::Answered { number, above };
        Some(())
    }

    fn grab(&mut self, at: usize) -> Option<()> {
        let node = &mut self.nodes[at];
        let term = node.leads?;
        let has = node.held.is_some_and(|held| held.term == term && held.next < held.end);
        if has || node.grab.is_some_and(|(by, _)| by == term) {
            return None;
        }
        node.grab = Some((term, node.log.len()));
        node.log.push(term);
        Some(())
    }
}

impl Model for StrictOrder {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let step = |world: World, step: &Step| self.next_state(&world, step.clone());
        let before = self.before.iter().try_fold(World::begin(), step);
        vec![before.expect("the steps before can be taken")]
    }

    fn actions(&self, _: &World, steps: &mut Vec<Step>) {
        for at in 0..CANDIDATES {
            steps.extend([Step::Campaign(at), Step::Grab(at), Step::BeginRound(at)]);
            if self.design == Design::MetricAsFence {
                steps.push(Step::Publish(at));
            }
            for other in (0..NODES).filter(|other| *other != at) {
                steps.push(Step::Vote { by: other, candidate: at });
                steps.push(Step::Replicate { leader: at, to: other });
                steps.push(Step::Acknowledge { by: other, leader: at });
            }
            steps.extend((0..REQUESTS).map(|request| Step::Come { request, to: at }));
        }
        steps.extend((0..REQUESTS).map(|request| Step::Give { request }));
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Campaign(at) => {
                let node = &mut world.nodes[at];
                if node.leads.is_some() || node.vote.0 == TERMS_MAX {
                    return None;
                }
                node.vote = (node.vote.0 + 1, at);
            }
            Step::Vote { by, candidate } => world.vote(by, candidate)?,
            Step::Publish(at) => world.nodes[at].metric = world.nodes[at].leads,
            Step::Grab(at) => world.grab(at)?,
            Step::Replicate { leader, to } => world.replicate(leader, to)?,
            Step::Come { request, to } => {
                // Requests are alike, so they come in their order.
                let is_next = request == 0 || world.requests[request - 1] != Request::New;
                if world.requests[request] != Request::New || !is_next {
                    return None;
                }
                world.nodes[to].leads?;
                let (came, above) = (world.nodes[to].turn, world.highest_answered());
                world.requests[request] = Request::Caller { at: to, came, above };
            }
            Step::BeginRound(at) => {
                let node = &mut world.nodes[at];
                let term = node.leads?;
                if node.round.is_some() || node.turn == ROUNDS_MAX {
                    return None;
                }
                node.turn += 1;
                node.round = Some(Round { began: node.turn, term, acknowledged: 1 << at });
            }
            Step::Acknowledge { by, leader } => world.acknowledge(self.design, by, leader)?,
            Step::Give { request } => world.give(self.design, request)?,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("strict order", |_, world| {
                world.requests.iter().all(|request| match request {
                    Request::Answered { number, above } => Some(*number) > *above,
                    _ => true,
                })
            }),
            Property::<Self>::sometimes("two leaders answer", |_, world| {
                let answered = world.requests.iter().all(|request| match request {
                    Request::Answered { number, .. } => number % STEP == 0,
                    _ => false,
                });
                answered && world.highest_answered() > Some(0)
            }),
        ]
    }
}

/// Node 1 has led after node 0, and has answered the first request. All nodes have its log.
fn after_another_has_answered() -> Vec<Step> {
    vec![
        Step::Campaign(1),
        Step::Vote { by: 2, candidate: 1 },
        Step::Publish(1),
        Step::Grab(1),
        Step::Replicate { leader: 1, to: 2 },
        Step::Come { request: 0, to: 1 },
        Step::BeginRound(1),
        Step::Acknowledge { by: 2, leader: 1 },
        Step::Give { request: 0 },
        Step::Replicate { leader: 1, to: 0 },
    ]
}

/// Searches all behaviours of up to `steps` more steps, shortest first. Returns the steps of one that breaks strict
/// order, if there is one.
fn search(design: Design, before: Vec<Step>, steps: usize) -> Option<Vec<Step>> {
    let model = StrictOrder { design, before };
    let checker = model
        .checker()
        // The state before the first step has depth one, and the checker leaves out the states at the limit.
        .target_max_depth(steps + 2)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let broken = checker.discovery("strict order").map(|path| path.into_actions());
    println!("{design:?}, {} states: {broken:?}", checker.unique_state_count());
    let both = checker.discovery("two leaders answer").is_some();
    assert!(both || broken.is_some(), "no two leaders ever answered");
    broken
}

#[test]
fn no_request_that_began_after_another_was_answered_gets_a_lower_number() {
    let design = Design::ConfirmedAfterwards;
    let (from_the_start, later) = if cfg!(debug_assertions) { (12, 8) } else { (15, 12) };
    assert_eq!(search(design, Vec::new(), from_the_start), None);
    assert_eq!(search(design, after_another_has_answered(), later), None);
}

#[test]
fn an_interval_of_an_earlier_term_is_found_to_give_lower_numbers() {
    assert!(search(Design::AnyTerm, after_another_has_answered(), 8).is_some());
}

#[test]
fn a_round_that_began_before_the_request_came_is_found_to_confirm_a_deposed_leader() {
    assert!(search(Design::EarlyRound, Vec::new(), 12).is_some());
}

#[test]
fn a_leader_without_a_round_is_found_to_give_after_its_successor() {
    assert!(search(Design::NoRound, Vec::new(), 12).is_some());
}

#[test]
fn a_metric_in_place_of_the_rounds_term_is_found_to_confirm_an_earlier_interval() {
    assert!(search(Design::MetricAsFence, after_another_has_answered(), 9).is_some());
}
