//! Reports of the members' clocks to the log.
//!
//! A renewal of worker ids also reports the node's clock. Between renewals the leader's node reports the clocks of all
//! nodes every few seconds: a commit costs every node work, and one is enough. Where a commit takes long, reports are
//! rarer, because other work waits for the same disks.

use std::sync::Arc;

use mintleaf_core::state::Command;
use mintleaf_raft::{PeerClock, Status};

use crate::machine::clock::Clock;
use crate::replica::Replica;

/// Where commits take milliseconds, the leader reports all clocks once the last report of its clock is this old.
/// That happens at least every 3 s; this leaves time for a turn and a commit.
const REPORT_AGE_MS_MAX: u64 = 2_000;
/// How much older the report of another node's clock may be before that node concludes that the leader leaves it out,
/// and reports its own clock.
const LEFT_OUT_MS: u64 = 400;
/// The leader reports clocks at most once in the time that this many commits take.
const COMMITS_BETWEEN: u64 = 20;
/// A node expects to see a report of its leader within the time that this many commits take.
const COMMITS_UNTIL_SEEN: u64 = 4;
/// A reading of another clock that the leader heard longer ago is not reported.
const READING_AGE_MS_MAX: u64 = 1_000;

/// Makes the reports of clocks that are due.
pub(in crate::service) struct ClockReports {
    pub(in crate::service) replica: Arc<Replica>,
    pub(in crate::service) clock: Arc<dyn Clock>,
}

impl ClockReports {
    /// The report of this node's clock.
    pub(in crate::service) fn own(&self) -> Command {
        let node_id = self.replica.node().status().node_id;
        Command::ReportClock { node_id, clock_ms: self.clock.now_ms() }
    }

    /// The reports that are due; none while the last ones are fresh.
    pub(in crate::service) fn due(&self, cluster_ms: u64) -> Vec<Command> {
        let status = self.replica.node().status();
        let leads = status.leader_id == Some(status.node_id);
        let change = self.replica.node().change_time().unwrap_or_default();
        let age_ms_max = age_ms_max(leads, u64::try_from(change.as_millis()).unwrap_or(u64::MAX));
        let last = self.replica.read(|state| state.reports().get(&status.node_id).copied());
        // The cluster's time may have gone back since.
        let age_ms = last.map(|report| report.stamped_ms.abs_diff(cluster_ms));
        if age_ms.is_some_and(|age_ms| age_ms < age_ms_max) {
            return Vec::new();
        }
        let mut reports = vec![self.own()];
        if leads {
            reports.extend(self.of_others(&status));
        }
        reports
    }

    /// The reports of the other members' clocks that this node heard from just now.
    fn of_others(&self, status: &Status) -> Vec<Command> {
        let own_ms = self.clock.now_ms();
        let mut clocks = self.replica.node().clocks();
        clocks.retain(|clock| clock.age_ms <= READING_AGE_MS_MAX);
        clocks.retain(|clock| status.members.iter().any(|member| member.id == clock.node_id));
        let report = |clock: PeerClock| Command::ReportClock {
            node_id: clock.node_id,
            clock_ms: own_ms.saturating_add_signed(clock.offset_ms),
        };
        clocks.into_iter().map(report).collect()
    }
}

/// How old the report of a node's clock may be before the next one is due, where a change takes `change_ms`.
fn age_ms_max(leads: bool, change_ms: u64) -> u64 {
    let of_leader = REPORT_AGE_MS_MAX.max(change_ms.saturating_mul(COMMITS_BETWEEN));
    let unseen = LEFT_OUT_MS.max(change_ms.saturating_mul(COMMITS_UNTIL_SEEN));
    if leads { of_leader } else { of_leader.saturating_add(unseen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_reported_every_few_seconds_and_more_rarely_where_commits_take_long() {
        assert_eq!((age_ms_max(true, 5), age_ms_max(false, 5)), (2_000, 2_400));
        assert_eq!((age_ms_max(true, 2_000), age_ms_max(false, 2_000)), (40_000, 48_000));
    }
}
