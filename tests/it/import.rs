//! `mintleaf import`: tables of Leaf and tinyid, imported through any node of three.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Api, Cluster, Finished, mintleaf};

/// Imports a file with this text through one node.
fn import(cluster: &Cluster, node: u64, text: &str, args: &[&str]) -> Finished {
    let file = cluster.dir().join("leaf_alloc.txt");
    fs::write(&file, text).unwrap();
    import_file(cluster.api(node), &file, args)
}

fn import_file(node: Api, file: &Path, args: &[&str]) -> Finished {
    let url = format!("http://{}", node.0);
    let mut command = mintleaf().command();
    Finished::of(command.arg("import").arg(file).args(["--url", &url]).args(args))
}

/// The JSON result of an import: created, raised, unchanged, and the lines with a fault.
#[track_caller]
fn told(run: &Finished) -> (u64, u64, u64, Vec<u64>) {
    let json: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    let count = |field: &str| json[field].as_u64().unwrap();
    let faults = json["faults"].as_array().unwrap();
    let lines = faults.iter().map(|fault| fault["line"].as_u64().unwrap()).collect();
    (count("created"), count("raised"), count("unchanged"), lines)
}

fn tag(api: Api, name: &str) -> Value {
    api.get(&format!("/v1/tags/{name}")).ok()
}

#[test]
fn ten_thousand_rows_come_in_through_a_follower_and_a_second_run_changes_nothing() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    let rows = 10_000;
    let mut text = "biz_tag,max_id,step,description\n".to_owned();
    for row in 0..rows {
        text += &format!("shop-{row},{},{},number {row}\n", 1_000_000 + row, 1 + row);
    }
    assert_eq!(
        told(&import(&cluster, follower, &text, &["--json", "--dry-run"])),
        (rows, 0, 0, vec![])
    );
    assert_eq!(cluster.api(leader).get("/v1/tags").ok()["tags"], json!([]));
    assert_eq!(told(&import(&cluster, follower, &text, &["--json"])), (rows, 0, 0, vec![]));
    let last = tag(cluster.api(leader), "shop-9999");
    assert_eq!((&last["max_id"], &last["step"]), (&json!("1009999"), &json!(10_000)));
    assert_eq!(last["description"], "number 9999");
    assert_eq!(told(&import(&cluster, leader, &text, &["--json"])), (0, 0, rows, vec![]));
    assert_eq!(tag(cluster.api(leader), "shop-9999"), last);

    let audit = cluster.api(follower).get("/v1/audit").ok();
    let [entry] = &audit["entries"].as_array().unwrap()[..] else { panic!("{audit}") };
    assert_eq!(
        (&entry["action"], &entry["after"]),
        (&json!("tags.import"), &json!({ "created": rows, "raised": 0 }))
    );
    assert!(entry["target"].as_str().unwrap().starts_with("leaf_alloc.txt "), "{entry}");
}

#[test]
fn marks_rise_however_far_and_never_fall() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    for (name, start) in [("behind", "5"), ("ahead", "9000")] {
        api.post("/v1/tags", &json!({ "tag": name, "start": start, "step": 7 })).ok();
    }
    let text = "biz_tag,max_id,step\nbehind,5000000000000000000,100\nahead,10,100\nnew,0,100\n";
    let run = import(&cluster, 1, text, &["--json", "--advance-all-by", "1000"]);
    assert_eq!(told(&run), (1, 1, 1, vec![]));
    for (name, max_id, step) in
        [("behind", "5000000000000001000", 7), ("ahead", "9000", 7), ("new", "1001", 100)]
    {
        let row = tag(api, name);
        assert_eq!((&row["max_id"], &row["step"]), (&json!(max_id), &json!(step)), "{name}");
    }
    let run = import(&cluster, 1, text, &["--json", "--advance-all-by", "1000"]);
    assert_eq!(told(&run), (0, 0, 3, vec![]));
}

