//! What the log says about a lost quorum: which nodes are missing, since when, and where to read what to do.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::service::Services;

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A quorum counts as lost once it is gone for this long. Before that, an election or the start of the other nodes is
/// under way.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// A loss that lasts is logged again after this long.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// Logs when the quorum is lost, again while it is, and when it is back; for as long as it is polled.
pub(super) async fn watch_quorum(services: Services) {
    loop {
        let since = Instant::now();
        let mut reported: Option<Instant> = None;
        while let Some(loss) = services.cluster.quorum_loss() {
            let is_due = reported
                .map_or(since.elapsed() >= LOST_AFTER, |at| at.elapsed() >= REMINDER_INTERVAL);
            if is_due {
                reported = Some(Instant::now());
                tracing::error!("no quorum: {loss}");
            }
            sleep(LOOK_INTERVAL).await;
        }
        if reported.is_some() {
            tracing::info!(lost_s = since.elapsed().as_secs(), "the quorum is back");
        }
        sleep(LOOK_INTERVAL).await;
    }
}
