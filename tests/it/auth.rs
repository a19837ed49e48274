//! Tokens and roles: who may do what over both protocols, and tokens that change while clients go on.
//!
//! ```text
//! matrix     every role at every route and command, by the table of docs/security.md
//! changes    tokens that come and go, on one node and on three under load
//! clients    curl, redis-cli, redis-py, Java, and the command line
//! ```

mod changes;
mod clients;
mod matrix;

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mintleaf::access::{hash_of, written_hash};

use crate::harness::{Dev, Finished, Port, Process, eventually, mintleaf, ms, pause, secs};
use crate::kept::Kept;

/// The lines of a token in an auth file. The token is its name followed by `-token`.
pub(crate) fn entry(name: &str, role: &str, tags: &str) -> String {
    let hash = written_hash(&hash_of(token(name).as_bytes()));
    let tags = if tags.is_empty() { String::new() } else { format!("tags = {tags}\n") };
    format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\nrole = \"{role}\"\n{tags}")
}

pub(crate) fn token(name: &str) -> String {
    format!("{name}-token")
}

/// Writes an auth file as an operator should: as a new file, which is then renamed.
pub(crate) fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

/// A node with an auth file, and the directory that holds it.
struct Guarded {
    dev: Dev,
    file: PathBuf,
    // Dropped last.
    _dir: tempfile::TempDir,
}

impl Guarded {
    fn start(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.toml");
        write(&file, text);
        let setting = format!("MINTLEAF_AUTH_FILE={}", file.display());
        let dev = mintleaf().under(["env".to_owned(), setting]).dev();
        Self { dev, file, _dir: dir }
    }

    /// Replaces the file, and makes the node read it.
    fn replace(&mut self, text: &str) {
        write(&self.file, text);
        self.dev.process().signal("HUP");
    }
}

/// The header line that carries a token.
pub(crate) fn bearer(name: &str) -> String {
    format!("authorization: Bearer {}\r\n", token(name))
}

/// A file with a secret. A node that requires tokens does not start without one.
pub(crate) fn secret_file(dir: &Path) -> String {
    let path = dir.join("secret");
    write(&path, "0123456789abcdef0123456789abcdef");
    path.display().to_string()
}

/// A node that has a secret.
fn serve(dir: &Path, args: &[&str]) -> std::process::Command {
    let mut command = serve_in_the_open(dir, args);
    command.args(["--cluster-secret-file", &secret_file(dir)]);
    command
}

fn serve_in_the_open(dir: &Path, args: &[&str]) -> std::process::Command {
    let mut command = mintleaf().command();
    command.args(["serve", "--node-id", "1", "--data"]).arg(dir.join("data")).args(args);
    command
}

#[test]
fn tokens_for_clients_want_a_proof_of_nodes_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    write(&file, &entry("ops", "admin", ""));
    let [http, raft] = [Port::claim(), Port::claim()];
    let (at, internal) = (http.addr().to_string(), raft.addr().to_string());
    let peers = format!("1={internal}");
    for entered in [["--peers", &peers], ["--join", "127.0.0.1:9"]] {
        let args = ["--http", &at, "--raft", &internal, "--auth-file", file.to_str().unwrap()];
        let args = [&args[..], &entered].concat();
        let run = Finished::of(&mut serve_in_the_open(dir.path(), &args));
        assert_eq!(run.code, Some(2), "{run:?}");
        for named in [&internal, "--auth-file", "mintleaf secret new", "--raft-cert", "--insecure"]
        {
            assert!(run.stderr.contains(named), "{named}: {run:?}");
        }
        assert!(!dir.path().join("data").exists(), "nothing is made before");
    }
    let args = ["--http", &at, "--raft", &internal, "--peers", &peers, "--insecure"];
    let mut node = serve_in_the_open(dir.path(), &args);
    node.arg("--auth-file").arg(&file);
    let log = dir.path().join("log");
    let node = Process::start("the node", &mut node, &log).unwrap();
    let api = crate::harness::Api(http.addr());
    eventually("the node to be ready", secs(15), || {
        (api.try_get("/readyz").ok()?.status == 200).then_some(())
    });
    let said = node.said();
    let warned = said.lines().find(|line| line.contains("--insecure is given")).unwrap_or_default();
    assert!(warned.contains(&format!("--raft {internal}")), "{said}");
}

