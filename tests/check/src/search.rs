//! The search for an order of a tag's operations, within their times, that explains all answers.
//!
//! The search makes one pass over the history and keeps every possible situation: the state, the running
//! operations that have taken effect, and the operations of unknown outcome that it needed. If two situations
//! are otherwise equal, the search drops the one that needed more effects of unknown outcome, because an effect
//! that was not needed yet may still happen. So operations of unknown outcome, which never end, do not multiply
//! the situations, as they do in searches that remember only sets of operations.

use std::collections::{HashMap, VecDeque};

use crate::evidence::Line;
use crate::register::{State, Step};

/// The most steps that a search takes. This bounds its memory too.
const WORK_MAX: u64 = 3_000_000;

/// One operation of the search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) step: Step,
    pub(crate) inv: u64,
    /// `u64::MAX` when the outcome is unknown.
    pub(crate) ret: u64,
    pub(crate) line: Line,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Explained,
    /// An order exists up to this operation's answer, but none that includes it.
    Impossible(usize),
    /// The search was given up after too many steps.
    GivenUp,
}

/// Looks for an order.
pub(crate) fn search(operations: &[Timed]) -> Verdict {
    let calls = operations.iter().enumerate().map(|(at, timed)| (timed.inv, false, at));
    let known = operations.iter().enumerate().filter(|(_, timed)| timed.ret < u64::MAX);
    let returns = known.map(|(at, timed)| (timed.ret, true, at));
    let mut events: Vec<(u64, bool, usize)> = calls.chain(returns).collect();
    events.sort_unstable();
    let mut search = Search::new(operations);
    for (_, returns, at) in events {
        if !returns {
            search.begin(at);
        } else if search.end(at).is_none() {
            return Verdict::GivenUp;
        } else if search.ways.0.is_empty() {
            return Verdict::Impossible(at);
        }
    }
    Verdict::Explained
}

/// One possible situation. Operations are identified by their index, in ascending order.
#[derive(Clone)]
struct Way {
    state: State,
    /// The running operations that have taken effect.
    done: Vec<usize>,
    /// The operations of unknown outcome that have taken effect.
    used: Vec<usize>,
}

/// Situations. The needs of none of them include all needs of another.
#[derive(Default)]
struct Ways(HashMap<(State, Vec<usize>), Vec<Vec<usize>>>);

impl Ways {
    /// Adds a situation. Returns whether it is a new one.
    fn add(&mut self, way: &Way) -> bool {
        let needs = self.0.entry((way.state, way.done.clone())).or_default();
        if needs.iter().any(|need| is_part(need, &way.used)) {
            return false;
        }
        needs.retain(|need| !is_part(&way.used, need));
        needs.push(way.used.clone());
        true
    }

    fn into_ways(self) -> impl Iterator<Item = Way> {
        self.0.into_iter().flat_map(|((state, done), needs)| {
            needs.into_iter().map(move |used| Way { state, done: done.clone(), used })
        })
    }
}

fn is_part(part: &[usize], whole: &[usize]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|one| whole.any(|other| other == one))
}

fn with(places: &[usize], place: usize) -> Vec<usize> {
    let at = places.partition_point(|&other| other < place);
    [&places[..at], &[place], &places[at..]].concat()
}

