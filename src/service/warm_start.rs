//! Holds ids again of the tags that were hot before a restart.

use mintleaf_core::tag::BizTag;
use tokio::time::{Instant, sleep, timeout};

use super::Services;
use super::ids::LOOK_INTERVAL;
use crate::limits::WARM_START_MAX;

impl Services {
    /// Keeps the node out of rotation until [`Services::warm_start`] has ended, if there is anything to warm.
    pub fn begin_warm_start(&self, tags: &[BizTag]) {
        self.cluster.own.set_warming(!tags.is_empty());
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
        self.cluster.own.set_warming(false);
    }
}
