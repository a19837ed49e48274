use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::checks::duration;
use super::*;

/// Reads a command line as the process does.
fn parsed<A: clap::Args>(line: &[&str]) -> (A, Sources) {
    let command = A::augment_args(clap::Command::new("mintleaf"));
    let matches = command.get_matches_from([&["mintleaf"], line].concat());
    (A::from_arg_matches(&matches).unwrap(), Sources::new(matches))
}

fn args(line: &[&str]) -> ServeArgs {
    let (args, sources) = parsed(line);
    ServeArgs { sources, ..args }
}

fn checked(line: &[&str]) -> Result<NodeConfig, String> {
    NodeConfig::resolve(args(line)).map_err(|error| error.to_string())
}

fn dev(line: &[&str]) -> Result<DevConfig, ConfigError> {
    DevConfig::resolve(parsed(line).0)
}

#[track_caller]
fn refused(line: &[&str], expected: &str) {
    let message = checked(line).expect_err("must be refused");
    assert!(message.contains(expected), "{message}");
}

#[test]
fn defaults_are_those_of_a_trial_on_one_machine() {
    let config = checked(&["--node-id", "1"]).unwrap();
    assert_eq!(config.http.to_string(), "127.0.0.1:8080");
    assert_eq!(config.raft.unwrap().to_string(), "127.0.0.1:9080");
    assert_eq!(config.data, PathBuf::from("./mintleaf-data"));
    assert_eq!(config.snowflake.window, Duration::from_secs(60));
    assert_eq!(config.snowflake.max_clock_skew, Duration::from_secs(2));
    assert_eq!(config.snowflake.format.epoch_ms(), 1_288_834_974_657);
    let service = config.service;
    assert!(!service.auto_create_tags);
    assert_eq!(config.snapshot_entries, 20_000);
    assert_eq!((service.tags_max, service.sequence_memory), (10_000_000, 256 << 20));
    assert_eq!(config.drain, Duration::from_secs(5));
    assert!(config.peers.is_empty() && config.join.is_none());
    assert_eq!(config.resp, None, "the Redis protocol is spoken on request only");
}

#[test]
fn flags_win_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    let text = "node-id = 2\nhttp = \"127.0.0.1:7001\"\nauto-create-tags = true\n\
                tags-max = 5\n\
                snowflake_window = \"2m\"\nlog-format = \"json\"\n";
    std::fs::write(&file, text).unwrap();
    let line = ["--config", file.to_str().unwrap(), "--http", "127.0.0.1:0"];
    let config = NodeConfig::resolve(args(&line)).unwrap();
    assert_eq!(config.node_id, 2);
    assert_eq!(config.http.port(), 0);
    assert!(config.service.auto_create_tags);
    assert_eq!(config.snowflake.window, Duration::from_secs(120));
    assert_eq!((config.log.format, config.service.tags_max), (LogFormat::Json, 5));
    let line = ["--config", file.to_str().unwrap(), "--auto-create-tags=false"];
    assert!(!NodeConfig::resolve(args(&line)).unwrap().service.auto_create_tags);
}

#[test]
fn every_flag_is_an_environment_variable_and_a_file_key_in_both_cases() {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    for flag in command.get_arguments().filter(|flag| flag.get_id() != "config") {
        let name = flag.get_long().unwrap_or_default();
        let snake = name.replace('-', "_");
        let variable = format!("MINTLEAF_{}", snake.to_uppercase());
        assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(variable.as_str()));
        for key in [name, &snake] {
            let values = ["7", "true", "\"json\"", "\"text\"", "\"warn\"", "\"quote\"", "[7]"];
            let known = |value| ServeArgs::from_toml(&format!("{key} = {value}")).is_ok();
            assert!(values.into_iter().any(known), "{key}");
        }
    }
}

#[test]
fn unknown_file_keys_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    std::fs::write(&file, "node-id = 1\nhtpp = \"x\"\n").unwrap();
    let error = NodeConfig::resolve(args(&["--config", file.to_str().unwrap()])).unwrap_err();
    assert!(error.to_string().contains("htpp"), "{error}");
    let error = NodeConfig::resolve(args(&["--config", "/no/such/file"])).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[test]
