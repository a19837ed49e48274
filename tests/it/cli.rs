//! The command line against real nodes: its output and its exit codes.
//!
//! ```text
//! nodes         what it shows of nodes and the machine
//! environment   settings from the environment and files, and refusals
//! kept_files    secrets and tokens in files
//! many          what is done to many tags at once
//! strangers     secrets, servers that send what they should not, and what signals leave behind
//! terminal      what it does on a terminal only
//! ```

mod environment;
mod kept_files;
mod many;
mod nodes;
mod strangers;
mod terminal;

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Api, Dev, Finished, Port, Process, eventually, mintleaf, secs};

fn run(args: &[&str]) -> Finished {
    Finished::of(mintleaf().command().args(args))
}

/// Runs a client command against a node.
fn ask(dev: &Dev, args: &[&str]) -> Finished {
    Finished::of(mintleaf().command().args(args).args(["--url", &dev.url()]))
}

#[track_caller]
fn printed(finished: &Finished) -> &str {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stderr, "");
    &finished.stdout
}

#[track_caller]
fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(printed(finished)).unwrap()
}

#[track_caller]
fn assert_fails(finished: &Finished, code: i32, says: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    assert!(finished.stderr.contains(says), "no {says:?} in {finished:?}");
}

#[test]
fn tags_are_created_shown_changed_listed_and_deleted() {
    let dev = mintleaf().dev();
    let created = ask(&dev, &["tag", "create", "orders", "--step", "20", "--start", "1001"]);
    let table = printed(&created);
    assert!(table.starts_with("TAG"), "{table}");
    assert!(table.contains("orders") && table.contains("1001") && table.contains("20"), "{table}");

    let args =
        ["tag", "update", "orders", "--max-id", "5000", "--description", "shop", "--json", "--yes"];
    let updated = json_of(&ask(&dev, &args));
    assert_eq!((&updated["max_id"], &updated["step"]), (&json!("5000"), &json!(20)));
    assert_eq!(json_of(&ask(&dev, &["tag", "get", "orders", "--json"])), updated);
    assert!(printed(&ask(&dev, &["tag", "get", "orders"])).contains("shop"));

    assert_eq!(ask(&dev, &["tag", "create", "a/b 订", "--json"]).code, Some(0));
    let listed = json_of(&ask(&dev, &["tag", "list", "--json"]));
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tag| tag["tag"].as_str().unwrap()).collect();
    assert_eq!(names, ["a/b 订", "orders"]);
    let one = ask(&dev, &["tag", "list", "--limit", "1"]);
    assert_eq!(printed(&one).lines().count(), 2, "{one:?}");

    assert_eq!(printed(&ask(&dev, &["tag", "delete", "a/b 订", "--yes"])), "deleted a/b 订\n");
    assert_fails(&ask(&dev, &["tag", "get", "a/b 订"]), 1, "no such tag");
    for misspelled in [vec!["tag", "get", "oders"], vec!["sequence", "last", "oders", "key"]] {
        assert_fails(&ask(&dev, &misspelled), 1, "no such tag: oders: did you mean orders?");
    }
}

#[test]
fn ids_are_printed_one_a_line_or_as_json() {
    let dev = mintleaf().dev();
    assert_eq!(printed(&ask(&dev, &["next", "orders"])), "1\n");
    assert_eq!(printed(&ask(&dev, &["next", "orders", "-n", "3"])), "2\n3\n4\n");
    let answer = json_of(&ask(&dev, &["next", "a/b", "-n", "2", "--json"]));
    assert_eq!(answer, json!({ "tag": "a/b", "ids": ["1", "2"] }));
    let many = ask(&dev, &["next", "orders", "-n", "100000"]);
    let ids: Vec<u64> = printed(&many).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ids.len(), 100_000);
    assert!(ids.is_sorted_by(|a, b| a < b) && ids[0] > 4);
}

