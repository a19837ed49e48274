//! Widely used clients, with a token. If a client is not installed, its test reports that it is skipped.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Guarded, entry, token, write};
use crate::harness::{Finished, mintleaf, python_with_redis, runs};

fn guarded() -> Guarded {
    Guarded::start(
        &(entry("shop", "issue", "[\"pay*\"]")
            + &entry("eye", "read", "")
            + &entry("ops", "admin", "")),
    )
}

#[test]
fn curl_shows_a_token() {
    if !runs("curl", &["--version"]) {
        return;
    }
    let node = guarded();
    let ask = |args: &[&str], path: &str| {
        let url = format!("{}{path}", node.dev.url());
        let run = Finished::of(
            Command::new("curl").args(["-s", "-w", "\n%{http_code}"]).args(args).arg(url),
        );
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    let shop = format!("Authorization: Bearer {}", token("shop"));
    assert_eq!(ask(&["-H", &shop], "/api/segment/get/pay"), "1\n200");
    assert!(ask(&["-H", &shop], "/api/segment/get/other").ends_with("\n403"));
    assert!(ask(&[], "/api/segment/get/pay").ends_with("\n401"));
    assert!(ask(&["-u", "shop:shop-token"], "/v1/snowflake").ends_with("\n401"));
    let both = ask(&["--oauth2-bearer", &token("shop")], "/v1/segment/pay?count=2");
    assert!(both.ends_with("\n200") && both.contains(r#""ids""#), "{both}");
}

#[test]
fn redis_cli_logs_in() {
    if !runs("redis-cli", &["--version"]) {
        return;
    }
    let node = guarded();
    let port = node.dev.resp(1).port().to_string();
    let ask = |login: &[&str], words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "--no-auth-warning", "-p", &port]).args(login).args(words);
        Finished::of(&mut command)
    };
    let shop = token("shop");
    for login in [&["--user", "shop", "--pass", &shop][..], &["-a", &shop], &["-3", "-a", &shop]] {
        let run = ask(login, &["INCR", "pay"]);
        assert_eq!(run.code, Some(0), "{login:?}: {run:?}");
        assert!(run.stdout.trim().parse::<u64>().is_ok(), "{login:?}: {run:?}");
        let run = ask(login, &["INCR", "other"]);
        assert!(run.stderr.contains("NOPERM"), "{login:?}: {run:?}");
    }
    assert!(ask(&[], &["INCR", "pay"]).stderr.contains("NOAUTH"));
    let run = ask(&["--user", "eye", "--pass", &shop], &["INCR", "pay"]);
    assert!(run.stderr.contains("WRONGPASS") || run.stderr.contains("NOAUTH"), "{run:?}");
}

/// A program that uses redis-py as applications do, once with a name and a token, and once with a token alone.
const REDIS_PY: &str = r#"
import sys, redis
port, shop, eye = int(sys.argv[1]), sys.argv[2], sys.argv[3]
seen = 0
# Releases before 5.0 speak version 2 only.
spoken = [{}] if redis.__version__ < "5" else [{"protocol": 2}, {"protocol": 3}]
for version in spoken:
    for login in ({"username": "shop", "password": shop}, {"password": shop}):
        r = redis.Redis(port=port, **version, client_name="app", **login)
        assert r.ping() and r.incr("pay") > seen
        seen = r.incr("pay")
        pipe = r.pipeline(transaction=False)
        for _ in range(100):
            pipe.incr("pay")
        assert len(pipe.execute()) == 100
        try:
            r.incr("other")
            sys.exit("another tag was allowed")
        except redis.exceptions.NoPermissionError:
            pass
        try:
            redis.Redis(port=port, **version, username="shop", password="wrong").ping()
            sys.exit("a wrong token was taken")
        # Which of the two depends on the release.
        except (redis.exceptions.AuthenticationError, redis.exceptions.ResponseError) as error:
            assert "WRONGPASS" in str(error)
        try:
            redis.Redis(port=port, **version).incr("pay")
            sys.exit("no token was asked for")
        except redis.exceptions.AuthenticationError:
            pass
assert redis.Redis(port=port, username="eye", password=eye).exists("pay") == 1
print("redis-py", redis.__version__)
"#;

#[test]
fn redis_py_logs_in() {
    let Some(mut python) = python_with_redis() else { return };
    let node = guarded();
    let port = node.dev.resp(1).port().to_string();
    let args = [REDIS_PY, &port, &token("shop"), &token("eye")];
    let run = Finished::of(python.arg("-c").args(args));
    assert_eq!(run.code, Some(0), "{run:?}");
}

/// What any Java program can do without a library.
const JAVA: &str = r#"
import java.io.*;
import java.net.*;

