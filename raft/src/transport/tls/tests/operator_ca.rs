//! Nodes whose certificates an operator's CA signed.

use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, KeyPair};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;

use super::*;
use crate::transport::credentials::PemBytes;

/// A CA of an operator.
struct OperatorCa(CertifiedIssuer<'static, KeyPair>);

impl OperatorCa {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The files of a node, whose certificate is valid in these years.
    fn files(&self, name: &str, years: [i32; 2]) -> PemBytes {
        self.files_for(name, years, &[])
    }

    /// The same, for these purposes only, or for all purposes if the list is empty.
    fn files_for(
        &self,
        name: &str,
        [from, to]: [i32; 2],
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> PemBytes {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        PemBytes {
            certificate: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
            ca: pem("CERTIFICATE", self.0.der()),
        }
    }

    fn node(&self, node_id: u64) -> Arc<Credentials> {
        let files = self.files(&node_name(node_id), [2000, 2100]);
        Arc::new(Credentials::from_pem(node_id, &files).unwrap())
    }
}

/// PEM by hand, so that the tests need no more of rcgen's features than the product does.
fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n").into_bytes();
    for (at, three) in der.chunks(3).enumerate() {
        let mut group = [0; 4];
        group[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(group);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= three.len() { DIGITS[index] } else { b'=' });
        }
        if at % 16 == 15 {
            text.push(b'\n');
        }
    }
    text.extend_from_slice(format!("\n-----END {label}-----\n").as_bytes());
    text
}

#[tokio::test]
async fn nodes_of_an_operators_ca_prove_their_names_and_claim_their_stores() {
    let ca = OperatorCa::new();
    let (two, one) = (listen(2, ca.node(2)).await, calling(1, ca.node(1)).await);
    let claims = |node_id| Peer::Proven { node_id, store: None };
    let answered = one.ask(&two, Some(2)).await.unwrap();
    assert_eq!(answered, (claims(2), format!("{:?}", claims(1))));
    let why = one.ask(&two, Some(3)).await.unwrap_err();
    assert!(why.contains("node-2.mintleaf"), "{why}");
    let stranger = calling(1, OperatorCa::new().node(1)).await;
    let why = stranger.ask(&two, None).await.unwrap_err();
    assert!(why.contains("--raft-ca"), "{why}");
}

#[tokio::test]
async fn an_expired_certificate_of_an_operator_is_refused_with_the_reason() {
    let ca = OperatorCa::new();
    let expired = Credentials::from_pem(1, &ca.files("node-1.mintleaf", [2000, 2010])).unwrap();
    assert_eq!(expired.expires_at_s(), Some(1_262_304_000));
    let two = listen(2, ca.node(2)).await;
    let one = calling(1, Arc::new(expired)).await;
    let why = one.ask(&two, Some(2)).await.unwrap_err();
    assert!(why.contains("CertificateExpired") && why.contains("--raft-cert"), "{why}");
    assert_eq!(two.calls.frames.load(Ordering::Relaxed), 0);
}

#[test]
fn a_certificate_that_is_not_for_both_ends_of_a_connection_proves_no_node() {
    let ca = OperatorCa::new();
    let (server, client) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    let provider = Arc::new(default_provider());
    let verifier = NodeVerifier::new(ca.node(2).roots(), &provider).unwrap();
    let now = UnixTime::now();
    let accepted = |purposes: &[ExtendedKeyUsagePurpose]| {
        let files = ca.files_for("node-1.mintleaf", [2000, 2100], purposes);
        let certificate = CertificateDer::from_pem_slice(&files.certificate).unwrap();
        let name = ServerName::try_from("node-1.mintleaf").unwrap();
        let as_server = verifier.verify_server_cert(&certificate, &[], &name, &[], now);
        let as_caller = verifier.verify_client_cert(&certificate, &[], now);
        [as_server.is_ok(), as_caller.is_ok()]
    };
    assert_eq!(accepted(&[server.clone(), client.clone()]), [true, true]);
    assert_eq!(accepted(&[server]), [true, false], "it called as a node");
    assert_eq!(accepted(&[client]), [false, true], "it answered as a node");
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let (ca, other) = (OperatorCa::new(), OperatorCa::new());
    let files = || ca.files("node-1.mintleaf", [2000, 2100]);
    let foreign = || other.files("node-1.mintleaf", [2000, 2100]);
    let refused = |node_id, files: PemBytes| {
        Credentials::from_pem(node_id, &files).expect_err("they do not fit").to_string()
    };
    let junk = b"junk".to_vec();
    for (what, files, node_id) in [
        ("--raft-cert is for node-1.mintleaf", files(), 2),
        ("--raft-cert has to be for", ca.files("example.org", [2000, 2100]), 1),
        ("--raft-cert has to be for", ca.files("*.mintleaf", [2000, 2100]), 1),
        ("--raft-cert has to be for", ca.files("node-01.mintleaf", [2000, 2100]), 1),
        ("--raft-key is not the key", PemBytes { key: foreign().key, ..files() }, 1),
        ("would not be accepted", PemBytes { ca: foreign().ca, ..files() }, 1),
        ("--raft-cert holds no certificate", PemBytes { certificate: junk.clone(), ..files() }, 1),
        ("--raft-key holds no private key", PemBytes { key: junk.clone(), ..files() }, 1),
        ("--raft-ca holds no certificate", PemBytes { ca: junk, ..files() }, 1),
    ] {
        let why = refused(node_id, files);
        assert!(why.contains(what), "{what}: {why}");
    }
}
