//! How a node treats answers from processes that it did not ask, and what it sends early.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use mintleaf_codec as codec;
use mintleaf_storage::{DataDir, SledEngine};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::{Entry, EntryPayload, LeaderId, Membership, RaftMetrics, Vote};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::watch;

use super::{Client, EarlyAppends, NetworkFactory};
use crate::identity::NodeIdentity;
use crate::message::{Answer, Handshake, Incarnation, Origin, Purpose, Refusal, Request, Response};
use crate::options::Tuning;
use crate::peers::PeerObservations;
use crate::raft_storage::tests::everything_covered;
use crate::raft_storage::{LogObserver, LogStore};
use crate::runtime::Pending;
use crate::stop::StopHandle;
use crate::tests::StoppedClock;
use crate::transport::{FrameHandler, PROTOCOL, Peer, Reply, Target, Transport, TransportError};
use crate::types::{Member, RaftEntry, RaftLogId, RaftMembership, Types};

const CLUSTER: u128 = 77;
/// The stores of node 1, which gets the answers, and of node 2, which is a member.
const STORES: [u128; 2] = [10, 20];
const FATAL: [Refusal; 4] = [
    Refusal::Removed { members_index: 9 },
    Refusal::Replaced { members_index: 9 },
    Refusal::StaleIncarnation { seen: 9 },
    Refusal::LostLog { acknowledged: 9 },
];

/// Gives one answer to every request at every address.
struct OneAnswer {
    bytes: Mutex<Vec<u8>>,
    /// The proven identity of the sender.
    from: Mutex<Peer>,
    /// The node that the last call wanted.
    wanted: Mutex<Option<u64>>,
    calls: AtomicUsize,
}

impl Default for OneAnswer {
    fn default() -> Self {
        let (bytes, wanted, calls) = Default::default();
        Self { bytes, from: Mutex::new(Peer::Unproven), wanted, calls }
    }
}

impl Transport for OneAnswer {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        _: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        *self.wanted.lock() = target.node_id;
        self.calls.fetch_add(1, Relaxed);
        let bytes = Bytes::from(self.bytes.lock().clone());
        Box::pin(std::future::ready(Ok(Reply { from: *self.from.lock(), bytes })))
    }

    fn serve(self: Arc<Self>, _: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        Ok(Box::pin(std::future::pending()))
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        None
    }
}

/// Node 1 of a cluster of two, and the transport that answers it.
struct NodeUnderTest {
    client: Arc<Client>,
    identity: Arc<NodeIdentity>,
    heard: Arc<PeerObservations>,
    transport: Arc<OneAnswer>,
    _temp: TempDir,
}

async fn node() -> NodeUnderTest {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(&temp.path().join("data"), STORES[0]).unwrap();
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    let log = LogStore::start(1, engine, everything_covered()).unwrap();
    let syncs = Arc::clone(log.sync_pace());
    let identity = NodeIdentity::load(1, STORES[0], 1, log, StopHandle::new()).unwrap();
    identity.bootstrap().enter(CLUSTER).await.unwrap();
    let member = |store| Member { store, ..Member::default() };
    let nodes = BTreeMap::from([(1, member(STORES[0])), (2, member(STORES[1]))]);
    let membership = Membership::new(vec![BTreeSet::from([1, 2])], nodes);
    let log_id = RaftLogId::new(LeaderId::new(1, 1), 8);
    let membership_config = Arc::new(RaftMembership::new(Some(log_id), membership));
    let metrics = RaftMetrics { membership_config, ..RaftMetrics::new_initial(1) };
    identity.watch(watch::Sender::new(metrics).subscribe());
    let (identity, transport) = (Arc::new(identity), Arc::new(OneAnswer::default()));
    let clock = Arc::new(StoppedClock);
    let heard = PeerObservations::new(Arc::clone(&identity), clock, syncs, Tuning::default());
    let heard = Arc::new(heard);
    let carrier = Arc::clone(&transport) as _;
    let client = Client::new(Arc::clone(&identity), Arc::clone(&heard), carrier, BTreeMap::new());
    NodeUnderTest { client: Arc::new(client), identity, heard, transport, _temp: temp }
}

