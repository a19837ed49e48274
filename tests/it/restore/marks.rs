//! Lists of lines with their marks, and clusters that go on behind the last numbers in such a list.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{back_up, create, restore, restored, run, start};
use crate::harness::{Api, mintleaf};

const NOW: [&str; 4] = ["--advance-all-by", "100000", "--stopped-at", "now"];

fn marks(source: &Path) -> Vec<String> {
    let shown = run(&["inspect", "--marks", source.to_str().unwrap()]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{shown:?}");
    shown.stdout.lines().map(str::to_owned).collect()
}

fn max_id(api: Api, tag: &str) -> u64 {
    api.get(&format!("/v1/tags/{tag}")).ok()["max_id"].as_str().unwrap().parse().unwrap()
}

/// The cells of the row of a line, whose mark is taken out.
fn row(rows: &[String], begin: &str) -> (u64, String) {
    let row = rows.iter().find(|row| row.starts_with(begin)).unwrap_or_else(|| panic!("{rows:?}"));
    let mut cells = row[begin.len()..].split(',');
    (cells.next().unwrap().parse().unwrap(), cells.next().unwrap().to_owned())
}

#[test]
fn a_list_of_lines_that_are_used_up_is_read_as_it_was_written() {
    let dev = mintleaf().dev();
    let (api, dir) = (dev.api(), dev.dir());
    let last = i64::MAX as u64;
    create(api, "ending", last - 2);
    assert_eq!(api.get("/v1/segment/ending?count=3").ids(), [last - 2, last - 1, last]);
    let copy = dir.join("copy");
    back_up(api, &copy);
    let list = dir.join("marks.csv");
    let listed = marks(&copy);
    assert_eq!(row(&listed, "ending,,"), (last, "segment".to_owned()));
    fs::write(&list, listed.join("\n")).unwrap();
    let flags = [&NOW[..], &["--marks", list.to_str().unwrap()]].concat();
    restored(&copy, &dir.join("new"), 1, &flags);
    assert_eq!(marks(&dir.join("new")), listed);
}

#[test]
fn a_restored_cluster_goes_on_behind_the_last_number_of_each_line_in_a_list() {
    let mut cluster = mintleaf().cluster(1);
    let (api, dir) = (cluster.api(1), cluster.dir().to_owned());
    create(api, "orders", 1);
    create(api, "a,\"b\"", 7);
    for body in [
        json!({ "tag": "invoices", "period": "year" }),
        json!({ "tag": "chats", "kind": "sequence" }),
    ] {
        assert_eq!(api.post("/v1/tags", &body).status, 201);
    }
    let invoice = api.get("/v1/segment/invoices").ok();
    let year = invoice["period"].as_str().map(str::to_owned);
    assert_eq!(api.get("/v1/sequence/chats/room").status, 200);
    let copy = dir.join("copy");
    back_up(api, &copy);
    let listed = marks(&copy);
    assert_eq!(listed[0], "tag,line,mark,kind");
    let (orders, kind) = row(&listed, "orders,,");
    assert_eq!(kind, "segment");
    assert_eq!(row(&listed, "\"a,\"\"b\"\"\",,"), (7, "segment".to_owned()));
    let invoices = listed.iter().find(|row| row.starts_with("invoices,")).unwrap().clone();
    let chats = listed.iter().find(|row| row.starts_with("chats,")).unwrap().clone();
    assert!(year.is_none_or(|year| invoices.starts_with(&format!("invoices,{year},"))));
    assert!(chats.ends_with(",sequence"), "{chats}");

    let given = api.get("/v1/segment/orders?count=5000").ids();
    let last = *given.last().unwrap();
    assert!(last >= orders);
    cluster.kill(1);
    // A directory has lines as a backup has.
    let (of_directory, _) = row(&marks(&cluster.data(1)), "orders,,");
    assert!(of_directory > last);

    let list = dir.join("marks.csv");
    fs::write(&list, format!("tag,line,mark,kind\norders,,{last},segment\n{invoices}\n")).unwrap();
    let file = list.to_str().unwrap();
    let told = restored(&copy, &dir.join("new"), 1, &[&NOW[..], &["--marks", file]].concat());
    assert_eq!(told["listed"], json!(2));
    let all = marks(&dir.join("new"));
    assert_eq!(row(&all, "orders,,").0, last + 1);
    assert_eq!(row(&all, "\"a,\"\"b\"\"\",,").0, 7 + 100_000);
    let node = start(1, dir.join("new"), &[]);
    assert_eq!(node.api().get("/v1/segment/orders").ids(), [last + 1]);
    create(node.api(), "new", 1);
    assert!(max_id(node.api(), "new") > 100_000, "it was not there");
    let audit: Value = node.api().get("/v1/audit").ok();
    assert!(audit.to_string().contains("mintleaf restore"));
}

#[test]
fn a_list_that_is_not_understood_or_would_lower_a_mark_makes_no_cluster() {
    let mut dev = mintleaf().dev();
    create(dev.api(), "orders", 5_000);
    assert_eq!(dev.api().get("/v1/segment/orders").status, 200);
    let copy = dev.dir().join("copy");
    back_up(dev.api(), &copy);
    dev.process().kill();
    let list = dev.dir().join("marks.csv");
    let data = dev.dir().join("restored");
    for (text, says) in [
        ("", "it has no rows"),
        ("tag,line,mark,kind\n", "it has no rows"),
        ("orders,,17,segment\n", "a mark never falls"),
        ("orders,,9000\nnobody,,5,segment\n", "no tag `nobody`"),
        ("orders,,9000\norders,,9001\n", ":2: orders with its line"),
        ("orders,,many,segment\n", "marks.csv:1: many is not the last number"),
        ("orders,,-1,segment\n", "is not the last number"),
        ("orders,2026,9000,segment\n", "orders has no period 2026"),
        ("orders,room,9000,segment\n", "room is no line of orders"),
        ("orders,,9000,sequence\n", "is a segment in the copy"),
        ("orders,9000\n", "a row is tag,line,mark,kind"),
        ("orders,,9223372036854775808\n", "the last number of orders"),
        ("\u{1},,9\n", "marks.csv:1:"),
    ] {
        fs::write(&list, text).unwrap();
        let flags = [&NOW[..], &["--marks", list.to_str().unwrap()]].concat();
        let refused = restore(&copy, &data, 1, &flags);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{text:?}: {refused:?}");
        assert!(refused.stderr.contains(says), "{text:?}: {refused:?}");
        assert!(!data.exists(), "{text:?}");
    }
    let both = [&NOW[..], &["--marks", "x", "--advance", "orders=9"]].concat();
    assert_eq!(restore(&copy, &data, 1, &both).code, Some(2));
    // How far lines came that no list has, is still to be said.
    let alone = ["--marks", "x", "--stopped-at", "now"];
    let unsaid = restore(&copy, &data, 1, &alone);
    assert!(unsaid.code == Some(2) && unsaid.stderr.contains("--advance-all-by"), "{unsaid:?}");
    // What inspect wrote can be read as it is.
    let listed = run(&["inspect", "--marks", copy.to_str().unwrap()]);
    fs::write(&list, listed.stdout).unwrap();
    restored(&copy, &data, 1, &[&NOW[..], &["--marks", list.to_str().unwrap()]].concat());
}
