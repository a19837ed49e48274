//! A whole node without its sockets, in simulated time and on one thread. Waits cost nothing, and a connection
//! that hangs is found at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::config::{REGISTER_KEYS_MAX_DEFAULT, TAGS_MAX_DEFAULT};
use mintleaf::machine::clock::Clock;
use mintleaf::server::{AssembledNode, Assembly, assemble};
use mintleaf::service::{Actor, ServiceSettings, Services, TagSpec};
use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_raft::simulation::Process;
use mintleaf_raft::{
    Environment, FrameHandler, Node, NodeError, Options, Pending, Reply, StateMachine, Target,
    Transport, TransportError, Tuning,
};
use mintleaf_storage::DataDir;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::log::MemoryLog;

/// This node's id.
pub const NODE_ID: u64 = 1;
/// Identifies this node's data directory.
pub const STORE: u128 = 7;
/// The duration of a sync.
const SYNC_US: u64 = 100;
/// The beginning of simulated time, in Unix milliseconds.
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
    /// When the directory cannot be made.
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
    /// Runs a future that must end within `seconds_max` simulated seconds.
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

    /// Opens a node that never reaches its peers: a node alone, or one of three founders.
    ///
    /// # Panics
    /// When it does not open.
    pub fn open(&self, alone: bool, state: Arc<dyn StateMachine>) -> (Node, Arc<dyn FrameHandler>) {
        let founders: &[u64] = if alone { &[NODE_ID] } else { &[NODE_ID, 2, 3] };
        let (transport, options) = (Arc::new(NoTransport::default()), self.options(founders));
        let (ends, clock) = (Arc::clone(&transport), Arc::clone(&self.clock));
        let node = self.run(60, open(options, transport, state, clock));
        // Taken out of the transport, so that the door and the node do not keep each other alive.
        let door = ends.door.lock().take().expect("a node opens its door");
        (node.expect("the node opens"), door)
    }

    fn options(&self, founders: &[u64]) -> Options {
        Options {
            fresh_store: STORE,
            advertise_raft: Some("a:1".to_owned()),
            peers: founders.iter().map(|id| (*id, format!("a:{id}"))).collect(),
            tuning: Tuning { snapshot_entries: 100, keep_entries: 20, ..Tuning::default() },
            ..Options::alone(NODE_ID, self.dir.path().to_owned())
        }
    }
}

async fn open(
    options: Options,
    transport: Arc<NoTransport>,
    state: Arc<dyn StateMachine>,
    clock: Arc<dyn mintleaf_raft::Clock>,
) -> Result<Node, NodeError> {
    let dir = DataDir::open_for(&options.data, options.fresh_store, options.node_id)?;
    let environment = Environment { dir, engine: Arc::new(MemoryLog::default()), transport };
    let node = Node::open_in(environment, options, state, clock).await?;
    sleep(Duration::from_millis(1)).await;
    Ok(node)
}

/// The services of a cluster of one.
pub struct Service {
    /// The services that clients use.
    pub services: Services,
    _node: AssembledNode,
}

impl Service {
    /// Starts a cluster of one that holds ids of both kinds. Its only tag is `orders`.
    ///
    /// # Panics
    /// When it does not serve.
    pub fn start(site: &Site) -> Self {
        let (transport, options) = (Arc::new(NoTransport::default()), site.options(&[NODE_ID]));
        let ends = Arc::clone(&transport);
        let assembly = Assembly {
            clock: Arc::clone(&site.clock) as _,
            snowflake: SnowflakeSettings::leaf(),
            nonce: 1,
            secret: 1,
            settings: ServiceSettings {
                auto_create_tags: false,
                tags_max: TAGS_MAX_DEFAULT,
                register_keys_max: REGISTER_KEYS_MAX_DEFAULT,
                sequence_memory: 1 << 20,
                json_numbers: Default::default(),
            },
            draw_key: || Ok([7; 32]),
        };
        let node = site.run(60, async move {
            let opened = assemble(assembly, |state, clock| open(options, transport, state, clock));
            let node = opened.await.expect("the node opens");
            let Services { ids, tags, .. } = &node.services;
            let tag = mintleaf_core::tag::BizTag::parse("orders").expect("it is a name");
            while tags.create(&Actor::default(), tag.clone(), TagSpec::default()).await.is_err()
                || ids.take("orders", 1).await.is_err()
                || ids.next_snowflake().await.is_err()
            {
                sleep(Duration::from_millis(100)).await;
            }
            node
        });
        // The node holds the transport, so the transport must no longer hold the node.
        drop(ends.door.lock().take());
        Self { services: node.services.clone(), _node: node }
    }
}

/// A transport that reaches no node.
#[derive(Default)]
struct NoTransport {
    door: Mutex<Option<Arc<dyn FrameHandler>>>,
}

impl Transport for NoTransport {
    fn call<'a>(&'a self, _: Target<'a>, _: Vec<u8>) -> Pending<'a, Result<Reply, TransportError>> {
        Box::pin(async { Err(TransportError::Unreachable("there is no network".to_owned())) })
    }

    fn serve(self: Arc<Self>, door: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        *self.door.lock() = Some(door);
        Ok(Box::pin(std::future::pending()))
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        None
    }
}

/// Follows simulated time.
struct SimulatedClock(Instant);

impl Clock for SimulatedClock {
    fn now_ms(&self) -> u64 {
        BEGIN_MS + self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl mintleaf_raft::Clock for SimulatedClock {
    fn now_ms(&self) -> u64 {
        Clock::now_ms(self)
    }
}