/// Leaf has given all ids below the mark, so a node must not give any of them, even if it holds some.
#[test]
fn what_nodes_hold_below_an_imported_mark_is_given_to_nobody() {
    let cluster = mintleaf().cluster(3);
    cluster.api(1).post("/v1/tags", &json!({ "tag": "orders", "step": 1000 })).ok();
    for node in cluster.ids() {
        assert!(cluster.api(node).get("/v1/segment/orders").ids()[0] < 5_000);
    }
    let run = import(&cluster, 1, "biz_tag,max_id,step\norders,700000,1000\n", &["--json"]);
    assert_eq!(told(&run), (0, 1, 0, vec![]));
    for node in cluster.ids() {
        // A linearizable read on the node, which therefore has applied the import.
        assert_eq!(tag(cluster.api(node), "orders")["step"], 1000);
        for _ in 0..3 {
            let id = cluster.api(node).get("/v1/segment/orders").ids()[0];
            assert!(id >= 700_000, "node {node} gave {id}");
        }
    }
}

#[test]
fn a_dump_without_its_last_line_comes_in_with_a_warning_unless_it_ends_within_a_statement() {
    let cluster = mintleaf().cluster(1);
    let dump = include_str!("../../src/leaf_tables/tests/mysql-8.sql");
    let (whole, _) = dump.split_once("-- Dump completed").unwrap();
    let within = whole.rfind(");\n").unwrap();
    let cut = import(&cluster, 1, &whole[..within], &[]);
    assert!(cut.code == Some(1) && cut.stderr.contains("ends within a statement"), "{cut:?}");
    assert_eq!(cluster.api(1).get("/v1/tags").ok()["tags"], json!([]));
    let run = import(&cluster, 1, whole, &[]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr.starts_with("warning: ") && run.stderr.contains("Dump completed"),
        "{run:?}"
    );
    assert!(run.stdout.contains("created: 6"), "{run:?}");
    assert_eq!(import(&cluster, 1, dump, &[]).stderr, "");
}

#[test]
fn a_bad_row_is_named_by_its_line_and_costs_itself_only() {
    let cluster = mintleaf().cluster(1);
    let text = "biz_tag\tmax_id\tstep\tdescription\na\t100\t10\tNULL\nb\tx\t10\tNULL\na.b\t100\t10\tNULL\n";
    let rehearsed = import(&cluster, 1, text, &["--dry-run"]);
    assert_eq!(rehearsed.code, Some(1));
    assert!(rehearsed.stderr.contains("1 row cannot be imported; all others can"), "{rehearsed:?}");
    let run = import(&cluster, 1, text, &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("line 3: tag \"b\": max_id must be a number"), "{run:?}");
    assert!(run.stdout.contains("warning: \"a\" and \"a.b\""), "{run:?}");
    assert!(run.stdout.contains("created: 2, raised: 0, unchanged: 0, with a fault: 1"), "{run:?}");
    assert!(run.stderr.contains("1 row was not imported"), "{run:?}");
    assert_eq!(tag(cluster.api(1), "a.b")["max_id"], "100");

    let run = import(&cluster, 1, "nothing of the kind", &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("no table of Leaf"), "{run:?}");
}

#[test]
fn what_an_import_may_be_called_does_not_depend_on_what_it_changes() {
    let dev = mintleaf().dev();
    let body = |import: &str| json!({ "import": import, "tags": [{ "tag": "a", "max_id": "5" }] });
    dev.api().post("/v1/import", &body("first")).ok();
    for wrong in ["", "a\u{9b}b", &"x".repeat(129)] {
        let refused = dev.api().post("/v1/import", &body(wrong));
        assert_eq!(refused.status, 400, "{wrong:?}");
        let said = String::from_utf8_lossy(&refused.body);
        assert!(said.contains("import must be 1 to 128 characters"), "{said}");
    }
}

