//! Processes that connect to a node's internal port without a proof: the node reads no frame of theirs, and any
//! number of them leaves a failover as fast as before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::tls::{self, Certified};
use super::{assert_all_run, await_said, new_secret, start_with, term};
use crate::harness::{Cluster, eventually, pause, secs};

/// How long a failover may take, with or without the attack, on a machine that is busy with other tests.
const FAILOVER_WITHIN: Duration = secs(3);
/// How long a handshake may take during the attack. Earlier connections are accepted first.
const HANDSHAKE_WITHIN: Duration = secs(2);
/// Silent connections to each internal port.
const SILENT: usize = 450;
/// How long they exist before the leader is killed.
const BEFORE: Duration = secs(6);

#[test]
fn nobody_without_a_certificate_of_this_cluster_gets_a_frame_through() {
    let mut cluster = start_with(&new_secret());
    for id in cluster.ids() {
        let name = format!("node-{}.mintleaf", id % 3 + 1);
        // A check that the port is open shows nothing that could be refused, and is not warned of.
        let check = std::net::TcpStream::connect(cluster.raft(id)).unwrap().local_addr().unwrap();
        for proof in [
            None,
            Some(Certified::self_signed(&name)),
            Some(Certified::of_another_ca(&name)),
            Some(Certified::of_another_ca("mintleaf")),
        ] {
            let (heard, ended) = tls::send_frame(cluster.raft(id), proof, &[7; 20]);
            assert_eq!(heard, b"", "an answer");
            let why = ended.expect_err("a certificate is asked for").to_string();
            assert!(why.contains("received fatal alert"), "{why}");
        }
        await_said(&mut cluster, id, "a connection to the internal port proved nothing");
        let log = cluster.process(id).said();
        assert!(!log.contains(&format!("from={check} ")), "{log}");
    }
    assert_all_run(&mut cluster, &[1, 2, 3]);
}

/// Connections that send nothing. Each is opened again when the node has closed it.
struct Flood {
    opened: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Flood {
    fn start(ports: impl IntoIterator<Item = SocketAddr>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let opened = Arc::new(AtomicU64::new(0));
        for port in ports {
            for _ in 0..SILENT {
                runtime.spawn(hold(port, Arc::clone(&opened)));
            }
        }
        Self { opened, _runtime: runtime }
    }

    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

async fn hold(port: SocketAddr, opened: Arc<AtomicU64>) {
    loop {
        match TcpStream::connect(port).await {
            Ok(mut stream) => {
                opened.fetch_add(1, Ordering::Relaxed);
                let _ = timeout(secs(20), stream.read_u8()).await;
            }
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Kills the leader, and returns how long it takes to grab a tag that no node holds ids of.
fn failover(cluster: &mut Cluster, tag: &str) -> (u64, Duration) {
    let leader = cluster.leader();
    let survivor = cluster.others(leader)[0];
    cluster.kill(leader);
    let died = Instant::now();
    eventually("a grab by another leader", secs(15), || {
        let answer = cluster.api(survivor).get(&format!("/v1/segment/{tag}"));
        (answer.status == 200).then_some(())
    });
    (leader, died.elapsed())
}

/// The median and the longest time of several handshakes. Their caller has no proof, which the node discovers last.
fn handshakes(port: SocketAddr) -> [Duration; 2] {
    let mut took: Vec<_> = (0..15)
        .map(|_| {
            let began = Instant::now();
            assert!(tls::send_frame(port, None, &[7; 20]).1.is_err());
            began.elapsed()
        })
        .collect();
    took.sort();
    [took[7], took[14]]
}

#[test]
fn a_flood_of_silent_connections_delays_no_failover() {
    let mut cluster = start_with(&new_secret());
    for tag in ["without", "with-0", "with-1", "with-2"] {
        cluster.api(1).post("/v1/tags", &json!({ "tag": tag })).ok();
    }
    let (killed, without) = failover(&mut cluster, "without");
    cluster.start_node(killed);
    cluster.await_ready();
    let [usual, longest] = handshakes(cluster.raft(1));
    println!("a handshake takes {usual:?}, at most {longest:?}");

    let before = term(cluster.api(1));
    let flood = Flood::start(cluster.ids().into_iter().map(|id| cluster.raft(id)));
    pause(BEFORE);
    let [usual, longest] = handshakes(cluster.raft(1));
    println!("during the flood it takes {usual:?}, at most {longest:?}");
    // On a machine that is busy with other tests, one is slow at times. So the median counts, here and below, and the
    // slowest gets twice its time.
    assert!(usual < HANDSHAKE_WITHIN, "handshakes during the flood took {usual:?}");
    assert!(longest < 2 * HANDSHAKE_WITHIN, "a handshake during the flood took {longest:?}");
    let calm = term(cluster.api(1));
    let mut took = [0, 1, 2].map(|round| {
        let (killed, took) = failover(&mut cluster, &format!("with-{round}"));
        // A node that starts gets through as well.
        cluster.start_node(killed);
        cluster.await_ready();
        took
    });
    let after = term(cluster.api(1));
    println!(
        "the first grab came after {without:?}; with {} silent connections, each opened again when it was closed, \
         after {took:?}",
        flood.opened()
    );
    println!(
        "terms: {before}, {calm} after {BEFORE:?} of the flood, {after} after three failovers"
    );
    took.sort();
    assert!(flood.opened() >= 3 * SILENT as u64, "{} connections are no flood", flood.opened());
    assert!(without < FAILOVER_WITHIN && took[1] < FAILOVER_WITHIN, "{without:?} and {took:?}");
    assert!(calm - before <= 3, "the flood cost {} elections", calm - before);
    assert!(after - calm <= 15, "three failovers took {} terms", after - calm);
    drop(flood);
    assert_all_run(&mut cluster, &[1, 2, 3]);
}