struct Search<'a> {
    operations: &'a [Timed],
    ways: Ways,
    running: Vec<usize>,
    /// The operations of unknown outcome that have begun, each with the previous one that does the same. The
    /// two are interchangeable, so the earlier one is always used first.
    unknown: Vec<(usize, Option<usize>)>,
    latest: HashMap<Step, usize>,
    work: u64,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Timed]) -> Self {
        let mut ways = Ways::default();
        ways.add(&Way { state: State::default(), done: Vec::new(), used: Vec::new() });
        let (running, unknown, latest) = (Vec::new(), Vec::new(), HashMap::new());
        Self { operations, ways, running, unknown, latest, work: 0 }
    }

    fn begin(&mut self, at: usize) {
        let Timed { step, ret, .. } = self.operations[at];
        if ret < u64::MAX {
            self.running.push(at);
        } else {
            self.unknown.push((at, self.latest.insert(step, at)));
        }
    }

    /// Keeps the situations where `at` has taken effect, after all effects that had to precede it. Returns
    /// `None` when that takes too long.
    fn end(&mut self, at: usize) -> Option<()> {
        let (mut reached, mut seen) = (Ways::default(), Ways::default());
        let mut queue = VecDeque::new();
        for mut way in std::mem::take(&mut self.ways).into_ways() {
            if let Ok(place) = way.done.binary_search(&at) {
                way.done.remove(place);
                reached.add(&way);
            } else if seen.add(&way) {
                queue.push_back(way);
            }
        }
        while let Some(way) = queue.pop_front() {
            if let Some(state) = way.state.after(self.operations[at].step) {
                reached.add(&Way { state, ..way.clone() });
            }
            for next in self.next(&way, at) {
                self.work += 1;
                if seen.add(&next) {
                    queue.push_back(next);
                }
            }
            if self.work > WORK_MAX {
                return None;
            }
        }
        self.ways = reached;
        self.running.retain(|&other| other != at);
        Some(())
    }

    /// The situations after one more effect other than that of `at`.
    fn next(&self, way: &Way, at: usize) -> Vec<Way> {
        let after = |other: usize| way.state.after(self.operations[other].step);
        let running = self.running.iter().filter(|&&other| other != at);
        let running = running.filter(|other| way.done.binary_search(other).is_err());
        let running = running.filter_map(|&other| {
            Some(Way { state: after(other)?, done: with(&way.done, other), ..way.clone() })
        });
        let is_used = |other: usize| way.used.binary_search(&other).is_ok();
        let unknown = self
            .unknown
            .iter()
            .filter(|&&(other, alike)| !is_used(other) && alike.is_none_or(is_used));
        let unknown = unknown.filter_map(|&(other, _)| {
            let state = after(other).filter(|&state| state != way.state)?;
            Some(Way { state, used: with(&way.used, other), ..way.clone() })
        });
        running.chain(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    use porcupine_rs::{Model, Operation, check_operations};
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::PackedRow;

    #[derive(Clone, Debug)]
    struct Register;

    impl Model for Register {
        type State = State;
        type Op = Step;
        type Metadata = ();

        fn init() -> State {
            State::default()
        }

        fn step(state: &State, step: &Step) -> (bool, State) {
            state.after(*step).map_or((false, *state), |after| (true, after))
        }
    }

    fn by_porcupine(operations: &[Timed]) -> bool {
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let operation = |timed: &Timed| Operation::<Register> {
            client_id: None,
            call_time: time(timed.inv),
            return_time: time(timed.ret),
            op: timed.step,
            metadata: None,
        };
        check_operations(&operations.iter().map(operation).collect::<Vec<_>>())
    }

    fn row() -> impl Strategy<Value = PackedRow> {
        let row = (prop::option::of(0..2_u32), 0..3_u32);
        row.prop_map(|(step, text)| PackedRow { step, description: Some(text), max_id: None })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            row().prop_map(Step::Create),
            row().prop_map(|row| Step::Update(row, None)),
            Just(Step::Delete),
            Just(Step::Exists),
            row().prop_map(Step::Is),
            row().prop_map(Step::Is),
            Just(Step::Absent),
        ]
    }

    /// Operations that overlap with few others, some of unknown outcome.
    fn operations() -> impl Strategy<Value = Vec<Timed>> {
        let timed = (step(), 1..12_u64, 1..12_u64, 0..4_u8);
        prop::collection::vec(timed, 1..14).prop_map(|drawn| {
            let timed = drawn.into_iter().enumerate().map(|(at, (step, before, length, doubt))| {
                let inv = 20 + 5 * at as u64 - before;
                let doubted = step.doubted().filter(|_| doubt == 0);
                let ret = doubted.map_or(inv + length, |_| u64::MAX);
                Timed { step: doubted.unwrap_or(step), inv, ret, line: at as Line }
            });
            timed.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 4000, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn another_search_comes_to_the_same(operations in operations()) {
            let verdict = search(&operations);
            prop_assert_eq!(verdict == Verdict::Explained, by_porcupine(&operations));
            if let Verdict::Impossible(at) = verdict {
                let until = operations[at].ret;
                let before: Vec<Timed> =
                    operations.iter().copied().filter(|timed| timed.inv < until).collect();
                prop_assert!(!by_porcupine(&before));
            }
        }
    }

    #[test]
    fn many_unknown_outcomes_are_searched_to_the_end() {
        let of = |step, inv, ret| Timed { step, inv, ret, line: 0 };
        let row = |text| PackedRow { step: Some(1), description: Some(text), max_id: None };
        let mut operations = vec![of(Step::Create(row(0)), 0, 1)];
        for at in 1..60 {
            let time = 10 * u64::from(at);
            operations.push(of(Step::MayUpdate(row(at)), time, u64::MAX));
            operations.push(of(Step::MayDelete, time, u64::MAX));
            operations.push(of(Step::MayCreate(row(100 + at)), time, u64::MAX));
            operations.push(of(Step::Is(row(at / 2)), time + 1, time + 9));
        }
        assert_eq!(search(&operations), Verdict::Explained);
        operations.push(of(Step::Is(row(999)), 1000, 1001));
        assert_eq!(search(&operations), Verdict::Impossible(operations.len() - 1));
    }
}
