//! Links without root: a TCP proxy in front of every node, which finds out which node calls.
//!
//! Nodes advertise the proxy's address instead of their own, so all traffic between nodes passes through here.
//! A connection between two nodes is subject to two links: its requests to the link from the caller, its
//! answers to the link back. So a cut of one direction holds the traffic in that direction, and no other.
//!
//! A cut connection is not closed. Bytes wait in it, and arrive when the link heals, long after the sender gave
//! up. A new connection under a cut is closed after a while, as if no host had ever answered.
//!
//! A link delays like a wire, not like a queue: two chunks arrive as far apart as they were sent. Bytes keep
//! their order, as in TCP, so a lost packet is a delay for itself and for everything after it.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::WriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::caller;
use crate::links::{Addresses, Links, NodeId, Weather};
use crate::random::Random;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 16 << 10;
/// How many chunks are under way at once in one direction. The next one waits.
const IN_FLIGHT_MAX: usize = 256;
/// The payload of one packet. Each packet is lost independently.
const PACKET_BYTES: usize = 1_448;
/// The shortest time beyond a round trip after which TCP sends a lost packet again.
const RETRANSMISSION_MIN: Duration = Duration::from_millis(200);
/// How often one packet is lost at most.
const LOSSES_MAX: u32 = 5;
/// A connection that is opened under a cut is closed after this time.
const UNANSWERED_MAX: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
const HTTP_PORT: u16 = 8080;
const RESP_PORT: u16 = 6380;
const RAFT_PORT: u16 = 9080;
/// The last byte of a proxy's address is that of the node's address plus this.
const PROXY_OFFSET: u8 = 100;

/// One direction between two nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The part that lasts for the whole run.
    climate: Weather,
    /// The part on top of it that comes and goes.
    weather: Weather,
    /// Counts the resets.
    resets: u64,
}

impl Link {
    fn now(&self) -> Weather {
        self.weather.within(self.climate)
    }
}

/// The proxies of a cluster. Dropping this ends them.
pub(crate) struct Proxies {
    network: [u8; 2],
    net: Arc<Net>,
    _accepting: JoinSet<()>,
}

struct Net {
    links: HashMap<(NodeId, NodeId), watch::Sender<Link>>,
    seed: u64,
}

impl Proxies {
    /// Proxies for these nodes, in an unused part of the loopback network.
    ///
    /// # Errors
    /// When there is no such part.
    pub(crate) async fn start(nodes: &[NodeId], seed: u64) -> io::Result<Self> {
        let (network, listeners) = free_network(nodes).await?;
        let pairs = nodes.iter().flat_map(|&from| nodes.iter().map(move |&to| (from, to)));
        let links = pairs.map(|pair| (pair, watch::Sender::new(Link::default()))).collect();
        let net = Arc::new(Net { links, seed });
        let mut accepting = JoinSet::new();
        for (node, listener) in listeners {
            let target = addresses(network, node).raft;
            accepting.spawn(accept(Arc::clone(&net), node, listener, target));
        }
        Ok(Self { network, net, _accepting: accepting })
    }
}

impl Links for Proxies {
    fn addresses(&self, node: NodeId) -> Addresses {
        addresses(self.network, node)
    }

    fn enter(&self, _: NodeId) -> Vec<String> {
        Vec::new()
    }

    fn set(&self, from: NodeId, to: NodeId, weather: Weather) {
        self.net.links[&(from, to)].send_modify(|link| link.weather = weather);
    }

    fn settle(&self, from: NodeId, to: NodeId, climate: Weather) {
        self.net.links[&(from, to)].send_modify(|link| link.climate = climate);
    }

    fn reset(&self, one: NodeId, other: NodeId) {
        for pair in [(one, other), (other, one)] {
            self.net.links[&pair].send_modify(|link| link.resets += 1);
        }
    }
}

/// Each node has a separate address, so that its ports stay reserved for it while it is down.
fn addresses([a, b]: [u8; 2], node: NodeId) -> Addresses {
    let host = u8::try_from(node).expect("nodes are few");
    let ip = Ipv4Addr::new(127, a, b, host);
    let proxy = Ipv4Addr::new(127, a, b, host + PROXY_OFFSET);
    Addresses {
        http: (ip, HTTP_PORT).into(),
        resp: (ip, RESP_PORT).into(),
        raft: (ip, RAFT_PORT).into(),
        advertised: (proxy, RAFT_PORT).into(),
    }
}

type Listeners = Vec<(NodeId, TcpListener)>;

