//! A simulated network. Frames are delayed, lost, repeated and reordered; links are cut in one direction or
//! both; and nodes come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mintleaf_raft::simulation::{
    Asked, Overheard, Process, acknowledges_snapshot, asks_to_prepare, grants_vote,
};
use mintleaf_raft::{FrameHandler, Peer, Pending, Reply, Target, Transport, TransportError};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::climate::Sky;
use crate::golden::{Fate, Narrator};
use crate::random::{Random, fnv};
use crate::trace::Trace;

/// The current conditions on the network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Links that carry nothing, from one host to another.
    pub(crate) cut: BTreeSet<(u64, u64)>,
    /// The percentage of messages that are lost.
    pub(crate) loss: u64,
    /// The percentage of requests that arrive twice.
    pub(crate) doubled: u64,
    /// How many messages in a thousand arrive with a bit changed.
    pub(crate) flipped: u64,
    /// A node whose answers to snapshots are lost.
    pub(crate) mute_snapshots: Option<u64>,
    /// The longest delay of a message in addition to the usual one, in microseconds.
    pub(crate) delay_us_max: u64,
}

/// How long each message takes on a network without chance.
const STEADY_DELAY: Duration = Duration::from_millis(1);

/// One of the two messages of a call.
#[derive(Clone, Copy)]
enum Message {
    Request,
    /// The answer to this request.
    Answer {
        told: Told,
    },
}

/// The kind of a request that the narrator wrote; `None` when it wrote nothing.
type Told = Option<&'static str>;

impl Message {
    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Answer { .. } => "answer",
        }
    }
}

/// A process that listens.
#[derive(Clone)]
struct Host {
    process: Arc<Process>,
    door: Arc<dyn FrameHandler>,
    proof: Proof,
}

/// The node that a process can prove to be, and its data directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    pub(crate) node_id: u64,
    pub(crate) store: u128,
}

/// The network.
pub(crate) struct Net {
    trace: Arc<Trace>,
    random: Random,
    /// Whether both ends of each connection prove their identity, as with TLS; otherwise neither does.
    proves: bool,
    /// The climate, which delays every message for the whole run.
    sky: Arc<Sky>,
    /// Writes a trace for readers. With a narrator, all delays are the same.
    narrator: Option<Arc<Narrator>>,
    pub(crate) conditions: Mutex<Conditions>,
    /// Holds what nodes say to the specification of Raft.
    overheard: Mutex<Overheard>,
    hosts: Mutex<BTreeMap<u64, Host>>,
    /// Receives the next granted vote that arrives.
    trap: Mutex<Option<oneshot::Sender<Granted>>>,
    /// Receives the next prepare that a founder has answered.
    prepare_trap: Mutex<Option<oneshot::Sender<Prepared>>>,
}

/// A prepare that a founder has answered; the answer is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    pub(crate) coordinator: u64,
    pub(crate) founder: u64,
}

/// A vote that has arrived at its candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) voter: u64,
    pub(crate) candidate: u64,
}

/// The host of the second process of a node that exists twice. A message to the node's address reaches one of
/// the two at random.
pub(crate) fn double_of(node_id: u64) -> u64 {
    100 + node_id
}

/// The host of a node of an abandoned cluster that is started by mistake. No message reaches it.
pub(crate) fn lost_host(node_id: u64) -> u64 {
    1_000 + node_id
}

/// The address of a node.
pub(crate) fn address(node_id: u64) -> String {
    format!("node-{node_id}:1")
}

impl Net {
    pub(crate) fn new(trace: Arc<Trace>, random: Random, proves: bool, sky: Arc<Sky>) -> Self {
        let (narrator, conditions, overheard) = Default::default();
        let (hosts, trap, prepare_trap) = Default::default();
        Self {
            trace,
            random,
            proves,
            sky,
            narrator,
            conditions,
            overheard,
            hosts,
            trap,
            prepare_trap,
        }
    }

    /// How many steps of nodes were held to the specification of Raft, and how many could not be judged whole.
    pub(crate) fn overheard(&self) -> (u64, u64) {
        let overheard = self.overheard.lock();
        (overheard.steps(), overheard.unjudged())
    }

    fn hear_request(&self, frame: &[u8]) -> Option<Asked> {
        let heard = self.overheard.lock().request(frame);
        heard.unwrap_or_else(|why| {
            self.trace.violation(&why.to_string());
            None
        })
    }

    fn hear_answer(&self, to: Option<&Asked>, answer: &[u8]) {
        let heard = to.map(|to| self.overheard.lock().answer(to, answer));
        if let Some(Err(why)) = heard {
            self.trace.violation(&why.to_string());
        }
    }

