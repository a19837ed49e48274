//! The time between the request to stop and the end: clients learn of the end in time, and a leader hands over.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::connection::drain::DrainPhase;
use crate::listener::RunningServer;
use crate::service::Services;

/// Between two looks at the open connections.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before a leader tries again to hand over.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(100);
/// Pause after handing over, so that nodes that drain at the same time do not hand leadership back and forth.
const HANDED_OVER_PAUSE: Duration = Duration::from_secs(1);

/// Lets clients leave for `time`; sooner, after half of it, once no connection is open. The node has to be out of
/// rotation already.
pub(super) async fn let_clients_leave(
    time: Duration,
    clients: &RunningServer,
    services: &Services,
) {
    let began = Instant::now();
    sleep_until(began + time / 2).await;
    clients.enter(DrainPhase::LastAnswers);
    let watched = async {
        while services.ids.metrics().connections_open() > 0 {
            sleep(LOOK_INTERVAL).await;
        }
    };
    let to_the_end = async {
        sleep_until(began + time / 4 * 3).await;
        clients.enter(DrainPhase::RestingEnd);
        sleep_until(began + time).await;
    };
    tokio::select! {
        () = watched => {}
        () = to_the_end => {}
    }
    let connections = services.ids.metrics().connections_open();
    let after_s = began.elapsed().as_secs_f64();
    tracing::info!(connections, "drained for {after_s:.1} s; ending what is still open");
}

/// Hands leadership over whenever this node has it. Never ends by itself.
pub async fn hand_over(services: &Services) {
    loop {
        let pause = match services.cluster.hand_over().await {
            Ok(None) => HAND_OVER_PAUSE,
            Ok(Some(leader)) => {
                tracing::info!(leader, "handed leadership over");
                HANDED_OVER_PAUSE
            }
            Err(error) => {
                tracing::warn!(%error, "could not hand leadership over yet");
                HAND_OVER_PAUSE
            }
        };
        sleep(pause).await;
    }
}
