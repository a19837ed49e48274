//! Files of earlier releases open with this build: a data directory whose node was killed, and a backup.
//! `scripts/golden` makes both with a release's binary, and records what that node showed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::shows;
use crate::harness::{Api, Finished, Node, eventually, mintleaf, secs};

/// By how much a restore raises every line.
const ADVANCE: u64 = 1_000;
/// The first level that has tags with a shape.
const LEVEL_OF_SHAPES: u64 = 2;

/// The files of a release.
struct Golden {
    version: String,
    dir: PathBuf,
    expected: Value,
}

fn golden() -> Vec<Golden> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases");
    let entries = fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    assert!(!dirs.is_empty(), "no release has left anything");
    dirs.into_iter()
        .map(|dir| Golden {
            version: dir.file_name().unwrap().to_str().unwrap().to_owned(),
            expected: serde_json::from_slice(&fs::read(dir.join("expected.json")).unwrap())
                .unwrap(),
            dir,
        })
        .collect()
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Runs a command, which must succeed.
#[track_caller]
fn run(command: &mut Command) -> String {
    let done = Finished::of(command);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    done.stdout
}

#[track_caller]
fn inspected(source: &Path) -> Value {
    let shown = run(mintleaf().command().arg("inspect").arg(source).arg("--json"));
    serde_json::from_str(&shown).unwrap()
}

/// A node on a directory, ready.
fn start(data: &Path, flags: &[&str]) -> Node {
    let mut node = Node::new(&mintleaf(), 1, data.parent().unwrap());
    node.set_data(data.to_owned());
    node.set_flags(flags);
    node.start().unwrap();
    eventually("the node to be ready", secs(20), || node.is_ready().then_some(()));
    node
}

impl Golden {
    /// Fails unless a node shows everything, `advance` above the recorded marks, and gives ids above all that
    /// were given.
    #[track_caller]
    fn check(&self, api: Api, advance: u64) {
        let page = api.get("/v1/tags?limit=1000").ok();
        let (found, expected) =
            (page["tags"].as_array().unwrap(), self.expected["tags"].as_array().unwrap());
        assert_eq!(found.len(), expected.len(), "{}: {page}", self.version);
        for (found, expected) in found.iter().zip(expected) {
            self.check_tag(found, expected, advance);
        }
        let known = &self.expected["audit"];
        let entries = known.as_array().unwrap().len();
        let audit = &api.get(&format!("/v1/audit?limit={entries}")).ok()["entries"];
        assert!(shows(audit, known), "{}: {audit}", self.version);
        assert_eq!(api.get("/v1/segment/frozen").problem(), (423, "frozen".to_owned()));

        let given = &self.expected["given"];
        assert!(api.get("/v1/segment/orders").ids()[0] > number(&given["orders"]) + advance);
        assert!(api.get("/v1/snowflake").ids()[0] > number(&given["snowflake"]));
        api.post("/v1/tags", &json!({ "tag": "gone" })).ok();
        assert!(api.get("/v1/segment/gone").ids()[0] > number(&given["gone"]) + advance);
    }

    /// Fails unless a tag is as it was.
    #[track_caller]
    fn check_tag(&self, found: &Value, expected: &Value, advance: u64) {
        let mark = number(&expected["max_id"]) + advance;
        // A start reserves ids of a tag that was hot, and records the time.
        let reserved = found["tag"] == "orders" && number(&found["max_id"]) > mark;
        for (field, expected) in expected.as_object().unwrap() {
            match field.as_str() {
                "max_id" | "updated_at" if reserved => {}
                "max_id" => assert_eq!(number(&found[field]), mark, "{}: {found}", self.version),
                _ => assert!(shows(&found[field], expected), "{field} of {found}"),
            }
        }
    }
}

#[test]
fn a_data_directory_of_every_release_opens_and_nothing_of_it_is_lost() {
    for golden in golden() {
        let dir = tempfile::tempdir().unwrap();
        let archive = golden.dir.join("directory.tar.gz");
        run(Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(dir.path()));
        let data = dir.path().join("directory");
        let shown = inspected(&data);
        assert_eq!(shown["whole"], json!(true), "{shown}");
        for field in ["cluster_id", "node_id", "level", "tags"] {
            assert_eq!(shown[field], golden.expected["backup"][field], "{shown}");
        }
        golden.check(start(&data, &["--moved"]).api(), 0);
        // This build must also read what it has written.
        drop(start(&data, &[]));
    }
}

