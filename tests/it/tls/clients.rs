//! Widely used clients, over TLS. If a client is not installed, its test reports that it is skipped.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::{Pki, Secured, curl, port, runs};
use crate::harness::{Finished, Port, Process, eventually, mintleaf, python_with_redis, secs};

#[test]
fn curl_takes_ids() {
    if !runs("curl", &["--version"]) {
        return;
    }
    let node = Secured::start();
    let url = format!("{}/api/segment/get/orders", node.url());
    assert_eq!(curl(&node.pki.ca(), &[&url]).stdout, "1\n200");
    for version in ["1.2", "1.3"] {
        let run = curl(&node.pki.ca(), &["--tls-max", version, &url, &url, &url]);
        assert_eq!(run.stdout.matches("\n200").count(), 3, "{run:?}");
    }
    let by_address = format!("https://127.0.0.1:{}/v1/snowflake", port(node.http.addr()));
    assert!(curl(&node.pki.ca(), &[&by_address]).stdout.ends_with("\n200"));
}

#[test]
fn redis_cli_takes_ids() {
    if !runs("redis-cli", &["--version"]) {
        return;
    }
    let node = Secured::start();
    let (port, ca) = (port(node.resp.addr()), node.pki.ca());
    let ask = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "-h", "localhost", "-p", &port, "--tls", "--cacert"]).arg(&ca);
        Finished::of(command.args(words))
    };
    let first = ask(&["INCR", "orders"]);
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "1\n"), "{first:?}");
    assert_eq!(ask(&["INCR", "orders"]).stdout, "2\n");
    assert!(ask(&["-3", "MINT", "orders", "COUNT", "500"]).stdout.lines().count() >= 500);
    let mut plain = Command::new("redis-cli");
    let run = Finished::of(plain.args(["-e", "-p", &port, "INCR", "orders"]));
    assert!(run.stderr.contains("speaks TLS"), "{run:?}");
}

/// A program that uses redis-py as applications do.
const REDIS_PY: &str = r#"
import sys, redis
port, ca = int(sys.argv[1]), sys.argv[2]
r = redis.Redis(host="localhost", port=port, ssl=True, ssl_ca_certs=ca)
assert r.ping()
seen = r.incr("orders")
pipe = r.pipeline(transaction=False)
for _ in range(1000):
    pipe.incr("orders")
ids = pipe.execute()
assert len(ids) == 1000 and ids[0] > seen and all(a < b for a, b in zip(ids, ids[1:]))
assert redis.Redis.from_url(f"rediss://localhost:{port}?ssl_ca_certs={ca}").incr("orders") > ids[-1]
for wrong in ({"ssl": True}, {}):
    try:
        redis.Redis(host="localhost", port=port, **wrong).ping()
        sys.exit("a node that nobody vouches for was believed")
    except redis.exceptions.RedisError:
        pass
print("redis-py", redis.__version__)
"#;

#[test]
fn redis_py_takes_ids() {
    let Some(mut python) = python_with_redis() else { return };
    let node = Secured::start();
    python.args(["-c", REDIS_PY, &port(node.resp.addr())]).arg(node.pki.ca());
    let run = Finished::of(&mut python);
    assert!(run.code == Some(0) && run.stdout.starts_with("redis-py "), "{run:?}");
}

/// A program with only Java's standard library, which trusts the CAs of a trust store and keeps its connections.
const JAVA: &str = r#"
import java.io.*;
import java.net.*;
import javax.net.ssl.*;

public class Ask {
    static String get(String url) throws Exception {
        HttpsURLConnection c = (HttpsURLConnection) new URL(url).openConnection();
        try (BufferedReader in = new BufferedReader(new InputStreamReader(c.getInputStream()))) {
            return in.readLine();
        }
    }
    public static void main(String[] args) throws Exception {
        long last = 0;
        for (int n = 0; n < 300; n++) {
            long id = Long.parseLong(get(args[0] + "/api/segment/get/orders"));
            if (id <= last) throw new IllegalStateException("ids rise");
            last = id;
        }
        if (!get(args[0] + "/v1/segment/orders?count=100").contains("ids")) {
            throw new IllegalStateException("a list");
        }
        System.out.println("ok " + last);
    }
}
"#;

/// A compiled Java program whose class is `Ask`.
pub(super) struct Java(TempDir);

