//! The command line's view of nodes: all of them, each by itself, and the machine that a node runs on.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;

use mintleaf::access::{hash_of, written_hash};
use serde_json::{Value, json};

use super::{ask, assert_fails, json_of, printed, run};
use crate::auth::{entry, secret_file, token, write};
use crate::harness::{Finished, Port, Process, eventually, mintleaf, secs};

/// The entry of a node in a list of nodes.
#[track_caller]
fn node(status: &Value, id: u64) -> Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["id"] == id).unwrap().clone()
}

#[test]
fn cluster_status_asks_every_node_and_names_the_one_that_is_gone() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let [gone, asked] = cluster.others(leader)[..] else { panic!("three nodes") };
    let url = format!("http://{}", cluster.api(asked).0);
    let status = || json_of(&run(&["cluster", "status", "--json", "--url", &url]));
    // A node that has just started has not heard from all others yet.
    let is_known = |shown: &Value| shown["ready"] == true && shown["clock_from_median_ms"].is_i64();
    let all = eventually("all nodes to be ready and heard", secs(10), || {
        let all = status();
        let is_whole =
            |id: &u64| is_known(&node(&all, *id)) && node(&all, *id)["reachable"] == true;
        cluster.ids().iter().all(is_whole).then_some(all)
    });
    for id in cluster.ids() {
        let shown = node(&all, id);
        for field in ["last_log_index", "last_applied_index", "log_lag", "clock_from_median_ms"] {
            assert!(shown[field].is_i64() || shown[field].is_u64(), "{field}: {shown}");
        }
        let known =
            [&shown["reachable"], &shown["answered"], &shown["draining"], &shown["reasons"]];
        assert_eq!(known, [&json!(true), &json!(true), &json!(false), &json!([])], "{shown}");
        assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    }
    let table = run(&["cluster", "status", "--url", &url]);
    assert!(printed(&table).contains("all nodes are ready"), "{table:?}");
    let ready = run(&["ready", "--url", &format!("{url},{url}")]);
    assert_eq!(printed(&ready), format!("{url} is ready\n"));

    cluster.kill(gone);
    for id in [leader, asked] {
        eventually("the node to be missed", secs(4), || {
            let view = cluster.api(id).get("/v1/cluster").ok();
            (node(&view, gone)["reachable"] == false).then_some(())
        });
    }
    let missed = node(&status(), gone);
    assert_eq!((&missed["answered"], &missed["ready"]), (&json!(false), &Value::Null), "{missed}");
    let table = run(&["cluster", "status", "--url", &url]);
    assert!(printed(&table).contains("unreachable"), "{table:?}");
    assert!(printed(&table).contains(&format!("node {gone}: cannot reach")), "{table:?}");
}

#[test]
fn a_check_of_the_cluster_exits_by_how_it_is() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let [first, second] = cluster.others(leader)[..] else { panic!("three nodes") };
    let urls = cluster.ids().iter().map(|id| cluster.api(*id).0.to_string()).collect::<Vec<_>>();
    let urls = urls.join(",");
    let check = || run(&["cluster", "status", "--check", "--url", &urls]);
    let exits = |code: i32, says: &str| {
        let last = eventually(&format!("exit code {code}"), secs(20), || {
            Some(check()).filter(|check| check.code == Some(code))
        });
        let text = if code == 0 { &last.stdout } else { &last.stderr };
        assert!(text.contains(says) && text.lines().count() == 1, "{last:?}");
        assert_eq!(last.stdout.len() + last.stderr.len(), text.len(), "{last:?}");
    };
    exits(0, "all is well: all 3 nodes are ready");
    cluster.kill(first);
    exits(1, &format!("error: degraded: node {first}: cannot reach"));
    cluster.kill(second);
    exits(2, "error: no quorum: 1 of 3 voters can be reached and 2 are needed; missing: ");
    cluster.kill(leader);
    exits(3, "error: no node says how the cluster is: cannot reach");
    cluster.start_node(first);
    exits(2, "error: no quorum: ");
    cluster.start_node(second);
    cluster.start_node(leader);
    exits(0, "all is well");
}

