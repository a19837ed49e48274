//! The requests of this node and of those that took it for the leader, and which of them may be answered.
//!
//! Pure: rounds, grabs, waiting and time are the engine's. `T` is whoever waits for the answer.

mod watched;

use std::collections::BTreeMap;

use super::confirmed::{Confirmed, Turn};
use super::holdings::{Grab, Holdings, LineName};
use super::request::{Outcome, Refused, Request, Wanted};
use crate::segment::Segment;
use crate::sequence::Counters;
use crate::tag::BizTag;

/// Requests that came together, and are answered together.
pub(super) struct Ask<T> {
    pub(super) waits: T,
    requests: Vec<Request>,
    outcomes: Vec<Option<Outcome>>,
    open: usize,
}

impl<T> Ask<T> {
    pub(super) fn new(waits: T, requests: Vec<Request>) -> Self {
        let (outcomes, open) = (vec![None; requests.len()], requests.len());
        Self { waits, requests, outcomes, open }
    }

    /// The requests that have no outcome.
    pub(super) fn open(&self) -> impl Iterator<Item = &Request> {
        let both = self.requests.iter().zip(&self.outcomes);
        both.filter_map(|(request, outcome)| outcome.is_none().then_some(request))
    }

    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    /// Gives open requests their outcomes, in their order.
    pub(super) fn settle(&mut self, outcomes: &mut impl Iterator<Item = Outcome>) {
        for place in self.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *place = outcomes.next();
            self.open -= usize::from(place.is_some());
        }
    }

    /// Whoever waits, and the outcomes. What is still open has got nothing.
    pub(super) fn finish(self) -> (T, Vec<Outcome>) {
        let outcomes = self.outcomes.into_iter();
        (self.waits, outcomes.map(|outcome| outcome.unwrap_or(Err(Refused::Unavailable))).collect())
    }
}

/// The requests, in the order in which they came, and what can be given to them.
pub(super) struct Ledger<T> {
    turn: Turn,
    asks: BTreeMap<Turn, Ask<T>>,
    requests: usize,
    /// When the round in flight began.
    round: Option<Turn>,
    /// The last round that was confirmed.
    confirmed: Option<Confirmed>,
    holdings: Holdings,
}

impl<T> Ledger<T> {
    pub(super) fn new(counters: Counters) -> Self {
        let holdings = Holdings::new(counters);
        Self { turn: 0, asks: BTreeMap::new(), requests: 0, round: None, confirmed: None, holdings }
    }

    pub(super) fn counters(&self) -> &Counters {
        self.holdings.counters()
    }

    /// How many requests wait for an outcome.
    pub(super) fn waiting(&self) -> usize {
        self.requests
    }

    pub(super) fn come(&mut self, ask: Ask<T>) {
        self.turn += 1;
        self.requests += ask.open;
        self.asks.insert(self.turn, ask);
    }

    /// Begins a round, if one is needed and none is in flight. It counts for all that has come so far.
    pub(super) fn begin_round(&mut self) -> bool {
        let covered = self.confirmed.map_or(0, Confirmed::began);
        if self.round.is_some() || self.asks.range(covered..).next().is_none() {
            return false;
        }
        self.turn += 1;
        self.round = Some(self.turn);
        true
    }

    /// How many requests the round in flight counts for: those that came since the last one began that was confirmed.
    pub(super) fn in_round(&self) -> usize {
        let before = self.confirmed.map_or(0, Confirmed::began);
        let Some(began) = self.round else { return 0 };
        self.asks.range(before..began).map(|(_, ask)| ask.open).sum()
    }

    /// Ends the round in flight, which a quorum has answered in this term, and gives what can be given.
    pub(super) fn round_confirmed(&mut self, term: u64, now_ms: u64) -> Vec<Ask<T>> {
        let Some(began) = self.round.take() else { return Vec::new() };
        self.confirmed = Some(Confirmed::new(began, term));
        self.holdings.enter(term);
        self.give(now_ms)
    }

    /// Ends the round in flight, which nobody has confirmed.
    pub(super) fn round_failed(&mut self) {
        self.round = None;
    }

