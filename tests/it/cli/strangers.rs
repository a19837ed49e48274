//! Secrets that no message repeats, servers that send what they should not, and the remains after signals.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::{ask, printed, run};
use crate::harness::{Finished, Process, eventually, mintleaf, secs};

#[test]
fn no_message_holds_a_token_or_a_password() {
    let with = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = mintleaf().command();
        Finished::of(command.envs(variables.iter().copied()).args(args))
    };
    let with_password = "http://ops:hunter2@127.0.0.1:1";
    for (variables, args, named) in [
        (&[("MINTLEAF_TOKEN", "hunter2 hunter2")][..], &["next", "orders"][..], "MINTLEAF_TOKEN"),
        (&[], &["next", "orders", "--token", "hunter2 hunter2"], "--token"),
        (&[], &["--token=hunter2\n", "next", "orders"], ""),
        (&[], &["next", "orders", "--token", "x", "hunter2"], ""),
        (&[], &["next", "--token=x", "orders", "hunter2"], ""),
        (&[], &["tag", "--token", "x", "hunter2"], ""),
        (&[("MINTLEAF_URL", with_password)], &["next", "orders"], "MINTLEAF_URL"),
        (&[], &["next", "orders", "--url", with_password], "--url"),
        (&[], &["next", "orders", "--url", "http://ops:hunter2 @a"], "--url"),
        (&[], &["next", "orders", "--url", "http://ops:hunter2,@a"], "--url"),
    ] {
        let refused = with(variables, args);
        assert_eq!(refused.code, Some(2), "{args:?}: {refused:?}");
        assert!(!refused.stderr.contains("hunter2"), "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(named), "{args:?}: {refused:?}");
    }
    let help = with(
        &[("MINTLEAF_TOKEN", "hunter2"), ("MINTLEAF_URL", with_password)],
        &["next", "--help"],
    );
    assert!(help.code == Some(0) && !help.stdout.contains("hunter2"), "{help:?}");
}

/// A server that answers every request with this status and body. If `endless`, it repeats the body without end.
fn server(status: &'static str, body: &'static [u8], endless: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let length = match endless {
                true => String::new(),
                false => format!("content-length: {}\r\n", body.len()),
            };
            let head = format!("HTTP/1.1 {status}\r\n{length}connection: close\r\n\r\n");
            let mut sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            while endless && sent.is_ok() {
                sent = stream.write_all(&[0; 4096]);
            }
        }
    });
    url
}

