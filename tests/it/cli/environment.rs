//! Settings from the environment and files, and refusals that name each setting as it was given.

use std::fs;

use serde_json::Value;

use super::{assert_fails, printed};
use crate::harness::{Api, Finished, Port, Process, eventually, mintleaf, secs};

fn with(variables: &[(&str, &str)], args: &[&str]) -> Finished {
    Finished::of(mintleaf().command().args(args).envs(variables.iter().copied()))
}

#[test]
fn a_value_that_cannot_be_used_is_named_as_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    let named = |key: &str| format!("error: {key} in {}", file.display());
    for (variable, value, args) in [
        ("MINTLEAF_NODE_ID", "one", &["serve"][..]),
        ("MINTLEAF_NODE_ID", "0", &["serve"]),
        ("MINTLEAF_HTTP", "nowhere", &["serve", "--node-id", "1"]),
        ("MINTLEAF_HTTP", "nowhere", &["dev"]),
        ("MINTLEAF_NODES", "12", &["dev"]),
        ("MINTLEAF_DRAIN", "soon", &["dev"]),
        ("MINTLEAF_AUTO_CREATE_TAGS", "perhaps", &["serve", "--node-id", "1"]),
        ("MINTLEAF_CLUSTER_SECRET_FILE", "/no/such/file", &["serve", "--node-id", "1"]),
        ("MINTLEAF_AUTH_FILE", "/no/such/file", &["dev", "--http", "127.0.0.1:0"]),
        ("MINTLEAF_URL", "ftp://x", &["next", "orders"]),
    ] {
        let refused = with(&[(variable, value)], args);
        assert_fails(&refused, 2, variable);
        assert!(refused.stderr.starts_with("error: "), "{refused:?}");
        assert!(!refused.stderr.contains("--http"), "{refused:?}");
    }
    fs::write(&file, "node-id = 1\nhttp = \"nowhere\"\n").unwrap();
    let config = ["serve", "--config", file.to_str().unwrap()];
    assert_fails(&with(&[], &config), 2, &named("http"));
    let flag = [&config[..], &["--http", "elsewhere"]].concat();
    assert_fails(&with(&[], &flag), 2, "error: --http must be");
    assert_fails(&with(&[("MINTLEAF_HTTP", "there")], &config), 2, "error: MINTLEAF_HTTP must be");
}

#[test]
fn lists_in_a_file_are_texts_or_lists_and_unknown_keys_are_named_with_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    let refused = |text: &str, says: &str| {
        fs::write(&file, text).unwrap();
        assert_fails(&with(&[], &["serve", "--config", file.to_str().unwrap()]), 2, says);
    };
    for peers in ["\"2=a:1,3=b:1\"", "[\"2=a:1\", \"3=b:1\"]"] {
        refused(&format!("node-id = 1\npeers = {peers}\n"), "must list this node too");
    }
    refused("node-id = 1\npeers = 7\n", "a text, or a list of texts");
    refused("node-id = 1\nsnowflake-workers = [1, \"3-2\"]\n", "which ends before it begins");
    refused("node-id = 1\nsnowflake-worker-id = 5000\n", "at most 1023");
    refused("htpp = \"x\"\n", "unknown key `htpp`: did you mean `http`?");
    refused("node_id = 1\nleaf = 1\n", "unknown key `leaf`\n");
}

#[test]
fn a_variable_that_nothing_reads_is_named_in_a_warning() {
    let mistaken = [("MINTLEAF_PEER", "1=a:1"), ("MINTLEAF_SERVICE_HOST", "10.0.0.1")];
    let run = with(&mistaken, &["decode", "--offline", "1169786042799259000"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        run.stderr,
        "warning: MINTLEAF_PEER is set, and no setting: did you mean MINTLEAF_PEERS?\n"
    );
    let node = with(
        &[("MINTLEAF_HTPP", "a:1")],
        &["serve", "--node-id", "1", "--join", "x:1", "--http", "1.2.3.4:1", "--insecure"],
    );
    assert!(
        node.stderr.contains("WARN") && node.stderr.contains("mean MINTLEAF_HTTP?"),
        "{node:?}"
    );
}

#[test]
fn dev_reads_its_settings_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let port = Port::claim();
    let data = dir.path().join("elsewhere");
    let mut command = mintleaf().command();
    command.arg("dev").env("MINTLEAF_HTTP", port.addr().to_string()).env("MINTLEAF_DATA", &data);
    let mut node = Process::start("dev", &mut command, &dir.path().join("log")).unwrap();
    let api = Api(port.addr());
    eventually("the node", secs(10), || api.try_get("/readyz").ok().filter(|it| it.status == 200));
    assert!(data.join("node-1").is_dir());
    node.signal("TERM");
    assert_eq!(node.exit_code(secs(10)), Some(0));
}

#[test]
fn usage_shows_no_flag_that_the_environment_gives() {
    let refused = with(&[("MINTLEAF_URL", "http://127.0.0.1:1")], &["tag", "create"]);
    assert_fails(&refused, 2, "Usage: mintleaf tag create [OPTIONS] <NAME>\n");
    assert!(!refused.stderr.contains("--url"), "{refused:?}");
}

#[test]
fn steps_have_one_bound_which_is_that_of_the_api() {
    let dev = mintleaf().dev();
    for step in ["0", "2147483648", "4294967296"] {
        let refused = super::ask(&dev, &["tag", "create", "t", "--step", step]);
        assert_fails(&refused, 1, "2147483647");
    }
    let help = super::run(&["tag", "create", "--help"]);
    assert!(printed(&help).contains("1 to 2147483647"), "{help:?}");
}

#[test]
fn a_node_that_does_not_start_says_why_and_what_may_help() {
    let dev = mintleaf().dev();
    let dir = tempfile::tempdir().unwrap();
    let (taken, data) = (dev.api().0.to_string(), dir.path().to_str().unwrap());
    let own = dev.dir().join("data");
    for (args, code, error, hint) in [
        (&["dev", "--http", &taken, "--data", data][..], 1, "cannot listen on", "--http"),
        (
            &["dev", "--http", "127.0.0.1:0", "--data", own.to_str().unwrap()],
            1,
            "in use by another process",
            "--data names another",
        ),
        (&["dev", "--http", "here", "--data", data], 2, "--http must be", "mintleaf help dev"),
        (&["serve", "--data", data], 2, "--node-id is required", "mintleaf help serve"),
    ] {
        let refused = with(&[], args);
        assert_fails(&refused, code, error);
        let mut lines = refused.stderr.lines().skip_while(|line| line.contains(" WARN "));
        let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(first.starts_with("error: ") && first.contains(error), "{refused:?}");
        assert!(second.starts_with("hint: ") && second.contains(hint), "{refused:?}");
        assert_eq!(lines.next(), None, "{refused:?}");
    }
    let json = with(&[("MINTLEAF_LOG_FORMAT", "json")], &["dev", "--http", &taken, "--data", data]);
    let last: Value = serde_json::from_str(json.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["level"], &last["fields"]["exit_code"]), (&"ERROR".into(), &1.into()));
    assert!(last["fields"]["hint"].as_str().unwrap().contains("--http"), "{last}");
}
