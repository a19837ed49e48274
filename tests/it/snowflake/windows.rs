//! The windows that a cluster showed, for the judge of its snowflake ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mintleaf_check::history::{Record, Release, Window as Granted};
use serde_json::Value;

use super::{shown_ms, worker_of};
use crate::harness::{Cluster, History, LAYOUT, Op, Outcome};

/// All windows that `/v1/workers` of any node has shown. The row of a worker id remains until the worker id has
/// a new holder, which a pool of 1,024 allows only as a last resort. So no window is missed as long as the test
/// reads the page now and then, and once at the end.
#[derive(Default)]
pub(super) struct Windows {
    /// By worker id, floor and node. A floor never comes twice; if it does, the judge sees it.
    seen: BTreeMap<(u16, u64, u64), Window>,
}

#[derive(Default)]
struct Window {
    /// Identifies the process start that holds it, if the window was observed before the worker id was released.
    boot: Option<String>,
    /// The highest value shown: each renewal raises it.
    fence_ms: u64,
    /// Where the holder stopped, if it gave up the rest of the window.
    released_from_ms: Option<u64>,
}

/// The figures of a history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) ids: u64,
    pub(super) requests: u64,
    pub(super) failures: u64,
    /// Process starts that gave ids.
    pub(super) starts: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ids, requests, failures, starts } = self;
        write!(f, "ids={ids} requests={requests} refused_or_lost={failures} issuers={starts}")
    }
}

impl Windows {
    /// Records what every node that answers shows.
    pub(super) fn note(&mut self, cluster: &Cluster) {
        for id in cluster.ids() {
            let Ok(answer) = cluster.api(id).try_get("/v1/workers") else { continue };
            for row in answer.ok()["workers"].as_array().unwrap() {
                self.note_row(row);
            }
        }
    }

    fn note_row(&mut self, row: &Value) {
        let number = |name: &str| row[name].as_u64().unwrap();
        let (worker, floor_ms, node) =
            (number("worker_id") as u16, number("floor_ms"), number("node_id"));
        let window = self.seen.entry((worker, floor_ms, node)).or_default();
        let Some(boot) = row["boot"].as_str() else {
            window.released_from_ms = Some(number("fence_ms"));
            return;
        };
        window.fence_ms = window.fence_ms.max(number("fence_ms"));
        let known = window.boot.get_or_insert_with(|| boot.to_owned());
        assert_eq!(known, boot, "worker id {worker} has two holders from {floor_ms} on");
    }

    /// Lets the judge check the history with the windows. Fails unless every id was given once, the ids of each
    /// process rise, and each lies in a window of the process that gave it.
    #[track_caller]
    pub(super) fn judge(&self, mut history: History) -> Figures {
        // Ids rise within a process start, not within a node. The first id of an answer identifies the start.
        for op in &mut history.0 {
            op.boot = self.issuer(op);
        }
        let starts: BTreeSet<_> =
            history.granted().map(|(op, _)| (op.node, op.boot.as_deref())).collect();
        let figures = Figures {
            ids: history.ids(),
            requests: history.0.len() as u64,
            failures: history.failures().count() as u64,
            starts: starts.len() as u64,
        };
        history.check_with(std::iter::once(Record::Layout(LAYOUT)).chain(self.records()));
        figures
    }

    /// The process start whose window contains the first id of an answer. The judge decides whether it contains
    /// all of them.
    fn issuer(&self, op: &Op) -> Option<String> {
        let Outcome::Ids(intervals) = &op.outcome else { return None };
        let first = intervals.first()?.0;
        let (worker, time_ms) = (worker_of(first), shown_ms(first));
        let mut up_to = self.seen.range((worker, 0, 0)..=(worker, time_ms, u64::MAX));
        let (&(_, floor_ms, _), window) = up_to.rfind(|((_, _, node), _)| *node == op.node)?;
        Some(window.name(worker, floor_ms))
    }

    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.seen.iter().flat_map(|(&(worker, floor_ms, node), window)| {
            let boot = Some(window.name(worker, floor_ms).into());
            // If a window was released before the first read, only its used part is known.
            let fence_ms = window.fence_ms.max(window.released_from_ms.unwrap_or(0));
            let given = (floor_ms < fence_ms).then(|| {
                let w = (floor_ms, fence_ms);
                Record::Window(Granted { worker, node, boot: boot.clone(), at: 0, w })
            });
            let released = window
                .released_from_ms
                .map(|from_ms| Record::Release(Release { worker, node, boot, at: 1, from_ms }));
            given.into_iter().chain(released)
        })
    }
}