fn peers_are_sorted_and_name_this_node() {
    let list = "3=c:9080,1=a.example:9080, 2=[::1]:9080";
    let config = checked(&["--node-id", "2", "--peers", list]).unwrap();
    assert!(config.peers.keys().eq(&[1, 2, 3]));
    assert_eq!(config.advertise_raft.as_deref(), Some("[::1]:9080"));
    let line = ["--node-id", "2", "--peers", list, "--insecure", "--advertise-raft", "d:1"];
    assert_eq!(checked(&line).unwrap().advertise_raft.as_deref(), Some("d:1"));
}

#[test]
fn mistakes_name_the_setting_and_the_remedy() {
    refused(&[], "--node-id is required");
    refused(&["--node-id", "0"], "--node-id must be 1 or more");
    let peers =
        |list: &str, expected: &str| refused(&["--node-id", "1", "--peers", list], expected);
    peers("2=b:1,3=c:1", "--peers must list this node too: 1=HOST:PORT");
    peers("1=a:1,1=b:1", "`1=b:1`, which repeats a node id");
    peers("1=a:1,2=a:1", "`2=a:1`, which repeats an address");
    peers("1=a:1,b:1", "`b:1`, which must be ID=HOST:PORT");
    peers("1=a:0", "a port of 1 to 65535");
    peers("0=a:1", "node id of 1 or more");
    peers(",", "--peers is empty");
    refused(&["--node-id", "1", "--peers", "1=a:1", "--join", "b:1"], "exclude each other");
    refused(&["--node-id", "1", "--http", "8080"], "--http must be HOST:PORT");
    refused(&["--node-id", "1", "--http", "127.0.0.1:99999"], "--http must be HOST:PORT");
    refused(&["--node-id", "1", "--join", "a:1", "--raft", "0.0.0.0:1"], "--advertise-raft");
    refused(&["--node-id", "1", "--raft", "[::]:1"], "--advertise-raft");
    refused(&["--node-id", "1", "--peers", "1=0.0.0.0:1"], "--peers");
    refused(&["--node-id", "1", "--advertise-http", "0.0.0.0:8080"], "--advertise-http");
    refused(&["--node-id", "1", "--advertise-raft", "[::]:9080"], "--advertise-raft");
    refused(&["--node-id", "1", "--advertise-resp", "0.0.0.0:6380"], "--advertise-resp");
    refused(&["--node-id", "1", "--snowflake-window", "0s"], "from 1s to 3600s");
    refused(&["--node-id", "1", "--max-clock-skew", "soon"], "--max-clock-skew must be a duration");
    refused(&["--node-id", "1", "--snowflake-epoch-ms", "9999999999999"], "--snowflake-epoch-ms");
    refused(&["--node-id", "1", "--snapshot-entries", "99"], "from 100 to 10000000, and is 99");
    refused(&["--node-id", "1", "--tags-max", "0"], "from 1 to 1000000000, and is 0");
    for size in ["1023KiB", "1025GiB", "256", "much"] {
        refused(&["--node-id", "1", "--sequence-memory", size], "1MiB to 1024GiB, such as 256MiB");
    }
    let layout = |bits: &str, expected: &str| {
        refused(&["--node-id", "1", "--snowflake-layout", bits], expected);
    };
    layout("41+10+13", "--snowflake-layout must have at most 63 bits in all, and has 64");
    layout("63", "--snowflake-layout must be widths of time, worker id and sequence");
    let workers = |ids: &str, expected: &str| {
        refused(&["--node-id", "1", "--snowflake-worker-id", ids], expected);
    };
    workers("1024", "--snowflake-worker-id must be at most 1023 in layout 41+10+12, and is 1024");
    workers("7,7", "--snowflake-worker-id must be given once for each worker id");
    let pool = |pool: &str, expected: &str| {
        refused(&["--node-id", "1", "--snowflake-workers", pool], expected);
    };
    let what = "--snowflake-workers must be worker ids up to 65535 and ranges of them, such as 512";
    pool("512-", what);
    pool("512-1024", "--snowflake-workers must have no worker id above 1023, the layout's highest");
    pool("9-3", "--snowflake-workers has 9-3, which ends before it begins");
    refused(
        &["--node-id", "1", "--snowflake-workers", "512-1023", "--snowflake-worker-id", "7"],
        "--snowflake-worker-id must be among --snowflake-workers 512-1023, and is 7",
    );
}