#[test]
fn a_row_that_the_node_refuses_is_named_and_the_others_come_in() {
    let cluster = {
        let mut cluster = mintleaf().prepare(1, &["--tags-max", "2"]);
        cluster.start_all();
        cluster.await_ready();
        cluster
    };
    let text = "biz_tag,max_id\na,1\nb,1\nc,1\n";
    let run = import(&cluster, 1, text, &["--json"]);
    let (created, _, _, faults) = told(&run);
    assert_eq!((created, faults.len(), run.code), (2, 1, Some(1)), "{run:?}");
    assert!(run.stdout.contains("--tags-max"), "{run:?}");
}

#[test]
fn a_dump_comes_in_through_standard_input() {
    let dev = mintleaf().dev();
    let mut command = mintleaf().command();
    command.args(["import", "-", "--json", "--url", &dev.url()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let dump = include_bytes!("../../src/leaf_tables/tests/mariadb.sql");
    child.stdin.take().unwrap().write_all(dump).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["created"], &told["pairs"]), (&json!(6), &json!([["orders", "orders.cn"]])));
    assert_eq!(dev.api().get("/v1/segment/leaf-segment-test").ids(), [2001]);
    assert_eq!(
        dev.api().get("/v1/segment/%E8%AE%A2%E5%8D%95").ids(),
        [9_000_000_000_000_000_000_u64]
    );
}

#[test]
fn a_file_without_rows_is_no_import() {
    let cluster = mintleaf().cluster(1);
    for args in [&[][..], &["--dry-run"], &["--json"]] {
        let run = import(&cluster, 1, "biz_tag,max_id,step\n", args);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
        assert!(run.stderr.contains("it has no rows"), "{run:?}");
    }
}

#[test]
fn a_rehearsal_counts_a_tag_that_stands_twice_as_the_import_does() {
    let cluster = mintleaf().cluster(1);
    let mut text = "biz_tag,max_id,step\ntwice,5,10\ntwice,7,10\nthrice,9,10\n".to_owned();
    // Enough rows that the last rows of the first tags are sent in another request.
    (0..200).for_each(|row| text += &format!("other-{row},1,1\n"));
    text += "thrice,3,10\ntwice,7,10\nthrice,10,10\n";
    let expected = (202, 2, 2, vec![]);
    assert_eq!(told(&import(&cluster, 1, &text, &["--json", "--dry-run"])), expected);
    assert_eq!(told(&import(&cluster, 1, &text, &["--json"])), expected);
    let marks = ["twice", "thrice"].map(|name| tag(cluster.api(1), name)["max_id"].clone());
    assert_eq!(marks, [json!("7"), json!("10")]);
}

#[test]
fn a_deleted_tag_comes_back_above_every_id_of_before_and_a_rehearsal_knows_that() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    for name in ["low", "high"] {
        api.post("/v1/tags", &json!({ "tag": name, "start": "5000", "frozen": true })).ok();
        assert_eq!(api.delete(&format!("/v1/tags/{name}")).status, 204);
    }
    // The first of two rows brings a tag back, and the second finds that it exists.
    let text = "biz_tag,max_id\nlow,100\nhigh,7000\nlow,300\nhigh,8000\n";
    let expected = (2, 1, 1, vec![]);
    assert_eq!(told(&import(&cluster, 1, text, &["--json", "--dry-run"])), expected);
    assert_eq!(told(&import(&cluster, 1, text, &["--json"])), expected);
    for (name, first) in [("low", 5_000), ("high", 8_000)] {
        // The tag that came back is not frozen, although the former one was.
        assert_eq!(api.get(&format!("/v1/segment/{name}")).ids(), [first]);
    }
}

#[test]
fn a_row_whose_tag_looks_like_another_is_named_and_the_others_come_in() {
    let cluster = mintleaf().cluster(1);
    let text = "biz_tag,max_id,step\na,1,1\n\"b\u{200b}\",1,1\n\" c\",1,1\n..,1,1\nd,1,1\n";
    for args in [&["--json", "--dry-run"][..], &["--json"]] {
        let run = import(&cluster, 1, text, args);
        assert_eq!((told(&run), run.code), ((2, 0, 0, vec![3, 4, 5]), Some(1)), "{run:?}");
    }
}
