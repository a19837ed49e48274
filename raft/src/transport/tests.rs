use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::Channel;
use super::interface::FRAME_BYTES_MAX;
use super::layer::{Layer, Opened, Proof};
use super::plain::{greeted, greeting};
use super::server::answer_frames;
use super::{FrameHandler, Plain, Target, TcpTransport, Transport, TransportError};
use crate::runtime::Pending;

const WITHIN: Duration = Duration::from_secs(5);

/// Answers every frame with its bytes reversed, never answers `hang`, and refuses an empty frame.
#[derive(Default)]
struct Mirror {
    frames: AtomicUsize,
    hanging: Notify,
    given_up: Notify,
}

impl FrameHandler for Mirror {
    fn handle<'a>(
        &'a self,
        _: super::Peer,
        frame: &'a [u8],
    ) -> Pending<'a, Result<Vec<u8>, String>> {
        self.frames.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match frame {
                b"hang" => {
                    let _dropped = Dropped(&self.given_up);
                    self.hanging.notify_one();
                    std::future::pending().await
                }
                b"" => Err("nothing was asked".to_owned()),
                frame => Ok(frame.iter().rev().copied().collect()),
            }
        })
    }
}

struct Dropped<'a>(&'a Notify);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// The same number as in production.
const CONNECTIONS_MAX: usize = 384;

struct Peer {
    mirror: Arc<Mirror>,
    address: String,
    serving: JoinSet<()>,
}

impl Peer {
    async fn start() -> Self {
        Self::start_at("127.0.0.1:0").await
    }

    async fn start_at(address: &str) -> Self {
        Self::start_over(address, Plain).await
    }

    async fn start_over(address: &str, layer: impl Layer) -> Self {
        let address = Some(address.parse().unwrap());
        let transport = TcpTransport::bind(address, CONNECTIONS_MAX, layer).unwrap();
        let address = transport.listens_on().unwrap().to_string();
        let mirror = Arc::new(Mirror::default());
        let handler = Arc::clone(&mirror);
        let mut serving = JoinSet::new();
        serving.spawn(Arc::new(transport).serve(handler).unwrap());
        Self { mirror, address, serving }
    }

    /// Sends bytes as a stranger would, and reads until the other end hangs up.
    async fn hear_after(&self, what: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(what).await.unwrap();
        let mut heard = Vec::new();
        timeout(WITHIN, stream.read_to_end(&mut heard)).await.unwrap().unwrap();
        heard
    }
}

fn at(address: &str) -> Target<'_> {
    Target { address, node_id: None }
}

async fn client() -> TcpTransport<Plain> {
    TcpTransport::bind(None, 0, Plain).unwrap()
}

async fn ask<L: Layer>(
    transport: &TcpTransport<L>,
    peer: &Peer,
    frame: &[u8],
) -> Result<Bytes, TransportError> {
    let answered =
        timeout(WITHIN, transport.call(at(&peer.address), frame.to_vec())).await.unwrap();
    answered.map(|reply| reply.bytes)
}

#[tokio::test]
async fn answers_come_back_on_one_connection_after_the_other() {
    let (peer, transport) = (Peer::start().await, client().await);
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
    let long: Vec<u8> = (0..1_500_000u32).map(|n| n as u8).collect();
    let back: Vec<u8> = long.iter().rev().copied().collect();
    assert_eq!(ask(&transport, &peer, &long).await.unwrap(), back);
    assert_eq!(ask(&transport, &peer, b"12").await.unwrap(), "21");
    assert_eq!(transport.kept_count(&peer.address), 1);
}

