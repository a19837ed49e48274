//! The schedule of faults. It depends on the seed alone, so a seed identifies a schedule.

use std::time::Duration;

use crate::faults::{Draw, Fault, Kind};
use crate::links::NodeId;
use crate::random::Random;

/// Several faults at the same time, and their end.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// How long the calm before the round lasts.
    pub(crate) calm: Duration,
    /// How long all faults last once the last of them has begun.
    pub(crate) hold: Duration,
    /// The faults in order, each with the name of its kind.
    pub(crate) faults: Vec<(&'static str, Fault)>,
}

/// Rounds without end. Kinds are dealt like cards: each appears once before any appears twice.
pub(crate) struct Schedule {
    random: Random,
    kinds: Vec<&'static Kind>,
    nodes: Vec<NodeId>,
    deck: Vec<&'static Kind>,
    /// The longest time that faults last.
    hold_max: Duration,
}

impl Schedule {
    /// The schedule of a seed. At least one kind is required.
    pub(crate) fn new(seed: u64, kinds: Vec<&'static Kind>, nodes: Vec<NodeId>) -> Self {
        assert!(!kinds.is_empty(), "there is nothing to schedule");
        let random = Random::new(seed, "schedule");
        Self { random, kinds, nodes, deck: Vec::new(), hold_max: Duration::MAX }
    }

    /// The same schedule, except that faults last no longer than this.
    pub(crate) fn holding_at_most(self, hold_max: Duration) -> Self {
        Self { hold_max, ..self }
    }

    /// The next round.
    pub(crate) fn next(&mut self) -> Round {
        let calm = Duration::from_millis(self.random.within(200..=2_500));
        let hold = self.hold().min(self.hold_max);
        let mut faults = vec![self.deal()];
        let more = match self.random.within(0..=9) {
            0..=5 => 0,
            6..=8 => 1,
            _ => 2,
        };
        for _ in 0..more {
            if faults.iter().all(|kind| !kind.alone) && self.deck.last().is_some_and(|k| !k.alone) {
                faults.push(self.deal());
            }
        }
        let faults = faults.into_iter().map(|kind| (kind.name, self.draw(kind))).collect();
        Round { calm, hold, faults }
    }

    fn draw(&mut self, kind: &Kind) -> Fault {
        kind.draw(&mut Draw { random: &mut self.random, nodes: &self.nodes })
    }

    fn deal(&mut self) -> &'static Kind {
        if self.deck.is_empty() {
            self.deck = self.random.shuffled(self.kinds.clone());
        }
        self.deck.pop().expect("it was just filled")
    }

    /// How long faults last: mostly a few seconds, now and then long enough for leases, time-outs and buffers
    /// to run out.
    fn hold(&mut self) -> Duration {
        let ms = match self.random.within(0..=9) {
            0..=3 => self.random.within(500..=3_000),
            4..=8 => self.random.within(3_000..=8_000),
            _ => self.random.within(8_000..=30_000),
        };
        Duration::from_millis(ms)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::faults::{KINDS, Victim};
    use crate::options::KILL_LEADER;

    fn rounds(seed: u64) -> Vec<Round> {
        let mut schedule = Schedule::new(seed, KINDS.iter().collect(), vec![1, 2, 3]);
        (0..KINDS.len()).map(|_| schedule.next()).collect()
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let told = |seed| format!("{:?}", rounds(seed));
        assert_eq!(told(5), told(5));
        assert_ne!(told(5), told(6));
    }

    #[test]
    fn every_kind_comes_once_before_any_comes_twice() {
        let names = rounds(5).into_iter().flat_map(|round| round.faults);
        let names: Vec<_> = names.map(|(name, _)| name).take(KINDS.len()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), KINDS.len());
    }

    #[test]
    fn kills_of_the_leader_are_all_there_is_and_soon_over() {
        let kinds = KINDS.iter().filter(|kind| kind.name == KILL_LEADER).collect();
        let hold_max = Duration::from_secs(2);
        let mut schedule = Schedule::new(5, kinds, vec![1, 2, 3]).holding_at_most(hold_max);
        for _ in 0..50 {
            let round = schedule.next();
            assert!(round.hold <= hold_max, "{round:?}");
            assert!(matches!(
                *round.faults,
                [(KILL_LEADER, Fault::Kill { victim: Victim::Leader, .. })]
            ));
        }
    }

    #[test]
    fn what_needs_the_others_whole_comes_alone() {
        let alone = |name| KINDS.iter().any(|kind| kind.name == name && kind.alone);
        for seed in 0..20 {
            for round in rounds(seed) {
                let lonely = round.faults.iter().any(|(name, _)| alone(*name));
                assert!(!lonely || round.faults.len() == 1, "{round:?}");
            }
        }
    }
}
