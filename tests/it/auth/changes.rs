//! Tokens that come and go while connections stay.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use super::{Guarded, Kept, bearer, entry, secret_file, token, write};
use crate::harness::{RedisClient, Value, eventually, mintleaf, secs};

#[test]
fn a_token_that_left_the_file_holds_on_no_connection_that_is_open() {
    let both = entry("old", "issue", "") + &entry("new", "issue", "");
    let mut node = Guarded::start(&both);
    let http = node.dev.api().0;
    let (mut fast, mut slow) = (Kept::open(http), Kept::open(http));
    let mut redis = RedisClient::connect(node.dev.resp(1));
    assert_eq!(slow.get("/livez", "").0, 200);
    assert_eq!(redis.ask(&format!("AUTH old {}", token("old"))), Value::Simple("OK".into()));
    let id = "/api/segment/get/orders";
    for _ in 0..3 {
        assert_eq!(fast.get(id, &bearer("old")).0, 200);
        assert_eq!(slow.get(id, &bearer("old")).0, 200);
        assert!(matches!(redis.ask("INCR orders"), Value::Integer(_)));
    }
    node.replace(&entry("new", "issue", ""));
    eventually("the old token to leave", secs(10), || {
        let (status, body) = fast.get(id, &bearer("old"));
        assert!(status == 200 || (status == 401 && body.contains("unauthenticated")), "{body}");
        (status == 401).then_some(())
    });
    assert_eq!(slow.get(id, &bearer("old")).0, 401);
    let no_auth = Value::Error("NOAUTH Authentication required.".to_owned());
    assert_eq!(redis.ask("INCR orders"), no_auth);
    assert_eq!(fast.get(id, &bearer("new")).0, 200);
    assert_eq!(redis.ask(&format!("AUTH new {}", token("new"))), Value::Simple("OK".into()));

    // The role of a token changes on open connections, too.
    node.replace(&entry("new", "read", ""));
    eventually("the role to change", secs(10), || {
        (fast.get(id, &bearer("new")).0 == 403).then_some(())
    });
    assert_eq!(slow.get(id, &bearer("new")).0, 403);
    assert!(matches!(redis.ask("INCR orders"), Value::Error(text) if text.starts_with("NOPERM ")));
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_is_told_of() {
    let mut node = Guarded::start(&entry("old", "issue", ""));
    let mut kept = Kept::open(node.dev.api().0);
    let id = "/api/segment/get/orders";
    let secret = token("old");
    for (text, why) in [
        (entry("old", "root", ""), "line 4: role must be"),
        (String::new(), "no [[token]]"),
        (
            format!("[[token]]\nname = \"a\"\nhash = \"{secret}\"\nrole = \"read\"\n"),
            "line 3: hash",
        ),
    ] {
        node.replace(&text);
        eventually("the fault to be told of", secs(10), || {
            let said = node.dev.process().said();
            (said.contains("cannot be used") && said.contains(why)).then_some(())
        });
        assert_eq!(kept.get(id, &bearer("old")).0, 200, "{why}");
    }
    fs::remove_file(&node.file).unwrap();
    node.dev.process().signal("HUP");
    eventually("the missing file to be told of", secs(10), || {
        node.dev.process().said().contains("cannot read the tokens").then_some(())
    });
    assert_eq!(kept.get(id, &bearer("old")).0, 200);
    assert_eq!(kept.get(id, &bearer("unknown")).0, 401);
    // Without a signal, the node checks the file every 5 s.
    write(&node.file, &entry("new", "issue", ""));
    eventually("the new file to be read", secs(10), || {
        (kept.get(id, &bearer("new")).0 == 200).then_some(())
    });
    assert_eq!(kept.get(id, &bearer("old")).0, 401);
    for _ in 0..2_000 {
        assert_eq!(kept.get(id, &bearer("guess")).0, 401);
    }
    let said = node.dev.process().said();
    for secret in ["old", "new", "guess"].map(token) {
        assert!(!said.contains(&secret), "{said}");
    }
    let told = said.matches("shown tokens that do not hold").count();
    assert!((1..5).contains(&told), "{told} log lines:\n{said}");
    assert!(said.contains("last_from=127.0.0.1"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_any_more_is_told_of_without_a_signal_until_it_can_be() {
    let admin = entry("ops", "admin", "");
    let mut node = Guarded::start(&admin);
    let mut kept = Kept::open(node.dev.api().0);
    let mut awaits = |what: &str, failed: &str, said: &str| {
        eventually(what, secs(20), || {
            let (status, page) = kept.get("/metrics", &bearer("ops"));
            assert_eq!(status, 200, "what was read last holds: {page}");
            let shown = format!("mintleaf_reload_failed{{what=\"tokens\"}} {failed}\n");
            let is_told = node.dev.process().said().contains(said);
            (page.contains(&shown) && is_told).then_some(())
        });
    };
    awaits("the metric to be there", "0", "");
    let set = |mode| fs::set_permissions(&node.file, fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    awaits("the exposed file to be told of", "1", "chmod 600");
    set(0o600);
    awaits("its end to be told of", "0", "the tokens of clients can be used again");
    fs::remove_file(&node.file).unwrap();
    awaits("the missing file to be told of", "1", "No such file");
    assert!(Command::new("mkfifo").arg(&node.file).status().unwrap().success());
    awaits("the pipe to be told of", "1", "is no regular file");
    write(&node.file, &entry("new", "admin", ""));
    eventually("the new file to be read", secs(20), || {
        (kept.get("/metrics", &bearer("new")).0 == 200).then_some(())
    });
    assert_eq!(kept.get("/metrics", &bearer("ops")).0, 401);
}

/// Clients of all nodes that keep asking for ids with the current token.
struct Asking {
    stop: AtomicBool,
    /// Whether clients use the new token.
    switched: AtomicBool,
    asked: AtomicU64,
    /// Requests with the new token, by client.
    with_new: [AtomicU64; 6],
    failed: Mutex<Vec<String>>,
    ids: Mutex<BTreeSet<String>>,
}

impl Asking {
    fn run(&self, client: usize, node: std::net::SocketAddr) {
        let mut kept = Kept::open(node);
        if client.is_multiple_of(2) {
            // From then on hyper answers everything on the connection.
            assert_eq!(kept.get("/livez", "").0, 200);
        }
        let mut ids = Vec::new();
        while !self.stop.load(Relaxed) {
            let is_new = self.switched.load(Relaxed);
            let headers = bearer(if is_new { "new" } else { "old" });
            let (status, body) = kept.get("/api/segment/get/orders", &headers);
            if status == 200 {
                ids.push(body);
            } else {
                self.failed.lock().unwrap().push(format!("{status} {body}"));
            }
            self.asked.fetch_add(1, Relaxed);
            self.with_new[client].fetch_add(u64::from(is_new), Relaxed);
        }
        self.ids.lock().unwrap().extend(ids);
    }

    fn await_more(&self, what: &str, count: u64) {
        let from = self.asked.load(Relaxed);
        eventually(what, secs(30), || (self.asked.load(Relaxed) > from + count).then_some(()));
    }
}

#[test]
fn tokens_are_replaced_on_three_nodes_under_load_and_no_request_fails() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    let with = |names: &[&str]| {
        let entries: String = names.iter().map(|name| entry(name, "issue", "[\"ord*\"]")).collect();
        write(&file, &format!("anonymous = \"read\"\n{entries}"));
    };
    with(&["old"]);
    let flags = ["--auto-create-tags", "--auth-file", file.to_str().unwrap()];
    let proof = ["--cluster-secret-file", &secret_file(dir.path())];
    let mut cluster = mintleaf().prepare(3, &[&flags[..], &proof].concat());
    cluster.start_all();
    let nodes: Vec<_> = cluster.targets().into_iter().map(|(_, node)| node).collect();
    let asking = Asking {
        stop: AtomicBool::new(false),
        switched: AtomicBool::new(false),
        asked: AtomicU64::new(0),
        with_new: Default::default(),
        failed: Mutex::default(),
        ids: Mutex::default(),
    };
    let everywhere = |name: &str, status: u16| {
        for node in &nodes {
            let mut kept = Kept::open(*node);
            let id = "/api/segment/get/order-2";
            eventually("the tokens to be read", secs(15), || {
                (kept.get(id, &bearer(name)).0 == status).then_some(())
            });
        }
    };
    everywhere("old", 200);
    thread::scope(|scope| {
        for client in 0..6 {
            let (asking, node) = (&asking, nodes[client % 3]);
            scope.spawn(move || asking.run(client, node));
        }
        asking.await_more("the load to begin", 500);
        with(&["old", "new"]);
        // One node gets a signal; the others check the file by themselves.
        cluster.process(1).signal("HUP");
        everywhere("new", 200);
        asking.await_more("requests with either token", 500);
        asking.switched.store(true, Relaxed);
        eventually("every client to switch", secs(30), || {
            asking.with_new.iter().all(|count| count.load(Relaxed) > 20).then_some(())
        });
        with(&["new"]);
        cluster.process(2).signal("HUP");
        everywhere("old", 401);
        asking.await_more("requests without the old token", 500);
        asking.stop.store(true, Relaxed);
    });
    let failed = asking.failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    let (asked, ids) = (asking.asked.into_inner(), asking.ids.into_inner().unwrap());
    assert_eq!(ids.len() as u64, asked, "an id came twice");
}
