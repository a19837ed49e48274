//! The files that `mintleaf cert` writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Pki, Secured, cert, replace, runs};
use crate::harness::{Finished, eventually, mintleaf, secs};

fn refused(args: &[&str]) -> Finished {
    let run = Finished::of(mintleaf().command().arg("cert").args(args));
    assert_ne!(run.code, Some(0), "{args:?}: {run:?}");
    run
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_their_owners_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::make(dir.path(), "ca");
    let [certificate, key] = pki.node(7);
    let [_, of_client] = pki.client("shop");
    for secret in [&pki.path("ca.key"), &key, &of_client] {
        assert_eq!(mode(secret), 0o600, "{}", secret.display());
    }
    assert_eq!(mode(&pki.path("")), 0o700);
    let ca = pki.path("").display().to_string();
    let read = || [pki.path("ca.key"), key.clone(), certificate.clone()].map(fs::read);
    let before = read().map(Result::unwrap);
    for args in [
        &["ca", "--out", &ca][..],
        &["node", "7", "--ca", &ca, "--out", &ca],
        &["client", "shop", "--ca", &ca, "--out", &ca],
    ] {
        let run = refused(args);
        assert!(run.code == Some(1) && run.stderr.contains("not overwritten"), "{run:?}");
    }
    assert_eq!(read().map(Result::unwrap), before);
    fs::remove_file(&certificate).unwrap();
    assert!(refused(&["node", "7", "--ca", &ca, "--out", &ca]).stderr.contains("node-7.key"));
    assert!(!certificate.exists(), "half of a pair was written");
}

#[test]
fn what_is_printed_names_the_flags() {
    let dir = tempfile::tempdir().unwrap();
    let [ca, out] = ["ca", "out"].map(|name| dir.path().join(name).display().to_string());
    let said = cert(&["ca", "--out", &ca]);
    assert!(said.contains("--tls-client-ca") && said.contains("--cacert"), "{said}");
    let said = cert(&["node", "2", "--ca", &ca, "--out", &out]);
    assert!(said.contains(&format!("--raft-cert {out}/node-2.pem")), "{said}");
    assert!(said.contains("mintleaf cert server"), "{said}");
    let said = cert(&["node", "3", "--ca", &ca, "--out", &out, "--name", "a.example"]);
    assert!(said.contains(&format!("--tls-cert {out}/node-3.pem")), "{said}");
    let said = cert(&["server", "a.example", "--ca", &ca, "--out", &out]);
    assert!(said.contains(&format!("--tls-cert {out}/a.example.pem")), "{said}");
    assert!(!said.contains("--raft-cert"), "{said}");
    let said = cert(&["client", "shop", "--ca", &ca, "--out", &out]);
    assert!(said.contains(&format!("--cert {out}/shop.pem --key {out}/shop.key")), "{said}");
}

#[test]
fn programs_read_the_paths_from_json() {
    let dir = tempfile::tempdir().unwrap();
    let [ca, out] = ["ca", "out"].map(|name| dir.path().join(name).display().to_string());
    let json = |args: &[&str]| -> Value { serde_json::from_str(&cert(args)).unwrap() };
    let made = json(&["ca", "--out", &ca, "--json"]);
    let files = json!({ "certificate": format!("{ca}/ca.pem"), "key": format!("{ca}/ca.key") });
    assert_eq!(made, files);
    let signed = ["--ca", &ca, "--out", &out];
    for (args, stem) in
        [(&["node", "2", "--json"][..], "node-2"), (&["--json", "client", "a"], "a")]
    {
        let [certificate, key] = ["pem", "key"].map(|end| format!("{out}/{stem}.{end}"));
        let files = json!({ "certificate": certificate, "key": key, "ca": format!("{ca}/ca.pem") });
        assert_eq!(json(&[args, &signed].concat()), files);
        assert!(Path::new(&certificate).exists() && Path::new(&key).exists());
    }
    let secret = Finished::of(mintleaf().command().args(["secret", "new", "--json"]));
    let secret: Value = serde_json::from_str(&secret.stdout).unwrap();
    assert_eq!(secret["secret"].as_str().map(str::len), Some(64), "{secret}");
}