    /// Gives what can be given, and takes out the asks that are answered by that.
    fn give(&mut self, now_ms: u64) -> Vec<Ask<T>> {
        let Some(confirmed) = self.confirmed else { return Vec::new() };
        self.holdings.want_anew();
        let mut answered = Vec::new();
        for (came, ask) in self.asks.range_mut(..confirmed.began()) {
            for (request, outcome) in ask.requests.iter().zip(&mut ask.outcomes) {
                if outcome.is_some() {
                    continue;
                }
                *outcome = self.holdings.give(confirmed, *came, request, now_ms);
                if outcome.is_some() {
                    ask.open -= 1;
                    self.requests -= 1;
                }
            }
            if ask.open == 0 {
                answered.push(*came);
            }
        }
        answered.iter().filter_map(|came| self.asks.remove(came)).collect()
    }

    /// The grabs that have to be made now, up to so many.
    pub(super) fn grabs(&mut self, most: usize, now_ms: u64) -> Vec<Grab> {
        self.holdings.grabs(most, now_ms)
    }

    /// Takes over what grabs have brought, and gives what can be given.
    pub(super) fn granted(
        &mut self,
        grants: impl IntoIterator<Item = (u64, Result<(Segment, u32), Refused>)>,
        now_ms: u64,
    ) -> Vec<Ask<T>> {
        for (grab, granted) in grants {
            match granted {
                Ok((segment, step)) => self.holdings.granted(grab, segment, step, now_ms),
                Err(why) => {
                    if let Some((tag, name)) = self.holdings.not_granted(grab, Some(why)) {
                        self.refuse(&tag, name, why);
                    }
                }
            }
        }
        self.give(now_ms)
    }

    /// Ends grabs of which nobody knows what they brought. Only another round says whether this node still leads.
    pub(super) fn grabs_failed(&mut self, grabs: impl IntoIterator<Item = u64>) {
        for grab in grabs {
            self.holdings.not_granted(grab, None);
        }
        self.confirmed = None;
    }

    /// Answers the requests that waited for a line.
    fn refuse(&mut self, tag: &BizTag, name: LineName, why: Refused) {
        let Some(confirmed) = self.confirmed else { return };
        for ask in self.asks.range_mut(..confirmed.began()).map(|(_, ask)| ask) {
            for (request, outcome) in ask.requests.iter().zip(&mut ask.outcomes) {
                if outcome.is_none() && request.tag == *tag && is_of(&request.wanted, name) {
                    *outcome = Some(Err(why));
                    ask.open -= 1;
                    self.requests -= 1;
                }
            }
        }
    }

    /// Takes out the asks for which `is_over` holds.
    pub(super) fn take_if(&mut self, is_over: impl Fn(&Ask<T>) -> bool) -> Vec<Ask<T>> {
        let over = self.asks.iter().filter(|(_, ask)| is_over(ask)).map(|(came, _)| *came);
        let over: Vec<Turn> = over.collect();
        self.take(&over)
    }

    /// Takes out the first asks, up to the one for which `is_next` does not hold.
    pub(super) fn take_while(&mut self, mut is_next: impl FnMut(&Ask<T>) -> bool) -> Vec<Ask<T>> {
        let first = self.asks.iter().take_while(|(_, ask)| is_next(ask)).map(|(came, _)| *came);
        let first: Vec<Turn> = first.collect();
        self.take(&first)
    }

    fn take(&mut self, turns: &[Turn]) -> Vec<Ask<T>> {
        let taken: Vec<_> = turns.iter().filter_map(|came| self.asks.remove(came)).collect();
        self.requests -= taken.iter().map(|ask| ask.open).sum::<usize>();
        taken
    }

    /// Drops what is held, because another leads, or the whole state was replaced.
    pub(super) fn drop_all(&mut self) {
        self.confirmed = None;
        self.holdings.drop_all();
    }

    /// Gives no id of a tag below this mark from now on.
    pub(super) fn rise_to(&mut self, tag: &str, mark: u64) {
        self.holdings.rise_to(tag, mark);
    }

    /// Drops what is held of a tag. A line of it that requests wait for may be among that, with the grab that was to
    /// fill it. Another round looks at all requests that wait, and has what they lack grabbed.
    pub(super) fn drop_tag(&mut self, tag: &str) {
        self.holdings.drop_tag(tag);
        if self.requests > 0 {
            self.confirmed = None;
        }
    }
}

/// Whether a request may have waited for this line of its tag.
fn is_of(wanted: &Wanted, name: LineName) -> bool {
    match wanted {
        Wanted::Ids { line, .. } => LineName::of(line) <= name,
        Wanted::Numbers { key, .. } => crate::sequence::SequenceKey::parse(key)
            .is_ok_and(|key| LineName::Section(crate::sequence::section_of(key)) == name),
        Wanted::Last { .. } => false,
    }
}
