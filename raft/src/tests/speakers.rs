//! Frames from nodes that are not members, and from nodes that speak in another's name.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use mintleaf_codec as codec;
use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use openraft::Vote;
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{SOON, add, alone, eventually, first_release, open_with, options};
use crate::message::{
    Answer, AskerKnown, Change, Destination, Frame, Handshake, HandshakeReply, Header, Incarnation,
    MembershipError, Origin, Purpose, Refusal, Request, Response,
};
use crate::node::Node;
use crate::runtime::Pending;
use crate::transport::{FrameHandler, PROTOCOL, Peer, Reply, Target, Transport, TransportError};
use crate::types::{Member, RaftLogId};

/// A node that wants to join, and its address.
const NEWCOMER: (u64, u128) = (9, 90);
const ADDRESS: &str = "newcomer:1";

/// Hands frames to the node under test, and answers handshakes at one address.
#[derive(Default)]
struct Wire {
    handler: Mutex<Option<Arc<dyn FrameHandler>>>,
    /// The node that listens at [`ADDRESS`].
    listens: Mutex<Option<(u64, u128)>>,
    called: Mutex<Vec<(String, Option<u64>)>>,
}

impl Transport for Wire {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        _: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        let listens = self.listens.lock().filter(|_| target.address == ADDRESS);
        self.called.lock().push((target.address.to_owned(), target.node_id));
        let answer = listens.map_or_else(
            || Err(TransportError::Unreachable("nobody listens".to_owned())),
            |(node_id, store)| {
                let from = peer_origin(node_id, store, None);
                let reply = HandshakeReply {
                    raft: ADDRESS.to_owned(),
                    http: String::new(),
                    cluster: None,
                    prepared: None,
                    ticket: 1,
                    asker: AskerKnown::No,
                    release: first_release(),
                };
                let result = Ok(Response::Handshake(reply));
                let bytes = codec::encode(PROTOCOL, &Answer { from, clock_ms: 1, result });
                Ok(Reply { from: proven(node_id, store), bytes: Bytes::from(bytes) })
            },
        );
        Box::pin(std::future::ready(answer))
    }

    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        *self.handler.lock() = Some(handler);
        Ok(Box::pin(std::future::pending()))
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        None
    }
}

fn peer_origin(node_id: u64, store: u128, members_index: Option<u64>) -> Origin {
    let incarnation = Incarnation { number: 1, nonce: store };
    Origin { node_id, store, incarnation, members_index }
}

fn proven(node_id: u64, store: u128) -> Peer {
    Peer::Proven { node_id, store: Some(store) }
}

/// A cluster of one, and the wire that connects others to it.
struct Alone {
    node: Node,
    wire: Arc<Wire>,
    held_up: HeldUp,
    _temp: TempDir,
}

impl Alone {
    async fn open() -> Self {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(&temp.path().join("data"), 7).unwrap();
        let held_up = HeldUp::default();
        let engine = SledEngine::open(&dir).unwrap();
        let engine = SlowVotes { engine, held_up: Arc::clone(&held_up) };
        let (wire, options) = (Arc::<Wire>::default(), options(1, temp.path(), &alone()));
        let transport = Arc::clone(&wire) as _;
        let (node, _) = open_with(dir, Arc::new(engine), transport, options).await;
        assert_eq!(add(&node, 1).await, Ok(1));
        Self { node, wire, held_up, _temp: temp }
    }

    fn header(&self, from: Origin) -> Header {
        let identity = &self.node.handle().core.identity;
        let to = Destination { node_id: 1, store: identity.store(), incarnation_seen: None };
        let (cluster, clock_ms) = (identity.cluster().unwrap(), 1_700_000_000_000);
        Header { cluster, from, to, clock_ms, median_ms: Some(9_999_999_999_999) }
    }

    async fn deliver(&self, caller: Peer, header: Option<Header>, request: Request) -> Answer {
        let handler = self.wire.handler.lock().clone().expect("it serves");
        let frame = codec::encode(PROTOCOL, &Frame { header, request });
        let answer = handler.handle(caller, &frame).await.unwrap();
        codec::decode(&answer).unwrap().1
    }