impl NodeUnderTest {
    fn network(&self, early: &Arc<EarlyAppends>) -> NetworkFactory {
        NetworkFactory {
            client: Arc::clone(&self.client),
            identity: Arc::clone(&self.identity),
            heard: Arc::clone(&self.heard),
            transfer: Arc::default(),
            early: Arc::clone(early),
        }
    }

    /// Node 2, as the membership names it.
    fn member() -> Member {
        Member { store: STORES[1], ..Member::default() }
    }

    fn is_answered(&self, (node_id, store): (u64, u128), result: Result<Response, Refusal>) {
        let incarnation = Incarnation { number: 1, nonce: 5 };
        let from = Origin { node_id, store, incarnation, members_index: Some(9) };
        let answer = Answer { from, clock_ms: 1_700_000_009_000, result };
        *self.transport.bytes.lock() = codec::encode(PROTOCOL, &answer);
    }

    /// Sends node 2 a request, as a member of this cluster.
    async fn ask(&self, cluster: u128) {
        let member = Self::member();
        let within = Duration::from_secs(1);
        let _ = self.client.call_in(cluster, 2, &member, Request::Ping, within).await;
    }
}

#[tokio::test]
async fn a_fatal_refusal_counts_only_from_the_store_that_the_membership_names() {
    for refusal in FATAL {
        let node = node().await;
        let strangers = [(2, 21), (3, STORES[1]), (3, 30), (1, STORES[0])];
        for stranger in strangers {
            node.is_answered(stranger, Err(refusal.clone()));
            node.ask(CLUSTER).await;
            assert!(
                !node.identity.stop_handle().must_stop(),
                "{refusal:?} of {stranger:?} ended the node"
            );
        }
        node.is_answered((2, STORES[1]), Err(refusal.clone()));
        node.ask(CLUSTER + 1).await;
        assert!(
            !node.identity.stop_handle().must_stop(),
            "{refusal:?}, asked as of another cluster"
        );
        node.ask(CLUSTER).await;
        assert!(node.identity.stop_handle().must_stop(), "{refusal:?} of the member itself");
    }
}

#[tokio::test]
async fn no_answer_to_a_handshake_ends_a_node() {
    let node = node().await;
    for refusal in FATAL {
        node.is_answered((2, STORES[1]), Err(refusal));
        let (from, cluster) = (node.identity.origin(), Some(CLUSTER));
        let handshake = Handshake { from, cluster, purpose: Purpose::Join };
        let target = Target { address: "anywhere", node_id: None };
        assert!(node.client.handshake(target, handshake, Duration::from_secs(1)).await.is_err());
    }
    assert!(!node.identity.stop_handle().must_stop());
}

#[tokio::test]
async fn a_stranger_at_a_members_address_is_no_sign_of_life_and_sets_no_clock() {
    let node = node().await;
    let clocks = || node.heard.clocks().offsets(1_700_000_000_000).len();
    node.is_answered((2, 21), Err(Refusal::WrongStore));
    node.ask(CLUSTER).await;
    assert_eq!((node.heard.is_reachable(2), clocks()), (false, 0));
    node.is_answered((2, STORES[1]), Ok(Response::Done));
    node.ask(CLUSTER).await;
    assert_eq!((node.heard.is_reachable(2), clocks()), (true, 1));
}

#[tokio::test]
async fn an_answer_in_the_name_of_another_than_the_proven_node_is_none() {
    let node = node().await;
    let clocks = || node.heard.clocks().offsets(1_700_000_000_000).len();
    let others = [(2, Some(21)), (3, Some(STORES[1])), (3, None)];
    for (node_id, store) in others {
        *node.transport.from.lock() = Peer::Proven { node_id, store };
        for result in FATAL.map(Err).into_iter().chain([Ok(Response::Done)]) {
            node.is_answered((2, STORES[1]), result);
            node.ask(CLUSTER).await;
        }
        let told = (node.heard.is_reachable(2), clocks(), node.identity.stop_handle().must_stop());
        assert_eq!(told, (false, 0, false), "node {node_id} with store {store:?} is believed");
    }
    assert_eq!(*node.transport.wanted.lock(), Some(2), "whoever listens may answer");
    *node.transport.from.lock() = Peer::Proven { node_id: 2, store: Some(STORES[1]) };
    node.is_answered((2, STORES[1]), Ok(Response::Done));
    node.ask(CLUSTER).await;
    assert_eq!((node.heard.is_reachable(2), clocks()), (true, 1));
}

