//! Certificates that are replaced while clients of three nodes go on, on kept connections and on new ones.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use super::{Pki, Secured, TlsClient, replace};
use crate::harness::{Cluster, eventually, mintleaf, ms, secs};

pub(super) const TAKEN: &str = "took new certificates for clients into use";
const NOT_TAKEN: &str = "new certificates for clients cannot be used";

/// The files of a node: its certificate and its key.
pub(super) fn files(cluster: &Cluster, id: u64) -> [PathBuf; 2] {
    ["pem", "key"].map(|end| cluster.dir().join(format!("tls-{id}.{end}")))
}

pub(super) fn copy(from: &[PathBuf; 2], to: &[PathBuf; 2]) {
    // The key is written first. Until the certificate follows, the two do not match, and the old ones stay in use.
    for at in [1, 0] {
        replace(&to[at], fs::read(&from[at]).unwrap());
    }
}

/// The certificate that a node presents on a new connection.
pub(super) fn shown(client: &TlsClient, node: SocketAddr) -> Vec<u8> {
    let mut kept = client.open(node);
    assert_eq!(kept.get("/livez").0, 200);
    kept.certificate()
}

/// Clients that keep asking, each on a connection that stays open or on a new one each time.
struct Asking {
    client: TlsClient,
    stop: AtomicBool,
    asked: AtomicU64,
    ids: Mutex<Vec<String>>,
    failed: Mutex<Vec<String>>,
}

impl Asking {
    fn run(&self, node: SocketAddr, keeps: bool) {
        let mut kept = self.client.open(node);
        let certificate =
            kept.get("/api/segment/get/orders").0.eq(&200).then(|| kept.certificate());
        let mut ids = Vec::new();
        while !self.stop.load(Relaxed) {
            if !keeps {
                kept = self.client.open(node);
            }
            let (status, body) = kept.get("/api/segment/get/orders");
            if status == 200 {
                ids.push(body);
            } else {
                self.failed.lock().unwrap().push(format!("{status} {body}"));
            }
            self.asked.fetch_add(1, Relaxed);
        }
        if keeps {
            assert_eq!(Some(kept.certificate()), certificate, "the connection is the same");
        }
        self.ids.lock().unwrap().extend(ids);
    }

    fn await_more(&self, count: u64) {
        let from = self.asked.load(Relaxed);
        eventually("the load to go on", secs(60), || {
            (self.asked.load(Relaxed) > from + count).then_some(())
        });
    }
}

/// Three nodes with certificates of a CA, for clients and for each other.
fn start(ca: &Pki, mut cluster: Cluster) -> (Cluster, TlsClient) {
    for id in cluster.ids() {
        let (made, own) = (ca.node(id), files(&cluster, id));
        copy(&made, &own);
        for (flag, file) in [
            ("--tls-cert", &own[0]),
            ("--tls-key", &own[1]),
            ("--raft-cert", &made[0]),
            ("--raft-key", &made[1]),
            ("--raft-ca", &ca.ca()),
        ] {
            cluster.add_flag(id, flag, file);
        }
        cluster.start_node(id);
    }
    let client = TlsClient::believing(&[ca.ca()]);
    for (id, node) in cluster.targets() {
        eventually("the node to listen", secs(15), || std::net::TcpStream::connect(node).ok());
        eventually(&format!("node {id} to be ready"), secs(20), || {
            (client.open(node).get("/readyz").0 == 200).then_some(())
        });
    }
    (cluster, client)
}

#[test]
fn certificates_are_replaced_on_three_nodes_under_load_and_no_request_fails() {
    let cluster = mintleaf().prepare(3, &["--auto-create-tags"]);
    let (old, new) = (Pki::make(cluster.dir(), "old-ca"), Pki::make(cluster.dir(), "new-ca"));
    let (mut cluster, _) = start(&old, cluster);
    let client = TlsClient::believing(&[old.ca(), new.ca()]);
    let asking = Asking {
        client: client.clone(),
        stop: AtomicBool::new(false),
        asked: AtomicU64::new(0),
        ids: Mutex::default(),
        failed: Mutex::default(),
    };
    thread::scope(|scope| {
        for (_, node) in cluster.targets() {
            for keeps in [true, false] {
                let asking = &asking;
                scope.spawn(move || asking.run(node, keeps));
            }
        }
        asking.await_more(300);
        for (id, node) in cluster.targets() {
            let before = shown(&client, node);
            let own = files(&cluster, id);
            // An incomplete file changes nothing.
            let made = new.node(id);
            let whole = fs::read(&own[0]).unwrap();
            replace(&own[0], &whole[..whole.len() / 2]);
            cluster.process(id).signal("HUP");
            await_said(&mut cluster, id, NOT_TAKEN);
            assert_eq!(shown(&client, node), before);
            copy(&made, &own);
            if id == 1 {
                // The others check the files by themselves.
                cluster.process(id).signal("HUP");
            }
            await_said(&mut cluster, id, TAKEN);
            assert_ne!(shown(&client, node), before, "node {id} shows the old certificate");
            asking.await_more(300);
        }
        asking.stop.store(true, Relaxed);
    });
    let only_new = TlsClient::believing(&[new.ca()]);
    for (_, node) in cluster.targets() {
        assert_eq!(only_new.open(node).get("/livez").0, 200);
    }
    let failed = asking.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    let (asked, ids) = (asking.asked.into_inner(), asking.ids.into_inner().unwrap());
    let unlike: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unlike.len() as u64, asked, "an id came twice");
    println!("{asked} requests");
}

