use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::channel::greeting;
use super::interface::FRAME_BYTES_MAX;
use super::{Door, TcpWire, Wire, WireError};
use crate::runtime::Pending;

const SECRET: &[u8] = b"sixteen bytes and more";
const WITHIN: Duration = Duration::from_secs(5);

/// Answers every frame with its bytes reversed, `hang` never, and refuses an empty frame.
#[derive(Default)]
struct Mirror {
    frames: AtomicUsize,
    hanging: Notify,
    given_up: Notify,
}

impl Door for Mirror {
    fn answer<'a>(&'a self, frame: &'a [u8]) -> Pending<'a, Result<Vec<u8>, String>> {
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
        let transport = TcpWire::bind(Some(address.parse().unwrap()), Some(SECRET)).await.unwrap();
        let address = transport.listens_on().unwrap().to_string();
        let mirror = Arc::new(Mirror::default());
        let handler = Arc::clone(&mirror);
        let mut serving = JoinSet::new();
        serving.spawn(Arc::new(transport).serve(handler));
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

async fn client(secret: Option<&[u8]>) -> TcpWire {
    TcpWire::bind(None, secret).await.unwrap()
}

async fn ask(transport: &TcpWire, peer: &Peer, frame: &[u8]) -> Result<Bytes, WireError> {
    timeout(WITHIN, transport.exchange(&peer.address, frame.to_vec())).await.unwrap()
}

#[tokio::test]
async fn answers_come_back_on_one_connection_after_the_other() {
    let (peer, transport) = (Peer::start().await, client(Some(SECRET)).await);
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
    let long: Vec<u8> = (0..1_500_000u32).map(|n| n as u8).collect();
    let back: Vec<u8> = long.iter().rev().copied().collect();
    assert_eq!(ask(&transport, &peer, &long).await.unwrap(), back);
    assert_eq!(ask(&transport, &peer, b"12").await.unwrap(), "21");
    assert_eq!(transport.kept_count(&peer.address), 1);
}

#[tokio::test]
async fn a_refused_frame_is_told_why_and_the_next_one_gets_through() {
    let (peer, transport) = (Peer::start().await, client(Some(SECRET)).await);
    let refused = ask(&transport, &peer, b"").await;
    assert_eq!(refused, Err(WireError::Refused("nothing was asked".to_owned())));
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn another_secret_and_another_protocol_are_refused_before_a_frame_is_read() {
    let peer = Peer::start().await;
    for secret in [None, Some(&b"another one, as long."[..])] {
        let refused = ask(&client(secret).await, &peer, b"abc").await.unwrap_err();
        assert!(
            matches!(&refused, WireError::Refused(why) if why.contains("--cluster-secret-file")),
            "{refused:?}"
        );
    }
    let mut later = greeting(SECRET);
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
    let said = [&greeting(SECRET)[..], &too_long.to_le_bytes()].concat();
    assert_eq!(peer.hear_after(&said).await, b"");
    let transport = client(Some(SECRET)).await;
    let unsent = ask(&transport, &peer, &vec![1; FRAME_BYTES_MAX + 1]).await.unwrap_err();
    assert!(matches!(unsent, WireError::Unreachable(_)), "{unsent:?}");
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn bytes_may_come_one_at_a_time() {
    let peer = Peer::start().await;
    let mut stream = TcpStream::connect(&peer.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in [&greeting(SECRET)[..], &[3, 0, 0, 0], b"abc"].concat() {
        stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut heard = [0; 8];
    timeout(WITHIN, stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"\0\x03\0\0\0cba");
}

#[tokio::test]
async fn a_peer_that_came_back_is_reached_though_its_old_connections_were_kept() {
    let (mut peer, transport) = (Peer::start().await, client(Some(SECRET)).await);
    ask(&transport, &peer, b"abc").await.unwrap();
    peer.serving.shutdown().await;
    let refused = ask(&transport, &peer, b"abc").await;
    assert!(matches!(refused, Err(WireError::Unreachable(_))), "{refused:?}");
    let peer = Peer::start_at(&peer.address).await;
    assert_eq!(ask(&transport, &peer, b"abc").await.unwrap(), "cba");
}

#[tokio::test]
async fn work_that_nobody_waits_for_any_more_is_given_up() {
    let (peer, transport) = (Peer::start().await, client(Some(SECRET)).await);
    let asked = tokio::select! {
        answer = ask(&transport, &peer, b"hang") => Some(answer),
        () = peer.mirror.hanging.notified() => None,
    };
    assert_eq!(asked, None);
    timeout(WITHIN, peer.mirror.given_up.notified()).await.unwrap();
    assert_eq!(transport.kept_count(&peer.address), 0, "its answer could be taken for another's");
}

#[tokio::test]
async fn a_process_that_speaks_another_protocol_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let transport = client(Some(SECRET)).await;
    let answered = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        stream
    };
    let (lost, _stream) = tokio::join!(transport.exchange(&address, b"abc".to_vec()), answered);
    assert!(matches!(&lost, Err(WireError::Lost(why)) if why.contains("no node")), "{lost:?}");
}