#[test]
fn an_auth_file_that_cannot_be_used_ends_a_node_that_starts_with_2_and_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    let good = entry("shop", "issue", "");
    for (text, mode, why) in [
        (good.clone(), 0o644, "chmod 600"),
        (good.clone(), 0o640, "chmod 600"),
        (good.clone(), 0o602, "chmod 600"),
        (String::new(), 0o600, "no [[token]]"),
        (format!("{good}colour = 1\n"), 0o600, "line 5: unknown key"),
        (good.clone() + &good, 0o600, "line 5: the name shop"),
        (good.clone() + &good.replace("shop", "other"), 0o600, "line 5: other has the same hash"),
        (entry("shop", "issue", "[\"a*b\"]"), 0o600, "line 5: each of tags"),
        (entry("anonymous", "read", ""), 0o600, "line 2: name may not be anonymous"),
        (good.replace("sha256:", "sha256:A"), 0o600, "line 3: hash must be"),
        (good.replace("issue", "write"), 0o600, "line 4: role must be"),
        ("token = 5".to_owned(), 0o600, "line 1: token must"),
        ("[[token".to_owned(), 0o600, "line 1: is not TOML"),
    ] {
        write(&file, &text);
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let path = file.to_str().unwrap();
        let args = ["--http", "127.0.0.1:0", "--raft", "127.0.0.1:0", "--auth-file", path];
        let run = Finished::of(&mut serve(dir.path(), &args));
        assert_eq!(run.code, Some(2), "{why}: {run:?}");
        assert!(run.stderr.contains("--auth-file") && run.stderr.contains(why), "{why}: {run:?}");
    }
    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    for path in [file.to_str().unwrap(), "/dev/zero"] {
        let args = ["--http", "127.0.0.1:0", "--raft", "127.0.0.1:0", "--auth-file", path];
        let run = Finished::of(&mut serve(dir.path(), &args));
        assert!(run.code == Some(2) && run.stderr.contains("is no regular file"), "{run:?}");
    }
    let args = ["--http", "127.0.0.1:0", "--auth-file", "/no/such/file"];
    let run = Finished::of(&mut serve(dir.path(), &args));
    assert!(run.code == Some(2) && run.stderr.contains("/no/such/file"), "{run:?}");
    assert!(!dir.path().join("data").exists(), "nothing is made before the file is read");
}

#[test]
fn strangers_are_not_let_in_as_administrators() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    write(&file, "anonymous = \"admin\"\n");
    let path = file.to_str().unwrap();
    for exposed in [["--http", "0.0.0.0:0"], ["--resp", "0.0.0.0:0"]] {
        let mut args = vec!["--raft", "127.0.0.1:0", "--auth-file", path];
        if exposed[0] == "--resp" {
            args.extend(["--http", "127.0.0.1:0"]);
        }
        args.extend(exposed);
        let run = Finished::of(&mut serve(dir.path(), &args));
        assert_eq!(run.code, Some(2), "{run:?}");
        for named in ["--auth-file", "anonymous", exposed[0], "--insecure"] {
            assert!(run.stderr.contains(named), "{named}: {run:?}");
        }
    }
    assert!(!dir.path().join("data").exists(), "nothing is made before the file is read");

    let node = Guarded::start("anonymous = \"admin\"\n");
    let create = |tag: &str, headers: &str| {
        let mut kept = Kept::open(node.dev.api().0);
        let body = format!("{{\"tag\":\"{tag}\"}}");
        let length = body.len();
        let request = format!(
            "POST /v1/tags HTTP/1.1\r\n{headers}content-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        kept.send(&request);
        kept.answer().0
    };
    assert_eq!(create("a", "host: localhost\r\n"), 201);
    assert_eq!(create("b", "host: localhost\r\nvia: 1.1 a\r\n"), 403);
    assert_eq!(create("b", "host: evil.example\r\n"), 403);
    assert_eq!(create("b", "host: localhost\r\norigin: http://evil.example\r\n"), 403);
}