#[test]
fn snowflake_settings_come_from_all_three_sources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    let text = "node-id = 3\nsnowflake-layout = \"41+5+5+12\"\nsnowflake-worker-id = [9, 4]\n";
    std::fs::write(&path, text).unwrap();
    let config = path.to_str().unwrap();
    let resolved = |line: &[&str]| NodeConfig::resolve(args(line)).unwrap().snowflake;
    let snowflake = resolved(&["--config", config]);
    assert_eq!(snowflake.format.layout().to_string(), "41+5+5+12");
    assert_eq!(snowflake.worker_ids, [4, 9]);
    let line = ["--config", config, "--snowflake-worker-id", "1", "--snowflake-worker-id", "2"];
    assert_eq!(resolved(&line).worker_ids, [1, 2]);
}

#[test]
fn durations_are_read_with_their_unit() {
    let bounds = [Duration::from_millis(10), Duration::from_secs(3600)];
    let read = |text| duration("x", text, bounds).ok();
    assert_eq!(read("60s"), Some(Duration::from_secs(60)));
    assert_eq!(read("500ms"), Some(Duration::from_millis(500)));
    assert_eq!(read("2m"), Some(Duration::from_secs(120)));
    assert_eq!(read("1h"), Some(Duration::from_secs(3600)));
    for wrong in ["", "60", "-60s", "9ms", "2h", "1 month", "s"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn a_secret_file_holds_one_secret_a_line_and_two_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    let keys = PeerKeys::Secret(path.clone());
    let credentials = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        keys.read().and_then(|files| keys.credentials(1, &files)).map(|_| ())
    };
    let (long, other) = ("0123456789abcdef".repeat(2), "fedcba9876543210".repeat(2));
    for text in [
        long.clone(),
        format!("{long}\n"),
        format!("{long}\r\n"),
        format!("{long}\n{other}"),
        format!("{long}\r\n{other}\r\n\n"),
    ] {
        assert_eq!(credentials(text.as_bytes()), Ok(()), "{text:?}");
    }
    for (text, why) in [
        (String::new(), "0 secrets"),
        (format!("{}\n", &long[1..]), "31 bytes"),
        (format!("{long}\nshort\n"), "5 bytes"),
        (format!("{long}\n{other}\n{long}\n"), "3 secrets"),
        ("x".repeat(1025), "longer than 1024"),
    ] {
        let refused = credentials(text.as_bytes()).expect_err(&text).to_string();
        assert!(refused.contains(why) && refused.contains("mintleaf secret new"), "{refused}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(keys.read().is_err());
}

#[test]
fn keys_between_nodes_are_a_secret_or_three_files() {
    let keys =
        |line: &[&str]| checked(&[&["--node-id", "1"], line].concat()).map(|it| it.peer_keys);
    assert_eq!(keys(&[]), Ok(None));
    let certificate = ["--raft-cert", "c", "--raft-key", "k", "--raft-ca", "a"];
    let [certificate_file, key, ca] = ["c", "k", "a"].map(PathBuf::from);
    let files = PeerKeys::Certificate { certificate: certificate_file, key, ca };
    assert_eq!(keys(&certificate), Ok(Some(files)));
    assert!(keys(&certificate[..4]).unwrap_err().contains("--raft-ca"));
    let both = [&certificate[..], &["--cluster-secret-file", "s"]].concat();
    assert!(keys(&both).unwrap_err().contains("exclude each other"));
}

#[test]
fn a_drain_is_a_duration_or_nothing_at_all() {
    let drain = |text: &str| checked(&["--node-id", "1", "--drain", text]).map(|it| it.drain);
    assert_eq!(drain("0"), Ok(Duration::ZERO));
    assert_eq!(drain("0s"), Ok(Duration::ZERO));
    assert_eq!(drain("1500ms"), Ok(Duration::from_millis(1_500)));
    for wrong in ["11m", "5", "soon", ""] {
        assert!(drain(wrong).unwrap_err().contains("--drain"), "{wrong}");
    }
}

#[test]
fn dev_refuses_ports_past_the_last() {
    let on =
        |line: &str| dev(&[&["--nodes", "3"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
    assert!(on("--http 127.0.0.1:65533").is_ok());
    assert!(on("--http 127.0.0.1:65534").is_err());
    assert_eq!(on("--http 127.0.0.1:0").unwrap().first.http.port(), 0);
    let localhost = dev(&["--http", "localhost:8080"]).unwrap().first;
    assert_eq!(localhost.http.ip().to_string(), "127.0.0.1");
    let resp = on("--http 127.0.0.1:0 --resp localhost:65533").unwrap().first.resp;
    assert_eq!(resp.unwrap().to_string(), "127.0.0.1:65533");
    assert!(on("--http 127.0.0.1:0 --resp localhost:65534").is_err());
}

#[test]
fn for_every_address_of_the_machine_the_host_that_nodes_use_is_advertised() {
    let advertised = |line: &[&str]| {
        let line = [&["--node-id", "2", "--insecure"], line].concat();
        checked(&line).unwrap().advertise_http
    };
    let list = "1=a.example:9080,2=b.example:9081";
    let everywhere = ["--http", "0.0.0.0:8080"];
    let with = |more: &[&'static str]| advertised(&[&everywhere[..], more].concat());
    assert_eq!(with(&["--peers", list]).as_deref(), Some("b.example:8080"));
    let flag = ["--peers", list, "--advertise-raft", "[fd00::2]:9"];
    assert_eq!(with(&flag).as_deref(), Some("[fd00::2]:8080"));
    assert_eq!(with(&["--advertise-http", "c:1"]).as_deref(), Some("c:1"));
    assert_eq!(with(&["--raft", "10.0.0.7:9080"]).as_deref(), Some("10.0.0.7:8080"));
    assert_eq!(advertised(&["--http", "[::]:0"]).as_deref(), Some("127.0.0.1:0"));
    assert_eq!(advertised(&["--http", "127.0.0.1:8080"]), None, "the bound one");
}

#[test]
fn an_address_that_strangers_can_reach_wants_a_secret_or_the_flag_that_says_so() {
    let list = "1=a.example:9080,2=b.example:9080";
    refused(&["--node-id", "1", "--http", "0.0.0.0:8080"], "--http 0.0.0.0:8080 can be reached");
    refused(&["--node-id", "1", "--resp", "10.0.0.1:6379"], "--resp 10.0.0.1:6379 can be reached");
    refused(&["--node-id", "1", "--raft", "10.0.0.1:9080"], "--raft 10.0.0.1:9080 can be reached");
    refused(&["--node-id", "1", "--peers", list], "--peers a.example:9080 can be reached");
    let told = ["--node-id", "1", "--advertise-raft", "a.example:9080"];
    refused(&told, "--advertise-raft a.example:9080 can be reached");

    let secret = ["--node-id", "1", "--peers", list, "--cluster-secret-file", "/secret"];
    let config = checked(&secret).unwrap();
    assert!(!config.insecure && config.exposed.is_empty());
    refused(&[&secret[..], &["--http", "0.0.0.0:8080"]].concat(), "--http 0.0.0.0:8080");

    let insecure = ["--node-id", "1", "--insecure", "--peers", list, "--http", "0.0.0.0:8080"];
    let config = checked(&insecure).unwrap();
    assert!(config.insecure);
    assert_eq!(config.exposed, ["--http 0.0.0.0:8080", "--peers a.example:9080"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    std::fs::write(&file, "node-id = 1\nhttp = \"0.0.0.0:8080\"\ninsecure = true\n").unwrap();
    let line = ["--config", file.to_str().unwrap()];
    assert!(NodeConfig::resolve(args(&line)).unwrap().insecure);
    let line = [&line[..], &["--insecure=false"]].concat();
    assert!(NodeConfig::resolve(args(&line)).is_err());
}

#[test]
fn dev_serves_this_machine_alone_unless_told_otherwise() {
    for (line, named) in [
        (["--http", "0.0.0.0:8080", "--nodes=3"], "--http"),
        (["--http", "127.0.0.1:8080", "--resp=[::]:6379"], "--resp"),
    ] {
        let refused = dev(&line).unwrap_err().to_string();
        assert!(refused.starts_with(named) && refused.contains("--insecure"), "{refused}");
        let let_through = dev(&[&line[..], &["--insecure"]].concat()).unwrap();
        assert_eq!(let_through.first.exposed.len(), 1);
    }
}