public class Ask {
    static HttpURLConnection open(String base, String path, String token) throws Exception {
        HttpURLConnection c = (HttpURLConnection) new URL(base + path).openConnection();
        if (token != null) c.setRequestProperty("Authorization", "Bearer " + token);
        return c;
    }
    static long id(String base, String path, String token) throws Exception {
        HttpURLConnection c = open(base, path, token);
        try (BufferedReader in = new BufferedReader(new InputStreamReader(c.getInputStream()))) {
            return Long.parseLong(in.readLine());
        }
    }
    static void expect(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }
    public static void main(String[] args) throws Exception {
        String base = args[0], token = args[1];
        long last = 0;
        for (int n = 0; n < 200; n++) {
            long id = id(base, "/api/segment/get/pay", token);
            expect(id > last, "ids rise");
            last = id;
        }
        expect(id(base, "/api/snowflake/get/x", token) > 0, "a snowflake");
        HttpURLConnection none = open(base, "/api/segment/get/pay", null);
        expect(none.getResponseCode() == 401, "401");
        expect("Bearer".equals(none.getHeaderField("WWW-Authenticate")), "the challenge");
        expect(open(base, "/api/segment/get/other", token).getResponseCode() == 403, "403");
        expect(open(base, "/v1/tags", token).getResponseCode() == 403, "no reading");
        expect(open(base, "/readyz", null).getResponseCode() == 200, "readyz");
        System.out.println("ok " + last);
    }
}
"#;

#[test]
fn a_java_program_shows_a_token() {
    if !runs("javac", &["-version"]) || !runs("java", &["-version"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Ask.java"), JAVA).unwrap();
    let run = Finished::of(Command::new("javac").arg("Ask.java").current_dir(dir.path()));
    assert_eq!(run.code, Some(0), "{run:?}");
    let node = guarded();
    let mut java = Command::new("java");
    java.args(["-cp", ".", "Ask", &node.dev.url(), &token("shop")]).current_dir(dir.path());
    let run = Finished::of(&mut java);
    assert!(run.code == Some(0) && run.stdout.starts_with("ok "), "{run:?}");
}

#[test]
fn the_command_line_makes_a_token_and_shows_it() {
    let mut node = guarded();
    let new = |args: &[&str]| Finished::of(mintleaf().command().args(["token", "new"]).args(args));
    let made = new(&["till", "--role", "issue", "--tags", "pay*,cash"]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{made:?}");
    let (till, lines) = made.stdout.split_once("\n\n").unwrap();
    assert!(!lines.contains(till) && lines.contains("tags = [\"pay*\",\"cash\"]"), "{made:?}");
    assert_ne!(new(&["till", "--role", "issue"]).stdout.lines().next(), Some(till));
    let json = new(&["ops-2", "--role", "admin", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    write(&node.file, &format!("{lines}{}", json["lines"].as_str().unwrap()));
    node.dev.process().signal("HUP");
    let url = node.dev.url();
    let ask = |token: Option<&str>, args: &[&str]| {
        let mut command = mintleaf().command();
        if let Some(token) = token {
            command.env("MINTLEAF_TOKEN", token);
        }
        Finished::of(command.args(args).args(["--url", &url]))
    };
    crate::harness::eventually("the new tokens to be read", crate::harness::secs(10), || {
        (ask(Some(till), &["next", "pay", "-n", "3"]).stdout == "1\n2\n3\n").then_some(())
    });
    let refused = ask(Some(till), &["tag", "list"]);
    let why = "this needs the role read or admin, and the token has the role issue";
    assert!(refused.code == Some(1) && refused.stderr.contains(why), "{refused:?}");
    let refused = ask(Some(till), &["next", "other"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("other tags"), "{refused:?}");
    let refused = ask(None, &["next", "pay"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("MINTLEAF_TOKEN"), "{refused:?}");
    let ops = json["token"].as_str().unwrap();
    for args in [&["tag", "list"][..], &["cluster", "status"], &["tag", "create", "any"]] {
        assert_eq!(ask(Some(ops), args).code, Some(0), "{args:?}");
        let with_a_flag = [args, &["--token", ops, "--json"]].concat();
        let code = if args[1] == "create" { 1 } else { 0 };
        assert_eq!(ask(None, &with_a_flag).code, Some(code), "{args:?}");
    }
    let help = ask(Some(ops), &["next", "--help"]);
    assert!(!help.stdout.contains(ops), "help shows the token: {help:?}");
    let wrong = ask(Some("a b\u{7}"), &["next", "pay"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("visible ASCII"), "{wrong:?}");
    for args in [
        &["a b", "--role", "issue"][..],
        &["a", "--role", "root"],
        &["a"],
        &["a", "--role", "issue", "--tags", "a*b"],
        &["a", "--role", "issue", "--tags", ""],
        &["anonymous", "--role", "issue"],
    ] {
        assert_eq!(new(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn a_node_that_refuses_the_token_is_named_and_the_next_one_is_asked() {
    let behind = Guarded::start(&entry("old", "admin", ""));
    let ahead = Guarded::start(&(entry("old", "admin", "") + &entry("new", "admin", "")));
    let ask = |token: &str, args: &[&str]| {
        let mut command = mintleaf().command();
        command.args(args).args(["--url", &behind.dev.url(), "--url", &ahead.dev.url()]);
        Finished::of(command.args(["--token", token]))
    };
    let warning = format!(
        "warning: {} refuses: the token is not one that this node knows; the next node is asked\n",
        behind.dev.url()
    );
    for args in [&["tag", "create", "orders"][..], &["next", "orders"], &["tag", "list"]] {
        let run = ask(&super::token("new"), args);
        assert_eq!((run.code, &run.stderr), (Some(0), &warning), "{args:?}: {run:?}");
    }
    assert_eq!(ask(&super::token("old"), &["tag", "list"]).stderr, "");
    let run = ask("unknown", &["next", "orders"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let (first, rest) = run.stderr.split_once('\n').unwrap();
    assert_eq!(format!("{first}\n"), warning);
    assert!(rest.starts_with("error: the token is not one that this node knows\n"), "{run:?}");
}
