//! The README's curl and redis-cli lines, run as they stand.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Finished, mintleaf};

/// Where the README's reader runs a node.
const README_NODE: &str = "localhost:8080";
/// How the same reader talks to it in the Redis protocol.
const README_REDIS: &str = "redis-cli -p 6380 ";

/// The commands in blocks marked `sh` or `console` that begin with `program`, in order; lines that
/// end with a backslash are one command with the next.
fn lines_of(program: &str, readme: &str) -> Vec<String> {
    let (mut lines, mut in_block, mut command) = (Vec::new(), false, String::new());
    for line in readme.lines() {
        if let Some(mark) = line.trim_start().strip_prefix("```") {
            in_block = ["sh", "console"].contains(&mark.trim());
            continue;
        }
        let line = line.trim_start().trim_start_matches("$ ");
        if in_block && (line.starts_with(program) || !command.is_empty()) {
            command.push_str(line.trim_end_matches('\\'));
            if !line.ends_with('\\') {
                lines.push(std::mem::take(&mut command));
            }
        }
    }
    lines
}

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

#[test]
fn every_redis_cli_line_of_the_readme_works() {
    let lines = lines_of(README_REDIS, &readme());
    assert!(lines.len() >= 3, "the README shows {} commands only", lines.len());
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: redis-cli is not installed");
    }
    let dev = mintleaf().dev();
    for line in lines {
        // An answer that is an error fails it as well.
        let here = format!("redis-cli -e -p {} ", dev.resp(1).port());
        let here = line.replacen(README_REDIS, &here, 1);
        let run = Finished::of(Command::new("sh").args(["-c", &here]));
        assert_eq!(run.code, Some(0), "{line}\n{run:?}");
    }
}

#[test]
fn every_curl_line_of_the_readme_works() {
    let lines = lines_of("curl ", &readme());
    let lines: Vec<_> = lines.iter().filter(|line| line.contains(README_NODE)).collect();
    assert!(lines.len() >= 5, "the README shows {} requests only", lines.len());
    let dev = mintleaf().dev();
    for line in lines {
        let here = line.replace(README_NODE, &dev.api().0.to_string());
        // The first word is `curl`: an answer of 400 or more fails it as well.
        let here = here.replacen("curl", "curl --silent --show-error --fail-with-body", 1);
        let run = Finished::of(Command::new("sh").args(["-c", &here]).current_dir(dev.dir()));
        assert_eq!(run.code, Some(0), "{line}\n{run:?}");
    }
}

#[test]
fn continued_lines_are_one_command_and_other_blocks_are_left_out() {
    let readme = "\
curl not in a block
```sh
cargo run
curl -X POST localhost:8080/v1/tags \\
    -d '{}'
$ curl localhost:8080/livez
```
```json
curl localhost:8080/json
```
";
    assert_eq!(
        lines_of("curl ", readme),
        ["curl -X POST localhost:8080/v1/tags -d '{}'", "curl localhost:8080/livez"]
    );
}
