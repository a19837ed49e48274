//! One lease: the ranges of an answer, and what is left of them.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::cursor::NEVER;

/// A lease that is held.
#[derive(Debug)]
pub(super) struct Lease {
    /// The ids that are left.
    pub(super) ranges: VecDeque<Range<u64>>,
    /// How many ids it had at first.
    pub(super) total: u64,
    /// The next lease is asked for once this many ids are used.
    pub(super) mark: u64,
    /// When what is left is thrown away, by the client's clock.
    pub(super) stale_at: Option<Duration>,
}

impl Lease {
    pub(super) fn new(ranges: Vec<Range<u64>>, stale_at: Option<Duration>) -> Self {
        let total = ranges.iter().map(len).sum();
        Self { ranges: ranges.into(), total, mark: mark(0, total), stale_at }
    }

    pub(super) fn used(&self) -> u64 {
        self.total - self.left()
    }

    pub(super) fn is_used_to_its_mark(&self) -> bool {
        self.used() >= self.mark
    }

    /// Moves the mark to half of what is left.
    pub(super) fn move_mark(&mut self) {
        self.mark = mark(self.used(), self.left());
    }

    /// Moves up to `wanted` ids to a call, and returns how many it moved.
    pub(super) fn give(&mut self, wanted: u64, to: &mut Vec<Range<u64>>) -> u64 {
        let mut given = 0;
        while given < wanted
            && let Some(front) = self.ranges.front_mut()
        {
            let end = front.start + len(front).min(wanted - given);
            given += end - front.start;
            to.push(front.start..end);
            front.start = end;
            if front.is_empty() {
                self.ranges.pop_front();
            }
        }
        given
    }

    fn left(&self) -> u64 {
        self.ranges.iter().map(len).sum()
    }
}

/// The mark at half of what is left, counted from the first id. The last one or two ids have no mark: a caller
/// that wants an id now and then is better off with one request for each.
fn mark(used: u64, left: u64) -> u64 {
    if left > 2 { used + left.div_ceil(2) } else { NEVER }
}

/// How many ids a range has.
pub(super) fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_given_in_order_and_once() {
        let mut lease = Lease::new(vec![5..8, 20..23], None);
        let mut got = Vec::new();
        assert_eq!(lease.give(2, &mut got), 2);
        assert!(!lease.is_used_to_its_mark());
        assert_eq!(lease.give(2, &mut got), 2);
        assert!(lease.is_used_to_its_mark());
        lease.move_mark();
        assert!(!lease.is_used_to_its_mark());
        assert_eq!(lease.give(9, &mut got), 2);
        assert_eq!(got, [5..7, 7..8, 20..21, 21..23]);
        assert_eq!(lease.give(1, &mut got), 0);
    }
}
