//! Tags with a shape: how they are made, shown and refused, and kept in all that happens to a cluster.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use mintleaf_core::backup::read_backup;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Finished, Node, eventually, mintleaf, secs};

/// The fields of a shape in answers.
const FIELDS: [&str; 6] = ["kind", "order", "period", "time_zone", "format", "digits"];

/// One tag of every kind, and the shape in its answers.
fn every_kind() -> Vec<(Value, Value)> {
    let plain = json!({
        "kind": "segment", "order": "trend", "period": null, "time_zone": null, "format": null,
        "digits": null,
    });
    let shaped = |tag: &str, asked: Value, shown: Value| {
        let (mut body, mut all) = (asked, plain.clone());
        for (field, value) in shown.as_object().unwrap() {
            all[field] = value.clone();
        }
        body["tag"] = json!(tag);
        (body, all)
    };
    let same = |tag: &str, fields: Value| shaped(tag, fields.clone(), fields);
    vec![
        same("plain", json!({})),
        same("strict", json!({ "order": "strict" })),
        same("text", json!({ "format": "T-{id:base36}" })),
        same("hidden", json!({ "digits": 12 })),
        same("hidden-text", json!({ "digits": 6, "format": "L{id}", "order": "strict" })),
        same("keys", json!({ "kind": "sequence" })),
        same("register", json!({ "kind": "register", "format": "R-{id}" })),
        shaped(
            "daily",
            json!({ "period": "day" }),
            json!({ "period": "day", "time_zone": "UTC", "format": "{period}{id:06}" }),
        ),
        shaped(
            "yearly",
            json!({ "period": "year", "time_zone": "asia/kolkata", "format": "{id}/{period}",
                    "order": "strict" }),
            json!({ "period": "year", "time_zone": "Asia/Kolkata", "format": "{id}/{period}",
                    "order": "strict" }),
        ),
    ]
}

fn post(api: Api, body: &Value) -> Answer {
    api.post("/v1/tags", body)
}

/// The shape in an answer.
fn shape_of(tag: &Value) -> Value {
    FIELDS.iter().map(|field| ((*field).to_owned(), tag[*field].clone())).collect()
}

/// The rows of all tags by name, as a node lists them.
fn listed(api: Api) -> BTreeMap<String, Value> {
    let page = api.get("/v1/tags?limit=1000").ok();
    let rows = page["tags"].as_array().unwrap().iter();
    rows.map(|row| (row["tag"].as_str().unwrap().to_owned(), row.clone())).collect()
}

#[track_caller]
fn assert_kept(api: Api) {
    let listed = listed(api);
    for (body, shape) in every_kind() {
        let name = body["tag"].as_str().unwrap();
        assert_eq!(shape_of(&listed[name]), shape, "{name}");
        assert_eq!(api.get(&format!("/v1/tags/{name}")).ok(), listed[name]);
    }
}

#[test]
fn a_fresh_node_takes_every_kind_at_once_and_shows_it_everywhere() {
    let mut dev = mintleaf().dev();
    let api = dev.api();
    for (body, shape) in every_kind() {
        let made = post(api, &body);
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(shape_of(&made.ok()), shape);
    }
    assert_kept(api);
    let db = api.get("/db").text().to_owned();
    for words in
        ["<td>strict</td>", "<td>sequence</td>", "day in UTC, {period}{id:06}", "12 digits"]
    {
        assert!(db.contains(words), "{words} is not in {db}");
    }
    let url = dev.url();
    let list = Finished::of(mintleaf().command().args(["tag", "list", "--url", &url])).stdout;
    for words in ["strict year Asia/Kolkata {id}/{period}", "sequence", "T-{id:base36}"] {
        assert!(list.contains(words), "{words} is not in {list}");
    }
    let entries = api.get("/v1/audit").ok()["entries"].clone();
    let yearly = entries.as_array().unwrap().iter().find(|entry| entry["target"] == "yearly");
    let after = &yearly.unwrap()["after"];
    assert_eq!((&after["period"], &after["order"]), (&json!("year"), &json!("strict")));
    assert_eq!(after["time_zone"], "Asia/Kolkata");
    dev.restart();
    assert_kept(dev.api());
}