fn entry(term: u64, index: u64) -> RaftEntry {
    let log_id = RaftLogId::new(LeaderId::new(term, 1), index);
    Entry { log_id, payload: EntryPayload::Blank }
}

fn message(entry: RaftEntry) -> AppendEntriesRequest<Types> {
    let LeaderId { term, .. } = entry.log_id.leader_id;
    let prev_log_id = Some(RaftLogId { index: entry.log_id.index - 1, ..entry.log_id });
    let vote = Vote::new_committed(term, 1);
    AppendEntriesRequest { vote, prev_log_id, entries: vec![entry], leader_commit: None }
}

#[tokio::test]
async fn an_entry_is_sent_while_it_is_being_written_and_not_again_once_it_was_accepted() {
    let node = node().await;
    let early = Arc::new(EarlyAppends::new(1));
    let mut network = node.network(&early);
    let mut openraft = network.new_client(2, &NodeUnderTest::member()).await;
    let option = || RPCOption::new(Duration::from_secs(1));
    let accepted = || Ok(Response::Append(AppendEntriesResponse::Success));
    let sent = async |in_all: usize| {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.transport.calls.load(Relaxed), in_all);
    };

    node.is_answered((2, STORES[1]), accepted());
    early.voted(Vote::new(1, 1));
    early.appended(&[entry(1, 5)]);
    sent(0).await;
    openraft.append_entries(message(entry(1, 5)), option()).await.unwrap();
    sent(1).await;

    early.appended(&[entry(1, 6)]);
    sent(2).await;
    let answer = openraft.append_entries(message(entry(1, 6)), option()).await.unwrap();
    assert!(answer.is_success());
    sent(2).await;
    let reached = |term| early.reached(2, Vote::new_committed(term, 1)).map(|last| last.index);
    assert_eq!((reached(1), reached(2)), (Some(6), None));

    // A message that was not accepted is openraft's to repeat.
    node.is_answered((2, STORES[1]), Err(Refusal::Failed("a full disk".to_owned())));
    early.appended(&[entry(1, 7)]);
    sent(3).await;
    node.is_answered((2, STORES[1]), accepted());
    // The member does not have the entry before this one.
    early.appended(&[entry(1, 8)]);
    sent(3).await;
    openraft.append_entries(message(entry(1, 7)), option()).await.unwrap();
    sent(4).await;

    // What was accepted from one leadership says nothing of another.
    early.voted(Vote::new(2, 1));
    early.appended(&[entry(2, 8)]);
    early.appended(&[entry(2, 9)]);
    sent(4).await;
    openraft.append_entries(message(entry(2, 8)), option()).await.unwrap();
    sent(5).await;
}

/// openraft's replication outlives its leadership, and reads entries that a later leader has written.
#[tokio::test]
async fn nothing_is_sent_for_a_leadership_that_has_ended() {
    let node = node().await;
    let early = Arc::new(EarlyAppends::new(1));
    let mut network = node.network(&early);
    let mut openraft = network.new_client(2, &NodeUnderTest::member()).await;
    let option = || RPCOption::new(Duration::from_secs(1));
    node.is_answered((2, STORES[1]), Ok(Response::Append(AppendEntriesResponse::Success)));

    early.voted(Vote::new(1, 1));
    openraft.append_entries(message(entry(1, 5)), option()).await.unwrap();
    assert_eq!(node.transport.calls.load(Relaxed), 1);

    early.voted(Vote::new_committed(2, 3));
    let late = AppendEntriesRequest { vote: Vote::new_committed(1, 1), ..message(entry(2, 6)) };
    openraft.append_entries(late, option()).await.unwrap_err();
    assert_eq!(node.transport.calls.load(Relaxed), 1);
}