#[test]
fn status_names_nodes_that_have_another_auth_file_or_cannot_use_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = mintleaf().prepare(3, &["--cluster-secret-file", &secret_file(dir.path())]);
    let file = |id: u64| dir.path().join(format!("auth-{id}.toml"));
    let old = "anonymous = \"read\"\n".to_owned() + &entry("ops", "admin", "");
    for id in cluster.ids() {
        write(&file(id), &old);
        cluster.add_flag(id, "--auth-file", file(id));
    }
    cluster.start_all();
    let urls = cluster.ids().iter().map(|id| cluster.api(*id).0.to_string()).collect::<Vec<_>>();
    let (urls, ops) = (urls.join(","), token("ops"));
    let status = |flags: &[&str]| {
        run(&[&["cluster", "status", "--url", &urls, "--token", &ops], flags].concat())
    };
    let new = old.clone() + &entry("new", "read", "");
    let [before, after] =
        [&old, &new].map(|text| written_hash(&hash_of(text.as_bytes()))[7..15].to_owned());
    let shown = |id: u64, of: &Value| {
        let shown = node(of, id);
        (shown["auth_file"].clone(), shown["failed_reloads"].clone())
    };
    let all = json_of(&status(&["--json"]));
    assert!(cluster.ids().iter().all(|id| shown(*id, &all) == (json!(before), json!([]))), "{all}");

    write(&file(1), &new);
    write(&file(2), "nonsense");
    for id in [1, 2] {
        cluster.process(id).signal("HUP");
    }
    let wanted = [(&after, json!([])), (&before, json!(["tokens"])), (&before, json!([]))];
    eventually("the files to be read", secs(15), || {
        let all = json_of(&status(&["--json"]));
        let is_shown = |(id, (file, failed))| shown(id, &all) == (json!(file), failed);
        (1..).zip(wanted.clone()).all(is_shown).then_some(())
    });
    let (check, table) = (status(&["--check"]), status(&[]));
    for says in [
        "node 2: files that changed cannot be used (tokens); its log says why",
        "nodes have different auth files: ",
        &format!("{after} at 1"),
        &format!("{before} at 2, 3"),
    ] {
        assert_fails(&check, 1, says);
        assert!(printed(&table).contains(says), "{table:?}");
    }
    assert!(!check.stderr.contains(&ops), "{check:?}");
    let (own, raft) = (file(3), "127.0.0.1:0");
    let here = ["doctor", "--node-id", "9", "--raft", raft, "--auth-file", own.to_str().unwrap()];
    let doctor = run(&[&here, &["--url", &urls, "--token", &ops, "--insecure"][..]].concat());
    let says = format!("node 1 has another auth file in force ({after}) than the one here");
    assert!(doctor.stdout.contains(&says), "{doctor:?}");
}

#[test]
fn a_cluster_that_has_not_formed_says_so_instead_of_an_empty_table() {
    let mut cluster = mintleaf().prepare(3, &[]);
    cluster.start_node(1);
    let api = cluster.api(1);
    eventually("the node", secs(10), || api.try_get("/livez").ok());
    let url = format!("http://{}", api.0);
    let status = run(&["cluster", "status", "--url", &url]);
    assert!(printed(&status).starts_with("no cluster yet: node 1 waits"), "{status:?}");
    assert!(printed(&status).contains("not_formed: "), "{status:?}");
    let status = json_of(&run(&["cluster", "status", "--json", "--url", &url]));
    assert_eq!((&status["cluster_id"], &status["nodes"]), (&Value::Null, &json!([])));
    let missing = eventually("the missing node to be named", secs(10), || {
        let check = run(&["cluster", "status", "--check", "--url", &url]);
        assert_fails(&check, 2, "error: no cluster yet: not_formed: ");
        Some(check.stderr).filter(|text| text.contains("; missing: node 2: "))
    });
    assert!(missing.contains("node 3: "), "{missing}");
}

