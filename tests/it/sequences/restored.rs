//! Sequences of a cluster that was made from a backup.

use super::{create, last, next};
use crate::harness::{Finished, Node, eventually, mintleaf, secs};

const ABOVE: u64 = 1_000_000;

#[test]
fn every_key_goes_on_higher_by_what_a_restore_adds() {
    let temp = tempfile::tempdir().unwrap();
    let mut cluster = mintleaf().cluster(1);
    cluster.await_ready();
    let api = cluster.api(1);
    create(api, "chat", 10);
    assert_eq!(next(api, "chat", "room"), 1);
    let (copy, data) = (temp.path().join("copy"), temp.path().join("restored"));
    let run = |args: &[&str]| {
        let done = Finished::of(mintleaf().command().args(args));
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    run(&["backup", &text(&copy), "--url", &format!("http://{}", api.0)]);
    // Keys that were used after the copy: one in a section that the copy has, and one in a section that it may lack.
    let given = [("room", 20), ("later", 30)];
    for (key, count) in given {
        (0..count).for_each(|_| assert!(next(api, "chat", key) > 0));
    }
    cluster.kill(1);

    let above = ABOVE.to_string();
    run(&[
        "restore",
        &text(&copy),
        "--data",
        &text(&data),
        "--node-id",
        "1",
        "--advance-all-by",
        &above,
        "--stopped-at",
        "now",
    ]);
    let mut node = Node::new(&mintleaf(), 1, temp.path());
    node.set_data(data);
    node.start().unwrap();
    eventually("the node to be ready", secs(20), || node.is_ready().then_some(()));
    let api = node.api();
    assert_eq!(last(api, "chat", "room"), (Some(ABOVE + 10), false));
    assert_eq!(next(api, "chat", "room"), ABOVE + 11, "the mark of the copy, and so much more");
    assert_eq!(last(api, "chat", "later"), (Some(ABOVE), false), "nothing above it was given");
    assert_eq!(next(api, "chat", "later"), ABOVE + 1);
}
