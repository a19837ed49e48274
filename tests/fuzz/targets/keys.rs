//! The files that a node proves itself with to others: secrets, and an operator's PEM.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mintleaf::config::PeerKeys;
use mintleaf_fuzz::{edited, pem, temp_dir};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

const NODE_ID: u64 = 3;
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 32..=1024;

/// The files that an operator gives node 3: its certificate, its key, and the CA.
static FILES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let draw = || KeyPair::generate().expect("a key is drawn");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, draw()).expect("a CA can be made");
    let (key, names) = (draw(), [format!("node-{NODE_ID}.mintleaf")]);
    let params = CertificateParams::new(names).expect("it is a name");
    let made = params.signed_by(&key, &ca).expect("a certificate can be made");
    [
        pem("CERTIFICATE", made.der()),
        pem("PRIVATE KEY", &key.serialize_der()),
        pem("CERTIFICATE", ca.der()),
    ]
});
static PLACE: LazyLock<TempDir> = LazyLock::new(temp_dir);

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        return read_secrets(rest);
    }
    let mut files = FILES.clone();
    match usize::from(kind / 2 % 6) {
        whole @ 0..3 => files[whole] = rest.to_vec(),
        changed => files[changed - 3] = edited(&files[changed - 3], rest),
    }
    let [certificate, key, ca] = ["certificate", "key", "ca"].map(|name| PLACE.path().join(name));
    for (path, content) in [&certificate, &key, &ca].into_iter().zip(&files) {
        fs::write(path, content).expect("there is room");
    }
    let keys = PeerKeys::Certificate { certificate, key, ca };
    let read = keys.read().expect("the files are there");
    for id in [NODE_ID, 4] {
        match keys.credentials(id, &read) {
            Ok(credentials) => {
                assert_eq!(id, NODE_ID, "another node's certificate");
                assert!(credentials.expires_at_s().is_some(), "it never expires");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if files == *FILES {
        assert!(keys.credentials(NODE_ID, &read).is_ok(), "nothing was changed");
    }
});

/// Secrets are accepted if there are one or two, each with a length within the bounds.
fn read_secrets(text: &[u8]) {
    let path = PLACE.path().join("secret");
    fs::write(&path, text).expect("there is room");
    let keys = PeerKeys::Secret(path);
    let read = keys.read().expect("the file is there");
    let accepted = keys.credentials(NODE_ID, &read).is_ok();
    let mut lines: Vec<_> = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let fit = lines.iter().all(|line| SECRET_BYTES.contains(&line.len()));
    assert_eq!(accepted, fit && (1..=2).contains(&lines.len()));
}