#[test]
fn worker_ids_are_listed_with_their_holders() {
    let dev = mintleaf().dev();
    assert_eq!(ask(&dev, &["snowflake"]).code, Some(0));
    let listed = ask(&dev, &["worker", "list"]);
    let table = printed(&listed);
    assert!(table.starts_with("layout 41+10+12, worker ids 0-1023\n\nWORKER  STATE"), "{table}");
    assert!(table.contains("     0  held      1  "), "{table}");
    let workers = json_of(&ask(&dev, &["worker", "list", "--json"]));
    assert_eq!(
        (&workers["workers"][0]["state"], &workers["workers"][0]["node_id"]),
        (&json!("held"), &json!(1))
    );
}

#[test]
fn an_id_is_decoded_by_the_cluster_and_without_one_by_what_is_assumed() {
    let port = Port::claim();
    let url = format!("http://{}", port.addr());
    let decode =
        |rest: &[&str]| run(&[&["decode", "2123687164758723980", "--url", &url], rest].concat());
    let assumed = decode(&["--json"]);
    assert_eq!(assumed.code, Some(0), "{assumed:?}");
    assert!(
        assumed.stderr.contains("assumed layout 41+10+12 and epoch 1288834974657"),
        "{assumed:?}"
    );
    let assumed: Value = serde_json::from_str(&assumed.stdout).unwrap();
    assert_eq!(assumed["time"], "2026-11-20T07:57:30.935Z");
    assert_eq!(
        (&assumed["layout"], &assumed["epoch_ms"]),
        (&json!("41+10+12"), &json!(1_288_834_974_657_u64))
    );
    let given = json_of(&decode(&["--json", "--epoch-ms", "1288834975657"]));
    assert_eq!(given["time"], "2026-11-20T07:57:31.935Z", "nothing was assumed");
    assert!(printed(&decode(&["--offline"])).contains("2026-11-20T07:57:30.935Z"));
    assert_fails(&decode(&["--layout", "41+6+6"]), 1, "more bits");
    assert_eq!(decode(&["--layout", "wide"]).code, Some(2));
    let dev = mintleaf().dev();
    let asked = json_of(&ask(&dev, &["decode", "2123687164758723980", "--json"]));
    assert_eq!((&asked["time"], &asked["layout"]), (&assumed["time"], &Value::Null));
}