    /// Makes a request as the newcomer, which proves its identity.
    async fn asked_by_newcomer(&self, request: Request) -> Result<Response, Refusal> {
        let (node_id, store) = NEWCOMER;
        let header = self.header(peer_origin(node_id, store, None));
        self.deliver(proven(node_id, store), Some(header), request).await.result
    }

    fn members(&self) -> BTreeMap<u64, Member> {
        let members = self.node.handle().core.identity.members();
        members.nodes().map(|(id, member)| (*id, member.clone())).collect()
    }

    async fn end(self) {
        let stopped = timeout(Duration::ZERO, self.node.stopped()).await;
        assert!(stopped.is_err(), "the node ended: {stopped:?}");
        self.node.shutdown().await;
    }
}

fn refused(answer: Result<Response, Refusal>) -> Option<String> {
    match answer {
        Err(Refusal::Failed(why)) => Some(why),
        _ => None,
    }
}

fn joins((id, store): (u64, u128), raft: &str) -> Request {
    let (raft, http, release) = (raft.to_owned(), String::new(), Some(first_release()));
    Request::Change(Change::Add { id, raft, http, voter: false, store: Some(store), release })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_in_the_name_of_another_node_is_refused() {
    let alone = Alone::open().await;
    let header = alone.header(peer_origin(1, alone.node.handle().core.identity.store(), Some(1)));
    for impostor in [proven(9, 90), proven(1, 90), Peer::Proven { node_id: 9, store: None }] {
        let answer = alone.deliver(impostor, Some(header), Request::Ping).await.result;
        assert!(refused(answer).is_some_and(|why| why.contains("proved itself")), "{impostor:?}");
        let (from, purpose) = (header.from, Purpose::Join);
        let handshake = Handshake { from, cluster: None, purpose };
        let answer = alone.deliver(impostor, None, Request::Handshake(handshake)).await.result;
        assert!(refused(answer).is_some(), "a handshake of {impostor:?}");
    }
    let own = Peer::Proven { node_id: 1, store: None };
    assert!(alone.deliver(own, Some(header), Request::Ping).await.result.is_ok());
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_no_member_commands_nobody() {
    let alone = Alone::open().await;
    let before = alone.node.handle().status().last_log_index;
    let change = Request::Change;
    for request in [
        Request::Propose { commands: vec![b"1".to_vec()], within_ms: 1000 },
        Request::ReadIndex,
        Request::TimeoutNow { from: Vote::new_committed(1, 9) },
        Request::Removed { members_index: 1 << 40 },
        change(Change::RaiseLevel),
        change(Change::Transfer { id: 1 }),
        change(Change::Remove { id: 1, store: 7 }),
        joins((8, 80), ADDRESS),
    ] {
        let asked = format!("{request:?}");
        let why = refused(alone.asked_by_newcomer(request).await);
        assert!(why.is_some_and(|why| why.contains("member")), "{asked}");
    }
    assert_eq!(alone.node.handle().status().last_log_index, before, "something was appended");
    assert_eq!(alone.members().len(), 1);
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_no_member_knows_leads_nobody_and_gets_no_vote_whatever_it_says_of_itself() {
    let alone = Alone::open().await;
    let status = || alone.node.handle().status();
    let before = (status().leader_id, status().term, status().last_log_index);
    let vote = Vote::new_committed(1000, NEWCOMER.0);
    let last = Some(RaftLogId::new(vote.leader_id, 1 << 40));
    let entries =
        AppendEntriesRequest { vote, prev_log_id: None, entries: vec![], leader_commit: None };
    let rpc = VoteRequest { vote: Vote::new(1001, NEWCOMER.0), last_log_id: last };
    for request in [
        Request::Append(entries),
        Request::PreVote { last },
        Request::Vote { rpc, transferred_by: None },
    ] {
        let asked = format!("{request:?}");
        // It claims a membership that this node does not know yet.
        let header = alone.header(peer_origin(NEWCOMER.0, NEWCOMER.1, Some(1 << 40)));
        let why = refused(alone.deliver(Peer::Unproven, Some(header), request).await.result);
        assert!(why.is_some_and(|why| why.contains("has vouched for it")), "{asked}");
    }
    assert_eq!((status().leader_id, status().term, status().last_log_index), before);
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clocks_of_strangers_are_nobodys_time() {
    let alone = Alone::open().await;
    assert!(alone.asked_by_newcomer(Request::Ping).await.is_ok());
    let heard = Arc::clone(&alone.node.handle().core.heard);
    assert_eq!(heard.clocks().told_median_ms(), None);
    assert!(heard.clocks().offsets(0).is_empty());

    *alone.wire.listens.lock() = Some(NEWCOMER);
    assert!(alone.asked_by_newcomer(joins(NEWCOMER, ADDRESS)).await.is_ok());
    assert!(alone.asked_by_newcomer(Request::Ping).await.is_ok());
    assert_eq!(heard.clocks().offsets(0).len(), 1, "the clock of a member");
    assert_eq!(heard.clocks().told_median_ms(), None, "the median of one that does not lead");
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_cannot_have_a_node_remember_them() {
    let alone = Alone::open().await;
    for store in 1000..1200 {
        let header = alone.header(peer_origin(9, store, None));
        let answer = alone.deliver(Peer::Unproven, Some(header), Request::Ping).await;
        assert!(answer.result.is_ok());
        let member = Member { store, ..Member::default() };
        let known = alone.node.handle().core.identity.destination(9, &member);
        assert_eq!(known.incarnation_seen, None);
    }
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_have_a_node_take_itself_for_an_older_copy() {
    let alone = Alone::open().await;
    let own = alone.node.handle().core.identity.incarnation();
    let mut header = alone.header(peer_origin(NEWCOMER.0, NEWCOMER.1, Some(1 << 40)));
    header.to.incarnation_seen = Some(Incarnation { nonce: own.nonce + 1, ..own });
    let answer = alone.deliver(Peer::Unproven, Some(header), Request::Ping).await.result;
    assert!(refused(answer).is_some_and(|why| why.contains("never had")));
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_is_a_member_once_it_answers_at_the_address_that_it_tells() {
    let alone = Alone::open().await;
    let mut told = Vec::new();
    for (listens, at) in [
        (None, ADDRESS),
        (Some((8, NEWCOMER.1)), ADDRESS),
        (Some((NEWCOMER.0, 80)), ADDRESS),
        (Some(NEWCOMER), "elsewhere:1"),
    ] {
        *alone.wire.listens.lock() = listens;
        let began = Instant::now();
        let answer = alone.asked_by_newcomer(joins(NEWCOMER, at)).await;
        let Ok(Response::Changed(Err(MembershipError::Unavailable(why)))) = answer else {
            panic!("{listens:?} at {at}: {answer:?}");
        };
        told.push(why.replace(at, "ADDRESS"));
        assert!(
            began.elapsed() >= Duration::from_secs(1),
            "an answer that tells apart by its time"
        );
        assert_eq!(alone.members().len(), 1);
    }
    told.dedup();
    let expected =
        "node 9 does not answer at ADDRESS: check --advertise-raft, or its own entry in --peers";
    assert_eq!(told, [expected], "one text, whatever listens there");

    *alone.wire.listens.lock() = Some(NEWCOMER);
    let answer = alone.asked_by_newcomer(joins(NEWCOMER, ADDRESS)).await;
    assert!(matches!(answer, Ok(Response::Changed(Ok(())))), "{answer:?}");
    assert_eq!(alone.members()[&9].raft, ADDRESS);
    let named = |(_, node_id): &(String, Option<u64>)| *node_id == Some(NEWCOMER.0);
    assert!(alone.wire.called.lock().iter().all(named), "whoever listens is dialled");
    alone.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_members_address_changes_only_to_one_at_which_it_answers() {
    let alone = Alone::open().await;
    *alone.wire.listens.lock() = Some(NEWCOMER);
    assert!(alone.asked_by_newcomer(joins(NEWCOMER, ADDRESS)).await.is_ok());
    let moves = |raft: &str| {
        let ((id, store), http) = (NEWCOMER, String::new());
        let (raft, release) = (raft.to_owned(), None);
        Request::Change(Change::Add { id, raft, http, voter: false, store: Some(store), release })
    };
    let answer = alone.asked_by_newcomer(moves("elsewhere:1")).await;
    let is_unavailable =
        matches!(answer, Ok(Response::Changed(Err(MembershipError::Unavailable(_)))));
    assert!(is_unavailable, "{answer:?}");
    assert_eq!(alone.members()[&9].raft, ADDRESS);
    alone.end().await;
}

/// Holds up the next vote on its way to the disk, until the sender releases it.
type HeldUp = Arc<Mutex<Option<mpsc::Receiver<()>>>>;

/// An engine that can be held up when it writes a vote.
struct SlowVotes {
    engine: SledEngine,
    held_up: HeldUp,
}

impl LogEngine for SlowVotes {
    fn put_meta(&self, key: MetaKey, value: &[u8]) -> Result<(), StorageError> {
        if key == MetaKey::Vote
            && let Some(held_up) = self.held_up.lock().take()
        {
            let _ = held_up.recv_timeout(SOON);
        }
        self.engine.put_meta(key, value)
    }

    fn append(&self, first: u64, records: Vec<Vec<u8>>) -> Result<(), StorageError> {
        self.engine.append(first, records)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Vec<u8>>, StorageError> {
        self.engine.read(range, bytes_max)
    }

    fn bounds(&self) -> Option<(u64, u64)> {
        self.engine.bounds()
    }

    fn purge_mark(&self) -> Option<(u64, Vec<u8>)> {
        self.engine.purge_mark()
    }

    fn truncate_from(&self, index: u64) -> Result<(), StorageError> {
        self.engine.truncate_from(index)
    }

    fn purge_upto(&self, index: u64, mark: &[u8]) -> Result<(), StorageError> {
        self.engine.purge_upto(index, mark)
    }

    fn get_meta(&self, key: MetaKey) -> Result<Option<Vec<u8>>, StorageError> {
        self.engine.get_meta(key)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.engine.sync()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_counts_as_contact_though_its_candidate_hung_up_during_the_sync() {
    let alone = Alone::open().await;
    *alone.wire.listens.lock() = Some(NEWCOMER);
    assert!(alone.asked_by_newcomer(joins(NEWCOMER, ADDRESS)).await.is_ok());
    let core = alone.node.handle().core;
    // For the length of a leader lease, openraft makes a new leader refuse its vote.
    tokio::time::sleep(core.heard.timers().lease + core.options.tuning.message_max).await;
    let own = core.vote();
    let rpc = VoteRequest {
        vote: Vote::new(own.leader_id.term + 5, 9),
        last_log_id: core.last_log_id().map(|last| RaftLogId { index: last.index + 9, ..last }),
    };
    let asked_for = rpc.vote;
    let vote = Request::Vote { rpc, transferred_by: Some(own) };
    let header = alone.header(peer_origin(9, 90, Some(1 << 20)));
    let before = core.heard.contact().voted_at();
    let (release, held_up) = mpsc::channel();
    *alone.held_up.lock() = Some(held_up);
    let asked = alone.deliver(Peer::Unproven, Some(header), vote);
    let answer = timeout(Duration::from_millis(100), asked).await;
    assert!(answer.is_err(), "the disk is not slow: {answer:?}");
    // A leader that now asks whether a later leader may exist must learn of the vote.
    assert_eq!((core.vote(), core.latest_vote()), (own, asked_for));
    release.send(()).unwrap();
    eventually("the vote is noted", || core.heard.contact().voted_at() > before).await;
    drop(core);
    timeout(SOON, alone.end()).await.unwrap();
}
