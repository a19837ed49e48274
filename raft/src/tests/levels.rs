//! Members of two releases, and the level of the log that they share.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{SOON, StoppedClock, eventually, options, three_peers};
use crate::error::{Delivery, NodeError, ProposeError, Rejected, Remedy, StopReason};
use crate::message::MembershipError;
use crate::node::Node;
use crate::options::Options;
use crate::state_machine::{FrozenState, Newer, Release, RestoreError, Stamp, StateMachine};

/// A state machine that keeps the last command and a level. The command `level N` raises the level, and a
/// command that begins with `new` needs level 2.
struct Leveled {
    supports: u32,
    kept: Mutex<(u32, String)>,
}

impl Leveled {
    fn supporting(level: u32) -> Arc<Self> {
        Arc::new(Self { supports: level, kept: Mutex::new((1, String::new())) })
    }

    fn newer(&self, level: u32) -> Newer {
        Newer { needs: version(level), supports: self.supports() }
    }
}

fn version(level: u32) -> Release {
    Release { level, version: format!("0.{level}.0") }
}

impl StateMachine for Leveled {
    fn check(&self, command: &[u8]) -> Result<(), Rejected> {
        let (needs, has) = (if command.starts_with(b"new") { 2 } else { 1 }, self.kept.lock().0);
        if needs > has { Err(Rejected::Level { needs, has }) } else { Ok(()) }
    }

    fn supports(&self) -> Release {
        version(self.supports)
    }

    fn needs(&self) -> Release {
        version(self.kept.lock().0)
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        Ok(vec![format!("level {to}").into_bytes()])
    }

    fn apply(&self, _: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        let command = String::from_utf8(command.to_vec()).unwrap();
        let mut kept = self.kept.lock();
        match command.strip_prefix("level ").map(|level| level.parse().unwrap()) {
            Some(level) if level > self.supports => return Err(self.newer(level)),
            Some(level) => kept.0 = kept.0.max(level),
            None => kept.1 = command,
        }
        Ok(Vec::new())
    }

    fn freeze(&self) -> FrozenState {
        let (level, last) = self.kept.lock().clone();
        Box::new(move |out: &mut dyn Write| write!(out, "{level} {last}"))
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        let mut state = String::new();
        from.read_to_string(&mut state)?;
        let (level, last) = state.split_once(' ').unwrap();
        match level.parse().unwrap() {
            level if level > self.supports => Err(self.newer(level).into()),
            level => {
                *self.kept.lock() = (level, last.to_owned());
                Ok(())
            }
        }
    }
}

struct Site {
    temp: TempDir,
    peers: BTreeMap<u64, String>,
}

impl Site {
    fn new() -> Self {
        Self { temp: TempDir::new().unwrap(), peers: three_peers() }
    }

    fn options(&self, id: u64) -> Options {
        options(id, &self.temp.path().join(id.to_string()), &self.peers)
    }

    /// Opens a node of a build that supports this level, once the previous node has released its directory.
    async fn try_open(&self, id: u64, level: u32) -> Result<Node, NodeError> {
        open_as(self.options(id), level).await
    }

    async fn open(&self, id: u64, level: u32) -> Node {
        self.try_open(id, level).await.unwrap()
    }
}

async fn open_as(options: Options, level: u32) -> Result<Node, NodeError> {
    loop {
        let opened =
            Node::open(options.clone(), Leveled::supporting(level), Arc::new(StoppedClock));
        match opened.await {
            Err(NodeError::Storage(error)) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened,
        }
    }
}

async fn say(node: &Node, command: &str) -> Result<(), ProposeError> {
    let commands = vec![command.as_bytes().to_vec()];
    let deadline = Instant::now() + SOON;
    node.handle().propose(commands, Delivery::AtMostOnce, deadline).await.map(|_| ())
}

/// Raises the level, and asks again after a retryable error.
async fn raise(node: &Node) -> Result<(), MembershipError> {
    loop {
        match node.handle().raise_level().await {
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            raised => return raised,
        }
    }
}

fn level_of(node: &Node) -> u32 {
    node.handle().core.state.needs().level
}