impl Java {
    /// Compiles it; `None` if Java is not installed.
    pub(super) fn compile(program: &str) -> Option<Self> {
        let tools = [("javac", "-version"), ("java", "-version"), ("keytool", "-help")];
        if !tools.iter().all(|(tool, arg)| runs(tool, &[arg])) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Ask.java"), program).unwrap();
        let run = Finished::of(Command::new("javac").arg("Ask.java").current_dir(dir.path()));
        assert_eq!(run.code, Some(0), "{run:?}");
        Some(Self(dir))
    }

    /// Runs it with the node's URL and more arguments. A trust store makes it trust the node's CA.
    pub(super) fn run(&self, node: &Secured, options: &[&str], args: &[&str]) -> Finished {
        let trust = self.0.path().join("trust.p12");
        if !trust.exists() {
            make_trust_store(&trust, &node.pki.ca());
        }
        let mut java = Command::new("java");
        java.args(trusting(&trust)).args(options).arg("-cp");
        Finished::of(java.arg(self.0.path()).args(["Ask", &node.url()]).args(args))
    }
}

/// Makes a trust store of Java's that holds a CA.
pub(super) fn make_trust_store(store: &Path, ca: &Path) {
    let mut keytool = Command::new("keytool");
    keytool.args(["-importcert", "-noprompt", "-alias", "mintleaf"]);
    keytool.args(["-storepass", "changeit", "-storetype", "PKCS12", "-keystore"]);
    let run = Finished::of(keytool.arg(store).arg("-file").arg(ca));
    assert_eq!(run.code, Some(0), "{run:?}");
}

/// The options that make a JVM trust the CAs of a trust store.
pub(super) fn trusting(store: &Path) -> [String; 2] {
    let store = format!("-Djavax.net.ssl.trustStore={}", store.display());
    [store, "-Djavax.net.ssl.trustStorePassword=changeit".to_owned()]
}

#[test]
fn a_java_program_takes_ids() {
    let Some(java) = Java::compile(JAVA) else { return };
    let node = Secured::start();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let run = java.run(&node, &[&format!("-Djdk.tls.client.protocols={version}")], &[]);
        assert!(run.code == Some(0) && run.stdout.starts_with("ok "), "{version}: {run:?}");
    }
}

#[test]
fn the_command_line_speaks_https_and_says_what_is_wrong() {
    let node =
        Secured::start_with(|ca| vec!["--tls-client-ca".into(), ca.ca().display().to_string()]);
    let [shown, key] = node.pki.client("ops").map(|path| path.display().to_string());
    let ca = node.pki.ca().display().to_string();
    let url = node.url();
    let ask = |url: &str, args: &[&str]| {
        Finished::of(mintleaf().command().args(args).args(["--url", url]))
    };
    let all = ["--cacert", &ca, "--cert", &shown, "--key", &key];
    for args in [&["next", "orders", "-n", "3"][..], &["tag", "list"], &["tag", "create", "a"]] {
        let run = ask(&url, &[args, &all].concat());
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
    }
    let mut by_environment = mintleaf().command();
    by_environment.env("MINTLEAF_CACERT", &ca).env("MINTLEAF_CERT", &shown);
    by_environment.env("MINTLEAF_KEY", &key).env("MINTLEAF_URL", &url).args(["next", "orders"]);
    assert_eq!(Finished::of(&mut by_environment).stdout, "4\n");

    let other = Pki::make(node.dir.path(), "other");
    let [of_others, its_key] = other.client("ops").map(|path| path.display().to_string());
    let wrong_ca = other.ca().display().to_string();
    // For the machine this is 127.0.0.1, but a certificate has to list it separately.
    let wrong_name = url.replace("localhost", "[::ffff:127.0.0.1]");
    let plain = url.replace("https", "http");
    for (url, args, why) in [
        (&url, &[][..], "signed by no CA that is trusted here: --cacert"),
        (&url, &["--cacert", &wrong_ca], "signed by no CA that is trusted here: --cacert"),
        (&url, &["--cacert", &ca], "asks clients for a certificate: give --cert and --key"),
        (
            &url,
            &["--cacert", &ca, "--cert", &of_others, "--key", &its_key],
            "does not accept the certificate of --cert",
        ),
        (&url, &["--cacert", &ca, "--cert", &shown], "--cert and --key need each other"),
        (&url, &["--cacert", &ca, "--cert", &shown, "--key", &its_key], "not the key of --cert"),
        (&url, &["--cacert", "/no/such/file"], "--cacert /no/such/file"),
        (&wrong_name, &all, "for another name than ::ffff:"),
        (&plain, &[], "this port speaks TLS: ask it by https://"),
    ] {
        let run = ask(url, &[&["next", "orders"], args].concat());
        assert!(run.code == Some(1) && run.stderr.contains(why), "{why}: {run:?}");
    }
    let open = mintleaf().dev();
    let run = ask(&open.url().replace("http", "https"), &["next", "orders", "--cacert", &ca]);
    assert!(run.code == Some(1) && run.stderr.contains("ask it by http://"), "{run:?}");
}

