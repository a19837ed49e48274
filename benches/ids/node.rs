//! A node without its sockets, and a client of it.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::config::{REGISTER_KEYS_MAX_DEFAULT, TAGS_MAX_DEFAULT};
use mintleaf::machine::clock::SystemClock;
use mintleaf::server::{AssembledNode, Assembly, assemble};
use mintleaf::service::{Actor, ServiceSettings, Services, TagSpec};
use mintleaf_core::limits::STEP_MAX;
use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_core::tag::BizTag;
use mintleaf_raft::Options;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

/// The tag that the node has ids of.
pub(crate) const TAG: &str = "orders";
/// The first id. All ids have as many digits, so all answers have the same length.
const START: u64 = 1_000_000_000_000;
/// How many bytes may be under way in each direction.
const WINDOW: usize = 1 << 20;
/// An answer is complete when no byte has followed for this long.
const QUIET: Duration = Duration::from_millis(200);

/// A cluster of one node that has two thousand million ids buffered.
pub(crate) struct Node {
    pub(crate) services: Services,
    _parts: (AssembledNode, Runtime, TempDir),
}

impl Node {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().expect("there is room");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let node = runtime.block_on(open(&dir));
        Self { services: node.services.clone(), _parts: (node, runtime, dir) }
    }
}

async fn open(dir: &TempDir) -> AssembledNode {
    let assembly = Assembly {
        clock: Arc::new(SystemClock::default()),
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
    let options = Options::alone(1, dir.path().to_owned());
    let opened =
        assemble(assembly, |state, clock| mintleaf_raft::Node::open(options, state, clock));
    let node = opened.await.expect("the node opens");
    let Services { ids, tags, .. } = &node.services;
    let tag = BizTag::parse(TAG).expect("it is a name");
    let spec = TagSpec { step: Some(STEP_MAX), start: START, ..TagSpec::default() };
    while tags.create(&Actor::default(), tag.clone(), spec.clone()).await.is_err()
        && ids.take(TAG, 1).await.is_err()
    {
        sleep(Duration::from_millis(10)).await;
    }
    ids.take(TAG, 1).await.expect("there are ids");
    node
}

/// A connection and the task that serves it, on one thread.
pub(crate) struct Client {
    stream: DuplexStream,
    runtime: Runtime,
}

/// A request, and the length of its answer.
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

    /// Sends a request for ids for the first time, and notes the length of its answer.
    pub(crate) fn request(&mut self, bytes: String) -> Request {
        let begin: &[u8] = if bytes.starts_with("GET ") { b"HTTP/1.1 200" } else { b":" };
        self.request_answered(bytes, begin)
    }

    /// Sends a request for the first time, and notes the length of its answer, which must begin with `begin`.
    pub(crate) fn request_answered(&mut self, bytes: String, begin: &[u8]) -> Request {
        let Self { stream, runtime } = self;
        let answer_length = runtime.block_on(async {
            stream.write_all(bytes.as_bytes()).await.expect("it is served");
            let mut answer = vec![0; WINDOW];
            let mut length = 0;
            while let Ok(read) = timeout(QUIET, stream.read(&mut answer[length..])).await {
                length += read.expect("it is served");
            }
            assert!(answer.starts_with(begin), "{}", answer[..length].escape_ascii());
            length
        });
        Request { bytes: bytes.into_bytes(), answer_length }
    }

    /// Sends the request again, and reads the answer.
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
