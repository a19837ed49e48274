//! Frames to a whole node: one that is alone and leads, or a founder that waits for two others. A refused frame
//! leaves the node as it was. An accepted frame causes no hang and no panic.
#![no_main]

use std::io::{self, Read};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mintleaf_fuzz::{NODE_ID, STORE, Site, sealed};
use mintleaf_raft::{
    FrozenState, Newer, Peer, Rejected, Release, RestoreError, Stamp, StateMachine,
};
use tokio::time::{Duration, sleep};

const PROTOCOL: u8 = 3;
/// A frame may wait for a proposal or a change of the membership.
const SECONDS_MAX: u64 = 60;
const FRAMES_MAX: usize = 8;
/// The refusal of a frame whose sender has not proved itself to be the node that the frame names.
const NOT_THE_SENDER: &str = "the sender is not the node that has proved itself";

/// Counts bytes. It accepts any command.
struct Tally;

impl StateMachine for Tally {
    fn check(&self, _: &[u8]) -> Result<(), Rejected> {
        Ok(())
    }

    fn supports(&self) -> Release {
        Release { level: 1, version: "one".to_owned() }
    }

    fn needs(&self) -> Release {
        Release { level: 1, version: "one".to_owned() }
    }

    fn raising(&self, to: u32) -> io::Result<Vec<Vec<u8>>> {
        unreachable!("nobody supports level {to}")
    }

    fn apply(&self, _: Stamp, command: &[u8]) -> Result<Vec<u8>, Newer> {
        Ok(command.to_owned())
    }

    fn freeze(&self) -> FrozenState {
        Box::new(|out| out.write_all(b"state"))
    }

    fn restore(&self, from: &mut dyn Read) -> Result<(), RestoreError> {
        io::copy(from, &mut io::sink())?;
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, mut rest)) = bytes.split_first() else { return };
    let site = Site::default();
    let (node, door) = site.open(mode & 1 == 0, Arc::new(Tally));
    // A new node accepts any cluster id from a peer that names its store.
    let cluster = node.handle().status().cluster_id.unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((&[kind, length], tail)) = rest.split_first_chunk()
        && frames.len() < FRAMES_MAX
    {
        let (body, tail) = tail.split_at(tail.len().min(usize::from(length)));
        frames.push((kind % 4 > 1, frame(kind, cluster, body)));
        rest = tail;
    }
    let caller = caller(mode >> 1);
    site.run(SECONDS_MAX, async move {
        for (is_of_node_2, frame) in frames {
            let answered = door.handle(caller, &frame).await;
            if is_of_node_2 && !caller.may_speak_for(2, 9) {
                // A frame that does not decode is refused with another answer.
                if let Ok(answer) = answered {
                    assert!(holds(&answer, NOT_THE_SENDER), "{caller:?} spoke for node 2");
                }
            }
        }
        sleep(Duration::from_secs(1)).await;
        node.shutdown().await;
    });
});

/// The peer that has proved itself: node 2, whose frames these are, another node, or none.
fn caller(choice: u8) -> Peer {
    match choice % 8 {
        0..=2 => Peer::Unproven,
        3 => Peer::Proven { node_id: 2, store: Some(9) },
        4 => Peer::Proven { node_id: 2, store: None },
        5 => Peer::Proven { node_id: 2, store: Some(8) },
        6 => Peer::Proven { node_id: NODE_ID, store: Some(STORE) },
        _ => Peer::Proven { node_id: 3, store: None },
    }
}

fn holds(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window == text.as_bytes())
}

fn frame(kind: u8, cluster: u128, body: &[u8]) -> Vec<u8> {
    match kind % 4 {
        0 => body.to_vec(),
        1 => sealed(PROTOCOL, body),
        _ => sealed(PROTOCOL, &[&header(cluster), body].concat()),
    }
}

/// The head of a frame from node 2 in the codec's format: small numbers are single bytes, large ones follow a
/// byte for their width.
fn header(cluster: u128) -> Vec<u8> {
    let clock_ms = 1_800_000_000_000_u64;
    let mut header = vec![1, 254];
    header.extend_from_slice(&cluster.to_le_bytes());
    // From node 2: its store, start number and nonce. It knows no membership.
    header.extend_from_slice(&[2, 9, 1, 1, 0]);
    // To this node and store, whose start node 2 has never seen.
    header.extend_from_slice(&[NODE_ID as u8, STORE as u8, 0]);
    header.push(253);
    header.extend_from_slice(&clock_ms.to_le_bytes());
    header.push(0);
    header
}