#[track_caller]
pub(super) fn await_said(cluster: &mut Cluster, id: u64, what: &str) {
    eventually(&format!("node {id} to say: {what}"), secs(15), || {
        cluster.process(id).said().contains(what).then_some(())
    });
}

#[test]
fn a_ca_of_clients_is_replaced_while_the_node_runs() {
    let node = Secured::start_with(|ca| {
        let own = ca.path("clients.pem");
        fs::copy(ca.ca(), &own).unwrap();
        vec!["--tls-client-ca".into(), own.display().to_string()]
    });
    let other = Pki::make(node.dir.path(), "other");
    let [before, after] = [node.pki.client("app"), other.client("app")];
    let is_let_in = |[certificate, key]: &[PathBuf; 2]| {
        let text = |path: &Path| path.display().to_string();
        let mut command = mintleaf().command();
        command.args(["next", "orders", "--url", &node.url(), "--cacert"]).arg(node.pki.ca());
        command.args(["--cert", &text(certificate), "--key", &text(key)]);
        crate::harness::Finished::of(&mut command).code == Some(0)
    };
    assert!(is_let_in(&before) && !is_let_in(&after));
    replace(&node.pki.path("clients.pem"), fs::read(other.ca()).unwrap());
    node.process.signal("HUP");
    eventually("the new CA to be taken", secs(10), || is_let_in(&after).then_some(()));
    assert!(!is_let_in(&before), "the CA that left the file is still believed");
}

#[test]
fn connections_of_a_ca_that_left_the_file_end_between_two_requests_and_others_go_on() {
    let node = Secured::start_with(|ca| {
        let own = ca.path("clients.pem");
        fs::copy(ca.ca(), &own).unwrap();
        vec!["--tls-client-ca".into(), own.display().to_string()]
    });
    let other = Pki::make(node.dir.path(), "other");
    let node_ca = [node.pki.ca()];
    let [old, new] = [node.pki.client("app"), other.client("app")]
        .map(|identity| TlsClient::showing(&identity, &node_ca));
    let [old_cas, new_cas] = [node.pki.ca(), other.ca()].map(|file| fs::read(file).unwrap());
    let took = |cas: &[u8]| {
        let before = node.process.said().matches(TAKEN).count();
        replace(&node.pki.path("clients.pem"), cas);
        node.process.signal("HUP");
        eventually("the CAs to be taken", secs(10), || {
            (node.process.said().matches(TAKEN).count() > before).then_some(())
        });
    };
    let (http, resp) = (node.http.addr(), node.resp.addr());
    let path = "/api/segment/get/orders";
    let (mut active, mut resting, mut redis) = (old.open(http), old.open(http), old.redis(resp));
    for kept in [&mut active, &mut resting] {
        assert_eq!(kept.get(path).0, 200);
    }
    redis.ask("INCR orders").integer();

    // Both CAs are trusted, so no connection ends. A check of the files takes a second at most.
    took(&[old_cas, new_cas.clone()].concat());
    let mut later = new.open(http);
    let until = Instant::now() + secs(2);
    while Instant::now() < until {
        assert_eq!((active.get(path).0, later.get(path).0), (200, 200));
        redis.ask("INCR orders").integer();
        thread::sleep(ms(20));
    }

    took(&new_cas);
    eventually("the active connection to end with an answer", secs(10), || {
        let (status, body, is_last) = active.get_last(path);
        assert_eq!(status, 200, "{body}");
        is_last.then_some(())
    });
    for (name, stream) in [("active", active.0.get_mut()), ("resting", resting.0.get_mut())] {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the {name} connection is closed cleanly");
    }
    assert_eq!(redis.try_answer(), None, "the connection of the Redis protocol is closed");
    assert_eq!(later.get(path).0, 200, "the one that the new CA proves goes on");
}

#[test]
fn files_that_cannot_be_used_end_a_node_that_starts_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::make(dir.path(), "ca");
    let ([certificate, key], [other, _]) = (pki.node(1), pki.node(2));
    let text = |path: &Path| path.display().to_string();
    let [certificate, key, other, none] =
        [&certificate, &key, &other, &dir.path().join("none")].map(|path| text(path));
    for (args, why) in [
        (&["--tls-cert", &certificate][..], "--tls-cert needs --tls-key"),
        (&["--tls-key", &key], "--tls-cert needs --tls-key"),
        (&["--tls-client-ca", &certificate], "--tls-client-ca needs --tls-cert"),
        (&["--tls-cert", &certificate, "--tls-key", &none], "--tls-key"),
        (&["--tls-cert", &key, "--tls-key", &key], "--tls-cert holds no certificate"),
        (
            &["--tls-cert", &certificate, "--tls-key", &certificate],
            "--tls-key holds no private key",
        ),
        (&["--tls-cert", &other, "--tls-key", &key], "--tls-key is not the key of --tls-cert"),
        (
            &["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &key],
            "--tls-client-ca holds no certificate",
        ),
    ] {
        let data = dir.path().join("data");
        let mut serve = mintleaf().command();
        serve.args(["serve", "--node-id", "1", "--http", "127.0.0.1:0", "--raft", "127.0.0.1:0"]);
        let run = crate::harness::Finished::of(serve.arg("--data").arg(&data).args(args));
        assert!(run.code == Some(2) && run.stderr.contains(why), "{why}: {run:?}");
        assert!(!data.exists(), "nothing is made before the files are read");
    }
}
