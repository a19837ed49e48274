//! A node below its sockets, and a client of it.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::clock::{Clock, SystemClock};
use mintleaf::metrics::Metrics;
use mintleaf::replica::{DeletionListener, Replica, StateReplica};
use mintleaf::service::{IdService, Lease, ServiceTask, TagTable};
use mintleaf::snowflake::{Format, Layout, SnowflakeSettings};
use mintleaf::tag::{BizTag, STEP_MAX};
use mintleaf_raft::{Options, Tuning};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

/// The tag that the node has ids of.
pub(crate) const TAG: &str = "orders";
/// The first of them: all that follow have as many digits, and answers the same length.
const START: u64 = 1_000_000_000_000;
/// It has no sockets.
const NOWHERE: &str = "127.0.0.1:1";
/// What fits on the way in each direction.
const WINDOW: usize = 1 << 20;
/// An answer is over when nothing comes for so long.
const QUIET: Duration = Duration::from_millis(200);

/// A cluster of one, which has two thousand million ids at hand.
pub(crate) struct Node {
    pub(crate) service: Arc<IdService>,
    _parts: (mintleaf_raft::Node, Lease, ServiceTask, Runtime, TempDir),
}

impl Node {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().expect("there is room");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let (service, node, lease, task) = runtime.block_on(open(&dir));
        Self { service, _parts: (node, lease, task, runtime, dir) }
    }
}

async fn open(dir: &TempDir) -> (Arc<IdService>, mintleaf_raft::Node, Lease, ServiceTask) {
    let clock = Arc::new(SystemClock::default());
    let metrics = Arc::new(Metrics::new());
    let table = Arc::new(TagTable::new(Arc::clone(&metrics)));
    let listener: Arc<dyn DeletionListener> = Arc::clone(&table) as _;
    let state = Arc::new(StateReplica::new(listener));
    let opened =
        mintleaf_raft::Node::open(options(dir), Arc::clone(&state) as _, Arc::clone(&clock) as _);
    let node = opened.await.expect("the node opens");
    let replica = Arc::new(Replica::new(node.handle(), state));
    let clock: Arc<dyn Clock> = clock;
    let lease = Lease::start(Arc::clone(&replica), Arc::clone(&clock), snowflakes(), 1);
    let (service, task) =
        IdService::start(replica, table, clock, metrics, lease.snowflakes(), false);
    let tag = BizTag::parse(TAG).expect("it is a name");
    while service.create_tag(tag.clone(), STEP_MAX, START, String::new()).await.is_err()
        && service.next(TAG).await.is_err()
    {
        sleep(Duration::from_millis(10)).await;
    }
    service.next(TAG).await.expect("there are ids");
    (Arc::new(service), node, lease, task)
}

fn options(dir: &TempDir) -> Options {
    Options {
        node_id: 1,
        data: dir.path().to_owned(),
        fresh_store: 1,
        boot_nonce: 1,
        listen: None,
        advertise_raft: Some(NOWHERE.to_owned()),
        advertise_http: NOWHERE.to_owned(),
        peers: [(1, NOWHERE.to_owned())].into(),
        join: None,
        secret: None,
        tuning: Tuning::default(),
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

/// A connection, and who serves it, on one thread.
pub(crate) struct Client {
    stream: DuplexStream,
    runtime: Runtime,
}

/// A request, and room for its answer.
pub(crate) struct Request {
    bytes: Vec<u8>,
    answer_length: usize,
}

impl Client {
    pub(crate) fn new<F>(serve: impl FnOnce(DuplexStream) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let (near, far) = duplex(WINDOW);
        let _within = runtime.enter();
        drop(tokio::spawn(serve(far)));
        drop(_within);
        Self { stream: near, runtime }
    }

    /// Sends a request for the first time, and notes how long its answer is.
    pub(crate) fn request(&mut self, bytes: String) -> Request {
        let Self { stream, runtime } = self;
        let answer_length = runtime.block_on(async {
            stream.write_all(bytes.as_bytes()).await.expect("it is served");
            let mut answer = vec![0; WINDOW];
            let mut length = 0;
            while let Ok(read) = timeout(QUIET, stream.read(&mut answer[length..])).await {
                length += read.expect("it is served");
            }
            let good = answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b":");
            assert!(good, "{}", answer[..length].escape_ascii());
            length
        });
        Request { bytes: bytes.into_bytes(), answer_length }
    }

    /// Sends it again, and takes in the answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Vec<u8> {
        let Self { stream, runtime } = self;
        runtime.block_on(async {
            stream.write_all(&request.bytes).await.expect("it is served");
            let mut answer = vec![0; request.answer_length];
            stream.read_exact(&mut answer).await.expect("an answer is as long as the first");
            answer
        })
    }
}