#[test]
fn a_certificate_that_signs_itself_is_believed_where_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let made = |name: &str| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        // As `openssl req -x509` makes it.
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let path = dir.path().join(name);
        fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
        path.display().to_string()
    };
    let (own, other) = (made("own.pem"), made("other.pem"));
    let key_file = dir.path().join("key.pem");
    crate::auth::write(&key_file, &key.serialize_pem());
    let http = Port::claim();
    let mut dev = mintleaf().command();
    dev.args(["dev", "--http", &http.addr().to_string(), "--tls-cert", &own, "--tls-key"]);
    dev.arg(&key_file).arg("--data").arg(dir.path().join("data"));
    let node = Process::start("dev", &mut dev, &dir.path().join("log")).unwrap();
    eventually("dev to be up", secs(20), || node.said().contains("ctrl-c").then_some(()));
    let ask = |host: &str, file: &str| {
        let url = format!("https://{host}:{}", http.addr().port());
        let args = ["next", "orders", "--url", &url, "--cacert", file];
        Finished::of(mintleaf().command().args(args))
    };
    let run = ask("localhost", &own);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "1\n"), "{run:?}");
    for (host, file, why) in [
        ("localhost", &other, "signed by no CA that is trusted here: --cacert"),
        ("127.0.0.1", &own, "for another name than 127.0.0.1"),
    ] {
        let run = ask(host, file);
        assert!(run.code == Some(1) && run.stderr.contains(why), "{why}: {run:?}");
    }
}

#[test]
fn a_certificate_that_a_ca_signed_is_believed_where_it_is_named_itself() {
    let node = Secured::start();
    let named = node.dir.path().join("named.pem");
    let ask = |host: &str| {
        let url = format!("https://{host}:{}", node.http.addr().port());
        let args = ["next", "orders", "--url", &url, "--cacert", named.to_str().unwrap()];
        Finished::of(mintleaf().command().args(args))
    };
    fs::copy(&node.certificate[0], &named).unwrap();
    let run = ask("localhost");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "1\n"), "{run:?}");
    // The same address, which a certificate has to list separately.
    let run = ask("[::ffff:127.0.0.1]");
    assert!(run.code == Some(1) && run.stderr.contains("for another name than"), "{run:?}");
    // Another certificate of that CA vouches for none but itself.
    let [of_another, _] = node.pki.node(2);
    fs::copy(of_another, &named).unwrap();
    let run = ask("localhost");
    assert!(run.code == Some(1) && run.stderr.contains("signed by no CA"), "{run:?}");
}

#[test]
fn an_expired_certificate_is_taken_by_the_node_and_refused_by_the_command_line() {
    let node = Secured::start();
    let read = |path| fs::read_to_string(path).unwrap();
    node.pki.sign(&["server", "soon", "--name", "localhost", "--days", "7"]);
    for (end, file) in [("key", &node.certificate[1]), ("pem", &node.certificate[0])] {
        super::replace(file, read(node.pki.path(&format!("soon.{end}"))));
    }
    node.process.signal("HUP");
    crate::harness::eventually("a warning", crate::harness::secs(10), || {
        node.process.said().contains("--tls-cert is about to expire").then_some(())
    });
    let ca_key = KeyPair::from_pem(&read(node.pki.path("ca.key"))).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read(node.pki.ca()), ca_key).unwrap();
    let key = KeyPair::from_pem(&read(node.certificate[1].clone())).unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    super::replace(&node.certificate[0], params.signed_by(&key, &issuer).unwrap().pem());
    node.process.signal("HUP");
    let ask = || {
        let mut command = mintleaf().command();
        command.args(["next", "orders", "--url", &node.url(), "--cacert"]).arg(node.pki.ca());
        Finished::of(&mut command)
    };
    crate::harness::eventually("the certificate to be replaced", crate::harness::secs(10), || {
        let run = ask();
        (run.code == Some(1) && run.stderr.contains("has expired")).then_some(())
    });
    crate::harness::eventually("the log to say so", crate::harness::secs(10), || {
        node.process.said().contains("--tls-cert has expired").then_some(())
    });
}