#[test]
fn a_refusal_exits_1_and_bad_usage_2() {
    let dev = mintleaf().dev();
    assert_fails(&ask(&dev, &["tag", "get", "nobody"]), 1, "hint: mintleaf tag create");
    assert_eq!(ask(&dev, &["tag", "create", "orders"]).code, Some(0));
    assert_fails(&ask(&dev, &["tag", "create", "orders"]), 1, "exists already");
    let behind = ask(&dev, &["tag", "update", "orders", "--max-id", "1", "--yes"]);
    assert_eq!(behind.code, Some(0), "the same max_id is no step back: {behind:?}");
    assert_fails(&ask(&dev, &["tag", "create", "t", "--step", "0"]), 1, "step");
    let far = ["tag", "update", "orders", "--max-id", "2000000000000", "--yes"];
    assert_fails(&ask(&dev, &far), 1, "by 1999999999999, which is more than 2^40");
    assert_eq!(ask(&dev, &[&far[..], &["--force"]].concat()).code, Some(0));
    assert_fails(&ask(&dev, &["cluster", "remove", "7", "--yes"]), 1, "not a member");

    for args in [
        &["next", "orders", "-n", "0"][..],
        &["next", "orders", "-n", "1000001"],
        &["next"],
        &["tag", "update", "orders"],
        &["tag", "update", "orders", "--step", "5", "--force"],
        &["tag", "create", "t", "--step", "many"],
        &["next", "orders", "--url", "ftp://x"],
        &["cluster", "transfer", "0"],
        &["no-such-command"],
        &["dev", "--nodes", "0"],
        &["dev", "--http", "nowhere"],
    ] {
        let refused = run(args);
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert_eq!(refused.stdout, "");
    }
}

#[test]
fn an_error_names_the_command_that_helps() {
    let dev = mintleaf().dev();
    assert_eq!(ask(&dev, &["tag", "create", "chat", "--kind", "sequence"]).code, Some(0));
    assert_eq!(ask(&dev, &["tag", "create", "bills", "--kind", "register"]).code, Some(0));
    for (args, code, says) in [
        (&["next", "chat"][..], 1, "hint: mintleaf sequence next chat KEY"),
        (&["tag", "get", "o'd"], 1, r"hint: mintleaf tag create 'o'\''d' creates it"),
        (&["next", "bills"], 1, "hint: mintleaf register next bills KEY"),
        (&["sequence", "last", "rooms", "a"], 1, "tag create rooms --kind sequence creates it"),
        (&["register", "next", "fees", "a"], 1, "tag create fees --kind register creates it"),
        (&["next", "orders", "5"], 2, "tip: -n 5 takes that many"),
        (&["tag", "create", "fees", "--strict"], 2, "tip: did you mean --order strict?"),
        (&["tag", "create", "fees", "--kind", "strict"], 2, "tip: did you mean --order strict?"),
        (&["tag", "create", "fees", "--order=register"], 2, "tip: did you mean --kind register?"),
        (&["decode", "abc"], 2, "whole number in digits"),
        (&["next", "orders", "--url", "http://127.0.0.1:99999"], 2, "a port of 1 to 65535"),
        (&["next", "orders", "--url", "127.0.0.1:0"], 2, "a port of 1 to 65535"),
        (&["restore", "b", "--data", "d", "--node-id", "1", "--advance-all-by", "1M"], 2, "digits"),
    ] {
        let refused = match args[0] {
            "restore" => run(args),
            _ => ask(&dev, args),
        };
        assert_fails(&refused, code, says);
        assert!(!refused.stderr.contains("/v1/"), "{refused:?}");
    }
    let unknown = ask(&dev, &["tag", "freeze", "--all", "--yes"]);
    assert_fails(&unknown, 2, "unexpected argument '--yes'");
    assert!(!unknown.stderr.contains("as a value"), "{unknown:?}");
    let strict = ask(&dev, &["tag", "create", "fees", "--strict"]);
    assert!(!strict.stderr.contains("--start"), "one tip is enough: {strict:?}");
}

#[test]
fn an_address_without_a_scheme_is_http() {
    let dev = mintleaf().dev();
    let address = dev.api().0.to_string();
    assert_eq!(printed(&run(&["next", "orders", "--url", &address])), "1\n");
    let by_env =
        mintleaf().command().args(["next", "orders"]).env("MINTLEAF_URL", &address).output();
    assert_eq!(printed(&by_env.unwrap().into()), "2\n");
}

#[test]
fn the_next_url_is_asked_when_one_does_not_answer() {
    let dev = mintleaf().dev();
    let nobody = Port::claim();
    let dead = format!("http://{}", nobody.addr());
    let answer = run(&["next", "orders", "--url", &dead, "--url", &dev.url()]);
    assert_eq!(printed(&answer), "1\n");
    let by_env = mintleaf()
        .command()
        .args(["tag", "create", "t", "--json"])
        .env("MINTLEAF_URL", format!("{dead},{}", dev.url()))
        .output();
    assert_eq!(json_of(&by_env.unwrap().into())["tag"], "t");
    assert_fails(&run(&["next", "orders", "--url", &dead]), 1, "cannot reach");
}

