//! The worker ids, the pools and the clocks as one node sees them, in the fields that clients read.

use mintleaf_raft::PeerClock;
use serde::Serialize;

use mintleaf_core::snowflake::Rules;
use mintleaf_core::state::{ClockReport, PoolWorkers, State, WorkerRow};
use mintleaf_core::tag::BizTag;

/// Every worker id that was ever used, the pools of those for programs, and every member's clock.
#[derive(Clone, Debug, Serialize)]
pub struct WorkersView {
    /// The widths of an id's fields.
    pub layout: String,
    /// The origin of times, in Unix milliseconds.
    pub epoch_ms: u64,
    /// How many worker ids there are.
    pub worker_ids: u16,
    /// Those of them that the cluster uses, as ranges.
    pub pool: String,
    /// How far a window may reach past the moment it is given, in milliseconds.
    pub window_ms_max: u64,
    /// The snowflake floor in Unix milliseconds, if there is one: no window given since begins below it.
    pub floor_ms: Option<u64>,
    /// The worker ids that were ever used, in order.
    pub workers: Vec<WorkerView>,
    /// The pools of worker ids for programs, by name.
    pub pools: Vec<PoolView>,
    /// The members' clocks, by node.
    pub clocks: Vec<ClockView>,
}

/// One pool of worker ids for programs.
#[derive(Clone, Debug, Serialize)]
pub struct PoolView {
    /// The name.
    pub pool: String,
    /// Its worker ids, as ranges.
    pub workers: String,
    /// How many they are.
    pub size: u32,
    /// How many of them are leased now.
    pub leased: usize,
    /// How many of them programs use without a lease.
    pub taken: u32,
    /// When the first of the leases ends, in Unix milliseconds.
    pub first_end_ms: Option<String>,
}

impl PoolView {
    /// The pools that exist, in the order of their names.
    pub(in crate::service) fn all(state: &State, now_ms: u64) -> Vec<Self> {
        let view = |(name, workers, leased, first_end_ms): (BizTag, _, _, Option<u64>)| {
            let PoolWorkers { workers, taken } = workers;
            Self {
                pool: name.to_string(),
                workers: workers.to_string(),
                size: workers.size(),
                leased,
                taken: taken.map_or(0, |taken| taken.size()),
                first_end_ms: first_end_ms.map(|ms| ms.to_string()),
            }
        };
        state.pools(now_ms).into_iter().map(view).collect()
    }
}

/// One worker id.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    /// The worker id.
    pub worker_id: u16,
    /// `held`; `expired` when its window has ended and it was not released; `released`.
    pub state: &'static str,
    /// The node that holds it or was the last to.
    pub node_id: u64,
    /// The first hexadecimal digits of the holder's nonce, which distinguish the grants and starts of a node.
    pub boot: Option<String>,
    /// The first millisecond of its latest window, in Unix time.
    pub floor_ms: u64,
    /// The first millisecond that was given to no holder, or that its holder gave back unused.
    pub fence_ms: u64,
    /// What its node's clock showed in its last report to the cluster, in Unix milliseconds.
    pub last_reported_ms: Option<u64>,
}

/// One member's clock.
#[derive(Clone, Debug, Serialize)]
pub struct ClockView {
    /// The node.
    pub node_id: u64,
    /// How far the clock is ahead of that of the node that answers, in milliseconds, by its latest
    /// reading.
    pub offset_ms: Option<i64>,
    /// What the clock showed in its node's last report to the cluster, in Unix milliseconds.
    pub last_reported_ms: Option<u64>,
    /// How far it then was ahead of the cluster's time, in milliseconds.
    pub reported_offset_ms: Option<i64>,
}

impl WorkersView {
    pub(in crate::service) fn new(
        rules: &Rules,
        floor_ms: u64,
        rows: Vec<WorkerRow>,
        pools: Vec<PoolView>,
        clocks: Vec<ClockView>,
        now_ms: u64,
    ) -> Self {
        let format = rules.format();
        let workers = rows.iter().map(|row| WorkerView::new(row, &clocks, now_ms)).collect();
        Self {
            layout: format.layout().to_string(),
            epoch_ms: format.epoch_ms(),
            worker_ids: format.layout().worker_ids(),
            pool: rules.pool().to_string(),
            window_ms_max: rules.window_ms_max(),
            floor_ms: (floor_ms > 0).then_some(floor_ms),
            workers,
            pools,
            clocks,
        }
    }
}

impl WorkerView {
    fn new(row: &WorkerRow, clocks: &[ClockView], now_ms: u64) -> Self {
        let clock = clocks.iter().find(|clock| clock.node_id == row.node_id);
        Self {
            worker_id: row.worker_id,
            state: match row.nonce {
                None => "released",
                Some(_) if row.fence_ms <= now_ms => "expired",
                Some(_) => "held",
            },
            node_id: row.node_id,
            boot: row.nonce.map(|nonce| format!("{:08x}", nonce >> 96)),
            floor_ms: row.floor_ms,
            fence_ms: row.fence_ms,
            last_reported_ms: clock.and_then(|clock| clock.last_reported_ms),
        }
    }
}

impl ClockView {
    /// The clock of member `node_id` as node `me` knows it.
    pub(in crate::service) fn new(
        node_id: u64,
        me: u64,
        readings: &[PeerClock],
        report: Option<&ClockReport>,
    ) -> Self {
        let reading = readings.iter().find(|reading| reading.node_id == node_id);
        let ahead_ms = |report: &ClockReport| {
            i64::try_from(i128::from(report.clock_ms) - i128::from(report.stamped_ms)).ok()
        };
        Self {
            node_id,
            offset_ms: if node_id == me { Some(0) } else { reading.map(|clock| clock.offset_ms) },
            last_reported_ms: report.map(|report| report.clock_ms),
            reported_offset_ms: report.and_then(ahead_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_core::snowflake::{Format, Layout, WorkerPool};

    /// The bound that the documents name.
    const WORKERS_BYTES_MAX: usize = 1024 * 1024;

    #[test]
    fn the_longest_answer_with_every_worker_id_has_a_mebibyte_at_most() {
        let layout: Layout = "39+6+6+12".parse().unwrap();
        assert_eq!(layout.worker_ids(), 4_096, "no layout has more");
        let node_id = |n: u64| u64::MAX - n % 64;
        let row = |worker_id| WorkerRow {
            worker_id,
            node_id: node_id(u64::from(worker_id)),
            nonce: Some(u128::MAX),
            floor_ms: u64::MAX,
            fence_ms: u64::MAX,
        };
        let clock = |n| ClockView {
            node_id: node_id(n),
            offset_ms: Some(i64::MIN),
            last_reported_ms: Some(u64::MAX),
            reported_offset_ms: Some(i64::MIN),
        };
        let format = Format::new(layout, 1).unwrap();
        let rules = Rules::new(format, WorkerPool::all(layout), u64::MAX).unwrap();
        let rows = (0..layout.worker_ids()).map(row).collect();
        let clocks = (0..64).map(clock).collect();
        let view = WorkersView::new(&rules, u64::MAX, rows, Vec::new(), clocks, u64::MAX);
        assert!(view.workers.iter().all(|worker| worker.last_reported_ms.is_some()));
        let bytes = serde_json::to_vec(&view).unwrap().len();
        assert!(bytes <= WORKERS_BYTES_MAX, "{bytes}");
    }
}
