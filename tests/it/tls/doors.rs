//! All protections at once: three nodes that share a secret speak TLS with clients and require tokens of them.
//! Every certificate and token is replaced while clients of both protocols go on.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use serde_json::Value as Json;

use super::replaced::{TAKEN, await_said, copy, files, shown};
use super::stream::TlsStream;
use super::{Pki, TlsClient, replace};
use crate::auth::{bearer, entry, token, write};
use crate::harness::{
    Cluster, Finished, Port, RedisClient, Value, eventually, mintleaf, ms, pause, secs,
};

/// The protocol of a client, and whether it keeps its connection or opens one for each request.
const KINDS: [(&str, bool); 4] = [("http", true), ("http", false), ("resp", true), ("resp", false)];
const CLIENTS: usize = 3 * KINDS.len();
/// A tag that the clients' tokens may use.
const ID: &str = "/api/segment/get/orders";

/// Three founders that share a secret, with a CA for clients. None is running yet.
pub(super) struct Doors {
    pub(super) cluster: Cluster,
    pub(super) old: Pki,
    new: Pki,
    /// The ports of the Redis protocol, one for each node.
    pub(super) resp: Vec<Port>,
}

impl Doors {
    pub(super) fn prepare() -> Self {
        let mut cluster = mintleaf().prepare(3, &["--auto-create-tags"]);
        let dir = cluster.dir().to_owned();
        let secret = Finished::of(mintleaf().command().args(["secret", "new"]));
        let (old, new) = (Pki::make(&dir, "old-ca"), Pki::make(&dir, "new-ca"));
        let resp: Vec<Port> = cluster.ids().iter().map(|_| Port::claim()).collect();
        for (id, port) in cluster.ids().into_iter().zip(&resp) {
            let own = files(&cluster, id);
            copy(&old.node(id), &own);
            let shared = dir.join(format!("secret-{id}"));
            replace(&shared, &secret.stdout);
            write(&auth_file(&cluster, id), &tokens(&["old"]));
            for (flag, file) in [
                ("--cluster-secret-file", &shared),
                ("--tls-cert", &own[0]),
                ("--tls-key", &own[1]),
                ("--auth-file", &auth_file(&cluster, id)),
            ] {
                cluster.add_flag(id, flag, file);
            }
            cluster.add_flag(id, "--resp", port.addr().to_string());
        }
        Self { cluster, old, new, resp }
    }

    pub(super) fn start(&mut self, client: &TlsClient) {
        self.cluster.ids().into_iter().for_each(|id| self.cluster.start_node(id));
        self.await_ready(client);
    }

    pub(super) fn await_ready(&self, client: &TlsClient) {
        for (id, node) in self.cluster.targets() {
            eventually("the node to listen", secs(15), || std::net::TcpStream::connect(node).ok());
            eventually(&format!("node {id} to be ready"), secs(20), || {
                (client.open(node).get("/readyz").0 == 200).then_some(())
            });
        }
    }

    /// The node and the kind of the client with this number.
    fn node_of(&self, client: usize) -> (SocketAddr, (&'static str, bool)) {
        let (node, kind) = (client % 3, KINDS[client / 3]);
        let http = self.cluster.targets()[node].1;
        (if kind.0 == "http" { http } else { self.resp[node].addr() }, kind)
    }
}

pub(super) fn auth_file(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir().join(format!("auth-{id}.toml"))
}

/// An auth file with a client token and an operator token for each of these names.
fn tokens(names: &[&str]) -> String {
    let pair = |name: &&str| {
        entry(name, "issue", "[\"ord*\"]") + &entry(&format!("ops-{name}"), "admin", "")
    };
    names.iter().map(pair).collect()
}

/// Clients of all nodes that keep sending requests with the current token, and the results.
struct Asking {
    client: TlsClient,
    stop: AtomicBool,
    /// Whether clients use the new tokens.
    switched: AtomicBool,
    /// By client: all requests, and the requests with the new token.
    asked: [[AtomicU64; 2]; CLIENTS],
    failed: Mutex<Vec<String>>,
    ids: Mutex<Vec<String>>,
}

impl Asking {
    fn name(&self) -> &'static str {
        if self.switched.load(Relaxed) { "new" } else { "old" }
    }

    fn run(&self, number: usize, (node, (protocol, keeps)): (SocketAddr, (&str, bool))) {
        let (mut http, mut redis, mut ids) = (None, None, Vec::new());
        while !self.stop.load(Relaxed) {
            if !keeps {
                (http, redis) = (None, None);
            }
            let name = self.name();
            let answer = if protocol == "http" {
                let kept = http.get_or_insert_with(|| self.client.open(node));
                match kept.get_with(ID, &bearer(name)) {
                    (200, id) => Ok(id),
                    refused => Err(format!("{refused:?}")),
                }
            } else {
                let (redis, logged_in) = redis.get_or_insert_with(|| (self.client.redis(node), ""));
                incr(redis, logged_in, name)
            };
            match answer {
                Ok(id) => ids.push(id),
                Err(why) => {
                    self.failed.lock().unwrap().push(format!("{protocol} {keeps} {name}: {why}"));
                }
            }
            self.asked[number][0].fetch_add(1, Relaxed);
            self.asked[number][1].fetch_add(u64::from(name == "new"), Relaxed);
            pause(ms(if keeps { 3 } else { 15 }));
        }
        self.ids.lock().unwrap().extend(ids);
    }

