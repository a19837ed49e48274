//! Reports of the members' clocks to the log.
//!
//! A renewal of worker ids also reports the node's clock. Between renewals the leader's node reports
//! the clocks of all nodes every few seconds: a commit costs all of them work, and one is enough.

use std::sync::Arc;

use mintleaf_raft::{PeerClock, Status};

use crate::clock::Clock;
use crate::replica::Replica;
use crate::state::Command;

/// How old the report of the leader's clock may be until the leader reports all clocks. That happens at
/// least every 3 s; this leaves time for a turn and a slow commit.
const REPORT_AGE_MS_MAX: u64 = 2_000;
/// How old the report of another node's clock may be until that node concludes that the leader leaves
/// it out, and reports its own clock.
const OWN_REPORT_AGE_MS_MAX: u64 = 2_400;
/// A reading of another clock that the leader heard longer ago is not reported.
const READING_AGE_MS_MAX: u64 = 1_000;

/// Makes the reports of clocks that are due.
pub(super) struct ClockReports {
    pub(super) replica: Arc<Replica>,
    pub(super) clock: Arc<dyn Clock>,
}

impl ClockReports {
    /// The report of this node's clock.
    pub(super) fn own(&self) -> Command {
        let node_id = self.replica.node().status().node_id;
        Command::ReportClock { node_id, clock_ms: self.clock.now_ms() }
    }

    /// The reports that are due; none while the last ones are fresh.
    pub(super) fn due(&self, cluster_ms: u64) -> Vec<Command> {
        let status = self.replica.node().status();
        let leads = status.leader_id == Some(status.node_id);
        let age_ms_max = if leads { REPORT_AGE_MS_MAX } else { OWN_REPORT_AGE_MS_MAX };
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
