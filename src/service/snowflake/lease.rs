//! A node's hold on its worker ids.
//!
//! Every start of a node draws its own nonce and is given new windows. The node writes nothing about them to disk that
//! it would read at its next start: the replicated state has each worker id's fence and the nonce of its grant, and
//! only the process that drew that nonce can renew or release it.

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_raft::StopReason;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::lease_task::{LeaseTask, RELEASE_MAX};
use super::snowflakes::Snowflakes;
use crate::machine::clock::Clock;
use crate::replica::Replica;

/// How long a stop waits for the task beyond the time that releasing may take.
const TASK_END_MAX: Duration = Duration::from_millis(500);

/// A node's hold on its worker ids, and the task that keeps it.
pub struct Lease {
    snowflakes: Arc<Snowflakes>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Option<StopReason>>,
}

impl Lease {
    /// Starts the task on the current runtime, under a random nonce that no start of a node ever had.
    pub fn start(
        replica: Arc<Replica>,
        clock: Arc<dyn Clock>,
        settings: SnowflakeSettings,
        nonce: u128,
    ) -> Self {
        let random = nonce as u64;
        let snowflakes = Arc::new(Snowflakes::new(&settings, Arc::clone(&clock), random));
        let task = LeaseTask::new(replica, Arc::clone(&snowflakes), clock, settings, nonce);
        let (stop, stopping) = oneshot::channel();
        Self { snowflakes, stop, task: tokio::spawn(task.run(stopping)) }
    }

    /// The snowflake ids that the held windows cover.
    pub fn snowflakes(&self) -> Arc<Snowflakes> {
        Arc::clone(&self.snowflakes)
    }

    /// Resolves, with the reason, when the node must stop.
    pub async fn ended(&mut self) -> StopReason {
        match (&mut self.task).await {
            Ok(Some(why)) => why,
            ended => StopReason::restart(format!("the lease task has ended: {ended:?}")),
        }
    }

    /// Ends the ids of this process and, if the quorum can be reached soon, gives the worker ids back: the
    /// next holder may go on right above the last id.
    pub async fn release(self) {
        // A task that has ended by itself hears nothing, and has nothing to give back.
        if self.stop.send(()).is_ok() {
            let _ = timeout(RELEASE_MAX + TASK_END_MAX, self.task).await;
        }
    }
}