    /// Creates tags with an operator's token, each through the next node; returns how many, by token.
    fn administer(&self, nodes: &[SocketAddr]) -> [usize; 2] {
        let mut kept: Vec<_> = nodes.iter().map(|node| self.client.open(*node)).collect();
        let mut made = [0, 0];
        while !self.stop.load(Relaxed) {
            let name = self.name();
            let number = made[0] + made[1];
            let tag = format!(r#"{{"tag":"made-{number}"}}"#);
            let headers = bearer(&format!("ops-{name}"));
            let node = &mut kept[number % nodes.len()];
            let answer = node.post_with("/v1/tags", &headers, &tag);
            if answer.0 != 201 {
                self.failed.lock().unwrap().push(format!("ops-{name}: {answer:?}"));
            }
            made[usize::from(name == "new")] += 1;
            pause(ms(50));
        }
        made
    }

    /// Waits until every client has sent enough further requests, or enough with the new token.
    fn await_more(&self, with_new: bool) {
        let counts = || self.asked.each_ref().map(|of| of[usize::from(with_new)].load(Relaxed));
        let from = counts();
        eventually("every client to go on", secs(60), || {
            let went_on = |(now, from): (u64, &u64)| now >= from + 5;
            counts().into_iter().zip(&from).all(went_on).then_some(())
        });
    }
}

/// An id over the Redis protocol, on a connection that is logged in as `logged_in`.
fn incr(
    redis: &mut RedisClient<TlsStream>,
    logged_in: &mut &'static str,
    name: &'static str,
) -> Result<String, String> {
    if *logged_in != name {
        match redis.ask(&format!("AUTH {name} {}", token(name))) {
            Value::Simple(_) => *logged_in = name,
            refused => return Err(format!("{refused:?}")),
        }
    }
    match redis.ask("INCR orders") {
        Value::Integer(id) => Ok(id.to_string()),
        refused => Err(format!("{refused:?}")),
    }
}

#[test]
fn certificates_and_tokens_are_replaced_on_three_nodes_under_load_and_no_request_fails() {
    let mut doors = Doors::prepare();
    let client = TlsClient::believing(&[doors.old.ca(), doors.new.ca()]);
    doors.start(&client);
    let asking = Asking {
        client: client.clone(),
        stop: AtomicBool::new(false),
        switched: AtomicBool::new(false),
        asked: Default::default(),
        failed: Mutex::default(),
        ids: Mutex::default(),
    };
    let nodes: Vec<_> = doors.cluster.targets().into_iter().map(|(_, node)| node).collect();
    let answers = |node: SocketAddr, name: &str, status: u16| {
        eventually(&format!("{status} for {name} at {node}"), secs(15), || {
            (client.open(node).get_with(ID, &bearer(name)).0 == status).then_some(())
        });
    };
    let made = thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (asking, node) = (&asking, doors.node_of(number));
            scope.spawn(move || asking.run(number, node));
        }
        let operator = scope.spawn(|| asking.administer(&nodes));
        asking.await_more(false);
        for (id, node) in doors.cluster.targets() {
            let before = shown(&client, node);
            copy(&doors.new.node(id), &files(&doors.cluster, id));
            write(&auth_file(&doors.cluster, id), &tokens(&["old", "new"]));
            if id != 3 {
                // The third node checks the files by itself.
                doors.cluster.process(id).signal("HUP");
            }
            await_said(&mut doors.cluster, id, TAKEN);
            assert_ne!(shown(&client, node), before, "node {id} shows the old certificate");
            answers(node, "new", 200);
            asking.await_more(false);
        }
        asking.switched.store(true, Relaxed);
        asking.await_more(true);
        for (id, node) in doors.cluster.targets() {
            write(&auth_file(&doors.cluster, id), &tokens(&["new"]));
            doors.cluster.process(id).signal("HUP");
            answers(node, "old", 401);
            asking.await_more(true);
        }
        asking.stop.store(true, Relaxed);
        operator.join().unwrap()
    });
    let failed = asking.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    let ids = asking.ids.into_inner().unwrap();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id came twice");
    let only_new = TlsClient::believing(&[doors.new.ca()]);
    for node in nodes {
        assert_eq!(actors(&only_new, node), made, "who created tags, as {node} tells");
    }
    println!("{} ids, {made:?} tags", ids.len());
}

/// How many tags the old and the new operator's token have created, according to the audit. It must name no
/// other actor.
fn actors(client: &TlsClient, node: SocketAddr) -> [usize; 2] {
    let (mut after, mut count) = (0, [0, 0]);
    let mut kept = client.open(node);
    loop {
        let path = format!("/v1/audit?limit=1000&after={after}");
        let (status, page) = kept.get_with(&path, &bearer("ops-new"));
        assert_eq!(status, 200, "{page}");
        let page: Json = serde_json::from_str(&page).unwrap();
        for entry in page["entries"].as_array().unwrap() {
            let known = ["ops-old", "ops-new"].iter().position(|name| entry["actor"] == *name);
            count[known.unwrap_or_else(|| panic!("{entry}"))] += 1;
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return count,
        }
    }
}
