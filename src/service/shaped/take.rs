//! Taking ids of shaped tags.

use std::sync::Arc;

use mintleaf_core::limits::ID_END;
use tokio::time::Instant;

use super::tag::ShapedTag;
use crate::limits::GRAB_MAX;
use crate::service::error::Error;
use crate::service::ids::IdService;
use crate::service::readiness::QuorumLoss;
use crate::service::slot::{Arrangement, Slot};
use crate::service::taken::TakenIds;

/// Attempts of one call: the period may end during the first, and the clocks may be set during the second.
const LOOKS_MAX: usize = 3;

impl IdService {
    /// The next `count` ids of a shaped tag, of one line; `None` when the tag is gone.
    pub(in crate::service) async fn take_shaped(
        &self,
        shaped: &ShapedTag,
        count: u64,
        arrangement: Arrangement,
        deadline: Instant,
    ) -> Result<Option<TakenIds>, Error> {
        if shaped.shape().needs_leadership() {
            return self.take_ordered(shaped, count, arrangement, deadline).await;
        }
        for _ in 0..LOOKS_MAX {
            let Some(line) = shaped.line_at(self.line_time_ms(shaped)?)? else { return Ok(None) };
            let Some(slot) = line.slot() else { return Ok(None) };
            let Some(numbers) = self.take_from(slot, count, arrangement, deadline).await? else {
                continue;
            };
            // The call may have waited until the period was over. What it took is wasted then.
            if line.is_served_at(self.line_time_ms(shaped)?) {
                return Ok(Some(TakenIds { numbers, text: Some(line.text().clone()) }));
            }
        }
        Err(Error::unavailable("the clocks of the cluster do not agree which period is now"))
    }

    /// Whether [`take_shaped`](Self::take_shaped) would give `count` ids now, without taking any.
    pub(in crate::service) async fn could_take_shaped(
        &self,
        shaped: &ShapedTag,
        count: u64,
    ) -> Result<(), Error> {
        shaped.would_admit(count)?;
        let line = shaped.line_at(self.line_time_ms(shaped)?)?.ok_or(Error::UnknownTag)?;
        let mut held = 0;
        if let Some(slot) = line.slot() {
            slot.check_rate_limit(count)?;
            held = slot.remaining();
            if held >= count {
                return Ok(());
            }
        }
        if shaped.shape().needs_leadership()
            && let Some(loss) = QuorumLoss::without_leader(&self.replica.node().status())
        {
            return Err(Error::unavailable(loss.to_string()));
        }
        self.replica.read_barrier(self.replica.deadline(GRAB_MAX)).await?;
        let row = self.replica.read(|state| state.tag(shaped.tag().as_str()));
        let row = row.ok_or(Error::UnknownTag)?;
        // The row does not show the mark of a period that has no taken ids yet.
        let left = match shaped.has_periods() {
            true => ID_END,
            false => shaped.shape().line_end().saturating_sub(row.max_id),
        };
        if held + left < count { Err(Error::Exhausted) } else { Ok(()) }
    }

    /// The slot that ids of a shaped tag are taken from at this time, if this node has one.
    pub(in crate::service) fn slot_now(&self, shaped: &ShapedTag) -> Option<Arc<Slot>> {
        let line = shaped.line_at(self.line_time_ms(shaped).ok()?).ok()??;
        line.slot().cloned()
    }

    /// The cluster's time, which selects a tag's line.
    pub(in crate::service) fn line_time_ms(&self, shaped: &ShapedTag) -> Result<u64, Error> {
        if !shaped.has_periods() {
            return Ok(0);
        }
        let now_ms = self.cluster_time.now_ms(|| self.replica.node().median_now_ms());
        now_ms.ok_or_else(|| {
            Error::unavailable("this node has not heard yet what time it is in the cluster")
        })
    }
}