    /// How a process appears at the other end of its connections.
    fn peer(&self, Proof { node_id, store }: Proof) -> Peer {
        if self.proves { Peer::Proven { node_id, store: Some(store) } } else { Peer::Unproven }
    }

    /// The same network with a narrator and without chance: each message takes [`STEADY_DELAY`].
    pub(crate) fn narrated_by(self, narrator: Arc<Narrator>) -> Self {
        Self { narrator: Some(narrator), ..self }
    }

    /// Resolves when a founder has answered the next prepare.
    pub(crate) fn next_prepare(&self) -> oneshot::Receiver<Prepared> {
        let (trap, offered) = oneshot::channel();
        *self.prepare_trap.lock() = Some(trap);
        offered
    }

    fn look_for_prepare(&self, coordinator: u64, founder: u64, is_prepare: bool) {
        if is_prepare {
            let trap = self.prepare_trap.lock().take();
            let _ = trap.map(|trap| trap.send(Prepared { coordinator, founder }));
        }
    }

    /// The host that a message to a node reaches.
    fn resolve(&self, node_id: u64) -> u64 {
        let hosts = self.hosts.lock();
        match (hosts.contains_key(&node_id), hosts.contains_key(&double_of(node_id))) {
            (true, true) => self.random.pick(&[node_id, double_of(node_id)]),
            (false, true) => double_of(node_id),
            _ => node_id,
        }
    }

    /// Resolves when the next granted vote has arrived.
    pub(crate) fn next_vote(&self) -> oneshot::Receiver<Granted> {
        let (trap, granted) = oneshot::channel();
        *self.trap.lock() = Some(trap);
        granted
    }

    /// Removes a trap for a vote. A trap that is set while faults are injected springs before they end, or never.
    pub(crate) fn disarm(&self) {
        *self.trap.lock() = None;
    }

    fn look_for_votes(&self, voter: u64, candidate: u64, answer: &[u8]) {
        let mut trap = self.trap.lock();
        if trap.is_some() && grants_vote(answer) {
            // The receiver may have given up.
            let _ = trap.take().map(|trap| trap.send(Granted { voter, candidate }));
        }
    }

    /// The bytes of a message as they arrive. The network may have changed one of them.
    fn damaged(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let flipped = self.conditions.lock().flipped;
        if flipped > 0 && self.random.within(0..1000) < flipped {
            let bit = self.random.within(0..8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.trace.fault("bit flipped on the wire", format_args!("{bit}"));
        }
        bytes
    }

    /// Takes a host off the network.
    pub(crate) fn leave(&self, host: u64) {
        self.hosts.lock().remove(&host);
    }

    /// The delay of one message; `None` when it is lost.
    fn passage(&self, from: u64, to: u64) -> Option<Duration> {
        let conditions = self.conditions.lock();
        if self.narrator.is_some() {
            return (!conditions.cut.contains(&(from, to))).then_some(STEADY_DELAY);
        }
        let lost = conditions.cut.contains(&(from, to)) || self.random.chance(conditions.loss);
        // Most messages are quick; some take the longest time.
        let held_up_us = self.random.within(0..conditions.delay_us_max + 1);
        let held_up_us = if self.random.chance(80) { held_up_us / 10 } else { held_up_us };
        let delay = Duration::from_micros(self.random.within(50..1_000) + held_up_us);
        (!lost).then(|| delay + self.sky.delay(from, to))
    }

    /// Carries a message from one host to another.
    async fn travel(&self, what: Message, from: u64, to: u64, bytes: &[u8]) -> Told {
        let passage = self.passage(from, to);
        let (len, hash) = (bytes.len(), fnv(0, bytes));
        let us = passage.map_or(-1, |delay| i128::try_from(delay.as_micros()).unwrap_or(-1));
        let name = what.name();
        self.trace.note(format_args!("net {name} {from}>{to} {len} {hash:016x} {us}"));
        let told = self.narrate(what, from, to, bytes, passage.is_some());
        match passage {
            Some(delay) => sleep(delay).await,
            None => pending().await,
        }
        told
    }

    fn narrate(&self, what: Message, from: u64, to: u64, bytes: &[u8], arrives: bool) -> Told {
        let narrator = self.narrator.as_ref()?;
        let fate = match (arrives, what) {
            (false, _) => Fate::Lost,
            (true, Message::Request) if self.host(to).is_none() => Fate::Refused,
            (true, _) => Fate::Arrives,
        };
        match what {
            Message::Request => narrator.request(from, to, bytes, fate),
            Message::Answer { told } => {
                narrator.answer(from, to, told?, bytes, fate);
                told
            }
        }
    }

    fn host(&self, node_id: u64) -> Option<Host> {
        self.hosts.lock().get(&node_id).cloned()
    }
}

/// Pause between two checks whether a process listens.
const GONE_INTERVAL: Duration = Duration::from_millis(20);

/// The connection of one process to the network.
pub(crate) struct NetWire {
    pub(crate) net: Arc<Net>,
    /// The node's id, or another number while the node exists twice.
    pub(crate) host: u64,
    pub(crate) proof: Proof,
    pub(crate) process: Arc<Process>,
    pub(crate) alive: Arc<AtomicBool>,
}

impl NetWire {
    async fn live(&self) {
        if !self.alive.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }

