//! A node that a service manager started: what it reports through systemd's protocol, and when.

use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use crate::harness::{mintleaf, secs};

/// Long enough for a machine that is busy with other tests.
const WITHIN: std::time::Duration = secs(30);

/// The manager's end of the socket.
struct Manager(UnixDatagram);

impl Manager {
    /// Reads until a sentence arrives; returns everything up to it.
    #[track_caller]
    fn hears(&self, sentence: &str) -> String {
        let (mut all, begun) = (String::new(), Instant::now());
        while !all.lines().any(|line| line.starts_with(sentence)) {
            assert!(begun.elapsed() < WITHIN, "no {sentence} in: {all}");
            let mut said = [0; 4096];
            if let Ok(length) = self.0.recv(&mut said) {
                all.push_str(std::str::from_utf8(&said[..length]).unwrap());
            }
        }
        all
    }
}

#[test]
fn a_service_manager_learns_when_a_node_is_ready_lives_and_stops() {
    let mut cluster = mintleaf().prepare(2, &["--drain", "1s"]);
    let socket = cluster.dir().join("notify");
    let manager = Manager(UnixDatagram::bind(&socket).unwrap());
    manager.0.set_read_timeout(Some(secs(1))).unwrap();
    cluster.set_env(1, "NOTIFY_SOCKET", socket.to_str().unwrap());
    cluster.set_env(1, "WATCHDOG_USEC", "600000");

    // A single node cannot be ready, but it is alive.
    cluster.start_node(1);
    let mut said = manager.hears("STATUS=not ready: not_formed: ");
    said += &manager.hears("WATCHDOG=1");
    assert!(!said.contains("READY=1"), "{said}");

    cluster.start_node(2);
    manager.hears("READY=1");
    let node = cluster.process(1);
    node.signal("TERM");
    let said = manager.hears("STOPPING=1");
    assert!(!said.contains("READY=1"), "said twice: {said}");
    assert_eq!(node.exit_code(WITHIN), Some(0));
}
