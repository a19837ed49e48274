//! The state machine, options and helpers that all of these tests share.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use mintleaf_storage::{DataDir, LogEngine};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::error::{Delivery, NodeError, ProposeError, Rejected};
use crate::node::{Environment, Node};
use crate::options::{Clock, Options, Tuning};
use crate::state_machine::{FrozenState, Newer, Release, RestoreError, Stamp, StateMachine};
use crate::transport::{Credentials, Security, Transport};

pub(super) const SOON: Duration = Duration::from_secs(20);

/// A state machine that adds up numbers; its commands and replies are decimal text. `panic` stands for a broken
/// invariant.
#[derive(Default)]
pub(crate) struct Sum {
    total: Mutex<u64>,
    /// Whether the check accepts the command `new`, as a newer release's check does.
    accepts_new: bool,
}

impl Sum {
    /// The state machine of a release that knows a command `new`, which older releases do not.
    pub(super) fn accepting_new() -> Self {
        Self { accepts_new: true, ..Self::default() }
    }

    pub(super) fn total(&self) -> u64 {
        *self.total.lock()
    }

    /// Keeps commands from being applied until the sender is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel();
        let sum = Arc::clone(self);
        thread::spawn(move || {
            let _total = sum.total.lock();
            let _ = released.recv();
        });
        while !self.total.is_locked() {
            thread::yield_now();
        }
        release
    }
}

impl StateMachine for Sum {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        let unfit = |why: String| Rejected::Unfit(why);
        let command = std::str::from_utf8(command).map_err(|error| unfit(error.to_string()))?;
        // A check cannot know about a broken invariant.
        if command == "panic" || self.accepts_new && command == "new" {
            return Ok(());
        }
        command.parse::<u64>().map(|_| ()).map_err(|error| unfit(error.to_string()))
    }

    fn supports(&self) -> Release {
        first_release()
    }

    fn needs(&self) -> Release {
        first_release()
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        unreachable!("nobody supports level {to}")
    }

    fn apply(&self, _: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let command = std::str::from_utf8(command).unwrap();
        assert_ne!(command, "panic", "asked to break");
        let mut sum = self.total.lock();
        *sum += command.parse::<u64>().unwrap();
        Ok(sum.to_string().into_bytes())
    }

    fn freeze(&self) -> FrozenState {
        let sum = *self.total.lock();
        Box::new(move |out: &mut dyn Write| write!(out, "{sum}"))
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut sum = String::new();
        from.read_to_string(&mut sum)?;
        *self.total.lock() = sum.parse().map_err(io::Error::other)?;
        Ok(())
    }
}

pub(crate) fn first_release() -> Release {
    Release { level: 1, version: "one".to_owned() }
}

pub(crate) struct StoppedClock;

impl Clock for StoppedClock {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// Distinguishes the processes of these tests.
static BOOTS: AtomicU64 = AtomicU64::new(1);

/// Members prove that they know a secret.
pub(super) fn secured(secret: &[u8]) -> Security {
    let credentials = Credentials::from_secrets(&[secret]).unwrap();
    Security::Tls(watch::Sender::new(Arc::new(credentials)).subscribe())
}

pub(super) fn options(node_id: u64, data: &Path, peers: &BTreeMap<u64, String>) -> Options {
    let alone = peers.len() == 1;
    let listen: Option<SocketAddr> = (!alone).then(|| peers[&node_id].parse().unwrap());
    Options {
        node_id,
        data: data.to_owned(),
        fresh_store: u128::from(node_id) << 64 | 7,
        moved: true,
        boot_nonce: u128::from(BOOTS.fetch_add(1, Ordering::SeqCst)),
        listen,
        advertise_raft: None,
        advertise_http: String::new(),
        zone: String::new(),
        peers: peers.clone(),
        join: None,
        security: secured(b"a secret of these tests, 32 bytes or more"),
        tuning: Tuning { snapshot_entries: 50, keep_entries: 5, ..Tuning::default() },
    }
}

pub(super) fn alone() -> BTreeMap<u64, String> {
    BTreeMap::from([(1, String::new())])
}

/// Opens a node as soon as the previous one has released the directory.
pub(super) async fn open(options: Options) -> (Node, Arc<Sum>) {
    let opened = timeout(SOON, async {
        loop {
            let sum = Arc::new(Sum::default());
            let clock = Arc::new(StoppedClock);
            match Node::open(options.clone(), Arc::clone(&sum) as _, clock).await {
                Ok(node) => return (node, sum),
                // The last tasks of the previous node may hold the directory a little longer.
                Err(NodeError::Storage(error)) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    opened.await.expect("the directory is free")
}

/// Opens three founders, each on the data directory that `data` gives for its id.
pub(super) async fn open_three(
    peers: &BTreeMap<u64, String>,
    data: impl Fn(u64) -> PathBuf,
) -> [Node; 3] {
    let (one, _) = open(options(1, &data(1), peers)).await;
    let (two, _) = open(options(2, &data(2), peers)).await;
    let (three, _) = open(options(3, &data(3), peers)).await;
    [one, two, three]
}

/// Opens a node with an engine and a transport that the test supplies.
pub(super) async fn open_with(
    dir: DataDir,
    engine: Arc<dyn LogEngine>,
    transport: Arc<dyn Transport>,
    options: Options,
) -> (Node, Arc<Sum>) {
    let sum = Arc::new(Sum::default());
    let environment = Environment { dir, engine, transport };
    let opened = Node::open_in(environment, options, Arc::clone(&sum) as _, Arc::new(StoppedClock));
    (opened.await.unwrap(), sum)
}

/// Proposes a number at a node, and returns the sum in its reply.
pub(super) async fn add(node: &Node, number: u64) -> Result<u64, ProposeError> {
    let commands = vec![number.to_string().into_bytes()];
    let deadline = Instant::now() + SOON;
    let replies = node.handle().propose(commands, Delivery::AtMostOnce, deadline).await?;
    Ok(std::str::from_utf8(&replies[0]).unwrap().parse().unwrap())
}

pub(super) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waited = timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "not in time: {what}");
}

/// Three founders on free ports. Rarely, another process takes a port first; the test then fails with that message.
pub(super) fn three_peers() -> BTreeMap<u64, String> {
    let listeners: Vec<_> = (1..=3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    (1..=3).zip(listeners.iter().map(address)).collect()
}

/// Opens the directory of a node that has just stopped, once its last tasks have released it.
pub(super) async fn released(data: &Path) -> DataDir {
    let opened = timeout(SOON, async {
        loop {
            match DataDir::open(data, 7) {
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    });
    opened.await.expect("the directory is free")
}