    /// Carries a frame to the node that listens at an address, and its answer back. If nodes prove their
    /// identity and the node there is not `wanted`, nothing is sent to it.
    async fn carry(
        &self,
        to: u64,
        wanted: Option<u64>,
        frame: Vec<u8>,
    ) -> Result<Reply, TransportError> {
        let (net, me) = (&self.net, self.host);
        self.live().await;
        let to = net.resolve(to);
        let is_prepare = net.prepare_trap.lock().is_some() && asks_to_prepare(&frame);
        let asked = net.hear_request(&frame);
        let told = net.travel(Message::Request, me, to, &frame).await;
        let frame = net.damaged(frame);
        self.live().await;
        let refused = || TransportError::Unreachable("connection refused".to_owned());
        let host = net.host(to).ok_or_else(refused)?;
        let (caller, callee) = (net.peer(self.proof), net.peer(host.proof));
        if net.proves && wanted.is_some_and(|wanted| wanted != host.proof.node_id) {
            let why = format!("node {} listens there", host.proof.node_id);
            return Err(TransportError::Unreachable(why));
        }
        if net.random.chance(net.conditions.lock().doubled) {
            self.deliver_again(host.clone(), frame.clone());
        }
        let task = host.process.spawn(async move { host.door.handle(caller, &frame).await });
        // A server aborts its work for a caller that hangs up, if it notices in time.
        let guard = net.random.chance(50).then(|| AbortOnDrop(task.abort_handle()));
        let answered = task.await;
        drop(guard);
        match answered {
            Ok(Ok(answer)) => {
                let muted = net.conditions.lock().mute_snapshots == Some(to);
                if muted && acknowledges_snapshot(&answer) {
                    pending::<()>().await;
                }
                net.look_for_prepare(me, to, is_prepare);
                net.hear_answer(asked.as_ref(), &answer);
                net.travel(Message::Answer { told }, to, me, &answer).await;
                self.live().await;
                net.look_for_votes(to, me, &answer);
                Ok(Reply { from: callee, bytes: Bytes::from(net.damaged(answer)) })
            }
            Ok(Err(why)) => Err(TransportError::Refused(why)),
            Err(_) => Err(TransportError::Lost("connection reset".to_owned())),
        }
    }

    fn deliver_again(&self, host: Host, frame: Vec<u8>) {
        let later = Duration::from_micros(self.net.random.within(0..300_000));
        let caller = self.net.peer(self.proof);
        let process = Arc::clone(&host.process);
        process.spawn(async move {
            sleep(later).await;
            // The second answer is dropped.
            drop(host.door.handle(caller, &frame).await);
        });
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn node_at(address: &str) -> Option<u64> {
    address.strip_prefix("node-")?.strip_suffix(":1")?.parse().ok()
}

impl Transport for NetWire {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        Box::pin(async move {
            let address = target.address;
            let unknown = || TransportError::Unreachable(format!("no such address: {address}"));
            self.carry(node_at(address).ok_or_else(unknown)?, target.node_id, frame).await
        })
    }

    fn wait_refused<'a>(&'a self, target: Target<'a>) -> Pending<'a, ()> {
        Box::pin(async move {
            let Some(id) = node_at(target.address) else { return pending().await };
            loop {
                self.live().await;
                let id = self.net.resolve(id);
                let links = [(self.host, id), (id, self.host)];
                let is_cut = links.iter().any(|link| self.net.conditions.lock().cut.contains(link));
                if !is_cut && self.net.host(id).is_none() {
                    return;
                }
                sleep(GONE_INTERVAL).await;
            }
        })
    }

    fn serve(self: Arc<Self>, door: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        Ok(Box::pin(async move {
            if self.alive.load(Ordering::Relaxed) {
                let (process, proof) = (Arc::clone(&self.process), self.proof);
                let host = Host { process, door, proof };
                self.net.hosts.lock().insert(self.host, host);
            }
            pending::<()>().await;
        }))
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        None
    }
}
