//! What every window of every worker id keeps to: the pool, the longest window, and the snowflake floor.
//!
//! The floor is a watermark of milliseconds that lies under all worker ids, used or not. Apply is its only writer, and
//! only ever raises it. No window that is given from then on begins below it, and no window that begins below it is
//! extended. So once every earlier window has ended, or its holder has reported that it stamps nothing below the floor
//! any more, no id below it will ever be given.

use serde::{Deserialize, Serialize};

use super::response::Response;
use crate::limits::AHEAD_MS_MAX;
use crate::snowflake::{Format, Rules, WorkerPool};

/// The bounds of all windows. Pool and longest window are settled with the format and never change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(Eq, Hash))]
pub(crate) struct WindowBounds {
    /// `None` for every worker id of the layout: in clusters that formed before there were pools.
    pool: Option<WorkerPool>,
    /// An hour in clusters that formed before it was settled.
    window_ms_max: u64,
    floor_ms: u64,
}

impl Default for WindowBounds {
    fn default() -> Self {
        Self { pool: None, window_ms_max: AHEAD_MS_MAX, floor_ms: 0 }
    }
}

/// The milliseconds of a window that may be given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct GrantableWindow {
    /// The first millisecond of a new window: now, or the floor if that lies ahead.
    pub(super) start_ms: u64,
    /// The first millisecond past the window.
    pub(super) end_ms: u64,
}

impl WindowBounds {
    pub(super) fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    pub(super) fn window_ms_max(&self) -> u64 {
        self.window_ms_max
    }

    /// Settles what stands in `rules` besides the format.
    pub(super) fn settle(&mut self, rules: &Rules) {
        self.pool = Some(rules.pool().clone());
        self.window_ms_max = rules.window_ms_max();
    }

    /// The rules of a cluster with this format.
    pub(super) fn rules(&self, format: Format) -> Rules {
        let pool = self.pool.clone().unwrap_or_else(|| WorkerPool::all(format.layout()));
        Rules::new(format, pool, self.window_ms_max).expect("a pool was settled with its format")
    }

    /// Raises the floor; one that is as high already stays. Returns the previous floor.
    pub(super) fn raise_floor(&mut self, to_ms: u64) -> u64 {
        let before_ms = self.floor_ms;
        self.floor_ms = before_ms.max(to_ms);
        before_ms
    }

    /// Raises the floor, for a cluster that is made of a copy.
    pub(super) fn rise(&mut self, to_ms: u64) {
        let Self { pool: _, window_ms_max: _, floor_ms } = self;
        *floor_ms = to_ms.max(*floor_ms);
    }

    /// The milliseconds that a window may have if it is asked for now.
    ///
    /// # Errors
    /// The rejection, when ids cannot show all of them, or all lie below the floor.
    pub(super) fn room(
        &self,
        format: Format,
        now_ms: u64,
        window_ms: u64,
    ) -> Result<GrantableWindow, Response> {
        let times = format.times_ms();
        let end_ms = now_ms.checked_add(window_ms.min(self.window_ms_max));
        let end_ms = end_ms.filter(|&end_ms| times.start <= now_ms && end_ms <= times.end);
        let end_ms = end_ms.ok_or(Response::OutOfTime)?;
        let start_ms = now_ms.max(self.floor_ms);
        if start_ms >= end_ms {
            return Err(Response::BelowFloor { floor_ms: self.floor_ms });
        }
        Ok(GrantableWindow { start_ms, end_ms })
    }

    /// Whether bounds that were read could have been written beside these worker ids and this format.
    pub(super) fn are_sound(
        &self,
        format: Option<Format>,
        used: impl Iterator<Item = u16>,
    ) -> bool {
        let Some(pool) = &self.pool else { return self.window_ms_max == AHEAD_MS_MAX };
        let fits = |format: Format| Rules::new(format, pool.clone(), self.window_ms_max).is_ok();
        (1..=AHEAD_MS_MAX).contains(&self.window_ms_max) && format.is_some_and(fits) && { used }
            .all(|worker_id| pool.contains(worker_id))
    }
}
