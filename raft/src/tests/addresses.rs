//! Nodes that come back at other addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mintleaf_storage::SledEngine;
use tempfile::TempDir;
use tokio::time::timeout;

use super::support::{
    SOON, add, eventually, open, open_three, open_with, options, released, three_peers,
};
use crate::ProposeError;
use crate::node::Node;
use crate::runtime::Pending;
use crate::transport::{
    FrameHandler, Reply, Security, Target, TcpTransport, Tls, Transport, TransportError,
};

/// A transport that lets no frame out while it is cut.
struct CutTransport {
    tcp: Arc<TcpTransport<Tls>>,
    cut: Arc<AtomicBool>,
}

impl Transport for CutTransport {
    fn call<'a>(
        &'a self,
        target: Target<'a>,
        frame: Vec<u8>,
    ) -> Pending<'a, Result<Reply, TransportError>> {
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(TransportError::Unreachable("cut".into()))));
        }
        self.tcp.call(target, frame)
    }

    fn serve(self: Arc<Self>, handler: Arc<dyn FrameHandler>) -> io::Result<Pending<'static, ()>> {
        Arc::clone(&self.tcp).serve(handler)
    }

    fn listens_on(&self) -> Option<SocketAddr> {
        self.tcp.listens_on()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_learner_that_comes_back_elsewhere_is_not_taken_in_again() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let [one, two, three] = open_three(&peers, &data).await;
    assert_eq!(add(&one, 1).await, Ok(1));
    let member = |id: u64| one.handle().core.member(id);
    one.handle().add_member(3, peers[&3].clone(), String::new(), false, false).await.unwrap();
    let applied = |node: &Node| node.handle().status().last_applied_index;
    let is_learner = || !three.handle().core.identity.members().voter_ids().any(|id| id == 3);
    eventually("3 is a learner", || is_learner() && applied(&three) == applied(&one)).await;
    three.shutdown().await;
    one.handle().remove_member(3, false).await.unwrap();

    // The node can reach no other node at first, so it cannot learn that it was removed.
    let mut moved = options(3, &data(3), &peers);
    moved.listen = Some("127.0.0.1:0".parse().unwrap());
    let Security::Tls(credentials) = moved.security.clone() else { panic!("they prove a secret") };
    let dir = released(&data(3)).await;
    let tls = Tls::new((3, dir.store_id()), credentials, Arc::new(|| 0)).unwrap();
    let tcp = TcpTransport::bind(moved.listen, moved.tuning.peer_connections_max, tls).unwrap();
    moved.advertise_raft = tcp.listens_on().map(|address| address.to_string());
    let cut = Arc::new(AtomicBool::new(true));
    let transport = Arc::new(CutTransport { tcp: Arc::new(tcp), cut: Arc::clone(&cut) });
    let engine = Arc::new(SledEngine::open(&dir).unwrap());
    let (three, _) = open_with(dir, engine, transport, moved).await;
    cut.store(false, Ordering::SeqCst);
    let why = timeout(SOON, three.stopped()).await.expect("it stops").to_string();
    assert!(why.contains("removed from the cluster"), "{why}");
    assert_eq!(member(3), None);
    for node in [one, two, three] {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_exchanged_their_addresses_find_each_other_by_the_new_list() {
    let temp = TempDir::new().unwrap();
    let mut peers = three_peers();
    let data = |id: u64| temp.path().join(format!("node-{id}"));
    let mut sum = 0;
    for _ in 0..3 {
        let mut nodes = Vec::new();
        for id in 1..=3 {
            nodes.push(open(options(id, &data(id), &peers)).await.0);
        }
        for node in &nodes {
            let before = sum;
            // On a busy machine leadership may change, and a proposal made during the change may or may not be
            // carried out.
            sum = loop {
                match add(node, 1).await {
                    Ok(sum) => break sum,
                    Err(ProposeError::Unknown(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert!(sum > before, "a log that was read again has lost an entry");
        }
        for node in nodes {
            node.shutdown().await;
        }
        for id in 1..=3 {
            drop(released(&data(id)).await);
        }
        // The addresses rotate: every address belongs to another member.
        let addresses: Vec<String> = peers.values().cloned().collect();
        peers = (1..=3).zip(addresses.into_iter().cycle().skip(1)).collect();
    }
}
