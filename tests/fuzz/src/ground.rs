//! A whole node below its sockets, in simulated time and on one thread: waits cost nothing, and a
//! connection that would hang is found at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::clock::Clock;
use mintleaf::metrics::Metrics;
use mintleaf::replica::{DeletionListener, Replica, StateReplica};
use mintleaf::service::{IdService, Lease, ServiceTask, TagTable};
use mintleaf::snowflake::{Format, Layout, SnowflakeSettings};
use mintleaf_raft::simulation::Process;
use mintleaf_raft::{
    Environment, FrameHandler, Node, Options, Pending, StateMachine, Transport, TransportError,
    Tuning,
};
use mintleaf_storage::DataDir;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::log::MemoryLog;

/// This node's id.
pub const NODE_ID: u64 = 1;
/// Names this node's data directory.
pub const STORE: u128 = 7;
/// What a sync takes.
const SYNC_US: u64 = 100;
/// When simulated time begins, in Unix milliseconds.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// Simulated time and a directory.
pub struct Site {
    runtime: Runtime,
    process: Arc<Process>,
    clock: Arc<SimulatedClock>,
    dir: TempDir,
}

impl Default for Site {
    /// # Panics
    /// When there is no room for it.
    fn default() -> Self {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime can be built");
        let process = Arc::new(Process::new(1, || Duration::from_micros(SYNC_US)));
        let clock = {
            let _within = runtime.enter();
            Arc::new(SimulatedClock(Instant::now()))
        };
        Self { runtime, process, clock, dir: crate::temp_dir() }
    }
}

impl Site {
    /// Runs what must end within so many simulated seconds.
    ///
    /// # Panics
    /// When it does not end in time, or panics.
    pub fn run<F>(&self, seconds_max: u64, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.block_on(async {
            let ended = timeout(Duration::from_secs(seconds_max), self.process.spawn(future));
            ended.await.expect("it hangs").expect("no task panics")
        })
    }

    /// Opens a node whose peers are never reached: alone, or one of three founders.
    ///
    /// # Panics
    /// When it does not open.
    pub fn open(&self, alone: bool, state: Arc<dyn StateMachine>) -> (Node, Arc<dyn FrameHandler>) {
        let founders: &[u64] = if alone { &[NODE_ID] } else { &[NODE_ID, 2, 3] };
        let options = Options {
            node_id: NODE_ID,
            data: self.dir.path().to_owned(),
            fresh_store: STORE,
            boot_nonce: 1,
            listen: None,
            advertise_raft: Some("a:1".to_owned()),
            advertise_http: "a:2".to_owned(),
            peers: founders.iter().map(|id| (*id, format!("a:{id}"))).collect(),
            join: None,
            secret: None,
            tuning: Tuning { snapshot_entries: 100, keep_entries: 20, ..Tuning::default() },
        };
        let wire = Arc::new(NoWire::default());
        let (ends, clock) = (Arc::clone(&wire), Arc::clone(&self.clock));
        let node = self.run(60, async move {
            let dir = DataDir::open_for(&options.data, options.fresh_store, options.node_id)?;
            let ground =
                Environment { dir, engine: Arc::new(MemoryLog::default()), transport: wire };
            let node = Node::open_in(ground, options, state, clock).await?;
            sleep(Duration::from_millis(1)).await;
            Ok::<_, mintleaf_raft::NodeError>(node)
        });
        // Taken out, lest the two hold each other up.
        let door = ends.door.lock().take().expect("a node opens its door");
        (node.expect("the node opens"), door)
    }
}

/// An id service on a cluster of one.
pub struct Service {
    /// What HTTP sees.
    pub service: Arc<IdService>,
    _node: Node,
    _lease: Lease,
    _task: ServiceTask,
}

impl Service {
    /// Starts one that holds ids of both kinds; of tags it knows `orders`.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn start(site: &Site) -> Self {
        let metrics = Arc::new(Metrics::new());
        let table = Arc::new(TagTable::new(Arc::clone(&metrics)));
        let listener: Arc<dyn DeletionListener> = Arc::clone(&table) as _;
        let state = Arc::new(StateReplica::new(listener));
        let (node, _) = site.open(true, Arc::clone(&state) as _);
        let replica = Arc::new(Replica::new(node.handle(), state));
        let clock: Arc<dyn Clock> = Arc::clone(&site.clock) as _;
        let (service, task, lease) = site.run(60, async move {
            let lease = Lease::start(Arc::clone(&replica), Arc::clone(&clock), snowflakes(), 1);
            let (service, task) =
                IdService::start(replica, table, clock, metrics, lease.snowflakes(), false);
            let tag = mintleaf::tag::BizTag::parse("orders").expect("it is a name");
            while service.create_tag(tag.clone(), 1000, 1, String::new()).await.is_err()
                || service.next("orders").await.is_err()
                || service.next_snowflake().await.is_err()
            {
                sleep(Duration::from_millis(100)).await;
            }
            (service, task, lease)
        });
        Self { service: Arc::new(service), _node: node, _lease: lease, _task: task }
    }
}

fn snowflakes() -> SnowflakeSettings {
    SnowflakeSettings {
        format: Format::new(Layout::LEAF, 1_288_834_974_657).expect("it is Leaf's"),
        window: Duration::from_secs(60),
        max_clock_skew: Duration::from_secs(2),
        worker_ids: Vec::new(),
    }
}

/// Reaches nobody.
#[derive(Default)]
struct NoWire {
    door: Mutex<Option<Arc<dyn FrameHandler>>>,
}

impl Transport for NoWire {
    fn call<'a>(
        &'a self,
        _: &'a str,
        _: Vec<u8>,
    ) -> Pending<'a, Result<bytes::Bytes, TransportError>> {
        Box::pin(async { Err(TransportError::Unreachable("there is no network".to_owned())) })
    }

    fn serve(self: Arc<Self>, door: Arc<dyn FrameHandler>) -> Pending<'static, ()> {
        *self.door.lock() = Some(door);
        Box::pin(std::future::pending())
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        None
    }
}

/// Goes with simulated time.
struct SimulatedClock(Instant);

impl mintleaf_raft::Clock for SimulatedClock {
    fn now_ms(&self) -> u64 {
        BEGIN_MS + self.monotonic_ms()
    }
}

impl Clock for SimulatedClock {
    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