#[test]
fn cluster_status_shows_members_and_transfer_moves_the_leader() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let other = cluster.others(leader)[0];
    let url = format!("http://{}", cluster.api(other).0);
    let status = run(&["cluster", "status", "--url", &url]);
    let table = printed(&status);
    assert!(table.contains(&format!("leader {leader}")), "{table}");
    for id in cluster.ids() {
        assert!(table.contains(&cluster.raft(id).to_string()), "{table}");
    }
    let shown = json_of(&run(&["cluster", "status", "--json", "--url", &url]));
    assert_eq!(shown["node_id"], other);

    let moved = run(&["cluster", "transfer", &other.to_string(), "--url", &url]);
    assert_eq!(printed(&moved), format!("node {other} leads\n"));
    assert_eq!(cluster.leader(), other);
}

#[test]
fn help_teaches_by_example() {
    for (args, example) in [
        (&["--help"][..], "mintleaf next orders -n 5"),
        (&["--help"], "curl http://127.0.0.1:8080/api/segment/get/orders"),
        (&["help", "next"], "mintleaf next orders -n 5"),
        (&["tag", "create", "--help"], "mintleaf tag create orders --step"),
        (&["cluster", "add", "--help"], "mintleaf cluster add 4 --raft"),
        (&["serve", "--help"], "MINTLEAF_NODE_ID"),
    ] {
        let help = run(args);
        assert!(printed(&help).contains(example), "{args:?}: {}", help.stdout);
    }
    let version = concat!("mintleaf ", env!("CARGO_PKG_VERSION"), " (");
    let said = run(&["--version"]);
    let commit = printed(&said).strip_prefix(version).and_then(|rest| rest.strip_suffix(")\n"));
    let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(commit.is_some_and(|commit| commit == "unknown" || is_commit(commit)), "{said:?}");
}

#[test]
fn help_shows_commands_in_groups_and_what_they_take_before_the_connection() {
    let help = run(&["--help"]);
    let headings = ["Try:", "Take ids:", "Tags:", "Cluster:", "Files:", "Shell:", "Options:"];
    let places = headings.map(|heading| printed(&help).find(&format!("\n{heading}\n")).unwrap());
    assert!(places.is_sorted(), "{}", help.stdout);
    for command in ["dev", "init", "next", "tag", "cluster", "backup", "completions", "help"] {
        let lines = help.stdout.lines().filter(|line| line.starts_with(&format!("  {command} ")));
        assert_eq!(lines.count(), 1, "{command}: {}", help.stdout);
    }
    // A command that no group names is shown under the last heading.
    let (_, last) = printed(&help).split_once("\nShell:\n").unwrap();
    let (last, _) = last.split_once("\nOptions:\n").unwrap();
    let names = last.lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(names.collect::<Vec<_>>(), ["completions", "man", "help"]);
    assert_eq!(printed(&run(&["help"])), printed(&help));
    let create = run(&["tag", "create", "--help"]);
    let (own, connection) = printed(&create).split_once("\nConnection:\n").unwrap();
    assert!(own.contains("--digits") && own.contains("--json") && !own.contains("--url"), "{own}");
    assert!(connection.contains("--cacert") && connection.contains("INV-"), "{connection}");
}

#[test]
fn every_topic_that_a_message_names_is_in_the_binary() {
    let mut named = vec!["topics".to_owned()];
    let mut rooms = ["src", "raft/src", "storage/src"].map(std::path::PathBuf::from).to_vec();
    while let Some(room) = rooms.pop() {
        for entry in fs::read_dir(room).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rooms.push(path);
                continue;
            }
            // A name may stand on the line after a continued one.
            let text = fs::read_to_string(path).unwrap_or_default().replace("\\\n", "");
            named.extend(text.split("mintleaf help ").skip(1).map(|rest| {
                let rest = rest.trim_start();
                let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
                rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].to_owned()
            }));
        }
    }
    assert!(named.iter().any(|topic| topic == "quorum-loss") && named.len() > 5, "{named:?}");
    for topic in named.iter().filter(|topic| !topic.is_empty()) {
        assert!(printed(&run(&["help", topic])).len() > 100, "{topic}");
    }
    assert_fails(&run(&["help", "quorum-los"]), 2, "did you mean quorum-loss?");
    assert_fails(&run(&["help", "quorum"]), 2, "did you mean quorum-loss?");
    assert_fails(&run(&["help", "impot"]), 2, "did you mean import?");
    assert_fails(&run(&["help", "tag", "creat"]), 2, "did you mean tag create?");
    assert_fails(&run(&["help", "tag", "quorum-loss"]), 2, "no command or topic");
}

