//! Handshakes while the machine's clock shows a time before 1970.

use super::Secured;
use crate::harness::{Clocks, Value, mintleaf};

const CENTURY_MS: i64 = 100 * 365 * 24 * 3_600 * 1_000;

#[test]
fn clients_shake_hands_and_resume_sessions_with_a_node_whose_clock_is_set_before_1970() {
    let dir = tempfile::tempdir().unwrap();
    let Some(clocks) = Clocks::find(dir.path()) else {
        eprintln!("SKIPPED: TLS before 1970 needs libfaketime (apt-get install faketime)");
        return;
    };
    clocks.shift(1, 0).unwrap();
    let settings = clocks.environment(1);
    let settings = settings.map(|(name, value)| format!("{name}={}", value.display()));
    let under = ["env".to_owned()].into_iter().chain(settings);
    let mut node = Secured::start_as(&mintleaf().under(under), |_| vec![]);
    for by_ms in [-CENTURY_MS, 0, -CENTURY_MS] {
        clocks.shift(1, by_ms).unwrap();
        let client = node.client();
        // The second session resumes with a ticket from the first, if there is one.
        for _ in 0..4 {
            let answer = client.open(node.http.addr()).get("/v1/segment/orders?count=10");
            assert_eq!(answer.0, 200, "{}", answer.1);
            let pong = client.redis(node.resp.addr()).ask("PING");
            assert_eq!(pong, Value::Simple("PONG".to_owned()));
        }
        assert!(node.process.is_running());
    }
}
