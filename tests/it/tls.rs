//! TLS on the ports of clients, with certificates that `mintleaf cert` made.
//!
//! ```text
//! ports       versions, silence, garbage, plain text, slow readers, certificates of clients
//! clients     curl, redis-cli, redis-py, Java, and the command line
//! tokens      the same clients with tokens in addition
//! redis       libraries for Redis, at nodes that are killed, drained and rolled, and at one node
//! replaced    certificates that are replaced under load
//! crowds      handshakes that never end
//! before_1970 a clock that shows no Unix time
//! doors       certificates and tokens that are replaced together, on nodes that share a secret
//! made        what `mintleaf cert` writes
//! stream      a client that speaks HTTP within TLS
//! ```

mod before_1970;
mod clients;
mod crowds;
mod doors;
mod made;
mod ports;
mod redis;
mod replaced;
mod stream;
mod tokens;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::harness::{Binary, Finished, Port, Process, eventually, mintleaf, runs, secs};
use stream::TlsClient;

/// A CA in a directory, and the certificates that it signs.
struct Pki(PathBuf);

impl Pki {
    fn make(dir: &Path, name: &str) -> Self {
        let pki = Self(dir.join(name));
        cert(&["ca", "--out", pki.path("").to_str().unwrap()]);
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The certificate and the key of a node at `localhost` and 127.0.0.1.
    fn node(&self, id: u64) -> [PathBuf; 2] {
        self.sign(&["node", &id.to_string(), "--name", "localhost", "--name", "127.0.0.1"]);
        ["pem", "key"].map(|end| self.path(&format!("node-{id}.{end}")))
    }

    fn client(&self, name: &str) -> [PathBuf; 2] {
        self.sign(&["client", name]);
        ["pem", "key"].map(|end| self.path(&format!("{name}.{end}")))
    }

    fn sign(&self, args: &[&str]) {
        let dir = self.0.to_str().unwrap();
        cert(&[args, &["--ca", dir, "--out", dir]].concat());
    }
}

/// Runs `mintleaf cert`, which must succeed; returns its output.
#[track_caller]
fn cert(args: &[&str]) -> String {
    let made = Finished::of(mintleaf().command().arg("cert").args(args));
    assert_eq!(made.code, Some(0), "{args:?}: {made:?}");
    made.stdout
}

/// A node of `mintleaf dev` that speaks TLS, with its CA.
struct Secured {
    process: Process,
    http: Port,
    resp: Port,
    pki: Pki,
    certificate: [PathBuf; 2],
    dir: TempDir,
}

impl Secured {
    fn start() -> Self {
        Self::start_with(|_| vec![])
    }

    /// The same, with more flags, which may name files of the CA.
    fn start_with(flags: impl FnOnce(&Pki) -> Vec<String>) -> Self {
        Self::start_as(&mintleaf(), flags)
    }

    /// The same, with this binary.
    fn start_as(binary: &Binary, flags: impl FnOnce(&Pki) -> Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::make(dir.path(), "ca");
        let certificate = pki.node(1);
        let [http, resp] = [Port::claim(), Port::claim()];
        let mut command = binary.command();
        command.args(["dev", "--http", &http.addr().to_string(), "--data"]);
        command.arg(dir.path().join("data")).args(["--resp", &resp.addr().to_string()]);
        command.arg("--tls-cert").arg(&certificate[0]).arg("--tls-key").arg(&certificate[1]);
        command.args(flags(&pki));
        let process = Process::start("dev", &mut command, &dir.path().join("log")).unwrap();
        let mut node = Self { process, http, resp, pki, certificate, dir };
        eventually("dev to be ready", secs(15), || {
            assert!(node.process.is_running(), "dev has ended");
            node.process.said().contains("redis").then_some(())
        });
        node
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.http.addr().port())
    }

    /// A client that trusts the node's CA.
    fn client(&self) -> TlsClient {
        TlsClient::believing(&[self.pki.ca()])
    }

    fn metric(&self, name: &str) -> f64 {
        let page = self.client().open(self.http.addr()).get("/metrics");
        let line = page.1.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {}", page.1)).parse().unwrap()
    }
}

/// Replaces a file atomically, so that no node reads half of it.
fn replace(file: &Path, content: impl AsRef<[u8]>) {
    let new = file.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(&new, file).unwrap();
}

/// curl, which trusts the CA in this file. It prints the body, a line break and the status.
fn curl(ca: &Path, args: &[&str]) -> Finished {
    let mut command = Command::new("curl");
    command.args(["-s", "-S", "--max-time", "20", "-w", "\n%{http_code}", "--cacert"]).arg(ca);
    Finished::of(command.args(args))
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}
