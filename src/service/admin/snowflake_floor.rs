//! Raises the floor under all snowflake ids, and waits until no window reaches below it any more.
//!
//! The log raises the floor at once: no window that it gives or extends from then on begins below. Only earlier windows
//! can reach below it. A holder that the log reaches stops stamping below the floor and then reports that to the log
//! (`take_note_of_floor` in `service/snowflake/lease_task.rs`), within a second as a rule. If the log does not reach a holder,
//! its window ends by itself: it counts as ended once the median of the cluster's clocks has passed its end by
//! `--max-clock-skew`. A holder that was cut off may have lost its worker id to another since; so the log remembers
//! when the last such window ends, and the request waits for that one as well. Only a holder that has not learned of
//! the floor, and whose clock is behind by more than that skew, could still show a time of that window.

use std::fmt::Write;
use std::time::Duration;

use mintleaf_core::limits::UNFORCED_FLOOR_AHEAD_MS_MAX;
use mintleaf_core::state::{Actor, Change, Response, WorkerRow};
use tokio::time::{Instant, sleep};

use super::audit;
use super::cluster::ClusterService;
use crate::limits::REQUEST_MAX;
use crate::service::error::Error;
use crate::service::log_access::{self, Consistency, refresh};
use crate::text::timestamp::rfc3339;

/// How long a request waits for holders: several turns of their lease tasks.
const NOTED_MAX: Duration = Duration::from_secs(4);
/// How long before its end a request is answered, even if it still waits.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);
/// Windows that an error names.
const NAMED_MAX: usize = 3;
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The floor in force after a request, which may be above the one that it asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SnowflakeFloor {
    /// The first Unix millisecond that an id may show if it is given from now on.
    pub floor_ms: u64,
}

impl ClusterService {
    /// Raises the snowflake floor above the time that `id` shows; one that is as high already stays. Once this
    /// has succeeded, no window of any worker id gives an id up to `id`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the cluster's layout has no such id; [`Error::Conflict`] when its time is
    /// more than an hour ahead and `force` is false; [`Error::Unavailable`] without a quorum, and while a window
    /// reaches below the floor: the floor is raised then, and the same request waits on.
    pub async fn raise_snowflake_floor(
        &self,
        actor: &Actor,
        id: u64,
        force: bool,
    ) -> Result<SnowflakeFloor, Error> {
        let answered_by = Instant::now() + REQUEST_MAX - ANSWER_RESERVE;
        let format = self.parts.snowflakes.format();
        let shown = format.decode(id).ok_or_else(|| Error::InvalidArgument {
            field: "id",
            detail: format!("id is not a number of layout {}", format.layout()),
        })?;
        let floor_ms = shown.time_ms + 1;
        if !force {
            self.check_ahead(floor_ms)?;
        }
        let change = Change::RaiseSnowflakeFloor { floor_ms };
        // The log may have a higher floor already. The answer names the one in force, so it waits for that one.
        let command = audit::command(actor, &change);
        let floor_ms = match log_access::change(&self.parts.replica, command).await? {
            Response::Floor { before_ms, floor_ms } => {
                if before_ms < floor_ms {
                    audit::log(actor, &change, &change.recorded_facts().1);
                }
                floor_ms
            }
            rejection => return Err(Error::rejected(&self.parts.replica, &rejection)),
        };
        // From here on this node's copy has every window that was given before, and a window that it shows to
        // reach below the floor can only be an older one.
        refresh(&self.parts.replica, Consistency::Linearizable).await?;
        let deadline = answered_by.min(Instant::now() + NOTED_MAX);
        loop {
            let (windows, reassigned_until_ms) = self.windows_below(floor_ms);
            if windows.is_empty() && reassigned_until_ms.is_none() {
                return Ok(SnowflakeFloor { floor_ms });
            }
            if Instant::now() > deadline {
                return Err(Error::unavailable(waiting(floor_ms, &windows, reassigned_until_ms)));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// The windows that may still be stamped below a floor; and, for windows whose worker id has another holder by now,
    /// when the last of them ends that may still be in use.
    fn windows_below(&self, floor_ms: u64) -> (Vec<WorkerRow>, Option<u64>) {
        let now_ms = self.parts.replica.node().median_now_ms().unwrap_or(0);
        let skew_ms_max = self.parts.snowflakes.skew_ms_max();
        let is_open = |fence_ms: u64| fence_ms.saturating_add(skew_ms_max) > now_ms;
        let (mut rows, reassigned_until_ms) = self
            .parts
            .replica
            .read(|state| (state.windows_below(floor_ms), state.reassigned_until_ms()));
        rows.retain(|row| is_open(row.fence_ms));
        (rows, Some(reassigned_until_ms).filter(|ends_ms| is_open(*ends_ms)))
    }

    /// Refuses a floor far ahead, below which the cluster has no snowflake ids to give until that time comes.
    fn check_ahead(&self, floor_ms: u64) -> Result<(), Error> {
        let now_ms = self.parts.replica.node().median_now_ms();
        let now_ms = now_ms.ok_or_else(|| Error::unavailable("no quorum tells the time"))?;
        let ahead_ms = floor_ms.saturating_sub(now_ms);
        if ahead_ms <= UNFORCED_FLOOR_AHEAD_MS_MAX {
            return Ok(());
        }
        Err(Error::Conflict(format!(
            "the id shows {}, which is {} s ahead of the cluster's clock: there would be no snowflake ids \
             until then, and that cannot be undone: send \"force\": true (--force) if that is meant",
            rfc3339(floor_ms - 1),
            ahead_ms / 1000
        )))
    }
}

/// Which nodes keep a floor from being reached.
fn waiting(floor_ms: u64, windows: &[WorkerRow], reassigned_until_ms: Option<u64>) -> String {
    let mut text = format!("the snowflake floor is raised to {}, and", rfc3339(floor_ms));
    for (at, row) in windows.iter().take(NAMED_MAX).enumerate() {
        let and = if at > 0 { "; and" } else { "" };
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "{and} node {} has not taken note, whose window of worker id {} ends at {}",
            row.node_id,
            row.worker_id,
            rfc3339(row.fence_ms)
        );
    }
    if let Some(more @ 1..) = windows.len().checked_sub(NAMED_MAX) {
        // As above.
        let _ = write!(text, "; and {more} more");
    }
    if let Some(ends_ms) = reassigned_until_ms {
        let and = if windows.is_empty() { "" } else { "; and" };
        let ends = rfc3339(ends_ms);
        // As above.
        let _ = write!(
            text,
            "{and} a window whose worker id has another holder by now ended at {ends}"
        );
    }
    text + ": ask again"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_waited_for_is_said_with_the_end_of_its_window() {
        let row = |worker_id, node_id| WorkerRow {
            worker_id,
            node_id,
            nonce: Some(1),
            floor_ms: 0,
            fence_ms: 1_567_733_760_000,
        };
        assert_eq!(
            waiting(1_567_733_700_834, &[row(7, 2), row(9, 3)], None),
            "the snowflake floor is raised to 2019-09-06T01:35:00.834Z, and node 2 has not taken note, whose \
             window of worker id 7 ends at 2019-09-06T01:36:00.000Z; and node 3 has not taken note, whose window of \
             worker id 9 ends at 2019-09-06T01:36:00.000Z: ask again"
        );
        assert_eq!(
            waiting(1_567_733_700_834, &[], Some(1_567_733_760_000)),
            "the snowflake floor is raised to 2019-09-06T01:35:00.834Z, and a window whose worker id has another \
             holder by now ended at 2019-09-06T01:36:00.000Z: ask again"
        );
    }
}
