//! Widely used clients, over TLS and with a token. If a client is not installed, its test reports that it is skipped.

use std::process::Command;

use super::clients::Java;
use super::{Secured, curl, port, runs};
use crate::auth::{entry, token, write};
use crate::harness::{Finished, eventually, mintleaf, python_with_redis, secs};

/// A node that speaks TLS and requires tokens: `shop` may take ids of `pay*`, `ops` may do everything.
fn guarded() -> Secured {
    Secured::start_with(|pki| {
        let file = pki.path("auth.toml");
        write(&file, &(entry("shop", "issue", "[\"pay*\"]") + &entry("ops", "admin", "")));
        vec!["--auth-file".to_owned(), file.display().to_string()]
    })
}

#[test]
fn curl_shows_its_token_within_tls() {
    if !runs("curl", &["--version"]) {
        return;
    }
    let node = guarded();
    let shop = format!("Authorization: Bearer {}", token("shop"));
    let ask = |args: &[&str], path: &str| {
        let url = node.url() + path;
        curl(&node.pki.ca(), &[args, &[&url]].concat()).stdout
    };
    assert_eq!(ask(&["-H", &shop], "/api/segment/get/pay"), "1\n200");
    assert!(ask(&["-H", &shop], "/api/segment/get/other").ends_with("\n403"));
    assert!(ask(&["--oauth2-bearer", &token("shop")], "/v1/snowflake").ends_with("\n200"));
    assert!(ask(&[], "/api/segment/get/pay").ends_with("\n401"));
    eventually("readiness needs no token", secs(10), || {
        ask(&[], "/readyz").ends_with("\n200").then_some(())
    });
}

#[test]
fn redis_cli_logs_in_within_tls() {
    if !runs("redis-cli", &["--version"]) {
        return;
    }
    let node = guarded();
    let (port, ca, shop) = (port(node.resp.addr()), node.pki.ca(), token("shop"));
    let ask = |login: &[&str], words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "--no-auth-warning", "-h", "localhost", "-p", &port]);
        command.arg("--tls").arg("--cacert").arg(&ca);
        Finished::of(command.args(login).args(words))
    };
    for (login, id) in [(&["--user", "shop", "--pass", &shop][..], "1\n"), (&["-a", &shop], "2\n")]
    {
        let run = ask(login, &["INCR", "pay"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), id), "{login:?}: {run:?}");
        assert!(ask(login, &["INCR", "other"]).stderr.contains("NOPERM"), "{login:?}");
    }
    assert!(ask(&[], &["INCR", "pay"]).stderr.contains("NOAUTH"));
    assert_eq!(ask(&[], &["AUTH", "shop", &shop]).stdout.trim(), "OK");
}

/// A program that uses redis-py as applications do.
const REDIS_PY: &str = r#"
import sys, redis
port, ca, shop = int(sys.argv[1]), sys.argv[2], sys.argv[3]
secured = dict(host="localhost", port=port, ssl=True, ssl_ca_certs=ca)
seen = 0
for login in ({"username": "shop", "password": shop}, {"password": shop}):
    r = redis.Redis(**secured, **login)
    pipe = r.pipeline(transaction=False)
    for _ in range(100):
        pipe.incr("pay")
    ids = pipe.execute()
    assert ids[0] > seen and all(a < b for a, b in zip(ids, ids[1:]))
    seen = ids[-1]
    try:
        r.incr("other")
        sys.exit("another tag was allowed")
    except redis.exceptions.NoPermissionError:
        pass
url = f"rediss://shop:{shop}@localhost:{port}?ssl_ca_certs={ca}"
assert redis.Redis.from_url(url).incr("pay") > seen
try:
    redis.Redis(**secured).incr("pay")
    sys.exit("no token was asked for")
except redis.exceptions.AuthenticationError:
    pass
print("redis-py", redis.__version__)
"#;

#[test]
fn redis_py_logs_in_within_tls() {
    let Some(mut python) = python_with_redis() else { return };
    let node = guarded();
    python.args(["-c", REDIS_PY, &port(node.resp.addr())]);
    let run = Finished::of(python.arg(node.pki.ca()).arg(token("shop")));
    assert!(run.code == Some(0) && run.stdout.starts_with("redis-py "), "{run:?}");
}

/// A program with only Java's standard library, on connections that it keeps.
const JAVA: &str = r#"
import java.io.*;
import java.net.*;
import javax.net.ssl.*;

public class Ask {
    static HttpsURLConnection open(String url, String token) throws Exception {
        HttpsURLConnection c = (HttpsURLConnection) new URL(url).openConnection();
        if (token != null) c.setRequestProperty("Authorization", "Bearer " + token);
        return c;
    }
    static void expect(int status, String url, String token) throws Exception {
        int found = open(url, token).getResponseCode();
        if (found != status) throw new IllegalStateException(url + ": " + found);
    }
    public static void main(String[] args) throws Exception {
        String base = args[0], token = args[1];
        long last = 0;
        for (int n = 0; n < 200; n++) {
            HttpsURLConnection c = open(base + "/api/segment/get/pay", token);
            try (BufferedReader in = new BufferedReader(new InputStreamReader(c.getInputStream()))) {
                long id = Long.parseLong(in.readLine());
                if (id <= last) throw new IllegalStateException("ids rise");
                last = id;
            }
        }
        expect(401, base + "/api/segment/get/pay", null);
        expect(401, base + "/api/segment/get/pay", token + "x");
        expect(403, base + "/api/segment/get/other", token);
        expect(200, base + "/readyz", null);
        System.out.println("ok " + last);
    }
}
"#;

#[test]
fn a_java_program_shows_its_token_within_tls() {
    let Some(java) = Java::compile(JAVA) else { return };
    let run = java.run(&guarded(), &[], &[&token("shop")]);
    assert!(run.code == Some(0) && run.stdout.starts_with("ok "), "{run:?}");
}

#[test]
fn the_command_line_shows_its_token_within_tls() {
    let node = guarded();
    let ask = |token: Option<&str>, args: &[&str]| {
        let mut command = mintleaf().command();
        command.env("MINTLEAF_URL", node.url()).env("MINTLEAF_CACERT", node.pki.ca());
        if let Some(token) = token {
            command.env("MINTLEAF_TOKEN", token);
        }
        Finished::of(command.args(args))
    };
    let [shop, ops] = ["shop", "ops"].map(token);
    assert_eq!(ask(Some(&shop), &["next", "pay", "-n", "2"]).stdout, "1\n2\n");
    assert_eq!(ask(Some(&ops), &["tag", "create", "orders"]).code, Some(0));
    let refused = ask(None, &["next", "pay"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("MINTLEAF_TOKEN"), "{refused:?}");
    let audit = ask(Some(&ops), &["audit"]).stdout;
    assert!(audit.lines().nth(1).is_some_and(|line| line.contains("  ops ")), "{audit}");
}
