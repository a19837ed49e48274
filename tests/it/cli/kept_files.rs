//! Secrets and tokens in files: who can read them, that they replace nothing, and that they are accepted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{assert_fails, json_of, printed};
use crate::harness::{Api, Finished, Port, Process, eventually, mintleaf, secs};

/// Runs a command in a directory.
fn run_in(dir: &Path, args: &[&str]) -> Finished {
    Finished::of(mintleaf().command().args(args).current_dir(dir))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn secrets_and_tokens_are_for_their_owner_alone_and_replace_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let new_token = ["token", "new", "shop", "--role", "issue", "--out", "shop.token"];
    assert!(printed(&run_in(dir, &["secret", "new", "secret"])).starts_with("secret: "));
    let lines = run_in(dir, &new_token);
    assert!(printed(&lines).starts_with("[[token]]\nname = \"shop\"\n"), "{lines:?}");
    let mut kept = Vec::new();
    for (name, begin, length) in [("secret", "", 64), ("shop.token", "mlt_", 68)] {
        let path = dir.join(name);
        assert_eq!(mode(&path), 0o600, "{name}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(begin) && text.trim_end().len() == length, "{name}");
        assert!(!lines.stdout.contains(text.trim_end()), "{name} is printed");
        kept.push((path, text));
    }
    for args in [&["secret", "new", "secret"][..], &new_token, &["secret", "new", "no/such/dir"]] {
        let refused = run_in(dir, args);
        assert_fails(&refused, 1, if args[2] == "no/such/dir" { "cannot write" } else { "exists" });
    }
    assert!(kept.iter().all(|(path, text)| fs::read_to_string(path).unwrap() == *text));
    let shown = json_of(&run_in(dir, &["secret", "new", "other", "--json"]));
    assert_eq!(shown["file"], "other");
    assert_eq!(printed(&run_in(dir, &["secret", "new"])).trim_end().len(), 64);
}

#[test]
fn what_init_prints_starts_a_node_that_accepts_its_token_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = run_in(dir, &["init", "a trial"]);
    let line = |begin: &str| {
        let lines = printed(&said).lines().map(str::trim);
        lines.into_iter().find(|line| line.starts_with(begin)).unwrap().to_owned()
    };
    let trial = dir.join("a trial");
    assert_eq!(mode(&trial), 0o700);
    let files: Vec<_> = fs::read_dir(&trial).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() == 3 && files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    assert_fails(&run_in(dir, &["init", "a trial"]), 1, "is not empty");

    let [http, raft] = [(); 2].map(|()| Port::claim().addr());
    let program = mintleaf().command().get_program().to_string_lossy().into_owned();
    let shell = |line: &str| {
        let line = line.replace("127.0.0.1:9080", &raft.to_string());
        let mut command = Command::new("bash");
        crate::harness::clean(&mut command);
        command.current_dir(dir).env("MINTLEAF_URL", http.to_string());
        command.args(["-c", &format!("mintleaf() {{ '{program}' \"$@\"; }}; {line}")]);
        command
    };
    let serve = line("mintleaf serve").replacen("mintleaf", &format!("exec '{program}'"), 1);
    let serve = format!("{serve} --http {http} --raft {raft}");
    let mut node = Process::start("trial", &mut shell(&serve), &dir.join("log")).unwrap();
    eventually("the node", secs(10), || {
        assert!(node.is_running(), "{}", node.log());
        Api(http).try_get("/readyz").ok().filter(|answer| answer.status == 200)
    });
    let next = line("mintleaf tag create orders");
    let refused = Finished::of(&mut shell("mintleaf next orders"));
    assert_fails(&refused, 1, "--token-file");
    let made = Finished::of(&mut shell(&next));
    assert!(made.code == Some(0) && made.stdout.contains("orders"), "{made:?}");
    let both = Finished::of(shell(&next).env("MINTLEAF_TOKEN", "mlt_other"));
    assert_fails(&both, 2, "give one of them");
    let by_variable =
        Finished::of(shell("mintleaf next orders").env("MINTLEAF_TOKEN_FILE", trial.join("token")));
    assert_eq!(printed(&by_variable), "1\n");
    let absent = Finished::of(&mut shell("mintleaf next orders --token-file 'a trial/nothing'"));
    assert_fails(&absent, 1, "--token-file a trial/nothing: No such file");
    fs::write(trial.join("token"), "hunter2 hunter2\n").unwrap();
    let unfit = Finished::of(&mut shell(&next));
    assert_fails(&unfit, 1, "the first line must be visible ASCII");
    assert!(!unfit.stderr.contains("hunter2"), "{unfit:?}");
    node.signal("TERM");
    assert_eq!(node.exit_code(secs(15)), Some(0));
}
