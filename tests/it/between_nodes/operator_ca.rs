//! Certificates of an operator's own CA, made with the `openssl` command line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::tls::{self, Certified};
use super::{Busy, NOT_TAKEN, TAKEN, assert_all_run, reload};
use crate::harness::{Cluster, mintleaf, secs};

const DAY_S: u64 = 24 * 3_600;

/// A CA, made as an operator makes one.
struct Ca {
    dir: PathBuf,
}

impl Ca {
    fn make(dir: PathBuf) -> Self {
        fs::create_dir(&dir).unwrap();
        let name = dir.file_name().unwrap().to_str().unwrap();
        let subject = format!("/CN={name}");
        openssl(
            &dir,
            &[
                &["req", "-x509", "-out", "ca.pem", "-keyout", "ca.key", "-subj", &subject][..],
                &KEY,
            ]
            .concat(),
        );
        Self { dir }
    }

    /// A certificate for a node.
    fn certify(&self, id: u64) {
        let [request, key, made, extensions] =
            ["csr", "key", "pem", "ext"].map(|end| format!("node-{id}.{end}"));
        let names = format!(
            "subjectAltName=DNS:node-{id}.mintleaf\nextendedKeyUsage=serverAuth,clientAuth\n"
        );
        fs::write(self.dir.join(&extensions), names).unwrap();
        let subject = format!("/CN=node-{id}");
        openssl(
            &self.dir,
            &[&["req", "-out", &request, "-keyout", &key, "-subj", &subject][..], &KEY].concat(),
        );
        let sign = ["x509", "-req", "-in", &request, "-out", &made, "-extfile", &extensions];
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"];
        openssl(&self.dir, &[&sign[..], &by].concat());
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap()
    }

    /// The certificate and key of a node.
    fn certified(&self, id: u64) -> Certified {
        let path = |end: &str| self.dir.join(format!("node-{id}.{end}"));
        Certified {
            chain: vec![CertificateDer::from_pem_file(path("pem")).unwrap()],
            key: PrivateKeyDer::from_pem_file(path("key")).unwrap(),
        }
    }
}

/// A new key, not encrypted.
const KEY: [&str; 6] =
    ["-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

fn openssl(dir: &Path, args: &[&str]) {
    let made = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Whether the command line is installed. If not, it prints a message even if the output is captured.
fn openssl_is_there(test: &str) -> bool {
    let there = Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok();
    if !there {
        let line = format!("SKIPPED: {test} needs the openssl command line\n");
        // Not by the macro: the output of a passing test is hidden.
        io::stderr().write_all(line.as_bytes()).unwrap();
    }
    there
}

/// The files of a node: its certificate, its key, and the CAs that it accepts.
fn files(cluster: &Cluster, id: u64) -> [PathBuf; 3] {
    ["pem", "key", "ca"].map(|end| cluster.dir().join(format!("own-{id}.{end}")))
}

/// Three founders with certificates of a CA. None is running yet.
fn prepare() -> (Cluster, Ca) {
    let mut cluster = mintleaf().prepare(3, &[]);
    let ca = Ca::make(cluster.dir().join("first-ca"));
    for id in cluster.ids() {
        ca.certify(id);
        let own = files(&cluster, id);
        let contents = [format!("node-{id}.pem"), format!("node-{id}.key"), "ca.pem".to_owned()];
        let flags = ["--raft-cert", "--raft-key", "--raft-ca"];
        for ((file, content), flag) in own.iter().zip(contents).zip(flags) {
            fs::write(file, ca.read(&content)).unwrap();
            cluster.add_flag(id, flag, file);
        }
    }
    (cluster, ca)
}

#[test]
fn a_ca_is_replaced_under_load_without_a_failed_request() {
    if !openssl_is_there("a_ca_is_replaced_under_load") {
        return;
    }
    let (mut cluster, old) = prepare();
    cluster.start_all();
    let new = Ca::make(cluster.dir().join("second-ca"));
    let busy = Busy::start(&cluster);
    let bundle = old.read("ca.pem") + &new.read("ca.pem");
    for id in cluster.ids() {
        let [_, _, cas] = files(&cluster, id);
        reload(&mut cluster, id, &[(cas, bundle.clone())], TAKEN);
        busy.go_on();
    }
    for id in cluster.ids() {
        new.certify(id);
        let [certificate, key, _] = files(&cluster, id);
        let [made, its_key] = ["pem", "key"].map(|end| new.read(&format!("node-{id}.{end}")));
        // An incomplete file changes nothing.
        let half = made[..made.len() / 2].to_owned();
        reload(&mut cluster, id, &[(certificate.clone(), half)], NOT_TAKEN);
        reload(&mut cluster, id, &[(certificate, made), (key, its_key)], TAKEN);
        busy.go_on();
    }
    for id in cluster.ids() {
        let [_, _, cas] = files(&cluster, id);
        reload(&mut cluster, id, &[(cas, new.read("ca.pem"))], TAKEN);
        busy.go_on();
    }
    busy.end_without_a_failure();
    let page = cluster.api(1).get("/metrics");
    let name = "mintleaf_raft_certificate_expiry_timestamp_seconds ";
    let expiry: Option<u64> =
        page.text().lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    let left_s = expiry.unwrap_or(0).abs_diff(UNIX_EPOCH.elapsed().unwrap().as_secs());
    assert!((29 * DAY_S..=30 * DAY_S).contains(&left_s), "{left_s} s are no 30 days");
    // The old CA no longer proves anything; the new one does.
    let (heard, ended) = tls::send_frame(cluster.raft(1), Some(old.certified(2)), &[7; 20]);
    assert!(heard.is_empty() && ended.is_err(), "{heard:?}, {ended:?}");
    let (heard, _) = tls::send_frame(cluster.raft(1), Some(new.certified(2)), &[7; 20]);
    // Only the proof decides: the same frame is read now.
    assert_eq!(heard.first(), Some(&1), "a refusal of the frame, which was read: {heard:?}");
    assert_all_run(&mut cluster, &[1, 2, 3]);
}

#[test]
fn a_certificate_for_another_node_is_refused_at_the_start() {
    if !openssl_is_there("a_certificate_for_another_node") {
        return;
    }
    let (mut cluster, ca) = prepare();
    let [certificate, key, cas] = files(&cluster, 3);
    fs::write(&certificate, ca.read("node-2.pem")).unwrap();
    fs::write(&key, ca.read("node-2.key")).unwrap();
    let refused = |cluster: &mut Cluster, why: &str| {
        cluster.start_node(3);
        let (code, log) = cluster.ended(3, secs(10));
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(why), "no {why:?} in {log}");
    };
    refused(&mut cluster, "--raft-cert is for node-2.mintleaf, and this node is node-3.mintleaf");
    fs::write(&certificate, ca.read("node-3.pem")).unwrap();
    refused(&mut cluster, "--raft-key is not the key of --raft-cert");
    fs::write(&key, ca.read("node-3.key")).unwrap();
    let other = Ca::make(cluster.dir().join("other-ca"));
    fs::write(&cas, other.read("ca.pem")).unwrap();
    refused(&mut cluster, "--raft-ca");
    fs::write(&cas, ca.read("ca.pem")).unwrap();
    cluster.start_all();
}