#[tokio::test]
async fn a_refused_frame_is_told_why_and_the_next_one_gets_through() {
    let (peer, transport) = (Peer::start().await, client().await);
    let refused = ask(&transport, &peer, b"").await;
    assert_eq!(refused, Err(TransportError::Refused("nothing was asked".to_owned())));
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn another_protocol_is_refused_before_a_frame_is_read() {
    let peer = Peer::start().await;
    let mut later = greeting();
    later[4] += 1;
    let heard = peer.hear_after(&later).await;
    assert!(String::from_utf8_lossy(&heard).contains("upgrade the older"), "{heard:?}");
    assert_eq!(peer.mirror.frames.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_client_that_takes_it_for_the_port_of_http_is_told() {
    let peer = Peer::start().await;
    let heard = peer.hear_after(b"GET /v1/ids/orders HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.starts_with("HTTP/1.1 400 ") && heard.contains("--http"), "{heard}");
}

#[tokio::test]
async fn a_length_out_of_bounds_ends_the_connection_at_once() {
    let peer = Peer::start().await;
    let too_long = u32::try_from(FRAME_BYTES_MAX).unwrap() + 1;
    let said = [&greeting()[..], &too_long.to_le_bytes()].concat();
    assert_eq!(peer.hear_after(&said).await, b"");
    let transport = client().await;
    let unsent = ask(&transport, &peer, &vec![1; FRAME_BYTES_MAX + 1]).await.unwrap_err();
    assert!(matches!(unsent, TransportError::Unreachable(_)), "{unsent:?}");
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn bytes_may_come_one_at_a_time() {
    let peer = Peer::start().await;
    let mut stream = TcpStream::connect(&peer.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in [&greeting()[..], &[3, 0, 0, 0], b"abc"].concat() {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut heard = [0; 8];
    timeout(WITHIN, stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"\0\x03\0\0\0cba");
}

#[tokio::test]
async fn a_peer_that_came_back_is_reached_though_its_old_connections_were_kept() {
    let (mut peer, transport) = (Peer::start().await, client().await);
    ask(&transport, &peer, b"abc").await.unwrap();
    peer.serving.shutdown().await;
    let refused = ask(&transport, &peer, b"abc").await;
    assert!(matches!(refused, Err(TransportError::Unreachable(_))), "{refused:?}");
    let peer = Peer::start_at(&peer.address).await;
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn work_that_nobody_waits_for_any_more_is_given_up() {
    let (peer, transport) = (Peer::start().await, client().await);
    let asked = tokio::select! {
        answer = ask(&transport, &peer, b"hang") => Some(answer),
        () = peer.mirror.hanging.notified() => None,
    };
    assert_eq!(asked, None);
    timeout(WITHIN, peer.mirror.given_up.notified()).await.unwrap();
    assert_eq!(transport.kept_count(&peer.address), 0, "its answer could be taken for another's");
}

#[tokio::test]
async fn a_node_that_does_not_serve_yet_refuses_connections_at_once() {
    let starting = TcpTransport::bind("127.0.0.1:0".parse().ok(), CONNECTIONS_MAX, Plain).unwrap();
    let address = starting.listens_on().unwrap().to_string();
    let transport = client().await;
    let called = timeout(WITHIN, transport.call(at(&address), b"abc".to_vec())).await.unwrap();
    assert!(matches!(&called, Err(TransportError::Unreachable(_))), "{called:?}");
    let other = TcpTransport::bind(address.parse().ok(), CONNECTIONS_MAX, Plain);
    let _serving = Arc::new(starting).serve(Arc::new(Mirror::default())).unwrap();
    let second = other.and_then(|other| {
        let served = Arc::new(other).serve(Arc::new(Mirror::default()));
        served.map(drop).map_err(crate::error::NodeError::raft)
    });
    assert!(second.is_err(), "two processes listen at one address");
}

#[tokio::test]
async fn a_process_that_speaks_another_protocol_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let transport = client().await;
    let answered = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        stream
    };
    let (lost, _stream) = tokio::join!(transport.call(at(&address), b"abc".to_vec()), answered);
    assert!(matches!(&lost, Err(TransportError::Lost(why)) if why.contains("no node")), "{lost:?}");
}

#[tokio::test]
async fn a_channel_works_over_a_stream_that_is_not_tcp() {
    let (near, far) = tokio::io::duplex(64);
    // Such a stream holds back written bytes until it is flushed.
    let (near, far) = (BufStream::new(near), BufStream::new(far));
    let mirror = Arc::new(Mirror::default());
    let handler = Arc::clone(&mirror);
    let serving = tokio::spawn(async move {
        let channel = Channel::new(greeted(far).await.unwrap());
        answer_frames(&Plain, channel, Proof::none(), &*handler).await
    });
    let mut near = near;
    near.write_all(&greeting()).await.unwrap();
    let mut channel = Channel::new(near);
    let long = vec![7; 100_000];
    for frame in [&b"abc"[..], &long] {
        assert!(channel.is_silent());
        channel.send_frame(frame).await.unwrap();
        let answer = timeout(WITHIN, channel.receive_answer()).await.unwrap().unwrap().unwrap();
        assert!(answer.bytes.iter().eq(frame.iter().rev()));
    }
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    assert!(!channel.is_silent(), "the other end has hung up");
}

/// A layer that changes every byte, has a handshake, and then sends its own bytes, as TLS sends tickets.
struct Masked;

const HELLO: u8 = 0xa5;
const MASK: u8 = 0x5a;
/// A byte that the layer keeps to itself; no frame in these tests contains it.
const OWN: u8 = 0xff;

struct MaskedStream(TcpStream);

impl AsyncRead for MaskedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 256];
        loop {
            let room = buf.remaining().min(bytes.len());
            let mut read = ReadBuf::new(&mut bytes[..room]);
            ready!(Pin::new(&mut self.0).poll_read(cx, &mut read))?;
            let is_end = read.filled().is_empty();
            let before = buf.filled().len();
            for byte in read.filled().iter().filter(|byte| **byte != OWN) {
                buf.put_slice(&[byte ^ MASK]);
            }
            if is_end || buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for MaskedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let masked: Vec<u8> = bytes.iter().map(|byte| byte ^ MASK).collect();
        Pin::new(&mut self.0).poll_write(cx, &masked)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Layer for Masked {
    type Stream = MaskedStream;

    async fn connect(&self, _: Target<'_>, mut tcp: TcpStream) -> io::Result<Opened<MaskedStream>> {
        tcp.write_u8(HELLO).await?;
        Ok(Opened { stream: MaskedStream(tcp), proof: Proof::none() })
    }

    async fn accept(&self, mut tcp: TcpStream) -> io::Result<Opened<MaskedStream>> {
        if tcp.read_u8().await? != HELLO {
            return Err(io::ErrorKind::InvalidData.into());
        }
        tcp.write_all(&[OWN; 3]).await?;
        Ok(Opened { stream: MaskedStream(tcp), proof: Proof::none() })
    }

    fn trusts(&self, _: &Proof) -> bool {
        true
    }
}

#[tokio::test]
async fn everything_that_a_node_sends_goes_through_the_layer() {
    let peer = Peer::start_over("127.0.0.1:0", Masked).await;
    let transport = TcpTransport::bind(None, 0, Masked).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
        assert_eq!(transport.kept_count(&peer.address), 1);
    }
    let plain = ask(&client().await, &peer, b"abc").await;
    assert!(
        matches!(plain, Err(TransportError::Lost(_) | TransportError::Unreachable(_))),
        "{plain:?}"
    );
    assert_eq!(peer.mirror.frames.load(Ordering::Relaxed), 2);
}

/// A layer whose connections take long to open.
struct Slow;

impl Layer for Slow {
    type Stream = TcpStream;

    async fn connect(&self, target: Target<'_>, tcp: TcpStream) -> io::Result<Opened<TcpStream>> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Plain.connect(target, tcp).await
    }

    async fn accept(&self, tcp: TcpStream) -> io::Result<Opened<TcpStream>> {
        Plain.accept(tcp).await
    }

    fn trusts(&self, proof: &Proof) -> bool {
        Plain.trusts(proof)
    }
}

#[tokio::test]
async fn a_connection_that_takes_longer_to_open_than_its_caller_waits_carries_the_next_call() {
    let peer = Peer::start().await;
    let transport = TcpTransport::bind(None, 0, Slow).unwrap();
    let short = Duration::from_millis(200);
    let call = || timeout(short, transport.call(at(&peer.address), b"abc".to_vec()));
    call().await.expect_err("it is not open yet");
    timeout(WITHIN, async {
        while transport.kept_count(&peer.address) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it is kept");
    let answered = call().await.expect("it is open by now").unwrap();
    assert_eq!(answered.bytes, "cba");
}

#[tokio::test]
async fn the_wait_for_a_refusal_goes_through_the_layer_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let transport = Arc::new(TcpTransport::bind(None, 0, Masked).unwrap());
    let waiting = tokio::spawn({
        let (transport, address) = (Arc::clone(&transport), address.clone());
        async move { transport.wait_refused(at(&address)).await }
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(timeout(WITHIN, stream.read_u8()).await.unwrap().unwrap(), HELLO);
    stream.write_all(&[OWN]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    drop((stream, listener));
    timeout(WITHIN, waiting).await.unwrap().unwrap();
}
