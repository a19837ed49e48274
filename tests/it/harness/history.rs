//! What a load was given, and the judge of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// One request for ids.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// Place of the tag in the load's list.
    pub(crate) tag: usize,
    pub(crate) node: u64,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// In the order in which they were listed.
    Ids(Vec<Range<u64>>),
    /// The node said no, with this status.
    Refused(u16),
    /// The connection was not made, or broke.
    Lost,
}

/// All requests of a load, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct History(pub(crate) Vec<Op>);

impl History {
    /// Fails unless every id was given once, each node gave each tag's ids in rising order, and
    /// who was refused was told to come back.
    #[track_caller]
    pub(crate) fn check(&self) {
        let judged = self.repeated().and_then(|()| self.fallen()).and_then(|()| self.denied());
        if let Err(violation) = judged {
            panic!("{violation}");
        }
    }

    /// How many ids were handed out.
    pub(crate) fn ids(&self) -> u64 {
        self.granted().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start).sum()
    }

    /// The requests that brought no ids.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &Op> {
        self.0.iter().filter(|op| !matches!(op.outcome, Outcome::Ids(_)))
    }

    /// The longest time in which this node gave no id although it was asked.
    pub(crate) fn longest_gap(&self, node: u64) -> Duration {
        let given = self.granted().filter(|(op, _)| op.node == node);
        let mut ends: Vec<Instant> = given.map(|(op, _)| op.ended).collect();
        ends.sort_unstable();
        ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
    }

    /// The requests that brought ids.
    pub(crate) fn granted(&self) -> impl Iterator<Item = (&Op, &[Range<u64>])> {
        self.0.iter().filter_map(|op| match &op.outcome {
            Outcome::Ids(ranges) => Some((op, ranges.as_slice())),
            Outcome::Refused(_) | Outcome::Lost => None,
        })
    }

    /// Sorted by tag and start, ranges that share an id are neighbours.
    fn repeated(&self) -> Result<(), String> {
        let granted = self.granted();
        let mut all: Vec<(usize, u64, u64, &Op)> = granted
            .flat_map(|(op, ranges)| ranges.iter().map(move |r| (op.tag, r.start, r.end, op)))
            .collect();
        all.sort_unstable_by_key(|&(tag, start, end, _)| (tag, start, end));
        for pair in all.windows(2) {
            let ((tag, start, end, first), (next_tag, next_start, _, second)) = (pair[0], pair[1]);
            if start == 0 || start >= end {
                return Err(format!("{start}..{end} is no range of ids: {first:?}"));
            }
            if tag == next_tag && next_start < end {
                return Err(format!("id {next_start} was given twice: {first:?} and {second:?}"));
            }
        }
        Ok(())
    }

    /// A load only asks for what exists, so a node may be unable to answer, but not say no.
    fn denied(&self) -> Result<(), String> {
        let denied = |op: &&Op| match op.outcome {
            Outcome::Refused(status) => ![429, 500, 503].contains(&status),
            Outcome::Ids(_) | Outcome::Lost => false,
        };
        self.0.iter().find(denied).map_or(Ok(()), |op| Err(format!("refused for good: {op:?}")))
    }

    fn fallen(&self) -> Result<(), String> {
        let mut lines = BTreeMap::<(u64, usize), Vec<(&Op, Range<u64>)>>::new();
        for (op, ranges) in self.granted() {
            if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
                return Err(format!("the ids of one answer fall, {pair:?}: {op:?}"));
            }
            if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
                lines.entry((op.node, op.tag)).or_default().push((op, first.start..last.end));
            }
        }
        lines.into_values().try_for_each(|line| rising(&line))
    }
}

/// Whether each answer lies above all answers that were there before it was asked for.
fn rising(line: &[(&Op, Range<u64>)]) -> Result<(), String> {
    let mut by_end = line.to_vec();
    by_end.sort_unstable_by_key(|(op, _)| op.ended);
    let mut by_start = line.to_vec();
    by_start.sort_unstable_by_key(|(op, _)| op.began);
    let mut ended = by_end.iter().peekable();
    let mut highest: Option<&(&Op, Range<u64>)> = None;
    for (op, range) in by_start {
        while let Some(earlier) = ended.next_if(|(earlier, _)| earlier.ended < op.began) {
            if highest.is_none_or(|(_, high)| high.end < earlier.1.end) {
                highest = Some(earlier);
            }
        }
        if let Some((earlier, _)) = highest.filter(|(_, high)| high.end > range.start) {
            return Err(format!("ids fell from {earlier:?} to {op:?}"));
        }
    }
    Ok(())
}

#[allow(clippy::single_range_in_vec_init, reason = "an answer lists ranges, often one")]
mod tests {
    use super::*;

    fn op(epoch: Instant, times_ms: Range<u64>, ids: &[Range<u64>]) -> Op {
        let at = |ms| epoch + Duration::from_millis(ms);
        let outcome = Outcome::Ids(ids.to_vec());
        Op { tag: 0, node: 1, began: at(times_ms.start), ended: at(times_ms.end), outcome }
    }

    fn judge(ops: impl Fn(Instant) -> Vec<Op>) -> Result<(), String> {
        let history = History(ops(Instant::now()));
        history.repeated().and_then(|()| history.fallen())
    }

    #[test]
    fn answers_that_overlap_in_time_may_come_in_any_order() {
        let told =
            judge(|t| vec![op(t, 0..9, &[5..6]), op(t, 1..2, &[6..8]), op(t, 3..4, &[9..10])]);
        assert_eq!(told, Ok(()));
    }

    #[test]
    fn an_id_given_twice_is_found() {
        let told = judge(|t| vec![op(t, 0..1, &[5..9]), op(t, 0..1, &[1..2, 8..10])]);
        assert!(told.unwrap_err().contains("id 8 was given twice"));
    }

    #[test]
    fn an_id_below_an_earlier_one_is_found() {
        let told = judge(|t| vec![op(t, 0..1, &[5..6]), op(t, 2..3, &[4..5])]);
        assert!(told.unwrap_err().contains("ids fell"));
    }

    #[test]
    fn another_node_may_be_behind() {
        let told = judge(|t| vec![op(t, 0..1, &[5..6]), Op { node: 2, ..op(t, 2..3, &[4..5]) }]);
        assert_eq!(told, Ok(()));
    }
}