#[test]
fn a_setting_that_cannot_be_used_exits_2_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short");
    fs::write(&short, "secret\n").unwrap();
    let file = dir.path().join("config.toml");
    fs::write(&file, "node-id = 1\nhtpp = \"127.0.0.1:1\"\n").unwrap();
    for (args, named) in [
        (&[][..], "--node-id"),
        (&["--node-id", "0"], "--node-id"),
        (&["--node-id", "one"], "--node-id"),
        (&["--node-id", "1", "--http", "nowhere"], "--http"),
        (&["--node-id", "1", "--raft", "127.0.0.1:99999"], "--raft"),
        (&["--node-id", "1", "--peers", "2=a:1"], "--peers"),
        (&["--node-id", "1", "--raft", "0.0.0.0:0"], "--advertise-raft"),
        (&["--node-id", "1", "--advertise-http", "0.0.0.0:8080"], "--advertise-http"),
        (&["--node-id", "1", "--peers", "1=a:1,1=b:1"], "--peers"),
        (&["--node-id", "1", "--peers", "1=a:1", "--join", "b:1"], "--join"),
        (&["--node-id", "1", "--snowflake-window", "fast"], "--snowflake-window"),
        (&["--config", file.to_str().unwrap()], "htpp"),
        (&["--node-id", "1", "--config", "/no/such/file"], "--config"),
        (&["--node-id", "1", "--cluster-secret-file", "/no/such/file"], "--cluster-secret-file"),
        (
            &["--node-id", "1", "--cluster-secret-file", short.to_str().unwrap()],
            "--cluster-secret-file",
        ),
        (&["--node-id", "1", "--raft-cert", "cert.pem"], "--raft-ca"),
    ] {
        let refused =
            Finished::of(mintleaf().command().arg("serve").args(args).current_dir(dir.path()));
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(named), "{args:?}: {refused:?}");
    }
    assert!(!dir.path().join("mintleaf-data").exists(), "refused, and made a data directory");
}

#[test]
fn settings_come_from_flag_over_environment_over_file() {
    let dir = tempfile::tempdir().unwrap();
    let [by_flag, by_env, by_file, raft] = [(); 4].map(|()| Port::claim());
    let file = dir.path().join("config.toml");
    let text = format!(
        "node-id = 7\nhttp = \"{}\"\nraft = \"{2}\"\npeers = \"7={2}\"\ndata = \"{1}\"\n",
        by_file.addr(),
        dir.path().join("data").display(),
        raft.addr()
    );
    fs::write(&file, text).unwrap();
    for (flag, env, expected) in
        [(false, false, &by_file), (false, true, &by_env), (true, true, &by_flag)]
    {
        let mut command = mintleaf().command();
        command.arg("serve").env("MINTLEAF_CONFIG", &file);
        if env {
            command.env("MINTLEAF_HTTP", by_env.addr().to_string());
        }
        if flag {
            command.args(["--http", &by_flag.addr().to_string()]);
        }
        let mut node = Process::start("node 7", &mut command, &dir.path().join("log")).unwrap();
        let api = Api(expected.addr());
        let cluster = eventually("the node", secs(5), || api.try_get("/v1/cluster").ok());
        assert_eq!(cluster.ok()["node_id"], 7);
        node.signal("TERM");
        assert_eq!(node.exit_code(secs(10)), Some(0));
    }
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let dev = mintleaf().dev();
    let mut second = mintleaf().command();
    second.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(dev.dir().join("data"));
    let refused = Finished::of(&mut second);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("in use by another process"), "{refused:?}");
    assert_eq!(dev.api().get("/api/segment/get/orders").text(), "1");
}

#[test]
fn a_directory_of_somebody_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node-1");
    fs::create_dir(&node).unwrap();
    fs::write(node.join("thesis.tex"), "years of work").unwrap();
    let mut command = mintleaf().command();
    command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(dir.path());
    let refused = Finished::of(&mut command);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("not a mintleaf data directory"), "{refused:?}");
    assert!(refused.stderr.contains("thesis.tex"), "{refused:?}");
    assert_eq!(fs::read_to_string(node.join("thesis.tex")).unwrap(), "years of work");
}

#[test]
fn an_address_in_use_is_named() {
    let dev = mintleaf().dev();
    let dir = tempfile::tempdir().unwrap();
    let taken = dev.api().0.to_string();
    let mut command = mintleaf().command();
    command.args(["dev", "--http", &taken, "--data"]).arg(dir.path());
    let refused = Finished::of(&mut command);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&taken), "{refused:?}");
}
