//! Holds ids again of the tags that were hot before a restart.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::tag::BizTag;
use tokio::time::{Instant, sleep, timeout};

use super::Services;
use super::error::Error;
use super::ids::{IdService, Source};
use super::slot::Slot;
use crate::limits::{GRAB_MAX, WARM_START_MAX};

/// Between two looks at what has arrived, or at whether only the warm start keeps the node from being ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl Services {
    /// Keeps the node out of rotation until [`Services::warm_start`] has ended, if there is anything to warm.
    pub fn begin_warm_start(&self, tags: &[BizTag]) {
        self.cluster.set_warming(!tags.is_empty());
    }

    /// Grabs ids of these tags. They keep the node out of rotation until it is ready otherwise, and for at most 2 s
    /// more. Every segment is a new one.
    pub async fn warm_start(&self, tags: Vec<BizTag>) {
        if tags.is_empty() {
            return;
        }
        while !self.cluster.is_ready_but_for_warming() {
            sleep(LOOK_INTERVAL).await;
        }
        let (began, wanted) = (Instant::now(), tags.len());
        match timeout(WARM_START_MAX, self.ids.hold_again(tags)).await {
            Ok(Ok(held)) => {
                let took_s = began.elapsed().as_secs_f64();
                tracing::info!(
                    held,
                    "holding ids again of the tags that were hot, after {took_s:.3} s"
                );
            }
            Ok(Err(error)) => {
                tracing::warn!(wanted, %error, "ready without the ids of tags that were hot");
            }
            Err(_) => tracing::warn!(wanted, "ready without the ids of all tags that were hot"),
        }
        self.cluster.set_warming(false);
    }
}

impl IdService {
    /// Grabs ids of those tags that exist, and waits until each of them that can have ids holds some. Returns the
    /// number of tags.
    async fn hold_again(&self, tags: Vec<BizTag>) -> Result<usize, Error> {
        let deadline = Instant::now() + GRAB_MAX;
        // The tags that were made or deleted while this node was away are known after this.
        self.replica.read_barrier(deadline).await?;
        let mut waiting: Vec<Arc<Slot>> = Vec::new();
        for tag in tags {
            if self.replica.read(|state| state.tag(tag.as_str())).is_none() {
                continue;
            }
            // A tag that is frozen or has no ids left has no slot.
            let slot = match self.source(tag.as_str(), deadline).await {
                Ok(Source::Plain(slot)) => slot,
                Ok(Source::Shaped(shaped)) => match self.slot_now(&shaped) {
                    Some(slot) => slot,
                    None => continue,
                },
                Err(_) => continue,
            };
            if slot.wants_first_grab() {
                self.grabs.ask(&slot);
            }
            waiting.push(slot);
        }
        let wanted = waiting.len();
        loop {
            waiting.retain(|slot| slot.remaining() == 0 && slot.lets_grab());
            if waiting.is_empty() {
                return Ok(wanted);
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}
