//! The ids that clients received, in memory, and their only judge: `mintleaf-check`.

use std::time::{Duration, Instant};

use mintleaf_check::history::{self, Call, Flakes, Ids, Interval, Record};
use mintleaf_check::{Input, Options, Report, check};

/// One request for ids.
#[derive(Clone, Debug)]
pub struct Op {
    /// The client, which sends one request at a time.
    pub client: u32,
    /// Index of the tag in the load's list; `None` for snowflake ids.
    pub tag: Option<usize>,
    /// The node that was asked.
    pub node: u64,
    /// The process start that answered, if it is known for certain.
    pub boot: Option<String>,
    /// When the request was sent.
    pub began: Instant,
    /// When the answer arrived, or the client stopped waiting.
    pub ended: Instant,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a request for ids.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The ids, in the order of the answer.
    Ids(Vec<Interval>),
    /// The node refused, with this status.
    Refused(u16),
    /// The connection could not be made, or broke.
    Lost,
}

/// All requests of a load, in no particular order.
#[derive(Debug, Default)]
pub struct History(pub Vec<Op>);

impl History {
    /// Adds a request that has ended, from a node's only client.
    pub fn note(&mut self, node: u64, tag: Option<usize>, began: Instant, outcome: Outcome) {
        let (client, ended) = (node as u32, Instant::now());
        self.0.push(Op { client, tag, node, boot: None, began, ended, outcome });
    }

    /// Fails unless the judge finds no broken promise (no id twice, ids of each node rise) and no request was
    /// refused for good.
    ///
    /// # Panics
    /// With the judge's report.
    #[track_caller]
    pub fn check(&self) {
        self.check_with([]);
    }

    /// The same, together with facts from the nodes: windows, grants, the layout of snowflake ids.
    ///
    /// # Panics
    /// With the judge's report.
    #[track_caller]
    pub fn check_with<'a>(&'a self, facts: impl IntoIterator<Item = Record<'a>>) {
        let report = judge(self.records().chain(facts));
        assert!(report.is_clean(), "{report}");
        // A load asks only for tags that exist. So a node may be unable to answer, but must not refuse.
        let denied = |op: &&Op| match op.outcome {
            Outcome::Refused(status) => ![429, 500, 503].contains(&status),
            Outcome::Ids(_) | Outcome::Lost => false,
        };
        let denied = self.0.iter().find(denied);
        assert!(denied.is_none(), "refused for good: {denied:?}");
    }

    /// How many ids were handed out.
    pub fn ids(&self) -> u64 {
        let intervals = self.granted().flat_map(|(_, intervals)| intervals);
        intervals.map(|(start, end)| end - start).sum()
    }

    /// The requests that brought no ids.
    pub fn failures(&self) -> impl Iterator<Item = &Op> {
        self.0.iter().filter(|op| !matches!(op.outcome, Outcome::Ids(_)))
    }

    /// The longest time without an id from this node although clients asked for one.
    pub fn longest_gap(&self, node: u64) -> Duration {
        let given = self.granted().filter(|(op, _)| op.node == node);
        let mut ends: Vec<Instant> = given.map(|(op, _)| op.ended).collect();
        ends.sort_unstable();
        ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
    }

    /// The requests that brought ids.
    pub fn granted(&self) -> impl Iterator<Item = (&Op, &[Interval])> {
        self.0.iter().filter_map(|op| match &op.outcome {
            Outcome::Ids(intervals) => Some((op, intervals.as_slice())),
            Outcome::Refused(_) | Outcome::Lost => None,
        })
    }

    /// The history in the judge's format.
    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let first = self.0.iter().map(|op| op.began).min();
        self.0.iter().map(move |op| op.record(first.unwrap_or(op.began)))
    }
}

impl Op {
    fn record(&self, first: Instant) -> Record<'_> {
        let ns = |at: Instant| u64::try_from((at - first).as_nanos()).unwrap_or(u64::MAX);
        let (out, r) = match &self.outcome {
            Outcome::Ids(intervals) => (history::Outcome::Ok, intervals.clone()),
            Outcome::Refused(_) => (history::Outcome::Fail, Vec::new()),
            Outcome::Lost => (history::Outcome::Info, Vec::new()),
        };
        let call = Call {
            p: self.client,
            node: self.node,
            boot: self.boot.as_deref().map(Into::into),
            inv: ns(self.began),
            ret: Some(ns(self.ended)),
            out,
            code: None,
        };
        match self.tag {
            Some(tag) => Record::Ids(Ids { call, key: format!("tag {tag}").into(), r }),
            None => Record::Flakes(Flakes { call, r }),
        }
    }
}

/// Gives records in memory to the judge.
///
/// # Panics
/// When they are not a valid history.
#[track_caller]
pub fn judge<'a>(records: impl IntoIterator<Item = Record<'a>>) -> Report {
    let mut lines = Vec::new();
    records.into_iter().for_each(|record| record.write(&mut lines).unwrap());
    let mut input = Input::default();
    input.stream("history", lines.as_slice()).unwrap();
    check(input, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(times_ms: std::ops::Range<u64>, outcome: Outcome) -> Op {
        let epoch = Instant::now();
        let [began, ended] =
            [times_ms.start, times_ms.end].map(|ms| epoch + Duration::from_millis(ms));
        Op { client: 1, tag: Some(0), node: 1, boot: None, began, ended, outcome }
    }

    fn given(times_ms: std::ops::Range<u64>, ids: &[Interval]) -> Op {
        op(times_ms, Outcome::Ids(ids.to_vec()))
    }

    #[test]
    fn answers_that_overlap_in_time_may_come_in_any_order() {
        let ops =
            [given(0..900, &[(5, 6)]), given(100..200, &[(6, 8)]), given(300..400, &[(9, 10)])];
        History(ops.to_vec()).check();
    }

    #[test]
    #[should_panic(expected = "id 8 was handed out twice")]
    fn an_id_given_twice_is_found() {
        let ops = [given(0..100, &[(5, 9)]), given(0..100, &[(1, 2), (8, 10)])];
        History(ops.to_vec()).check();
    }

    #[test]
    #[should_panic(expected = "ids fell from 5 to 4")]
    fn an_id_below_an_earlier_one_is_found() {
        History(vec![given(0..100, &[(5, 6)]), given(200..300, &[(4, 5)])]).check();
    }

    #[test]
    fn another_node_may_be_behind() {
        let behind = Op { node: 2, ..given(200..300, &[(4, 5)]) };
        History(vec![given(0..100, &[(5, 6)]), behind]).check();
    }

    #[test]
    #[should_panic(expected = "refused for good")]
    fn a_refusal_that_asks_nobody_to_come_back_is_found() {
        History(vec![op(0..1, Outcome::Refused(404))]).check();
    }
}
