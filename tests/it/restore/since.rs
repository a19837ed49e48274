//! What was made after the copy: tags with hidden ids, and periods, restored on any machine.

use std::path::Path;

use serde_json::json;

use super::{Given, back_up, inspected, ready, restore, restored, start};
use crate::harness::{Api, Clocks, Cluster, Finished, LAYOUT, mintleaf};

/// How many ids of each tag both clusters give: a fifth of all ids with six digits, so that two permutations
/// have many in common.
const IDS: u64 = 20_000;

#[track_caller]
fn create(api: Api, body: &serde_json::Value) {
    let made = api.post("/v1/tags", body);
    assert_eq!(made.status, 201, "{made:?}");
}

fn take(given: &mut Given, api: Api, tag: &str) {
    for _ in 0..IDS / 10_000 {
        given.take(api, tag, 10_000);
    }
}

#[test]
fn hidden_ids_do_not_repeat_of_a_tag_that_was_made_after_the_copy() {
    let mut cluster = mintleaf().cluster(1);
    let (api, copy) = (cluster.api(1), cluster.dir().join("copy"));
    let hidden = |tag: &str| json!({ "tag": tag, "digits": 6 });
    create(api, &hidden("known"));
    back_up(api, &copy);
    create(api, &hidden("coupons"));
    let mut given = Given::default();
    for tag in ["known", "coupons"] {
        take(&mut given, api, tag);
    }
    cluster.kill(1);
    let data = cluster.dir().join("restored");
    restored(&copy, &data, 1, &["--advance-all-by", &IDS.to_string(), "--stopped-at", "now"]);
    let node = start(1, data, &[]);
    create(node.api(), &hidden("coupons"));
    for tag in ["known", "coupons"] {
        take(&mut given, node.api(), tag);
    }
    let row = node.api().get("/v1/tags/coupons");
    assert!(!row.text().contains("key"), "no key is shown: {row:?}");
}

#[test]
fn a_restore_of_a_copy_from_before_the_root_key_names_what_it_does_not_cover() {
    let copy = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases/0.2.0/backup");
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("restored");
    let flags = ["--advance-all-by", "1000", "--stopped-at", "now"];
    let told = restored(&copy, &data, 1, &flags);
    let warning = told["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("tags with digits that were made after this copy may repeat ids"));
    let done = restore(&copy, &dir.path().join("in-words"), 1, &flags);
    assert!(done.stdout.contains(&format!("warning: {warning}")), "{done:?}");
    let (before, after) = (inspected(&copy), inspected(&data));
    assert_eq!((&before["root_key"], &after["root_key"]), (&json!(false), &json!(true)));
    let node = start(1, data, &[]);
    create(node.api(), &json!({ "tag": "coupons", "digits": 6 }));
    // A copy of the new cluster contains it.
    let copy = dir.path().join("copy");
    back_up(node.api(), &copy);
    drop(node);
    let told = restored(&copy, &dir.path().join("again"), 1, &flags);
    assert_eq!(told["warnings"], json!([]));
    let flags = ["--advance-all-by", "0", "--stopped-at", "now"];
    let told = restored(&copy, &dir.path().join("not-raised"), 1, &flags);
    assert!(told["warnings"][0].as_str().unwrap().starts_with("with --advance-all-by 0, a tag"));
}

/// Restores on a machine whose clock is three days behind, and returns the result of the command.
fn restored_behind(clocks: &Clocks, copy: &Path, data: &Path, flags: &[&str]) -> Finished {
    clocks.shift(9, -3 * 86_400_000).unwrap();
    let mut command = mintleaf().command();
    command.envs(clocks.environment(9)).arg("restore").arg(copy).arg("--data").arg(data);
    Finished::of(command.args(["--node-id", "1", "--advance-all-by", "1000"]).args(flags))
}

#[test]
fn todays_ids_do_not_repeat_where_the_restoring_machine_has_a_clock_that_is_behind() {
    let mut cluster: Cluster = mintleaf().cluster(1);
    let Some(clocks) = Clocks::find(cluster.dir()) else {
        eprintln!(
            "SKIPPED: a restore with a wrong clock needs libfaketime (apt-get install faketime)"
        );
        return;
    };
    let (api, copy) = (cluster.api(1), cluster.dir().join("copy"));
    for (tag, period) in [("daily", "day"), ("yearly", "year")] {
        create(api, &json!({ "tag": tag, "period": period }));
    }
    back_up(api, &copy);
    let texts = |api: Api, tag: &str| {
        let ids = api.get(&format!("/v1/segment/{tag}?count=100")).ok()["ids"].clone();
        ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = ["daily", "yearly"].map(|tag| texts(api, tag));
    cluster.kill(1);
    let days_ago_ms = jiff::Timestamp::now().as_millisecond() as u64 - 5 * 86_400_000;
    let last = ((days_ago_ms - LAYOUT.epoch_ms) << 22).to_string();
    let data = cluster.dir().join("restored");
    let done = restored_behind(&clocks, &copy, &data, &["--snowflake-above", &last]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut node = start(1, data, &[]);
    for round in 0..2 {
        for (tag, before) in ["daily", "yearly"].iter().zip(&before) {
            let after = texts(node.api(), tag);
            let repeated: Vec<_> = after.iter().filter(|id| before.contains(id)).collect();
            assert!(repeated.is_empty(), "{tag}, round {round}: {repeated:?}");
        }
        // The state keeps the first stamp: a tag's day may begin only after a restart.
        node.start().unwrap();
        ready(&node);
    }
}