/// Asserts that a node ended because its build is too old, which another start cannot fix.
fn assert_outdated(why: &StopReason) {
    assert_eq!(why.remedy(), Remedy::Operator, "{why}");
    assert!(why.to_string().contains("0.2.0"), "{why} does not name the version that is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_rises_once_every_member_supports_the_next() {
    let site = Site::new();
    let nodes = [site.open(1, 2).await, site.open(2, 1).await, site.open(3, 2).await];
    for node in &nodes {
        say(node, "old").await.unwrap();
        let refused = say(node, "new").await;
        let level = Rejected::Level { needs: 2, has: 1 };
        assert_eq!(refused, Err(ProposeError::Rejected(level)));
    }
    let Err(MembershipError::Level(why)) = raise(&nodes[0]).await else { panic!("it was raised") };
    assert_eq!(why, "node 2 runs version 0.1.0, which supports level 1");

    let [one, two, three] = nodes;
    two.shutdown().await;
    let Err(MembershipError::Level(why)) = raise(&three).await else { panic!("it was raised") };
    assert!(why.starts_with("node 2 cannot be asked: "), "{why}");
    let two = site.open(2, 2).await;
    say(&two, "old").await.unwrap();
    raise(&two).await.unwrap();
    for node in [&one, &two, &three] {
        // The command succeeds at every node, even at one that is far behind.
        say(node, "new").await.unwrap();
        eventually("the level has risen", || level_of(node) == 2).await;
    }
    raise(&one).await.expect("there is nothing left to raise it to");
    for node in [one, two, three] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_removed_holds_the_level_back_no_longer() {
    let site = Site::new();
    let [one, two, three] = [site.open(1, 2).await, site.open(2, 1).await, site.open(3, 2).await];
    say(&two, "old").await.unwrap();
    let Err(MembershipError::Level(why)) = raise(&one).await else { panic!("it was raised") };
    assert!(why.starts_with("node 2 runs version 0.1.0"), "{why}");
    three.handle().remove_member(2, false).await.unwrap();
    raise(&three).await.unwrap();
    for node in [&one, &three] {
        eventually("the level has risen", || level_of(node) == 2).await;
    }
    // It no longer shares the log, and could not read the next entries.
    assert_eq!(level_of(&two), 1);
    for node in [one, two, three] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_rises_whoever_is_asked_while_leadership_moves() {
    let site = Site::new();
    let nodes = [site.open(1, 2).await, site.open(2, 2).await, site.open(3, 2).await];
    say(&nodes[0], "old").await.unwrap();
    tokio::join!(
        async {
            for to in [1, 2, 3, 1, 2, 3] {
                // Changes are made one at a time, and raising the level is one: the transfer has to ask again.
                while let Err(error) = nodes[0].handle().transfer_leader(to).await {
                    assert!(error.is_retryable(), "{error:?}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        },
        async {
            for node in &nodes {
                raise(node).await.expect("every member supports it");
                say(node, "new").await.expect("whoever was told of the level can use it");
            }
        }
    );
    for node in &nodes {
        eventually("the level has risen", || level_of(node) == 2).await;
    }
    for node in nodes {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_does_not_support_the_level_ends_and_names_the_one_that_does() {
    let site = Site::new();
    let [one, two, three] = [site.open(1, 2).await, site.open(2, 2).await, site.open(3, 2).await];
    raise(&one).await.unwrap();
    eventually("it is there", || level_of(&three) == 2).await;
    three.shutdown().await;
    // It learns the level from its own log, where the entry may or may not be committed, or from the other nodes.
    let why = match site.try_open(3, 1).await {
        Ok(three) => timeout(SOON, three.stopped()).await.expect("it ends"),
        Err(error) => StopReason::from(error),
    };
    assert_outdated(&why);

    // It also ends at a snapshot that holds nothing of the higher level except the level itself.
    for round in 0..120 {
        say(&two, &format!("new {round}")).await.unwrap();
    }
    for node in [&one, &two] {
        let purged = || node.handle().status().purged_index >= Some(50);
        eventually("what the older build misses is in a snapshot only", purged).await;
    }
    for _ in 0..2 {
        let why = match site.try_open(3, 1).await {
            Ok(three) => timeout(SOON, three.stopped()).await.expect("it ends"),
            Err(error) => StopReason::from(error),
        };
        assert_outdated(&why);
    }
    let three = site.open(3, 2).await;
    say(&three, "new again").await.expect("the other build goes on where that one ended");
    for node in [one, two, three] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_support_the_level_cannot_join() {
    let site = Site::new();
    let [one, two, three] = [site.open(1, 2).await, site.open(2, 2).await, site.open(3, 2).await];
    raise(&one).await.unwrap();
    let seed = site.peers[&1].clone();
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let joining = Options {
        listen: Some(listen),
        peers: BTreeMap::new(),
        join: Some(seed),
        ..options(4, &site.temp.path().join("4"), &BTreeMap::from([(4, listen.to_string())]))
    };
    let four = open_as(joining.clone(), 1).await.unwrap();
    assert_outdated(&timeout(SOON, four.stopped()).await.expect("it ends"));
    assert!(one.handle().status().members.iter().all(|member| member.id != 4));
    four.shutdown().await;
    // The node is refused, too, if an operator asks to add it.
    let four =
        open_as(Options { join: Some("127.0.0.1:1".to_owned()), ..joining.clone() }, 1).await;
    let four = four.unwrap();
    let asked = one.handle().add_member(4, listen.to_string(), String::new(), false, false).await;
    let Err(MembershipError::Level(why)) = asked else { panic!("it was let in: {asked:?}") };
    assert!(why.contains("start version 0.2.0 or later"), "{why}");
    four.shutdown().await;

    let four = open_as(joining, 2).await.unwrap();
    eventually("the newer build joins", || level_of(&four) == 2).await;
    let shows = || {
        let members = two.handle().status().members;
        members.iter().all(|member| member.release == Some(version(2))) && members.len() == 4
    };
    eventually("every node knows what every other runs", shows).await;
    for node in [one, two, three, four] {
        node.shutdown().await;
    }
}
