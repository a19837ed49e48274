//! How many worker ids a node needs, given how many ids it hands out.
//!
//! Pure. One worker id makes 4,096 ids a millisecond, which is plenty for most nodes; a node that
//! gives more ids runs ahead of its clock until it holds another worker id.

use mintleaf_core::snowflake::SnowflakeSettings;

/// Maximum number of worker ids that a node holds, so that a few nodes cannot empty the pool.
const HELD_MAX: usize = 16;
/// A node holds at most the pool divided by this.
const POOL_PART: u32 = 8;
/// One worker id more is wanted when the node gives more than this percentage of the ids that the held
/// ones can make.
const BUSY_PERCENT: u64 = 80;
/// One worker id fewer would do when the node gives at most this percentage of the ids that one fewer
/// can make.
const IDLE_PERCENT: u64 = 50;
/// A worker id is given back after it was idle for this long without a break.
const IDLE_MS_MIN: u64 = 60_000;
/// A worker id that was refused is wanted again after this time.
const REFUSED_MS: u64 = 10_000;

/// Follows how many ids a node gives, and says how many worker ids it should hold.
#[derive(Debug)]
pub(in crate::service) struct WorkerDemand {
    ids_per_ms: u64,
    held_max: usize,
    wanted: usize,
    /// When the demand was last observed, and how many ids had been given by then.
    seen: Option<(u64, u64)>,
    idle_since_ms: Option<u64>,
    refused_until_ms: u64,
}

impl WorkerDemand {
    pub(in crate::service) fn new(settings: &SnowflakeSettings) -> Self {
        Self::of(settings.format.layout().ids_per_ms(), settings.pool.size())
    }

    fn of(ids_per_ms: u64, pool_size: u32) -> Self {
        let part = (pool_size / POOL_PART) as usize;
        Self {
            ids_per_ms,
            held_max: part.clamp(1, HELD_MAX),
            wanted: 1,
            seen: None,
            idle_since_ms: None,
            refused_until_ms: 0,
        }
    }

    /// How many worker ids to hold: 1 or more.
    pub(in crate::service) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Notes how many ids were given since the start, and how many worker ids are held now.
    pub(in crate::service) fn observe(&mut self, now_ms: u64, given: u64, held: usize) {
        let Some((before_ms, given_before)) = self.seen.replace((now_ms, given)) else { return };
        let capacity = |held: usize| self.ids_per_ms * held as u64 * now_ms.abs_diff(before_ms);
        let given = given - given_before;
        let busy = given * 100 > capacity(held) * BUSY_PERCENT;
        let idle = given * 100 <= capacity(held.saturating_sub(1)) * IDLE_PERCENT;
        if busy && held >= self.wanted && now_ms >= self.refused_until_ms {
            self.wanted = self.held_max.min(held + 1);
        }
        if !idle || held < 2 {
            self.idle_since_ms = None;
        } else if now_ms - *self.idle_since_ms.get_or_insert(now_ms) >= IDLE_MS_MIN {
            self.wanted = self.wanted.min(held - 1).max(1);
            self.idle_since_ms = None;
        }
    }

    /// Notes that no further worker id is free: the `held` ones must do for a while.
    pub(in crate::service) fn refused(&mut self, held: usize) {
        self.wanted = held.max(1);
        if let Some((now_ms, _)) = self.seen {
            self.refused_until_ms = now_ms + REFUSED_MS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_MS: u64 = 1_000;
    const WHOLE: u64 = 4_096 * SECOND_MS;

    /// A node that gives `percent` of one worker id's ids every second, and holds what it wants.
    struct Node {
        demand: WorkerDemand,
        now_ms: u64,
        given: u64,
    }

    impl Node {
        fn new() -> Self {
            let mut demand = WorkerDemand::of(4_096, 1_024);
            demand.observe(0, 0, 1);
            Self { demand, now_ms: 0, given: 0 }
        }

        fn gives(&mut self, percent: u64, seconds: u64) -> usize {
            for _ in 0..seconds {
                self.now_ms += SECOND_MS;
                self.given += WHOLE * percent / 100;
                self.demand.observe(self.now_ms, self.given, self.demand.wanted());
            }
            self.demand.wanted()
        }
    }

    #[test]
    fn one_worker_id_is_enough_for_most() {
        assert_eq!(Node::new().gives(79, 3_600), 1);
    }

    #[test]
    fn more_are_taken_under_sustained_demand_and_given_back_when_idle() {
        let mut node = Node::new();
        assert_eq!(node.gives(90, 60), 2);
        assert_eq!(node.gives(500, 60), 7, "500 is less than 80 percent of 700");
        assert_eq!(node.gives(500, 600), 7);
        assert_eq!(node.gives(20, 59), 7);
        assert_eq!(node.gives(20, 62), 6);
        assert_eq!(node.gives(0, 600), 1);
    }

    #[test]
    fn a_burst_between_lulls_keeps_what_is_held() {
        let mut node = Node::new();
        node.gives(150, 10);
        for _ in 0..20 {
            node.gives(0, 50);
            assert_eq!(node.gives(150, 1), 2);
        }
    }

    #[test]
    fn a_node_never_takes_more_than_its_part() {
        assert_eq!(Node::new().gives(100_000, 100), HELD_MAX);
        assert_eq!(WorkerDemand::of(4_096, 4).held_max, 1);
    }

    #[test]
    fn a_refused_one_is_not_wanted_again_at_once() {
        let mut node = Node::new();
        assert_eq!(node.gives(300, 1), 2);
        node.demand.refused(1);
        node.demand.observe(node.now_ms + SECOND_MS, node.given + 3 * WHOLE, 1);
        assert_eq!(node.demand.wanted(), 1);
        node.demand.observe(node.now_ms + REFUSED_MS, node.given + 30 * WHOLE, 1);
        assert_eq!(node.demand.wanted(), 2);
    }
}
