//! What the log of a node reports to an operator: each change, once, in lines that people and programs can read.

use std::fs;
use std::path::Path;

use hyper::Method;
use serde_json::{Value, json};

use crate::harness::{
    Api, Cluster, Finished, Process, Serve, eventually, mintleaf, ms, pause, secs,
};

/// A node's output since its last start.
fn said(cluster: &mut Cluster, id: u64) -> String {
    cluster.process(id).said()
}

#[track_caller]
fn await_said(cluster: &mut Cluster, id: u64, what: &str) -> String {
    eventually(&format!("node {id} to say {what:?}"), secs(15), || {
        let said = said(cluster, id);
        said.contains(what).then_some(said)
    })
}

#[test]
fn a_log_tells_who_leads_who_is_lost_and_back_and_who_changed_what() {
    let mut cluster = mintleaf().cluster(3);
    let first = cluster.leader();
    await_said(&mut cluster, first, "this node leads now");
    let [lost, witness] = cluster.others(first)[..] else { panic!() };
    await_said(&mut cluster, witness, &format!("node {first} leads now"));
    cluster.api(witness).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    let audit = await_said(&mut cluster, witness, "admin change");
    assert!(
        audit.contains("actor=\"anonymous\" action=\"tag.create\" subject=\"orders\""),
        "{audit}"
    );

    cluster.kill(lost);
    await_said(&mut cluster, witness, &format!("lost contact with node {lost}"));
    cluster.start_node(lost);
    let back = await_said(&mut cluster, witness, &format!("node {lost} is back"));
    let line = back.lines().find(|line| line.contains("is back")).unwrap();
    assert!(line.contains("lost_ms="), "{line}");

    // A restarted leader finds on its disk that it led, but leads no more.
    cluster.kill(first);
    let second = eventually("another leader", secs(15), || {
        Some(cluster.leader()).filter(|&leader| leader != first)
    });
    cluster.start_node(first);
    cluster.await_ready();
    let again = await_said(&mut cluster, first, &format!("node {second} leads now"));
    assert!(!again.contains("this node leads now"), "{again}");

    let whole = cluster.process(witness).log();
    for line in whole.lines() {
        let time = line.split(' ').next().unwrap();
        let is_time = time.len() == "2026-11-22T10:00:00.000Z".len() && time.ends_with('Z');
        assert!(is_time, "no time with three decimals: {line}");
    }
}

#[test]
fn a_json_log_holds_values_and_no_debug_output() {
    let mut cluster = mintleaf().prepare(3, &["--log-format", "json", "--log-level", "debug"]);
    cluster.start_all();
    let leader = cluster.leader();
    let other = cluster.others(leader)[0];
    cluster.api(other).post("/v1/tags", &json!({ "tag": "orders" })).ok();
    cluster.kill(leader);
    cluster.leader();
    cluster.start_node(leader);
    cluster.await_ready();
    for id in cluster.ids() {
        let log = cluster.process(id).log();
        assert!(log.lines().count() > 3, "{log}");
        for line in log.lines() {
            let line: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
            assert_eq!(line["timestamp"].as_str().unwrap().len(), 24, "{line}");
            let fields = line["fields"].as_object().unwrap();
            let texts = fields.values().filter_map(Value::as_str);
            for text in texts {
                let is_debug =
                    ["Some(", "None", "Ok(", "Err("].iter().any(|it| text.starts_with(it));
                assert!(!is_debug, "{line}");
            }
        }
    }
}

