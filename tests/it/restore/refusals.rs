//! Sources, directories and flags that are refused, with a reason and without leaving anything behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{back_up, create, inspected, restore, restored, run};
use crate::harness::{Dev, Finished, mintleaf};

const ENOUGH: [&str; 4] = ["--advance-all-by", "100", "--stopped-at", "now"];

/// A node with a few tags, and a backup of it.
fn backed_up() -> (Dev, std::path::PathBuf) {
    let dev = mintleaf().dev();
    for tag in ["orders", "payments", "users"] {
        create(dev.api(), tag, 1);
    }
    assert!(dev.api().get("/v1/snowflake").is_ok());
    let copy = dev.dir().join("copy");
    back_up(dev.api(), &copy);
    (dev, copy)
}

#[track_caller]
fn assert_refused(done: &Finished, code: i32, says: &[&str], data: &Path) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(code), ""), "{done:?}");
    for says in says {
        assert!(done.stderr.contains(says), "no {says:?} in {done:?}");
    }
    assert!(!done.stderr.contains("wipe"), "{done:?}");
    assert!(!data.exists(), "something is left in {}", data.display());
}

#[test]
fn without_what_no_copy_can_tell_a_restore_explains_what_it_needs() {
    let (dev, copy) = backed_up();
    let data = dev.dir().join("restored");
    let (by, after) = ("--advance-all-by N", "--stopped-at TIME");
    assert_refused(&restore(&copy, &data, 1, &[]), 2, &[by, after, "--snowflake-above"], &data);
    assert_refused(&restore(&copy, &data, 1, &["--advance-all-by", "5"]), 2, &[after], &data);
    assert_refused(&restore(&copy, &data, 1, &["--stopped-at", "now"]), 2, &[by], &data);
    let both = [&ENOUGH[..], &["--snowflake-above", "5"]].concat();
    assert_refused(&restore(&copy, &data, 1, &both), 2, &["cannot be used with"], &data);
    let cases: [(&[&str], &str); 6] = [
        (&["--advance-all-by", "5", "--stopped-at", "yesterday"], "2026-11-22T09:00:00Z"),
        (&["--advance-all-by", "x", "--stopped-at", "now"], "whole number in digits"),
        (&["--advance-all-by", "5", "--stopped-at", "now", "--advance", "orders"], "TAG=N"),
        (
            &["--advance-all-by", "5", "--stopped-at", "now", "--advance", "orders=4"],
            "is less than",
        ),
        (&["--advance-all-by", "5", "--snowflake-above", "x"], "whole number in digits"),
        (
            &[&ENOUGH[..], &["--advance", "orders=500", "--advance", "orders=400"]].concat(),
            "names orders twice",
        ),
    ];
    for (flags, says) in cases {
        assert_refused(&restore(&copy, &data, 1, flags), 2, &[says], &data);
    }
    let early = ["--advance-all-by", "5", "--stopped-at", "2020-01-01T00:00:00Z"];
    assert_refused(&restore(&copy, &data, 1, &early), 1, &["before the copy was taken"], &data);
    let unknown = [&ENOUGH[..], &["--advance", "unknown=500"]].concat();
    assert_refused(&restore(&copy, &data, 1, &unknown), 1, &["no tag `unknown`"], &data);
    let no_id = ["--advance-all-by", "5", "--snowflake-above", "18446744073709551615"];
    assert_refused(&restore(&copy, &data, 1, &no_id), 1, &["is not a snowflake id"], &data);
    restored(&copy, &data, 1, &[&ENOUGH[..], &["--advance", "orders=500"]].concat());
}

#[test]
fn a_restore_puts_nothing_into_the_directory_that_it_reads() {
    let mut cluster = mintleaf().cluster(1);
    create(cluster.api(1), "orders", 1);
    cluster.stop(1);
    let source = cluster.data(1);
    for within in [source.join("new"), source.join("deep/new")] {
        assert_refused(&restore(&source, &within, 2, &ENOUGH), 2, &["within the source"], &within);
    }
    restored(&source, &cluster.dir().join("beside"), 2, &ENOUGH);
}

#[test]
fn a_used_directory_is_left_as_it_is() {
    let (dev, copy) = backed_up();
    let data = dev.dir().join("used");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.tex"), "x").unwrap();
    let done = restore(&copy, &data, 1, &ENOUGH);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("is not empty (thesis.tex is in it)"), "{done:?}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    fs::remove_file(data.join("thesis.tex")).unwrap();
    restored(&copy, &data, 1, &ENOUGH);
    let again = restore(&copy, &data, 1, &ENOUGH);
    assert!(again.code == Some(1) && again.stderr.contains("is not empty"), "{again:?}");
}