#[test]
fn the_command_line_asks_for_every_field() {
    let dev = mintleaf().dev();
    let create = |args: &[&str]| {
        let mut command = mintleaf().command();
        command.args(["tag", "create"]).args(args).args(["--json", "--url", &dev.url()]);
        Finished::of(&mut command)
    };
    let made = create(&[
        "invoices",
        "--order",
        "strict",
        "--period",
        "month",
        "--time-zone",
        "America/New_York",
        "--format",
        "{period}-{id}",
    ]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let shown = shape_of(&serde_json::from_str(&made.stdout).unwrap());
    assert_eq!(
        shown,
        json!({ "kind": "segment", "order": "strict", "period": "month",
                "time_zone": "America/New_York", "format": "{period}-{id}", "digits": null })
    );
    assert_eq!(create(&["chat", "--kind", "sequence"]).code, Some(0));
    assert_eq!(create(&["links", "--digits", "12"]).code, Some(0));
    let refused = create(&["both", "--digits", "12", "--period", "day"]);
    assert!(refused.stderr.contains("digits and period"), "{refused:?}");
    assert_eq!(refused.code, Some(1));
}

#[test]
fn what_does_not_go_together_is_refused_by_both_names_and_a_bound_by_its_own() {
    let dev = mintleaf().dev();
    let day = "{period}{id}";
    for (fields, named) in [
        (json!({ "kind": "sequence", "order": "strict" }), ["kind", "order"]),
        (json!({ "kind": "sequence", "period": "day" }), ["kind", "period"]),
        (json!({ "kind": "sequence", "format": "{id}" }), ["kind", "format"]),
        (json!({ "kind": "sequence", "digits": 12 }), ["kind", "digits"]),
        (json!({ "kind": "sequence", "start": 5 }), ["start", "kind"]),
        (json!({ "digits": 12, "period": "day" }), ["digits", "period"]),
        (json!({ "digits": 12, "start": "2" }), ["start", "digits"]),
        (json!({ "period": "day", "start": "2" }), ["start", "period"]),
        (json!({ "time_zone": "UTC" }), ["time_zone", "period"]),
        (json!({ "format": day }), ["format", "period"]),
        (json!({ "period": "day", "format": "{id}" }), ["format", "{period}"]),
        (json!({ "digits": 5 }), ["digits", "6"]),
        (json!({ "digits": 19 }), ["digits", "18"]),
        (json!({ "digits": "12" }), ["digits", "integer"]),
        (json!({ "period": "week" }), ["period", "month"]),
        (json!({ "period": "day", "time_zone": "Mars/Olympus" }), ["time_zone", "IANA"]),
        (json!({ "order": "random" }), ["order", "strict"]),
        (json!({ "kind": "snowflake" }), ["kind", "sequence"]),
        (json!({ "format": "INV" }), ["format", "{id}"]),
        (json!({ "format": "{id}{id}" }), ["format", "once"]),
        (json!({ "format": "{id:7}" }), ["format", "{id:06}"]),
        (json!({ "format": format!("{}{{id}}", "x".repeat(125)) }), ["format", "128"]),
    ] {
        let mut body = fields.clone();
        body["tag"] = json!("t");
        let refused = post(dev.api(), &body);
        assert_eq!(refused.problem(), (400, "invalid_argument".to_owned()), "{fields}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        for name in named {
            assert!(detail.contains(name), "{fields}: {detail}");
        }
    }
    assert_eq!(dev.api().get("/v1/tags/t").status, 404);
}

#[test]
fn a_name_keeps_its_shape_for_ever() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    for (body, _) in every_kind() {
        post(api, &body).ok();
        let name = body["tag"].as_str().unwrap();
        assert_eq!(post(api, &body).problem(), (409, "tag_exists".to_owned()));
        assert_eq!(api.delete(&format!("/v1/tags/{name}")).status, 204);
    }
    for (first, _) in every_kind() {
        for (again, _) in every_kind().iter().filter(|(again, _)| again["tag"] != first["tag"]) {
            let mut body = again.clone();
            body["tag"] = first["tag"].clone();
            let refused = post(api, &body);
            assert_eq!(refused.problem(), (409, "conflict".to_owned()), "{body}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(FIELDS.iter().any(|field| detail.contains(field)), "{detail}");
        }
        // An import or a first use does not turn it into another tag either.
        let name = first["tag"].as_str().unwrap();
        let row = json!({ "tag": name, "max_id": "900" });
        let import = |dry_run| {
            let body = json!({ "import": "x", "tags": [row], "dry_run": dry_run });
            api.post("/v1/import", &body).ok()["tags"][0]["outcome"].clone()
        };
        if name != "plain" {
            assert_eq!((import(true), import(false)), (json!("refused"), json!("refused")));
        }
        if name != "plain" {
            assert_eq!(api.get(&format!("/v1/tags/{name}")).status, 404);
            assert_eq!(post(api, &first).status, 201, "{first}");
        }
    }
}

#[test]
fn a_mark_is_raised_where_ids_are_numbers_of_one_line_and_nowhere_else() {
    let cluster = mintleaf().cluster(1);
    let api = cluster.api(1);
    for (body, _) in every_kind() {
        post(api, &body).ok();
        let name = body["tag"].as_str().unwrap();
        let set = |body: Value| api.patch(&format!("/v1/tags/{name}"), &body);
        if name == "register" {
            assert_eq!(set(json!({ "step": 7 })).problem(), (400, "invalid_argument".to_owned()));
        } else {
            assert_eq!(set(json!({ "step": 7, "frozen": false })).ok()["step"], 7);
        }
        let raised = set(json!({ "max_id": "500" }));
        let row = json!({ "tag": name, "max_id": "600" });
        let imported = api.post("/v1/import", &json!({ "import": "x", "tags": [row] })).ok();
        let outcome = &imported["tags"][0]["outcome"];
        if ["plain", "strict", "register"].contains(&name) {
            assert_eq!(raised.ok()["max_id"], "500");
            assert_eq!(outcome, "raised");
            let far = json!({ "max_id": (1_u64 << 50).to_string() });
            assert_eq!(set(far).problem(), (409, "conflict".to_owned()));
            let meant = json!({ "max_id": (1_u64 << 50).to_string(), "force": true });
            assert_eq!(set(meant).status, 200);
        } else {
            assert_eq!(raised.problem(), (400, "invalid_argument".to_owned()), "{name}");
            assert!(raised.text().contains("max_id"), "{raised:?}");
            assert_eq!(outcome, "refused", "{name}");
            assert_eq!(listed(api)[name]["max_id"], "1");
        }
    }
    // A strict tag that is made again continues above its mark.
    assert_eq!(api.delete("/v1/tags/strict").status, 204);
    let made = post(api, &json!({ "tag": "strict", "order": "strict" })).ok();
    assert_eq!(made["max_id"], (1_u64 << 50).to_string());
}

#[test]
fn a_new_cluster_takes_shapes_at_once_through_any_node() {
    let cluster = mintleaf().cluster(3);
    for (id, order) in [(1, "strict"), (2, "strict"), (3, "trend")] {
        let body = json!({ "tag": format!("by-{id}"), "order": order, "digits": 9 });
        let made = post(cluster.api(id), &body);
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(cluster.api(id).get("/v1/cluster").ok()["level"], 3);
    }
    for id in cluster.ids() {
        assert_eq!(listed(cluster.api(id)).len(), 3);
    }
}

/// The bytes of a key in all spellings that an answer or a log line might use.
fn spellings(key: &[u8; 32]) -> Vec<Vec<u8>> {
    let joined = |with: &str, spell: fn(&u8) -> String| {
        key.iter().map(spell).collect::<Vec<_>>().join(with).into_bytes()
    };
    let hex = joined("", |byte| format!("{byte:02x}"));
    let upper = hex.to_ascii_uppercase();
    vec![key.to_vec(), hex, upper, joined(",", u8::to_string), joined(", ", u8::to_string)]
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

#[test]
fn the_key_of_hidden_ids_is_in_a_backup_and_nowhere_that_anybody_reads() {
    let mut cluster = mintleaf().prepare(1, &[]);
    cluster.set_env(1, "RUST_LOG", "trace");
    cluster.start_all();
    let api = cluster.api(1);
    let body = json!({ "tag": "links", "digits": 12 });
    let mut answers = vec![post(api, &body)];
    answers.push(api.delete("/v1/tags/links"));
    answers.push(post(api, &body));
    answers.push(api.patch("/v1/tags/links", &json!({ "step": 9 })));
    answers.push(post(api, &json!({ "tag": "links", "digits": 13 })));
    for path in [
        "/v1/tags/links",
        "/v1/tags",
        "/v1/audit",
        "/v1/cluster",
        "/metrics",
        "/db",
        "/cache",
        "/v1/segment/links",
        "/readyz",
    ] {
        answers.push(api.get(path));
    }
    let backup = cluster.dir().join("backup");
    let url = format!("http://{}", api.0);
    let mut command = mintleaf().command();
    command.arg("backup").arg(&backup).args(["--url", &url]);
    let taken = Finished::of(&mut command);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let shown = Finished::of(mintleaf().command().arg("inspect").arg(&backup));
    let (_, state) = read_backup(BufReader::new(File::open(&backup).unwrap()), |_| ()).unwrap();
    let key = state.shape("links").unwrap().hidden.clone().unwrap().key.0;
    assert_ne!(key, [0; 32]);
    assert!(holds(&fs::read(&backup).unwrap(), &key), "a backup restores the same ids");
    let log = cluster.process(1).log();
    assert!(log.contains("tag.create"), "{log}");
    for key in spellings(&key) {
        for answer in &answers {
            assert!(!holds(&answer.body, &key), "{answer:?}");
        }
        assert!(!holds(log.as_bytes(), &key), "{log}");
        for output in [&taken.stdout, &taken.stderr, &shown.stdout, &shown.stderr] {
            assert!(!holds(output.as_bytes(), &key), "{output}");
        }
    }
}

#[test]
fn a_restored_cluster_keeps_every_shape_and_rises_on_every_line() {
    let mut cluster = mintleaf().prepare(1, &["--snapshot-entries", "100"]);
    cluster.start_all();
    let api = cluster.api(1);
    for (body, _) in every_kind() {
        post(api, &body).ok();
    }
    post(api, &json!({ "tag": "gone", "order": "strict", "start": "40" })).ok();
    assert_eq!(api.delete("/v1/tags/gone").status, 204);
    api.patch("/v1/tags/strict", &json!({ "max_id": "700" })).ok();
    let data = cluster.data(1);
    cluster.stop(1);
    let dir = tempfile::tempdir().unwrap();
    let restored = dir.path().join("restored");
    let mut restore = mintleaf().command();
    restore.arg("restore").arg(&data).arg("--data").arg(&restored).args(["--node-id", "1"]);
    restore.args(["--advance-all-by", "1000", "--advance", "strict=5000", "--stopped-at", "now"]);
    let done = Finished::of(&mut restore);
    assert_eq!(done.code, Some(0), "{done:?}");
    let node = start(&restored);
    assert_kept(node.api());
    assert_eq!(node.api().get("/v1/cluster").ok()["level"], 3);
    let row = |tag: &str| node.api().get(&format!("/v1/tags/{tag}")).ok();
    assert_eq!(row("strict")["max_id"], "5700");
    assert_eq!(row("hidden")["max_id"], "1001");
    let other = post(node.api(), &json!({ "tag": "gone" }));
    assert_eq!(other.problem(), (409, "conflict".to_owned()));
    let made = post(node.api(), &json!({ "tag": "gone", "order": "strict" })).ok();
    assert_eq!(made["max_id"], "1040");
}

fn start(data: &Path) -> Node {
    let mut node = Node::new(&mintleaf(), 1, data.parent().unwrap());
    node.set_data(data.to_owned());
    node.start().unwrap();
    eventually("the node to be ready", secs(20), || node.is_ready().then_some(()));
    node
}