#[test]
fn a_cluster_that_is_upgraded_stays_at_its_level_until_it_is_raised() {
    for golden in golden() {
        let level = golden.expected["backup"]["level"].as_u64().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let archive = golden.dir.join("directory.tar.gz");
        run(Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(dir.path()));
        let node = start(&dir.path().join("directory"), &["--moved"]);
        let api = node.api();
        let shown_level = || api.get("/v1/cluster").ok()["level"].as_u64().unwrap();
        let shaped = [
            json!({ "tag": "upgraded-strict", "order": "strict" }),
            json!({ "tag": "upgraded-daily", "period": "day" }),
            json!({ "tag": "upgraded-hidden", "digits": 12 }),
        ];
        for body in shaped.iter().filter(|_| level < LEVEL_OF_SHAPES) {
            let refused = api.post("/v1/tags", body);
            assert_eq!(refused.problem(), (409, "level".to_owned()));
            assert!(refused.text().contains("cluster level raise"), "{refused:?}");
            let path = format!("/v1/tags/{}", body["tag"].as_str().unwrap());
            assert_eq!(api.get(&path).status, 404);
        }
        // This takes long enough for everything that a new cluster does by itself.
        assert!(api.get("/v1/snowflake").ids()[0] > 0);
        assert_eq!(shown_level(), level, "{}", golden.version);
        let url = format!("http://{}", api.0);
        run(mintleaf().command().args(["cluster", "level", "raise", "--yes", "--url", &url]));
        assert!(shown_level() >= LEVEL_OF_SHAPES);
        for body in &shaped {
            let made = api.post("/v1/tags", body);
            assert_eq!(made.status, 201, "{made:?}");
        }
    }
}

#[test]
fn a_backup_of_every_release_is_shown_and_restored() {
    for golden in golden() {
        let dir = tempfile::tempdir().unwrap();
        let (backup, data) = (golden.dir.join("backup"), dir.path().join("restored"));
        let mut shown = inspected(&backup);
        for (field, expected) in golden.expected["backup"].as_object().unwrap() {
            assert_eq!(&shown[field].take(), expected, "{field}");
        }
        let above = golden.expected["given"]["snowflake"].as_str().unwrap();
        let mut restore = mintleaf().command();
        restore.arg("restore").arg(&backup).arg("--data").arg(&data).args(["--node-id", "1"]);
        restore.args(["--advance-all-by", &ADVANCE.to_string(), "--snowflake-above", above]);
        // As root it warns that the directory belongs to root.
        let restored = Finished::of(&mut restore);
        assert_eq!(restored.code, Some(0), "{restored:?}");
        golden.check(start(&data, &[]).api(), ADVANCE);
    }
}

/// The number of a format according to the document.
fn promised(what: &str) -> u8 {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let text = fs::read_to_string(document).unwrap();
    let row = text.lines().find(|line| line.starts_with(&format!("| {what}")));
    let format = row.and_then(|row| row.split('|').nth(2));
    let number = format.and_then(|format| format.trim().split(',').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no row of {what} with a format"))
}

#[test]
fn formats_on_disk_are_those_that_the_document_promises() {
    let mut cluster = mintleaf().prepare(1, &["--snapshot-entries", "100"]);
    cluster.start_all();
    let (api, backup) = (cluster.api(1), cluster.dir().join("backup"));
    for number in 0..120 {
        api.post("/v1/tags", &json!({ "tag": format!("tag-{number}") })).ok();
    }
    assert_eq!(api.get("/v1/segment/tag-1").ids(), [1]);
    run(mintleaf()
        .command()
        .arg("backup")
        .arg(&backup)
        .args(["--url", &format!("http://{}", api.0)]));
    let data = cluster.data(1);
    eventually("a snapshot", secs(20), || data.join("snapshot/current").exists().then_some(()));
    cluster.stop(1);
    for (what, file, at) in [
        ("`identity`", data.join("identity"), 0),
        // Its length precedes it.
        ("write-ahead log", data.join("tail-a0"), 4),
        // In both files, four bytes precede it that identify the kind of file.
        ("snapshots", data.join("snapshot/current"), 4),
        ("backups", backup, 4),
        ("`hot-tags`", data.join("hot-tags"), 0),
    ] {
        assert_eq!(fs::read(&file).unwrap()[at], promised(what), "{what}: {}", file.display());
    }
}