#[test]
fn with_an_auth_file_clients_may_come_from_anywhere_and_under_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    write(&file, &format!("anonymous = \"issue\"\n{}", entry("ops", "admin", "")));
    let [http, resp, raft] = [(); 3].map(|()| Port::claim());
    let [http_at, resp_at] = [&http, &resp].map(|port| format!("0.0.0.0:{}", port.addr().port()));
    let toml = dir.path().join("node.toml");
    let settings = format!(
        "http = \"{http_at}\"\nresp = \"{resp_at}\"\nraft = \"{}\"\nauth-file = \"{}\"\n",
        raft.addr(),
        file.display()
    );
    fs::write(&toml, settings).unwrap();
    let peers = format!("1={}", raft.addr());
    let args = ["--config", toml.to_str().unwrap(), "--peers", &peers];
    let log = dir.path().join("log");
    let node = Process::start("the node", &mut serve(dir.path(), &args), &log).unwrap();
    let api = crate::harness::Api(http.addr());
    eventually("the node to be ready", secs(15), || {
        (api.try_get("/readyz").ok()?.status == 200).then_some(())
    });
    let create = |headers: &[(&str, &str)]| {
        let json = [("content-type", "application/json")];
        let headers = [&json[..], headers].concat();
        api.send(&hyper::Method::POST, "/v1/tags", &headers, r#"{"tag":"orders"}"#)
    };
    assert_eq!(create(&[]).problem(), (401, "unauthenticated".to_owned()));
    let bearer = format!("Bearer {}", token("ops"));
    let through_a_proxy =
        [("authorization", bearer.as_str()), ("via", "1.1 a"), ("origin", "http://a.example")];
    assert_eq!(create(&through_a_proxy).status, 201);
    let said = node.said();
    assert!(!said.contains("--insecure"), "{said}");
    let warnings: Vec<&str> =
        said.lines().filter(|line| line.contains("tokens in the clear")).collect();
    let [warning] = warnings[..] else { panic!("{said}") };
    assert!(warning.contains(&format!("--http {http_at}, --resp {resp_at}")), "{warning}");
    let warned =
        said.lines().find(|line| line.contains("callers without a token")).unwrap_or_default();
    assert!(warned.contains(&http_at) && warned.contains("issue"), "{said}");
}

#[test]
fn a_node_warns_once_of_tokens_that_cross_a_network_in_the_clear_and_not_where_tls_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    write(&file, &entry("ops", "admin", ""));
    let at = |name: &str| dir.path().join(name).display().to_string();
    for args in [
        &["ca", "--out", &at("ca")][..],
        &["node", "1", "--ca", &at("ca"), "--out", &at("ca"), "--name", "localhost"],
    ] {
        let made = Finished::of(mintleaf().command().arg("cert").args(args));
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let [certificate, key] = ["ca/node-1.pem", "ca/node-1.key"].map(at);
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    for (host, tls, count) in [("0.0.0.0", &[][..], 1), ("127.0.0.1", &[], 0), ("0.0.0.0", &tls, 0)]
    {
        let ports = Port::claim_row(3);
        let http = format!("{host}:{}", ports[0].addr().port());
        let mut dev = mintleaf().command();
        dev.args(["dev", "--nodes", "3", "--http", &http, "--auth-file", &at("auth.toml")]);
        dev.args(["--data", &at(&format!("data-{count}-{}", tls.len()))]).args(tls);
        let log = dir.path().join(format!("log-{host}-{}", tls.len()));
        let node = Process::start("dev", &mut dev, &log).unwrap();
        eventually("dev to be up", secs(20), || node.said().contains("ctrl-c").then_some(()));
        let said = node.said();
        assert_eq!(said.matches("tokens in the clear").count(), count, "{http} {tls:?}: {said}");
    }
}

/// A client may send the head of a request and its body one after the other.
#[test]
fn a_refusal_that_comes_before_the_body_says_that_it_is_the_last_unless_a_known_token_was_shown() {
    let node = Guarded::start(&entry("shop", "issue", ""));
    let http = node.dev.api().0;
    let head = |length: usize, with: &str| {
        format!(
            "POST /v1/tags HTTP/1.1\r\nhost: localhost\r\n{with}content-length: {length}\r\n\r\n"
        )
    };
    let mut known = Kept::open(http);
    for _ in 0..3 {
        known.send(&head(2, &bearer("shop")));
        pause(ms(50));
        known.send("{}");
        let (status, body, is_last) = known.whole_answer();
        assert_eq!((status, is_last), (403, false), "{body}");
    }
    known.send(&head((64 << 10) + 1, &bearer("shop")));
    let (status, body, is_last) = known.whole_answer();
    assert_eq!((status, is_last), (403, true), "a longer body is not read: {body}");

    for with in ["", &bearer("nobody"), "expect: 100-continue\r\n"] {
        let mut stranger = Kept::open(http);
        stranger.send(&head(2, with));
        let (status, body, is_last) = stranger.whole_answer();
        assert_eq!((status, is_last), (401, true), "{with}: {body}");
        assert_eq!(stranger.0.read(&mut [0]).unwrap(), 0, "it is the last");
    }
    // Where a request has no body, the connection goes on.
    let mut stranger = Kept::open(http);
    assert_eq!([0; 3].map(|_| stranger.get("/v1/tags", "").0), [401; 3]);
}