#[test]
fn a_flipped_bit_anywhere_and_a_cut_anywhere_are_refused_and_shown() {
    let (dev, copy) = backed_up();
    let (altered, data) = (dev.dir().join("altered"), dev.dir().join("restored"));
    let whole = fs::read(&copy).unwrap();
    let mut cases: Vec<Vec<u8>> = (0..whole.len())
        .step_by(7)
        .map(|at| {
            let mut altered = whole.clone();
            altered[at] ^= 1 << (at % 8);
            altered
        })
        .collect();
    cases.extend([0, 3, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec()));
    cases.push([&whole[..], b"\n"].concat());
    for (number, bytes) in cases.iter().enumerate() {
        fs::write(&altered, bytes).unwrap();
        assert_refused(&restore(&altered, &data, 1, &ENOUGH), 1, &["altered"], &data);
        let shown = run(&["inspect", altered.to_str().unwrap(), "--json"]);
        assert_eq!(shown.code, Some(1), "case {number}: {shown:?}");
        if let Ok(shown) = serde_json::from_str::<Value>(&shown.stdout) {
            assert_eq!(shown["whole"], json!(false), "case {number}");
        }
    }
    fs::write(&altered, &whole).unwrap();
    restored(&altered, &data, 1, &ENOUGH);
}

#[test]
fn a_running_node_and_other_things_are_no_sources() {
    let (mut dev, copy) = backed_up();
    let data = dev.dir().join("restored");
    let node = dev.dir().join("data/node-1");
    let running = restore(&node, &data, 1, &ENOUGH);
    assert_refused(&running, 1, &["in use by another process"], &data);
    let shown = run(&["inspect", node.to_str().unwrap()]);
    assert!(shown.code == Some(1) && shown.stderr.contains("in use"), "{shown:?}");
    let several = dev.dir().join("data");
    assert_refused(&restore(&several, &data, 1, &ENOUGH), 1, &["node-1"], &data);
    let nothing = dev.dir().join("nothing");
    assert_refused(&restore(&nothing, &data, 1, &ENOUGH), 1, &["cannot open"], &data);
    fs::create_dir(&nothing).unwrap();
    assert_refused(&restore(&nothing, &data, 1, &ENOUGH), 1, &["no identity"], &data);
    let other = dev.dir().join("other");
    fs::write(&other, "a text").unwrap();
    assert_refused(&restore(&other, &data, 1, &ENOUGH), 1, &["it is not a backup"], &data);
    dev.process().kill();
    assert_eq!(inspected(&node)["cluster_id"], inspected(&copy)["cluster_id"]);
    restored(&node, &data, 1, &ENOUGH);
}

#[test]
fn a_backup_is_its_owners_alone_and_overwrites_nothing() {
    let (dev, copy) = backed_up();
    let mode = fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = fs::read(&copy).unwrap();
    let again = run(&["backup", copy.to_str().unwrap(), "--url", &dev.url()]);
    assert!(again.code == Some(1) && again.stderr.contains("already exists"), "{again:?}");
    assert_eq!(fs::read(&copy).unwrap(), before);
    // The same through a pipe, and over HTTP.
    let mut command = mintleaf().command();
    let piped = command.args(["backup", "-", "--url", &dev.url()]).output().unwrap();
    assert!(piped.status.success(), "{piped:?}");
    let answer = dev.api().get("/v1/backup");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    for bytes in [&piped.stdout[..], &answer.body] {
        let file = dev.dir().join("received");
        fs::write(&file, bytes).unwrap();
        assert_eq!(inspected(&file)["tags"], 3);
    }
    let entries = fs::read_dir(dev.dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = entries.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
    // Another machine gets no backup, even if it is allowed to read.
    let proxied = dev.api().send(&hyper::Method::GET, "/v1/backup", &[("via", "1.1 a")], "");
    assert_eq!(proxied.problem(), (403, "forbidden".to_owned()));
}

#[test]
fn without_a_quorum_there_is_no_backup_and_no_file() {
    let mut cluster = mintleaf().cluster(3);
    cluster.kill(1);
    cluster.kill(2);
    let copy = cluster.dir().join("copy");
    let url = format!("http://{}", cluster.api(3).0);
    let refused = run(&["backup", copy.to_str().unwrap(), "--url", &url]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(!copy.exists());
}
