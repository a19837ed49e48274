//! The requests of this node and of the nodes that took it for the leader, and which of them it may answer.
//!
//! Pure: the engine sees to rounds, grabs, waiting and time. `T` is the caller that waits for the answer.

mod watched;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mintleaf_core::segment::Segment;
use mintleaf_core::sequence::Counters;
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;

use super::confirmed::{Confirmed, Turn};
use super::holdings::{Grab, Holdings, LineName};
use super::request::{Outcome, Request, Wanted};
use crate::service::grabs::Refused;

/// Requests that arrived together, and are answered together.
pub(super) struct Batch<T> {
    pub(super) caller: T,
    /// Names the call that it belongs to: a long call makes several batches.
    call: u64,
    /// When the batch arrived; 0 until then.
    came: Turn,
    requests: Vec<Request>,
    outcomes: Vec<Option<Outcome>>,
    open: usize,
}

impl<T> Batch<T> {
    pub(super) fn new(caller: T, call: u64, requests: Vec<Request>) -> Self {
        let (outcomes, open) = (vec![None; requests.len()], requests.len());
        Self { caller, call, came: 0, requests, outcomes, open }
    }

    /// The requests that have no outcome.
    pub(super) fn open(&self) -> impl Iterator<Item = &Request> {
        let both = self.requests.iter().zip(&self.outcomes);
        both.filter_map(|(request, outcome)| outcome.is_none().then_some(request))
    }

    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    /// Gives the open requests their outcomes, in order.
    pub(super) fn settle(&mut self, outcomes: &mut impl Iterator<Item = Outcome>) {
        for place in self.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *place = outcomes.next();
            self.open -= usize::from(place.is_some());
        }
    }

    /// The waiting caller, and the outcomes. A request that is still open counts as unavailable.
    pub(super) fn finish(self) -> (T, Vec<Outcome>) {
        let outcomes = self.outcomes.into_iter();
        (
            self.caller,
            outcomes.map(|outcome| outcome.unwrap_or(Err(Refused::Unavailable))).collect(),
        )
    }
}

/// The requests in order of arrival, and what can be given to them.
///
/// The requests of one call for one line or key get what they ask for in turn. A request behind one that got nothing
/// yet waits too. While a message to the leader carries part of a call, the rest of that call waits here.
pub(in crate::service) struct Ledger<T> {
    turn: Turn,
    batches: BTreeMap<Turn, Batch<T>>,
    requests: usize,
    /// The calls that have batches under way to the leader, without an answer yet.
    away: BTreeSet<u64>,
    /// When the round in flight began.
    round: Option<Turn>,
    /// The last round that was confirmed.
    confirmed: Option<Confirmed>,
    holdings: Holdings,
}

impl<T> Ledger<T> {
    pub(super) fn new(counters: Counters) -> Self {
        let holdings = Holdings::new(counters);
        let (batches, away) = (BTreeMap::new(), BTreeSet::new());
        Self { turn: 0, batches, requests: 0, away, round: None, confirmed: None, holdings }
    }

    pub(in crate::service) fn counters(&self) -> &Counters {
        self.holdings.counters()
    }

    /// How many requests wait for an outcome.
    pub(super) fn waiting(&self) -> usize {
        self.requests
    }

    pub(super) fn enqueue(&mut self, mut batch: Batch<T>) {
        self.turn += 1;
        batch.came = self.turn;
        self.requests += batch.open;
        self.batches.insert(self.turn, batch);
    }

    /// Ends a message to the leader that carried these batches. The rest of their calls may proceed.
    pub(super) fn message_ended(&mut self, batches: &[Batch<T>]) {
        for batch in batches {
            self.away.remove(&batch.call);
        }
        self.look_anew();
    }

    /// Takes back batches whose message got no answer, and puts them in their old places.
    pub(super) fn requeue(&mut self, batches: Vec<Batch<T>>) {
        for batch in batches {
            self.requests += batch.open;
            self.batches.insert(batch.came, batch);
        }
        self.look_anew();
    }

    /// Has another round look at all waiting requests.
    fn look_anew(&mut self) {
        if self.requests > 0 {
            self.confirmed = None;
        }
    }

    /// Begins a round, if one is needed and none is in flight. It counts for all requests that have arrived so far.
    pub(super) fn begin_round(&mut self) -> bool {
        let covered = self.confirmed.map_or(0, Confirmed::began);
        if self.round.is_some() || self.batches.range(covered..).next().is_none() {
            return false;
        }
        self.turn += 1;
        self.round = Some(self.turn);
        true
    }

    /// How many requests the round in flight counts for: all that arrived since the last confirmed round began.
    pub(super) fn in_round(&self) -> usize {
        let before = self.confirmed.map_or(0, Confirmed::began);
        let Some(began) = self.round else { return 0 };
        self.batches.range(before..began).map(|(_, batch)| batch.open).sum()
    }

    /// Ends the round in flight, which a quorum has answered in this term, and gives what can be given.
    pub(super) fn round_confirmed(&mut self, term: u64, now_ms: u64) -> Vec<Batch<T>> {
        let Some(began) = self.round.take() else { return Vec::new() };
        self.confirmed = Some(Confirmed::new(began, term));
        self.holdings.enter(term);
        self.give(now_ms)
    }

    /// Ends the round in flight, which was not confirmed.
    pub(super) fn round_failed(&mut self) {
        self.round = None;
    }