#[test]
fn no_log_line_is_written_with_debug_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for directory in ["src", "raft/src", "storage/src"] {
        sources(&root.join(directory), &mut |path, text| {
            for (at, _) in text.match_indices("tracing::") {
                let call = text[at..].split_once(");").map_or("", |(call, _)| call);
                let Some((name, arguments)) = call.split_once("!(") else { continue };
                if name.contains([' ', '\n', ';']) {
                    continue;
                }
                if arguments.starts_with('?')
                    || ["= ?", ", ?", " ?"].iter().any(|it| arguments.contains(it))
                {
                    found.push(format!("{}: {call}", path.display()));
                }
            }
        });
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Calls `with` for every source file in a directory.
fn sources(directory: &Path, with: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, with);
        } else if path.extension().is_some_and(|it| it == "rs") {
            with(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn the_level_is_read_again_on_a_signal_and_libraries_only_warn() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("mintleaf.toml");
    fs::write(&settings, "log-level = \"warn\"\n").unwrap();
    let mut cluster = mintleaf().prepare(1, &["--config", settings.to_str().unwrap()]);
    cluster.start_all();
    cluster.api(1).post("/v1/tags", &json!({ "tag": "quiet" })).ok();
    fs::write(&settings, "log-level = \"info\"\n").unwrap();
    cluster.process(1).signal("HUP");
    await_said(&mut cluster, 1, "the log level is info from now on, was warn");
    cluster.api(1).post("/v1/tags", &json!({ "tag": "loud" })).ok();
    let said = await_said(&mut cluster, 1, "subject=\"loud\"");
    assert!(!said.contains("quiet"), "{said}");

    fs::write(&settings, "log-level = \"much\"\n").unwrap();
    cluster.process(1).signal("HUP");
    await_said(&mut cluster, 1, "cannot read the log level again; the old one stays");
}

#[test]
fn a_level_in_rust_log_is_one_of_this_project_and_nonsense_is_bad_usage() {
    let mut dev = mintleaf().prepare(1, &[]);
    dev.set_env(1, "RUST_LOG", "info");
    dev.start_all();
    let log = await_said(&mut dev, 1, "this node leads now");
    assert!(!log.contains("openraft"), "{log}");
    let longest = log.lines().map(str::len).max().unwrap();
    assert!(longest < 400, "{log}");

    let directory = tempfile::tempdir().unwrap();
    let mut command = mintleaf().command();
    command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(directory.path().join("data"));
    let refused = Finished::of(command.env("RUST_LOG", "a=b=c=d"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("error: RUST_LOG is no filter"), "{refused:?}");
}

#[test]
fn a_founder_names_everybody_it_waits_for_and_does_not_repeat_itself() {
    let directory = tempfile::tempdir().unwrap();
    let ports: Vec<_> = (0..4).map(|_| crate::harness::Port::claim()).collect();
    let (data, log) = (directory.path().join("data"), directory.path().join("log"));
    let raft = |place: usize| ports[place].addr();
    let mut command = mintleaf().serve(&Serve { id: 1, http: raft(3), raft: raft(0), data: &data });
    command.args(["--peers", &format!("1={},2={},3={}", raft(0), raft(1), raft(2))]);
    let node = Process::start("the founder", &mut command, &log).unwrap();
    let waiting = |said: &str| {
        said.lines()
            .filter(|it| it.contains("waiting for the cluster"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let first = eventually("the founder to say for whom it waits", secs(20), || {
        waiting(&node.said()).into_iter().next()
    });
    assert!(first.contains("node 2: ") && first.contains("node 3: "), "{first}");
    pause(ms(11_000));
    assert_eq!(waiting(&node.said()), [first]);
}

#[test]
fn a_request_has_an_id_which_a_problem_and_the_log_tell() {
    let dev = mintleaf().dev();
    let ask =
        |id: &str| dev.api().send(&Method::GET, "/v1/tags/nobody", &[("x-request-id", id)], "");
    let answer = ask("checkout-17");
    assert_eq!((answer.status, answer.header("x-request-id")), (404, "checkout-17"));
    assert_eq!(answer.json()["request_id"], "checkout-17");
    let drawn = ask("not one").json()["request_id"].as_str().unwrap().to_owned();
    assert!(drawn.len() == 32 && drawn.bytes().all(|it| it.is_ascii_hexdigit()), "{drawn}");
    assert_eq!(
        dev.api().get("/v1/segment/nobody?count=0").header("x-request-id"),
        "",
        "it asks for ids"
    );
}

/// A tag is created under this `traceparent`.
fn create_in_trace(api: Api, tag: &str, traceparent: &str) {
    let headers = [("content-type", "application/json"), ("traceparent", traceparent)];
    let body = json!({ "tag": tag }).to_string();
    assert_eq!(api.send(&Method::POST, "/v1/tags", &headers, &body).status, 201);
}

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn lines_of_a_request_name_its_trace_and_the_leader() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let follower = cluster.others(leader)[0];
    create_in_trace(cluster.api(follower), "traced", TRACEPARENT);
    create_in_trace(cluster.api(follower), "malformed", &TRACEPARENT.to_uppercase());
    cluster.api(follower).send(&Method::GET, "/v1/backup", &[("traceparent", TRACEPARENT)], "");
    let said = await_said(&mut cluster, follower, "a backup was taken");
    let line = |what: &str| said.lines().find(|line| line.contains(what)).unwrap();
    let span = format!("request{{traceparent=\"{TRACEPARENT}\" leader={leader}}}:");
    for traced in ["subject=\"traced\"", "a backup was taken"] {
        assert!(line(traced).contains(&span), "{said}");
    }
    assert!(!line("subject=\"malformed\"").contains("request{"), "{said}");

    // Without a quorum, requests for ids fail too. Their lines are those of traces.
    for other in cluster.others(follower) {
        cluster.kill(other);
    }
    let ask = |headers: &[(&str, &str)]| {
        let answer = cluster.api(follower).send(&Method::GET, "/v1/segment/new", headers, "");
        assert_eq!(answer.status, 503, "{}", answer.text());
    };
    ask(&[]);
    ask(&[("traceparent", TRACEPARENT)]);
    let said = await_said(&mut cluster, follower, "a request failed");
    let failed: Vec<_> = said.lines().filter(|line| line.contains("a request failed")).collect();
    let [failed] = failed[..] else { panic!("{said}") };
    assert!(failed.contains(TRACEPARENT) && failed.contains("/v1/segment/new"), "{failed}");
}

#[test]
fn a_json_log_has_the_trace_as_a_value() {
    let mut node = mintleaf().prepare(1, &["--log-format", "json", "--log-level", "warn"]);
    node.set_env(1, "RUST_LOG", "warn,mintleaf::audit=info");
    node.start_all();
    node.leader();
    create_in_trace(node.api(1), "traced", TRACEPARENT);
    let said = await_said(&mut node, 1, "traced");
    let line: Value = said.lines().find(|line| line.contains("traced")).unwrap().parse().unwrap();
    let span = json!({ "name": "request", "traceparent": TRACEPARENT, "leader": 1 });
    assert_eq!(line["span"], span, "{line}");
    assert_eq!(line["fields"]["subject"], "traced", "{line}");
}

#[test]
fn a_tag_that_is_used_up_is_named() {
    let mut node = mintleaf().cluster(1);
    let api = node.api(1);
    let start = (i64::MAX - 4).to_string();
    api.post("/v1/tags", &json!({ "tag": "short", "start": start })).ok();
    assert_eq!(api.get("/v1/segment/short?count=5").ids().len(), 5);
    let detail = api.get("/v1/segment/short").json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("tag short: "), "{detail}");
    assert_eq!(api.get("/api/segment/get/short").status, 500);
    await_said(&mut node, 1, "a tag is used up: it has no ids left tag=\"short\"");
    // A node checks all tags when it starts.
    node.kill(1);
    node.start_node(1);
    await_said(&mut node, 1, "a tag is near its end: 0.0000 % of its ids are left tag=\"short\"");
    eventually("the metrics to say so", secs(10), || {
        let page = api.try_get("/metrics").ok()?.text().to_owned();
        page.contains("mintleaf_tag_headroom_ratio 0.0\n").then_some(())
    });
    let page = api.get("/v1/buffers").ok();
    assert_eq!(page["nearest_end"], json!({ "tag": "short", "left": 0.0 }));
}