#[test]
fn tags_are_listed_by_prefix_and_created_unless_they_exist() {
    let dev = mintleaf().dev();
    for tag in ["pay", "payments", "pay/a", "order", "paz", "支付", "支付宝"] {
        assert_eq!(ask(&dev, &["tag", "create", tag]).code, Some(0));
    }
    let names = |args: &[&str]| -> Vec<String> {
        let listed = json_of(&ask(&dev, &[&["tag", "list", "--json"], args].concat()));
        let tags = listed.as_array().unwrap().iter();
        tags.map(|tag| tag["tag"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--prefix", "pay"]), ["pay", "pay/a", "payments"]);
    assert_eq!(names(&["--prefix", "pay", "--limit", "2"]), ["pay", "pay/a"]);
    assert_eq!(names(&["--prefix", "pa"]), ["pay", "pay/a", "payments", "paz"]);
    assert_eq!(names(&["--prefix", "支付"]), ["支付", "支付宝"]);
    assert!(names(&["--prefix", "zz"]).is_empty());
    assert_eq!(printed(&ask(&dev, &["tag", "list", "--prefix", "zz"])), "no tags\n");

    let again = ["tag", "create", "pay", "--json"];
    assert_fails(&ask(&dev, &again), 1, "--if-not-exists");
    let again = [&again[..], &["--if-not-exists", "--step", "1000"]].concat();
    assert_eq!(json_of(&ask(&dev, &again))["step"], 1000);
    let other = ask(&dev, &["tag", "create", "pay", "--if-not-exists", "--step", "5"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    assert_eq!(other.stderr, "warning: pay exists, and its step is 1000 and not 5\n");
    let other = ask(&dev, &["tag", "create", "pay", "--if-not-exists", "--kind", "sequence"]);
    assert_fails(&other, 1, "its kind is \"segment\" and not \"sequence\"");
    let new = ask(&dev, &["tag", "create", "new", "--if-not-exists", "--step", "5", "--json"]);
    assert_eq!(json_of(&new)["step"], 5);
}

#[test]
fn cluster_status_tells_a_node_without_a_cluster_from_one_of_another() {
    let mut cluster = mintleaf().cluster(3);
    cluster.kill(3);
    let [http, raft] = [cluster.api(3).0.to_string(), cluster.raft(3).to_string()];
    let waits = |http: &str, raft: &str, peers: &str| {
        let mut command = mintleaf().command();
        let dir = tempfile::tempdir_in(cluster.dir()).unwrap().keep();
        command.args(["serve", "--node-id", "3", "--http", http, "--raft", raft]);
        command.args(["--peers", &format!("3={raft}{peers}"), "--data"]).arg(&dir);
        Process::start("the other node", &mut command, &dir.with_extension("log")).unwrap()
    };
    let url = cluster.api(1).0.to_string();
    for (peers, says) in
        [(",9=127.0.0.1:9", "belongs to no cluster yet"), ("", "a node of another cluster is at")]
    {
        let _other = waits(&http, &raft, peers);
        eventually(says, secs(10), || {
            let status = run(&["cluster", "status", "--url", &url]);
            status.stdout.contains(says).then_some(())
        });
    }
}

#[test]
fn a_narrow_terminal_is_told_which_columns_it_lacks() {
    let dev = mintleaf().dev();
    let shown = |columns: &str| {
        let mut command = mintleaf().command();
        command.args(["cluster", "status", "--url", &dev.url()]).env("COLUMNS", columns);
        printed(&Finished::of(&mut command)).to_owned()
    };
    let lacks = "not shown, for lack of width: ";
    assert!(!shown("200").contains(lacks));
    let narrow = (60..120).map(|columns| shown(&columns.to_string()));
    let mut said =
        narrow.filter_map(|text| Some(text.split_once(lacks)?.1.lines().next()?.to_owned()));
    assert_eq!(said.next_back().as_deref(), Some("ZONE"));
}

#[test]
fn doctor_goes_on_without_a_token_that_it_cannot_read() {
    let dev = mintleaf().dev();
    let [http, raft] = [Port::claim().addr(), Port::claim().addr()].map(|at| at.to_string());
    let data = dev.dir().join("none").display().to_string();
    let mut command = mintleaf().command();
    command.args(["doctor", "--json", "--node-id", "1", "--http", &http, "--raft", &raft]);
    command.args(["--data", &data, "--url", &dev.url()]).env("MINTLEAF_TOKEN_FILE", "/no/such");
    let finished = Finished::of(&mut command);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(statuses(&report, "token"), ["failed"], "{report}");
    assert_eq!(statuses(&report, "cluster"), ["ok"], "{report}");
    assert_eq!(statuses(&report, "disk").len(), 1, "{report}");
}

/// The status of each check of this name.
fn statuses(report: &Value, check: &str) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap().iter();
    let of_name = checks.filter(|found| found["check"] == check);
    of_name.map(|found| found["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn doctor_finds_a_sound_machine_sound() {
    let cluster = mintleaf().cluster(3);
    let (url, data) = (format!("http://{}", cluster.api(2).0), cluster.data(1));
    let peers = [1, 2, 3].map(|id| format!("{id}={}", cluster.raft(id))).join(",");
    let (http, raft) = (cluster.api(1).0.to_string(), cluster.raft(1).to_string());
    let args = ["doctor", "--json", "--node-id", "1", "--peers", &peers, "--http", &http];
    let more = ["--raft", &raft, "--data", data.to_str().unwrap(), "--url", &url];
    let sound = run(&[&args[..], &more].concat());
    let report = json_of(&sound);
    assert_eq!((&report["ok"], &report["failed"]), (&json!(true), &json!(0)), "{report}");
    assert_eq!(statuses(&report, "peer"), ["ok"; 2], "{report}");
    assert_eq!(statuses(&report, "port"), ["ok"; 2], "the node itself has them: {report}");
    assert_eq!(statuses(&report, "clock against the cluster"), ["ok"], "{report}");
    for check in ["disk", "data", "open files", "clock"] {
        assert_eq!(statuses(&report, check).len(), 1, "{check}: {report}");
    }
    assert_eq!(statuses(&report, "keys between nodes"), ["warning"], "there are none: {report}");
    let mut checks = report["checks"].as_array().unwrap().iter();
    let door = checks.find(|it| it["check"] == "keys between nodes").unwrap();
    assert!(door["detail"].as_str().unwrap().contains(&raft), "{report}");
    let foreign = fs::read_dir(&data).unwrap().map(|it| it.unwrap().file_name());
    assert!(foreign.into_iter().all(|name| !name.to_string_lossy().contains("doctor")));
    let without_url = run(&[&args[..], &more[..4]].concat());
    let report = json_of(&without_url);
    assert_eq!(
        statuses(&report, "clock against the cluster"),
        ["ok"],
        "the node of these settings is asked where no other is named: {report}"
    );
    let of_cluster = |report: &Value| {
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.find(|it| it["check"] == "cluster").unwrap().clone()
    };
    let (own, other) = (format!("http://{http}"), mintleaf().cluster(1));
    let found = of_cluster(&report);
    assert!(found["status"] == "ok" && found.to_string().contains(&own), "{found}");
    let url = format!("http://{}", other.api(1).0);
    let mut command = mintleaf().command();
    command.args(args).args(&more[..4]).env("MINTLEAF_URL", &url);
    let found = of_cluster(&json_of(&Finished::of(&mut command)));
    assert_eq!(found["status"], "warning", "the variable names another cluster: {found}");
    for cluster in [&cluster, &other] {
        let id = cluster.api(1).get("/v1/cluster").ok()["cluster_id"].clone();
        assert!(found.to_string().contains(&id.as_str().unwrap()[..8]), "{found}");
    }
    assert!(found.to_string().contains(&url), "{found}");
}

#[test]
fn doctor_tells_a_peer_with_the_same_secret_from_one_with_another() {
    let dir = tempfile::tempdir().unwrap();
    let [same, other] = ["same", "other"].map(|name| {
        let path = dir.path().join(name).display().to_string();
        assert_eq!(run(&["secret", "new", &path]).code, Some(0));
        path
    });
    let mut cluster = mintleaf().prepare(1, &["--cluster-secret-file", &same]);
    cluster.start_all();
    cluster.await_ready();
    let raft = Port::claim().addr();
    let peers = format!("1={},2={raft}", cluster.raft(1));
    let data = dir.path().join("data").display().to_string();
    let peer = |secret: &str| {
        let settings = ["--node-id", "2", "--peers", &peers, "--raft", &raft.to_string()];
        let files = ["--data", &data, "--cluster-secret-file", secret, "--json"];
        let finished = run(&[&["doctor"][..], &settings, &files].concat());
        let report: Value = serde_json::from_str(&finished.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|it| it["check"] == "peer").unwrap()
    };
    let believed = peer(&same);
    assert_eq!(believed["status"], "ok", "{believed}");
    assert!(believed["detail"].as_str().unwrap().ends_with(", with the same keys"), "{believed}");
    let foreign = peer(&other);
    assert_eq!(foreign["status"], "failed", "{foreign}");
    let says = foreign["detail"].as_str().unwrap();
    assert!(says.contains("the cluster secret does not match"), "{foreign}");
    assert_eq!(cluster.api(1).get("/readyz").ok()["reasons"], json!([]));
}

#[test]
fn doctor_finds_no_directory_of_another_user_sound() {
    const OTHER: u32 = 64_321;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    if chown(&data, Some(OTHER), Some(OTHER)).is_err() {
        println!("SKIPPED: only root can run doctor as another user");
        return;
    }
    // Files can be made beside the data directory, and the owner alone can make some in it.
    for (path, mode) in [(dir.path(), 0o777), (&data, 0o700)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let report = |user: u32| {
        let mut command = mintleaf().command();
        command.args(["doctor", "--json", "--node-id", "1", "--http", "127.0.0.1:0"]);
        let done = Finished::of(command.arg("--data").arg(&data).uid(user).gid(user));
        serde_json::from_str::<Value>(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    };
    let (own, other, root) = (report(OTHER), report(OTHER + 1), report(0));
    // The sync of a busy machine may take long enough for a warning.
    assert_ne!(statuses(&own, "disk"), ["failed"], "{own}");
    for check in ["data", "disk"] {
        assert_eq!(statuses(&other, check), ["failed"], "{other}");
    }
    assert_eq!(statuses(&root, "data"), ["warning"], "{root}");
    let said = root.to_string();
    assert!(said.contains("belongs to user 64321, and this is root"), "{root}");
    assert!(said.contains("runuser -u USER -- mintleaf doctor"), "{root}");
}

#[test]
fn doctor_names_what_is_wrong_and_exits_1() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let (taken, free, silent) = (Port::claim(), Port::claim(), Port::claim());
    let listener = std::net::TcpListener::bind(taken.addr()).unwrap();
    let data = write("data", "a file", 0o600);
    let secret = write("secret", &"s".repeat(64), 0o644);
    let auth = write("auth.toml", "anonymous = \"issue\"\n", 0o644);
    let (http, raft) = (taken.addr().to_string(), free.addr().to_string());
    let peers = format!("1={raft},2={}", silent.addr());
    let url = format!("http://{}", silent.addr());
    let mut command = mintleaf().command();
    command.args(["doctor", "--json", "--node-id", "1", "--http", &http, "--raft", &raft]);
    command.args(["--peers", &peers, "--data", &data, "--cluster-secret-file", &secret]);
    let ill = Finished::of(command.args(["--auth-file", &auth, "--url", &url]));
    assert_eq!(ill.code, Some(1), "{ill:?}");
    assert!(
        ill.stderr.starts_with("error: ") && ill.stderr.contains("checks have failed"),
        "{ill:?}"
    );
    let report: Value = serde_json::from_str(&ill.stdout).unwrap();
    assert_eq!(statuses(&report, "data"), ["failed"], "{report}");
    assert_eq!(statuses(&report, "keys between nodes"), ["warning"], "{report}");
    assert_eq!(statuses(&report, "auth file"), ["failed"], "{report}");
    assert_eq!(statuses(&report, "port"), ["failed", "ok"], "{report}");
    assert_eq!(statuses(&report, "peer"), ["warning"], "nobody listens there yet: {report}");
    assert_eq!(statuses(&report, "cluster"), ["unknown"], "{report}");
    drop(listener);
    let unfit = run(&["doctor", "--node-id", "1", "--http", "nowhere", "--url", &url]);
    assert_fails_with_report(&unfit, "failed   settings: --http must be HOST:PORT");
}

#[track_caller]
fn assert_fails_with_report(finished: &Finished, says: &str) {
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stdout.contains(says), "no {says:?} in {finished:?}");
}
