//! A connection between nodes, from the greeting on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mintleaf_raft::Peer;
use mintleaf_raft::fuzzing::{FRAME_MAX, conversation};
use tokio::io::{AsyncWriteExt, duplex, sink, split};
use tokio::runtime::Builder;

const PROTOCOL: u8 = 3;
/// More than the answers to the longest input.
const PIPE_BYTES: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let [kind, piece_bytes, said @ ..] = bytes else { return };
    let said = match kind % 3 {
        0 => said.to_vec(),
        _ => [&greeting()[..], said].concat(),
    };
    let peer = match kind / 3 % 3 {
        0 => Peer::Unproven,
        1 => Peer::Proven { node_id: 2, store: Some(9) },
        _ => Peer::Proven { node_id: u64::MAX, store: None },
    };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime starts");
    let heard = runtime.block_on(hold(&said, usize::from(*piece_bytes).max(1), peer));
    // A frame counts as sent by the peer that has proved itself, not by the sender that the frame names.
    let expected: Vec<_> = frames(&said).into_iter().map(|frame| (peer, frame)).collect();
    assert_eq!(heard, expected);
});

fn greeting() -> Vec<u8> {
    [&b"MLRP"[..], &[PROTOCOL]].concat()
}

/// Sends bytes in pieces to the listener's end, which must end by itself.
async fn hold(said: &[u8], piece_bytes: usize, peer: Peer) -> Vec<(Peer, Vec<u8>)> {
    let (ours, theirs) = duplex(PIPE_BYTES);
    let (mut from, mut to) = split(ours);
    let say = async {
        for piece in said.chunks(piece_bytes) {
            // The listener may have hung up already.
            let _ = to.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = to.shutdown().await;
    };
    let hear = async { tokio::io::copy(&mut from, &mut sink()).await };
    let (heard, (), _) = tokio::join!(conversation(theirs, peer), say, hear);
    heard
}

/// The frames that a plain reading of all bytes gives.
fn frames(said: &[u8]) -> Vec<Vec<u8>> {
    let Some(mut rest) = said.strip_prefix(&greeting()[..]) else { return Vec::new() };
    let mut frames = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else { break };
        if length > FRAME_MAX {
            break;
        }
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}
