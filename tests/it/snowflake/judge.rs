//! Whose windows a cluster showed, and whether every id lies in one of its issuer's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::{EPOCH_MS, shown_ms, worker_of};
use crate::harness::{Cluster, History, Op, Outcome};

/// Every window that `/v1/workers` of any node ever showed. A worker id's row lasts until the
/// worker id has a new holder, which is the last resort of a pool of 1,024; so no window goes by
/// unseen as long as somebody looks now and then, and once at the end.
#[derive(Default)]
pub(super) struct Windows {
    /// By worker id and floor, which never come twice.
    seen: BTreeMap<(u16, u64), Window>,
}

struct Window {
    node: u64,
    /// Names the holding process start, if it was seen before it released the worker id.
    boot: Option<String>,
    /// The highest: a renewal raises it, a release lowers it.
    fence_ms: u64,
}

/// One process start.
type Holder = (u64, String);

/// What a history came to.
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
    /// Notes what every node that answers shows.
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
        let (worker_id, floor_ms) = (number("worker_id") as u16, number("floor_ms"));
        let (node, fence_ms) = (number("node_id"), number("fence_ms"));
        let window = self.seen.entry((worker_id, floor_ms));
        let window = window.or_insert(Window { node, boot: None, fence_ms });
        assert_eq!(window.node, node, "worker id {worker_id} has two holders from {floor_ms} on");
        window.fence_ms = window.fence_ms.max(fence_ms);
        if let Some(boot) = row["boot"].as_str() {
            let known = window.boot.get_or_insert_with(|| boot.to_owned());
            assert_eq!(known, boot, "worker id {worker_id} has two holders from {floor_ms} on");
        }
    }

    /// Fails unless every id was given once, those of each process start in rising order, and each
    /// in a window of the node that gave it.
    #[track_caller]
    pub(super) fn judge(&self, mut history: History) -> Figures {
        let mut figures = Figures {
            ids: history.ids(),
            requests: history.0.len() as u64,
            failures: history.failures().count() as u64,
            starts: 0,
        };
        let mut numbers = BTreeMap::new();
        for op in &mut history.0 {
            if let Some(holder) = self.issuer(op) {
                // Ids rise from answer to answer of a process start, not of a node.
                let next = numbers.len() as u64;
                op.node = *numbers.entry(holder).or_insert(next);
            }
        }
        figures.starts = numbers.len() as u64;
        history.check();
        figures
    }

    /// The process start that gave an answer.
    #[track_caller]
    fn issuer(&self, op: &Op) -> Option<Holder> {
        let Outcome::Ids(ranges) = &op.outcome else { return None };
        let holders: BTreeSet<Holder> =
            ranges.iter().flat_map(pieces).map(|first| self.holder(first, op)).collect();
        assert_eq!(holders.len(), 1, "an answer of several processes: {holders:?}, {op:?}");
        holders.into_iter().next()
    }

    #[track_caller]
    fn holder(&self, id: u64, op: &Op) -> Holder {
        let (worker_id, time_ms) = (worker_of(id), shown_ms(id));
        let window = self.seen.range((worker_id, 0)..=(worker_id, time_ms)).next_back();
        let inside = window.filter(|(_, window)| {
            window.node == op.node && time_ms < window.fence_ms && time_ms > EPOCH_MS
        });
        let Some((&(_, floor_ms), window)) = inside else {
            let shown = window.map(|(key, window)| (key, window.node, window.fence_ms));
            panic!(
                "id {id}, worker id {worker_id} at {time_ms}, is not its node's: {shown:?} {op:?}"
            );
        };
        let unnamed = || format!("{worker_id} from {floor_ms}");
        (window.node, window.boot.clone().unwrap_or_else(unnamed))
    }
}

/// The first id of each millisecond and worker id that a range has ids of.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    const IDS_PER_MS: u64 = 4_096;
    let (start, end) = (range.start, range.end);
    (start / IDS_PER_MS..end.div_ceil(IDS_PER_MS)).map(move |run| start.max(run * IDS_PER_MS))
}

#[allow(clippy::single_range_in_vec_init, reason = "an answer lists ranges, often one")]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    const FLOOR_MS: u64 = EPOCH_MS + 1_000;

    /// Judges one answer of node 1, which holds worker id 7 for a second; so does node 2 worker id
    /// 8.
    fn judge(time_ms: u64, worker_id: u64, ids: u64) {
        let mut windows = Windows::default();
        for (node_id, worker_id) in [(1, 7), (2, 8)] {
            let fence_ms = FLOOR_MS + 1_000;
            windows.note_row(&json!({
                "worker_id": worker_id, "floor_ms": FLOOR_MS, "fence_ms": fence_ms,
                "node_id": node_id, "boot": "0a",
            }));
        }
        let first = (time_ms - EPOCH_MS) << 22 | worker_id << 12;
        let outcome = Outcome::Ids(vec![first..first + ids]);
        let (began, ended) = (Instant::now(), Instant::now());
        windows.judge(History(vec![Op { tag: 0, node: 1, began, ended, outcome }]));
    }

    #[test]
    fn ids_inside_a_window_of_their_node_are_sound() {
        judge(FLOOR_MS, 7, 4_096);
        judge(FLOOR_MS + 999, 7, 1);
    }

    #[test]
    #[should_panic(expected = "is not its node's")]
    fn an_id_below_the_floor_is_found() {
        judge(FLOOR_MS - 1, 7, 1);
    }

    #[test]
    #[should_panic(expected = "is not its node's")]
    fn an_id_at_the_fence_is_found() {
        judge(FLOOR_MS + 1_000, 7, 1);
    }

    #[test]
    #[should_panic(expected = "is not its node's")]
    fn an_id_of_another_nodes_worker_id_is_found_at_the_end_of_a_range() {
        judge(FLOOR_MS, 7, 4_097);
    }
}
