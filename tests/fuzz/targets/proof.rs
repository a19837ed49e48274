//! Input before the proof, on a TLS port between nodes: bytes that are no handshake, handshakes that were
//! changed on their way, and certificates.
#![no_main]

use std::str;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mintleaf_fuzz::edited;
use mintleaf_raft::Peer;
use mintleaf_raft::fuzzing::{TlsEnd, named};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy, duplex, sink, split,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Duration, timeout};

/// More bytes than a handshake takes.
const PIPE_BYTES: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const SECRET: &[u8] = b"the secret of this cluster, which nobody else knows";

static LISTENER: LazyLock<TlsEnd> = LazyLock::new(|| TlsEnd::new(1, 7, SECRET));
static MEMBER: LazyLock<TlsEnd> = LazyLock::new(|| TlsEnd::new(2, 9, SECRET));
static STRANGER: LazyLock<TlsEnd> =
    LazyLock::new(|| TlsEnd::new(2, 9, b"the secret of another cluster, of some length"));
static CERTIFICATE: LazyLock<Vec<u8>> = LazyLock::new(|| MEMBER.certificate());
static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().expect("a key is drawn"));

fuzz_target!(|bytes: &[u8]| {
    let [kind, piece_bytes, rest @ ..] = bytes else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    match kind % 5 {
        0 => assert_eq!(runtime().block_on(say(rest, piece_bytes)), None),
        1 => {
            let proven = runtime().block_on(shake(&MEMBER, rest, piece_bytes));
            // The peer is never taken for another node. With an unchanged handshake it is proven.
            let member = Some(Peer::Proven { node_id: 2, store: Some(9) });
            assert!(proven == member || proven.is_none() && !rest.is_empty(), "{proven:?}");
        }
        2 => assert_eq!(runtime().block_on(shake(&STRANGER, rest, piece_bytes)), None),
        3 => {
            let proven = LISTENER.judge(&edited(&CERTIFICATE, rest));
            assert!(proven.is_none_or(|proven| proven == (2, Some(9))), "{proven:?}");
            let _ = named(rest);
        }
        _ => judge_names(rest),
    }
});

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime starts")
}

/// Sends bytes to the listener, which must end by itself.
async fn say(bytes: &[u8], piece_bytes: usize) -> Option<Peer> {
    let (ours, theirs) = duplex(PIPE_BYTES);
    let (mut from, mut to) = split(ours);
    let say = async {
        for piece in bytes.chunks(piece_bytes) {
            // The listener may have hung up already.
            let _ = to.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        // Some peers stay connected and send no more.
        if piece_bytes.is_multiple_of(2) {
            let _ = to.shutdown().await;
        }
    };
    let hear = async { copy(&mut from, &mut sink()).await };
    let (proven, (), _) = tokio::join!(LISTENER.accept(theirs), say, hear);
    proven
}

/// A whole handshake between a node and the listener. The bytes from the node are changed on their way.
async fn shake(node: &TlsEnd, edits: &[u8], piece_bytes: usize) -> Option<Peer> {
    let ((ours, near), (far, theirs)) = (duplex(PIPE_BYTES), duplex(PIPE_BYTES));
    let ((mut said, mut to_node), (mut answers, mut to_listener)) = (split(near), split(far));
    let there = async {
        carry(&mut said, &mut to_listener, edits, piece_bytes).await;
        let _ = to_listener.shutdown().await;
    };
    let back = async {
        carry(&mut answers, &mut to_node, &[], PIPE_BYTES).await;
        let _ = to_node.shutdown().await;
    };
    let (accepting, connecting) = (LISTENER.accept(theirs), connect(node, ours));
    let (proven, (), (), ()) = tokio::join!(accepting, connecting, there, back);
    proven
}

/// Connects as a node does, which waits only for a limited time.
async fn connect(node: &TlsEnd, stream: DuplexStream) {
    let _ = timeout(CONNECT_TIMEOUT, node.connect(1, stream)).await;
}

/// Carries bytes in pieces. The positions of edits count from the first byte.
async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    edits: &[u8],
    piece_bytes: usize,
) {
    let (mut piece, mut at) = (vec![0; piece_bytes], 0);
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        for edit in edits.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % 2048;
            if let Some(byte) = place.checked_sub(at).and_then(|place| piece[..read].get_mut(place))
            {
                *byte ^= edit[2];
            }
        }
        at += read;
        if to.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
}

/// A certificate for arbitrary names identifies the node that a plain reading finds, or no node.
fn judge_names(names: &[u8]) {
    let Ok(names) = str::from_utf8(names) else { return };
    let names: Vec<_> = names.lines().map(str::to_owned).collect();
    let Ok(params) = CertificateParams::new(names.clone()) else { return };
    let Ok(made) = params.self_signed(&*KEY) else { return };
    let found = named(made.der());
    let number = |name: &str| name.strip_prefix("node-")?.strip_suffix(".mintleaf")?.parse().ok();
    let is_plain = |id: &u64, name: &str| *id > 0 && name == format!("node-{id}.mintleaf");
    let nodes: Vec<u64> =
        names.iter().filter_map(|name| number(name).filter(|id| is_plain(id, name))).collect();
    match found {
        Some((id, store)) => {
            assert_eq!(nodes, [id], "{names:?}");
            let is_there = |store| names.iter().any(|name| named_store(name) == Some(store));
            assert!(store.is_none_or(is_there), "{store:?} of {names:?}");
        }
        None => assert!(nodes.len() != 1 || names.len() != 1, "{names:?}"),
    }
    assert_eq!(LISTENER.judge(made.der()), None, "it has signed itself");
}

fn named_store(name: &str) -> Option<u128> {
    let digits = name.strip_prefix("store-")?.strip_suffix(".mintleaf")?;
    u128::from_str_radix(digits, 16).ok()
}
