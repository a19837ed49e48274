//! Processes that listen at an address where nodes expect a node: they learn nothing, and what they send has no effect.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use serde_json::json;

use super::{assert_all_run, assert_no_secret, garbage, new_secret, start_with, term, tls};
use crate::harness::{eventually, pause, secs};
use crate::mixups::{add, members, reachable};

/// How a rogue answers.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Garbage,
    /// A refusal as nodes without TLS write it. From a member, it would end the caller.
    PlainRefusal,
    /// TLS, with a proof from an unknown CA.
    OtherCa,
    Silence,
}

const MANNERS: [Manner; 4] =
    [Manner::Garbage, Manner::PlainRefusal, Manner::OtherCa, Manner::Silence];

/// Records everything that it receives.
struct Rogue {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    heard: Mutex<Vec<u8>>,
    /// The bytes that it received after it was taken for a node.
    confided: Mutex<Vec<u8>>,
    ended: AtomicBool,
}

impl Rogue {
    fn listen(at: SocketAddr, manner: Manner) -> Self {
        // A process that a test of another thread starts inherits open sockets until it executes its program, so the
        // previous listener at this address can outlive its owner for a moment.
        let listener = eventually("the address is free", secs(10), || TcpListener::bind(at).ok());
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let noting = Arc::clone(&shared);
        let listening = thread::spawn(move || {
            for caller in listener.incoming() {
                if noting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(caller), shared) = (caller, Arc::clone(&noting)) else { continue };
                // An error means that the caller closed the connection.
                thread::spawn(move || drop(converse(caller, manner, &shared)));
            }
        });
        Self { address, shared, listening: Some(listening) }
    }

    /// Checks that it received something, that no node accepted it as a node, and that it received no secret.
    #[track_caller]
    fn assert_told_nothing(&self, secret: &str) {
        let (heard, confided) = (self.shared.heard.lock(), self.shared.confided.lock());
        assert!(!heard.is_empty(), "nobody came");
        assert!(confided.is_empty(), "it passed for a node, and heard {confided:?}");
        assert_no_secret(&heard, secret);
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts connections, so that it notices the end.
        drop(TcpStream::connect(self.address));
        // From then on its address is free.
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

fn converse(mut caller: TcpStream, manner: Manner, shared: &Shared) -> io::Result<()> {
    caller.set_read_timeout(Some(secs(5)))?;
    match manner {
        Manner::Garbage => {
            caller.write_all(&garbage(4096))?;
        }
        Manner::PlainRefusal => {
            let why = b"it was removed from the cluster; wipe its data directory";
            caller.write_all(&[&[1, why.len() as u8, 0, 0, 0], &why[..]].concat())?;
        }
        Manner::OtherCa => {
            let said = tls::serve(Noting(caller, shared), "node-9.mintleaf");
            shared.confided.lock().extend(said);
            return Ok(());
        }
        Manner::Silence => {}
    }
    let mut bytes = [0; 4096];
    let mut noting = Noting(caller, shared);
    while noting.read(&mut bytes)? > 0 {}
    Ok(())
}

/// A connection that records its incoming bytes.
struct Noting<'a>(TcpStream, &'a Shared);

impl Read for Noting<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(bytes)?;
        self.1.heard.lock().extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

impl Write for Noting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_rogue_that_is_to_be_added_is_refused_with_one_text_and_told_nothing() {
    let secret = new_secret();
    let mut cluster = start_with(&secret);
    let (leader, before) = (cluster.leader(), members(cluster.api(1)));
    let mut texts = Vec::new();
    for manner in MANNERS {
        let rogue = Rogue::listen("127.0.0.1:0".parse().unwrap(), manner);
        // Under a free id, and under a member's.
        for id in [9, 2] {
            let refused = add(&cluster, id, rogue.address);
            assert_eq!(refused.problem(), (409, "conflict".to_owned()), "{manner:?}: {refused:?}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            texts.push((id, detail.replace(&rogue.address.to_string(), "ADDRESS")));
        }
        rogue.assert_told_nothing(&secret);
    }
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 2, "one text for each id: {texts:?}");
    assert_all_run(&mut cluster, &[1, 2, 3]);
    assert_eq!((cluster.leader(), members(cluster.api(1))), (leader, before));
}

#[test]
fn a_rogue_at_a_members_address_is_told_nothing_and_costs_no_leader() {
    let secret = new_secret();
    let mut cluster = start_with(&secret);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let leader = cluster.leader();
    let [gone, stays] = cluster.others(leader)[..] else { panic!("three nodes run") };
    let before = members(cluster.api(leader));
    cluster.kill(gone);
    let term_before = term(cluster.api(leader));
    for manner in MANNERS {
        let rogue = Rogue::listen(cluster.raft(gone), manner);
        // Several rounds of heartbeats and queries.
        pause(secs(2));
        rogue.assert_told_nothing(&secret);
        assert_all_run(&mut cluster, &[leader, stays]);
        for id in [leader, stays] {
            assert_eq!(reachable(cluster.api(id), gone), Some(false), "{manner:?}");
        }
        let answer = cluster.api(stays).get("/v1/segment/orders");
        assert_eq!(answer.status, 200, "{manner:?}: {answer:?}");
    }
    assert_eq!((cluster.leader(), term(cluster.api(leader))), (leader, term_before));
    assert_eq!(members(cluster.api(leader)), before);
    cluster.start_node(gone);
    cluster.await_ready();
}