    /// Gives what can be given, and takes out the batches that this completes.
    fn give(&mut self, now_ms: u64) -> Vec<Batch<T>> {
        let Some(confirmed) = self.confirmed else { return Vec::new() };
        self.holdings.want_anew();
        let mut answered = Vec::new();
        // The lines and keys that have a waiting request, and how many numbers that request and those behind it want.
        let mut closed: HashMap<_, u64> = HashMap::new();
        for (came, batch) in self.batches.range_mut(..confirmed.began()) {
            let Batch { call, requests, outcomes, open, .. } = batch;
            if self.away.contains(call) {
                continue;
            }
            for (request, outcome) in requests.iter().zip(outcomes) {
                if outcome.is_some() {
                    continue;
                }
                let place = (*call, request.tag.as_str(), request.wanted.key());
                if let Some(together) = closed.get_mut(&place) {
                    *together = together.saturating_add(request.wanted.count());
                    self.holdings.want(request, *together);
                    continue;
                }
                *outcome = self.holdings.give(confirmed, *came, request, now_ms);
                if outcome.is_some() {
                    *open -= 1;
                    self.requests -= 1;
                } else {
                    closed.insert(place, request.wanted.count());
                }
            }
            if batch.open == 0 {
                answered.push(*came);
            }
        }
        answered.iter().filter_map(|came| self.batches.remove(came)).collect()
    }

    /// The grabs that have to be made now, at most `most`.
    pub(super) fn grabs(&mut self, most: usize, now_ms: u64) -> Vec<Grab> {
        self.holdings.grabs(most, now_ms)
    }

    /// Takes in the outcomes of grabs, and gives what can be given.
    pub(super) fn granted(
        &mut self,
        grants: impl IntoIterator<Item = (u64, Result<(Segment, Steps), Refused>)>,
        now_ms: u64,
    ) -> Vec<Batch<T>> {
        for (grab, granted) in grants {
            match granted {
                Ok((segment, steps)) => self.holdings.granted(grab, segment, steps, now_ms),
                Err(why) => {
                    let line = self.holdings.not_granted(grab, Some(why));
                    // If a line is exhausted, the rest of it goes to the requests that it is enough for.
                    if let Some((tag, name)) = line.filter(|_| why != Refused::Exhausted) {
                        self.refuse(&tag, name, why);
                    }
                }
            }
        }
        self.give(now_ms)
    }

    /// Ends grabs with an unknown outcome. Only another round shows whether this node still leads.
    pub(super) fn grabs_failed(&mut self, grabs: impl IntoIterator<Item = u64>) {
        for grab in grabs {
            self.holdings.not_granted(grab, None);
        }
        self.confirmed = None;
    }

    /// Answers the requests that waited for a line.
    fn refuse(&mut self, tag: &BizTag, name: LineName, why: Refused) {
        let Some(confirmed) = self.confirmed else { return };
        for batch in self.batches.range_mut(..confirmed.began()).map(|(_, batch)| batch) {
            for (request, outcome) in batch.requests.iter().zip(&mut batch.outcomes) {
                if outcome.is_none() && request.tag == *tag && is_of(&request.wanted, name) {
                    *outcome = Some(Err(why));
                    batch.open -= 1;
                    self.requests -= 1;
                }
            }
        }
    }

    /// Takes out the batches that `is_over` accepts.
    pub(super) fn take_if(&mut self, is_over: impl Fn(&Batch<T>) -> bool) -> Vec<Batch<T>> {
        let over = self.batches.iter().filter(|(_, batch)| is_over(batch)).map(|(came, _)| *came);
        let over: Vec<Turn> = over.collect();
        self.take(&over)
    }

    /// Takes out batches for one message to the leader: the first that may be sent, up to the first that `is_next`
    /// rejects. No other message has batches of their calls until [`message_ended`](Self::message_ended).
    pub(super) fn take_for_message(
        &mut self,
        mut is_next: impl FnMut(&Batch<T>) -> bool,
    ) -> Vec<Batch<T>> {
        let may_go = self.batches.iter().filter(|(_, batch)| !self.away.contains(&batch.call));
        let first: Vec<Turn> =
            may_go.take_while(|(_, batch)| is_next(batch)).map(|(came, _)| *came).collect();
        let taken = self.take(&first);
        self.away.extend(taken.iter().map(|batch| batch.call));
        taken
    }

    fn take(&mut self, turns: &[Turn]) -> Vec<Batch<T>> {
        let taken: Vec<_> = turns.iter().filter_map(|came| self.batches.remove(came)).collect();
        self.requests -= taken.iter().map(|batch| batch.open).sum::<usize>();
        taken
    }

    /// Drops what is held, because another node leads, or the whole state was replaced.
    pub(in crate::service) fn drop_all(&mut self) {
        self.confirmed = None;
        self.holdings.drop_all();
    }

    /// From now on gives no id of a tag below this mark.
    pub(in crate::service) fn rise_to(&mut self, tag: &str, mark: u64) {
        self.holdings.rise_to(tag, mark);
    }

    /// Drops what is held of a tag, because it was deleted. That may include a line that requests wait for, with the grab that was to fill it.
    /// So another round looks at all waiting requests, and begins the grabs that they need.
    pub(in crate::service) fn drop_tag(&mut self, tag: &str) {
        self.holdings.drop_tag(tag);
        self.look_anew();
    }
}

/// Whether a request may have waited for this line of its tag.
fn is_of(wanted: &Wanted, name: LineName) -> bool {
    match wanted {
        Wanted::Ids { line, .. } => LineName::of(line) <= name,
        Wanted::Numbers { key, .. } => mintleaf_core::sequence::SequenceKey::parse(key)
            .is_ok_and(|key| LineName::Section(mintleaf_core::sequence::section_of(key)) == name),
        Wanted::Last { .. } => false,
    }
}