#[test]
fn what_a_server_sends_reaches_a_terminal_as_text_alone() {
    let evil = r#"\u001b]0;owned\u0007\u001b[2J\u009b2J\r\u202e"#;
    let leaked = |body: String| -> &'static [u8] { body.into_bytes().leak() };
    let problem = leaked(format!(r#"{{"detail":"no {evil}\nerror: forged","code":"not_found"}}"#));
    let unready = leaked(format!(r#"{{"ready":false,"reasons":["draining: {evil}"]}}"#));
    let ready = leaked(format!(r#"{{"ready":true,"reasons":["sick: {evil}"]}}"#));
    let ids = leaked(format!(r#"{{"tag":"a","ids":["{evil}"],"lease":false}}"#));
    let view = leaked(format!(
        r#"{{"cluster_id":"{evil}","level":"{evil}","term":"{evil}","leader_id":"{evil}","nodes":[
            {{"id":"{evil}","role":"{evil}","version":"{evil}","http":"{evil}","ready":false}}]}}"#
    ));
    let cases: [(&'static str, &'static [u8], &[&str]); 10] = [
        ("404 Not Found", problem, &["next", "orders"]),
        ("404 Not Found", problem, &["tag", "list"]),
        ("503 Service Unavailable", unready, &["ready"]),
        ("200 OK", ready, &["ready"]),
        ("200 OK", ready, &["ready", "--json"]),
        ("200 OK", ids, &["next", "orders"]),
        ("200 OK", ids, &["next", "orders", "--json"]),
        ("200 OK", view, &["cluster", "status"]),
        ("200 OK", view, &["cluster", "status", "--json"]),
        ("200 OK", view, &["cluster", "level"]),
    ];
    for (status, body, args) in cases {
        let url = server(status, body, false);
        let told = run(&[args, &["--url", &url]].concat());
        for text in [&told.stdout, &told.stderr] {
            let misleads = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(misleads), "{args:?}: {told:?}");
            assert!(!text.contains("\nerror: forged"), "{args:?}: {told:?}");
        }
        assert!((told.stdout + &told.stderr).contains("owned"), "{args:?} shows nothing of it");
    }
}

#[test]
fn a_backup_without_end_or_of_something_else_is_given_up_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for begin in [&b"<html>"[..], b"MLBK\x01\x21\0\0\0", b""] {
        let url = server("200 OK", begin, true);
        let file = dir.path().join("copy");
        let refused = run(&["backup", file.to_str().unwrap(), "--url", &url]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("the backup is no use"), "{refused:?}");
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Waits until a command has created something in a directory, ends it with each signal, and checks what is left.
fn assert_leaves_nothing(dir: &Path, mut command: impl FnMut() -> Command) {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut process = Process::start("the command", &mut command(), log.path()).unwrap();
        eventually("something to be made", secs(20), || (!names(dir).is_empty()).then_some(()));
        process.signal(signal);
        assert_eq!(process.exit_code(secs(20)), Some(code), "{}", process.log());
        assert_eq!(names(dir), Vec::<String>::new(), "{signal}");
    }
}

#[test]
fn a_signal_leaves_no_part_of_a_backup_behind() {
    let dir = tempfile::tempdir().unwrap();
    // A server that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let file = dir.path().join("copy");
    assert_leaves_nothing(dir.path(), || {
        let mut command = mintleaf().command();
        command.arg("backup").arg(&file).args(["--url", &url]);
        command
    });
}

#[test]
fn a_signal_leaves_no_copy_of_an_inspected_directory_behind() {
    let mut cluster = mintleaf().cluster(1);
    cluster.stop(1);
    let data = cluster.data(1);
    // Copying this directory waits for a writer, which never comes.
    let kept = fs::read_dir(&data).unwrap().map(|it| it.unwrap().path());
    let copied = kept.filter(|path| path.is_dir() && !path.ends_with("snapshot"));
    let pipes: Vec<_> = copied.map(|dir| dir.join("pipe")).collect();
    assert!(!pipes.is_empty());
    assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let temp = tempfile::tempdir().unwrap();
    assert_leaves_nothing(temp.path(), || {
        let mut command = mintleaf().command();
        command.env("TMPDIR", temp.path()).arg("inspect").arg(&data).stdin(Stdio::null());
        command
    });
}

#[test]
fn keys_and_restored_clusters_are_not_put_where_others_can_write() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str, mode| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    };
    for (mode, is_refused) in [(0o777, true), (0o775, true), (0o1777, false), (0o755, false)] {
        let path = open(&format!("{mode:o}"), mode);
        let made = run(&["cert", "ca", "--out", path.to_str().unwrap()]);
        assert_eq!(made.code, Some(i32::from(is_refused)), "{made:?}");
        assert_eq!(made.stderr.contains("chmod go-w"), is_refused, "{made:?}");
        assert_eq!(names(&path).is_empty(), is_refused, "{mode:o}");
    }
    let dev = mintleaf().dev();
    let backup = dir.path().join("backup");
    printed(&ask(&dev, &["backup", backup.to_str().unwrap()]));
    let data = open("data", 0o777);
    let [backup, place] = [&backup, &data].map(|path| path.to_str().unwrap());
    let args = ["restore", backup, "--data", place, "--node-id", "1", "--advance-all-by", "1"];
    // As root it warns that the directory belongs to root.
    let restored = run(&[&args[..], &["--stopped-at", "now"]].concat());
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
}
