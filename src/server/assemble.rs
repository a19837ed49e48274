//! One node below its sockets, put together. Every caller that runs a node in its own process comes here: the server, a
//! simulation, a benchmark. They differ only in what opens the log.

use std::sync::Arc;

use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_raft::{Node, NodeError, StopReason};

use crate::machine::clock::Clock;
use crate::metrics::Metrics;
use crate::replica::{DrawKey, Replica, StateReplica, TagListener};
use crate::service::{Lease, ServiceParts, ServiceSettings, ServiceTask, Services, TagTable};

/// Everything that a node is put together from, besides its log.
pub struct Assembly {
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// How snowflake ids are made.
    pub snowflake: SnowflakeSettings,
    /// Random, so that no start of any node ever had the same: names the grants of worker ids.
    pub nonce: u128,
    /// Random, and known to this process alone.
    pub secret: u128,
    /// The settings of the services.
    pub settings: ServiceSettings,
    /// Draws the keys of hidden ids, and the root key of the cluster.
    pub draw_key: DrawKey,
}

/// A node that takes part in the log and hands out ids, below its sockets.
pub struct AssembledNode {
    /// The member of the cluster.
    pub node: Node,
    /// The services for clients.
    pub services: Services,
    /// The log and the state that it made.
    pub replica: Arc<Replica>,
    task: ServiceTask,
    lease: Lease,
}

/// Puts a node together on the current runtime. `open` opens its log: it is given the state machine
/// that the log shall drive, and the clock that Raft reads.
///
/// # Errors
/// The errors of `open`.
pub async fn assemble<F>(
    assembly: Assembly,
    open: impl FnOnce(Arc<StateReplica>, Arc<dyn mintleaf_raft::Clock>) -> F,
) -> Result<AssembledNode, NodeError>
where
    F: Future<Output = Result<Node, NodeError>>,
{
    assemble_around(assembly, StateReplica::new, open).await
}

/// The same as [`assemble`], around a copy of the state that the caller makes for this listener: one of a build that
/// supports another level than this one does.
///
/// # Errors
/// The errors of `open`.
pub async fn assemble_around<F>(
    assembly: Assembly,
    state: impl FnOnce(DrawKey, Arc<dyn TagListener>) -> StateReplica,
    open: impl FnOnce(Arc<StateReplica>, Arc<dyn mintleaf_raft::Clock>) -> F,
) -> Result<AssembledNode, NodeError>
where
    F: Future<Output = Result<Node, NodeError>>,
{
    let Assembly { clock, snowflake, nonce, secret, settings, draw_key } = assembly;
    let metrics = Arc::new(Metrics::new());
    let table = Arc::new(TagTable::new(settings.sequence_memory, secret));
    let listener: Arc<dyn TagListener> = Arc::clone(&table) as _;
    let state = Arc::new(state(draw_key, listener));
    let node = open(Arc::clone(&state), Arc::new(RaftClock(Arc::clone(&clock)))).await?;
    let replica = Arc::new(Replica::new(node.handle(), state));
    let lease = Lease::start(Arc::clone(&replica), Arc::clone(&clock), snowflake, nonce);
    let (services, task) = Services::start(ServiceParts {
        replica: Arc::clone(&replica),
        table,
        clock,
        metrics,
        snowflakes: lease.snowflakes(),
        settings,
        nonce,
        draw_key,
    });
    Ok(AssembledNode { node, services, replica, task, lease })
}

impl AssembledNode {
    /// Resolves, with the reason, when the node must stop.
    pub async fn ended(&mut self) -> StopReason {
        tokio::select! {
            biased;
            why = self.node.stopped() => why,
            why = self.lease.ended() => why,
            why = self.task.ended() => why,
            why = self.replica.in_doubt() => why,
        }
    }

    /// Stops: nothing more is grabbed, worker ids are given back, the log is flushed, all of it in bounded time.
    pub async fn stop(self) {
        self.stop_services().await.shutdown().await;
    }

    /// Does the first part of a stop, which needs the log: nothing more is grabbed, and worker ids are given back. What
    /// is left is the member of the cluster.
    pub async fn stop_services(self) -> Node {
        drop(self.task);
        self.lease.release().await;
        self.node
    }
}

/// The wall clock as Raft reads it.
pub(crate) struct RaftClock(pub(crate) Arc<dyn Clock>);

impl mintleaf_raft::Clock for RaftClock {
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }
}