async fn free_network(nodes: &[NodeId]) -> io::Result<([u8; 2], Listeners)> {
    const ATTEMPTS: u32 = 64;
    let mut last = io::Error::other("no attempt was made");
    for attempt in 0..ATTEMPTS {
        let [a, b, ..] = std::process::id().wrapping_add(attempt * 257).to_le_bytes();
        // Other programs use 127.0.0.x.
        let network = [a | 64, b];
        match bind_all(network, nodes).await {
            Ok(listeners) => return Ok((network, listeners)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn bind_all(network: [u8; 2], nodes: &[NodeId]) -> io::Result<Listeners> {
    let mut listeners = Vec::new();
    for &node in nodes {
        listeners.push((node, TcpListener::bind(addresses(network, node).advertised).await?));
    }
    Ok(listeners)
}

async fn accept(net: Arc<Net>, node: NodeId, listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let net = Arc::clone(&net);
                // Errors come from nodes that were cut off or have ended. The other end sees its connection end.
                connections.spawn(async move { drop(net.carry(stream, from, node, target).await) });
            }
            Err(_) => sleep(ACCEPT_BACKOFF).await,
        }
    }
}

impl Net {
    fn link(&self, from: NodeId, to: NodeId) -> io::Result<&watch::Sender<Link>> {
        self.links.get(&(from, to)).ok_or_else(|| io::Error::other(format!("who is node {from}?")))
    }

    async fn carry(
        &self,
        mut caller: TcpStream,
        from: SocketAddr,
        to: NodeId,
        target: SocketAddr,
    ) -> io::Result<()> {
        let introduced = timeout(UNANSWERED_MAX, caller::of(&mut caller));
        let Ok(introduced) = introduced.await else { return Ok(()) };
        let (maker, first) = introduced?;
        let mut out = self.link(maker, to)?.subscribe();
        let mut back = self.link(to, maker)?.subscribe();
        let both = async { (passes(&mut out).await, passes(&mut back).await) };
        let Ok((there, here)) = timeout(UNANSWERED_MAX, both).await else { return Ok(()) };
        let mut random = Random::new(self.seed, &format!("handshake {}", from.port()));
        // The round trip of TCP's handshake comes before any data.
        sleep(travel(there, 1, &mut random) + travel(here, 1, &mut random)).await;
        let mut callee = TcpStream::connect(target).await?;
        for stream in [&caller, &callee] {
            stream.set_nodelay(true)?;
        }
        let random = |way: &str| Random::new(self.seed, &format!("{way} {}", from.port()));
        let (caller_ends, callee_ends) = (caller.split(), callee.split());
        // The first frame is subject to the weather, as everything after it is.
        let requests = first.as_slice().chain(caller_ends.0);
        tokio::select! {
            ended = pump(requests, callee_ends.1, out.clone(), random("out")) => return ended,
            ended = pump(callee_ends.0, caller_ends.1, back, random("back")) => return ended,
            () = reset(out) => {}
        }
        // Both ends see a reset. They would mistake a close for the end of the stream.
        caller.set_zero_linger()?;
        callee.set_zero_linger()
    }
}

/// Waits until a link is not cut.
async fn passes(link: &mut watch::Receiver<Link>) -> Weather {
    match link.wait_for(|link| !link.weather.cut).await {
        Ok(link) => link.now(),
        Err(_) => Weather::default(),
    }
}

/// Resolves when the link is reset.
async fn reset(mut link: watch::Receiver<Link>) {
    let resets = link.borrow().resets;
    let _ = link.wait_for(|link| link.resets != resets).await;
}

/// Carries one direction of a connection until either end closes it.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: WriteHalf<'_>,
    link: watch::Receiver<Link>,
    mut random: Random,
) -> io::Result<()> {
    let (sent, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT_MAX);
    let (mut here, mut there) = (link.clone(), link);
    let sending = async {
        let sent = sent;
        let (mut free, mut last) = (Instant::now(), Instant::now());
        loop {
            passes(&mut here).await;
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = from.read(&mut chunk).await?;
            if read == 0 {
                return Ok(());
            }
            chunk.truncate(read);
            // The link may have been cut during the read, so these bytes have not crossed it yet.
            let weather = passes(&mut here).await;
            // A narrow link takes no more bytes until these have passed.
            free = free.max(Instant::now()) + passage(weather, read);
            sleep_until(free).await;
            last = last.max(free + travel(weather, read, &mut random));
            spoil(weather, &mut chunk, &mut random);
            if sent.send((last, chunk)).await.is_err() {
                return Ok(());
            }
        }
    };
    let delivering = async {
        while let Some((at, chunk)) = arriving.recv().await {
            sleep_until(at).await;
            passes(&mut there).await;
            to.write_all(&chunk).await?;
        }
        Ok(())
    };
    tokio::try_join!(sending, delivering).map(drop)
}

/// How long this many bytes take to enter a link.
fn passage(weather: Weather, bytes: usize) -> Duration {
    let ms = weather.bytes_per_s.map_or(0, |rate| bytes as u64 * 1000 / rate.max(1));
    Duration::from_millis(ms)
}

/// How long this many bytes take from one end of a link to the other. Each of their packets may be lost several
/// times, and is sent again after a wait that doubles each time.
fn travel(weather: Weather, bytes: usize, random: &mut Random) -> Duration {
    let jitter_ms = random.within(0..=weather.jitter_ms);
    let mut longest = Duration::ZERO;
    if weather.loss_percent > 0 {
        let round_trip = Duration::from_millis(2 * weather.delay_ms + weather.jitter_ms);
        for _ in 0..bytes.div_ceil(PACKET_BYTES) {
            let (mut lost, mut wait) = (Duration::ZERO, round_trip + RETRANSMISSION_MIN);
            for _ in 0..LOSSES_MAX {
                if !random.chance(weather.loss_percent.into()) {
                    break;
                }
                (lost, wait) = (lost + wait, wait * 2);
            }
            longest = longest.max(lost);
        }
    }
    Duration::from_millis(weather.delay_ms + jitter_ms) + longest
}

fn spoil(weather: Weather, bytes: &mut [u8], random: &mut Random) {
    if weather.corrupt_percent > 0 && random.chance(weather.corrupt_percent) {
        let bit = random.within(0..=bytes.len() as u64 * 8 - 1);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests;
