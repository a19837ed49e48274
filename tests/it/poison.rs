//! Commands that no node can apply, sent to other nodes by a member as raw frames.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use mintleaf_codec as codec;
use serde::Serialize;
use serde_json::json;

use crate::harness::{mintleaf, secs};

const PROTOCOL: u8 = 3;
/// The numbers of requests and purposes on the wire.
const PROPOSE: u32 = 4;
const HANDSHAKE: u32 = 6;
const JOIN: u32 = 1;

/// One end of a connection to a node's internal port.
struct Peer(TcpStream);

impl Peer {
    fn connect(to: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(secs(10))).unwrap();
        stream.write_all(&[&b"MLRP"[..], &[PROTOCOL]].concat()).unwrap();
        Self(stream)
    }

    /// Sends a request and returns the answer, or the reason why there is none.
    fn ask<T: Serialize>(&mut self, request: &T) -> Vec<u8> {
        let frame = codec::encode(PROTOCOL, request);
        self.0.write_all(&u32::try_from(frame.len()).unwrap().to_le_bytes()).unwrap();
        self.0.write_all(&frame).unwrap();
        let mut head = [0; 5];
        self.0.read_exact(&mut head).unwrap();
        let length = u32::from_le_bytes(head[1..].try_into().unwrap());
        let mut answer = vec![0; length as usize];
        self.0.read_exact(&mut answer).unwrap();
        answer
    }
}

/// Reads numbers in the codec's format.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> u128 {
        let (&first, rest) = self.0.split_first().unwrap();
        let width = match first {
            251 => 2,
            252 => 4,
            253 => 8,
            254 => 16,
            small => {
                self.0 = rest;
                return small.into();
            }
        };
        let (number, rest) = rest.split_at(width);
        self.0 = rest;
        number.iter().rev().fold(0, |sum, &byte| sum << 8 | u128::from(byte))
    }
}

/// A node, its data directory, the number and nonce of its start, and the membership it knows.
type Identity = (u128, u128, (u128, u128), Option<u128>);

/// Asks an address for the identity of its node.
fn identity(at: SocketAddr) -> Identity {
    let nobody: Identity = (77, 77, (1, 1), None);
    let handshake = (None::<()>, (HANDSHAKE, (nobody, None::<u128>, JOIN)));
    let answer = Peer::connect(at).ask(&handshake);
    // The fields follow the format and the checksum.
    let mut numbers = Numbers(&answer[5..]);
    let mut next = || numbers.next();
    let (node_id, store, start) = (next(), next(), (next(), next()));
    let members = (next() == 1).then(next);
    (node_id, store, start, members)
}

/// The frame that forwards commands from `from` to `to`.
fn proposal<T: Serialize>(
    cluster: u128,
    from: Identity,
    to: Identity,
    commands: T,
) -> impl Serialize {
    let now_ms = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let to = (to.0, to.1, None::<(u128, u128)>);
    let header = (cluster, from, to, now_ms, None::<u128>);
    (Some(header), (PROPOSE, commands, 2000_u64))
}

fn holds(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn what_nobody_can_apply_is_refused_to_a_member_and_ends_no_node() {
    let mut cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let leader = cluster.leader();
    let (from, to) = (cluster.raft(cluster.others(leader)[0]), cluster.raft(leader));
    let view = cluster.api(leader).get("/v1/cluster").ok();
    let name = u128::from_str_radix(view["cluster_id"].as_str().unwrap(), 16).unwrap();
    let (from, at_leader) = (identity(from), identity(to));
    let log = || -> u64 {
        let view = cluster.api(leader).get("/v1/cluster").ok();
        let nodes = view["nodes"].as_array().unwrap();
        let own = nodes.iter().find(|node| node["id"] == leader).unwrap();
        own["last_log_index"].as_u64().unwrap()
    };
    let before = log();

    let mut peer = Peer::connect(to);
    let answer = peer.ask(&proposal(name, from, at_leader, vec![b"garbage!".to_vec()]));
    assert!(holds(&answer, "record of unknown format"), "{}", String::from_utf8_lossy(&answer));
    for much in [vec![vec![7_u8; 200_000]], vec![Vec::new(); 1_500_000]] {
        let answer = Peer::connect(to).ask(&proposal(name, from, at_leader, much));
        let told = String::from_utf8_lossy(&answer);
        assert!(told.contains("more commands than an entry holds"), "{told}");
    }
    let stranger = (77, 77, (1, 1), None);
    let answer =
        Peer::connect(to).ask(&proposal(name, stranger, at_leader, vec![b"garbage!".to_vec()]));
    assert!(holds(&answer, "only a member"), "{}", String::from_utf8_lossy(&answer));

    // Only clock reports are written to the log now, and they are rare.
    assert!(log() - before < 20, "something was appended");
    for round in 0..2 {
        for id in cluster.ids() {
            cluster.api(id).get("/v1/segment/orders?count=10").ok();
        }
        if round == 0 {
            // A start applies all log entries again.
            cluster.ids().into_iter().for_each(|id| cluster.kill(id));
            cluster.start_all();
        }
    }
}