#[test]
fn what_cannot_be_signed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (Pki::make(dir.path(), "one"), Pki::make(dir.path(), "other"));
    let [of_one, out] = [&one.0, &dir.path().join("out")].map(|path| path.display().to_string());
    let signed = ["--ca", &of_one, "--out", &out];
    for args in [
        &["node", "0"][..],
        &["node", "x"],
        &["node", "1", "--name", "node-2.mintleaf"],
        &["node", "1", "--name", "a:443"],
        &["node", "1", "--days", "0"],
        &["server", "../a"],
        &["server", "a", "--name", "node-1.mintleaf"],
        &["server", "a", "--name", "a:443"],
        &["client", "../a"],
        &["client", "ca"],
    ] {
        assert_eq!(refused(&[args, &signed].concat()).code, Some(2), "{args:?}");
    }
    for name in ["node-1.mintleaf", "a@b"] {
        let run = refused(&[&["server", name], &signed[..]].concat());
        assert!(run.code == Some(1) && run.stderr.contains("the name"), "{run:?}");
    }
    fs::copy(other.path("ca.key"), one.path("ca.key")).unwrap();
    let run = refused(&[&["node", "1"], &signed[..]].concat());
    assert!(run.stderr.contains("not the key of ca.pem"), "{run:?}");
    fs::remove_file(one.path("ca.pem")).unwrap();
    assert!(refused(&[&["node", "1"], &signed[..]].concat()).stderr.contains("ca.pem"));
}

#[test]
fn openssl_finds_nothing_wrong() {
    if !runs("openssl", &["version"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::make(dir.path(), "ca");
    let ([node, _], [client, _]) = (pki.node(1), pki.client("shop"));
    let openssl = |args: &[&str], file: &Path| {
        let mut command = Command::new("openssl");
        Finished::of(command.args(args).arg(file).current_dir(&pki.0))
    };
    for (purpose, file) in [("sslserver", &node), ("sslclient", &node), ("sslclient", &client)] {
        let verify = ["verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", purpose];
        let run = openssl(&verify, file);
        assert!(run.code == Some(0) && run.stdout.ends_with(": OK\n"), "{purpose}: {run:?}");
    }
    let server = pki.path("a.example.pem");
    let dir = pki.0.display().to_string();
    cert(&["server", "a.example", "--ca", &dir, "--out", &dir]);
    let verified = |purpose, file: &Path| {
        openssl(&["verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", purpose], file).code
    };
    assert_eq!(verified("sslserver", &server), Some(0));
    assert_ne!(verified("sslclient", &server), Some(0), "a server is no client");
    assert_ne!(verified("sslserver", &client), Some(0), "a client is no server");
    let shown = openssl(&["x509", "-noout", "-ext", "subjectAltName", "-in"], &node).stdout;
    for name in ["DNS:node-1.mintleaf", "DNS:localhost", "IP Address:127.0.0.1"] {
        assert!(shown.contains(name), "{shown}");
    }
}

#[test]
fn a_node_warns_of_a_certificate_for_clients_that_makes_its_key_a_members() {
    const WARNED: &str = "bears the name of a node";
    let node = Secured::start();
    assert_eq!(node.process.said().matches(WARNED).count(), 1);
    let dir = node.pki.0.display().to_string();
    cert(&["server", "localhost", "--ca", &dir, "--out", &dir]);
    for (end, file) in ["key", "pem"].into_iter().zip([&node.certificate[1], &node.certificate[0]])
    {
        replace(file, fs::read(node.pki.path(&format!("localhost.{end}"))).unwrap());
    }
    node.process.signal("HUP");
    eventually("the certificate to be taken", secs(15), || {
        node.process.said().contains("took new certificates").then_some(())
    });
    assert_eq!(node.process.said().matches(WARNED).count(), 1, "{}", node.process.said());
    assert_eq!(node.client().open(node.http.addr()).get("/livez").0, 200);
}