impl Window {
    fn name(&self, worker: u16, floor_ms: u64) -> String {
        self.boot.clone().unwrap_or_else(|| format!("{worker} from {floor_ms}"))
    }
}

mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    const FLOOR_MS: u64 = LAYOUT.epoch_ms + 1_000;

    /// Judges one answer of node 1, which holds worker id 7 for a second, while node 2 holds worker id 8.
    fn judge(time_ms: u64, worker_id: u64, ids: u64) {
        let mut windows = Windows::default();
        for (node_id, worker_id) in [(1, 7), (2, 8)] {
            windows.note_row(&row(node_id, worker_id, FLOOR_MS, FLOOR_MS + 1_000));
        }
        judge_by(&windows, time_ms, worker_id, ids);
    }

    fn row(node_id: u64, worker_id: u64, floor_ms: u64, fence_ms: u64) -> Value {
        json!({
            "worker_id": worker_id, "floor_ms": floor_ms, "fence_ms": fence_ms, "node_id": node_id,
            "boot": format!("0{node_id}"),
        })
    }

    fn judge_by(windows: &Windows, time_ms: u64, worker_id: u64, ids: u64) {
        let first = (time_ms - LAYOUT.epoch_ms) << 22 | worker_id << 12;
        let mut history = History::default();
        history.note(1, None, Instant::now(), Outcome::Ids(vec![(first, first + ids)]));
        windows.judge(history);
    }

    #[test]
    fn ids_inside_a_window_of_their_node_are_sound() {
        judge(FLOOR_MS, 7, 4_096);
        judge(FLOOR_MS + 999, 7, 1);
    }

    #[test]
    #[should_panic(expected = "I4 VIOLATED")]
    fn an_id_below_the_floor_is_found() {
        judge(FLOOR_MS - 1, 7, 1);
    }

    #[test]
    #[should_panic(expected = "I4 VIOLATED")]
    fn an_id_at_the_fence_is_found() {
        judge(FLOOR_MS + 1_000, 7, 1);
    }

    #[test]
    #[should_panic(expected = "I4 VIOLATED")]
    fn an_id_of_another_nodes_worker_id_is_found_at_the_end_of_a_range() {
        judge(FLOOR_MS, 7, 4_097);
    }

    /// Worker id 7 of node 1, with the last half second of its window given up.
    fn half_released() -> Windows {
        let mut windows = Windows::default();
        let mut released = row(1, 7, FLOOR_MS, FLOOR_MS + 500);
        released["boot"] = Value::Null;
        for row in [row(1, 7, FLOOR_MS, FLOOR_MS + 1_000), released] {
            windows.note_row(&row);
        }
        windows
    }

    #[test]
    fn the_rest_of_a_released_window_may_be_somebody_elses() {
        let mut windows = half_released();
        windows.note_row(&row(2, 7, FLOOR_MS + 500, FLOOR_MS + 1_500));
        judge_by(&windows, FLOOR_MS + 499, 7, 1);
    }

    #[test]
    #[should_panic(expected = "I4 VIOLATED")]
    fn an_id_past_the_release_is_found() {
        judge_by(&half_released(), FLOOR_MS + 500, 7, 1);
    }

    #[test]
    #[should_panic(expected = "both hold")]
    fn two_nodes_with_one_millisecond_are_found() {
        let mut windows = half_released();
        windows.note_row(&row(2, 7, FLOOR_MS + 499, FLOOR_MS + 1_500));
        judge_by(&windows, FLOOR_MS, 7, 1);
    }
}
