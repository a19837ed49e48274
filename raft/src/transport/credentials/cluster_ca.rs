//! The CA that members derive from their shared secret.
//!
//! HKDF (RFC 5869) derives the seed of an Ed25519 key from the secret, the same on every node, and that key is the
//! CA's. Nothing of the secret crosses the wire: a node signs itself a certificate with the CA's key, which proves
//! that it knows the secret. The name of the CA, a fingerprint of its public key, travels in clear in every hello, so
//! that the other end can choose its certificate. An attacker who records the network can test guesses of the secret
//! against it, so a secret has to be random: `mintleaf secret new` draws 32 bytes.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519,
};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{PrivatePkcs8KeyDer, TrustAnchor, UnixTime};
use rustls::sign::CertifiedKey;

use super::error::CredentialsError;
use super::key::{NodeKey, fingerprint_of};
use super::names::{node_name, store_name};

/// Minimum length of a secret in bytes: a shorter one could be found by trial.
pub const SECRET_BYTES_MIN: usize = 32;
/// Certificates are valid from 1975 to 4096, and judged as of this moment, independent of any clock.
pub(super) const JUDGED_AT: UnixTime =
    UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
/// The purpose of the derivation. Another use of the same secret would take another text.
const PURPOSE: &[u8] = b"mintleaf: seed of the Ed25519 key of the CA between nodes";
const SEED_BYTES: usize = 32;
/// An Ed25519 private key in PKCS #8 up to the seed (RFC 8410, 7).
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A CA whose key comes from a shared secret.
pub(super) struct ClusterCa {
    key: Issuer<'static, KeyPair>,
    pub(super) anchor: TrustAnchor<'static>,
    /// Of the public key.
    pub(super) fingerprint: String,
    name: rustls::DistinguishedName,
}

struct SeedLength;

impl KeyType for SeedLength {
    fn len(&self) -> usize {
        SEED_BYTES
    }
}

impl ClusterCa {
    pub(super) fn derive(secret: &[u8]) -> Result<Self, CredentialsError> {
        if secret.len() < SECRET_BYTES_MIN {
            let bytes = secret.len();
            let why = format!("a secret holds {bytes} bytes, and needs {SECRET_BYTES_MIN}");
            return Err(CredentialsError::Secret(why));
        }
        let key =
            KeyPair::try_from(&PrivatePkcs8KeyDer::from(private_key(secret))).map_err(failed)?;
        let mut params = CertificateParams::default();
        // The name distinguishes the CAs of two secrets.
        let fingerprint = fingerprint_of(key.public_key_raw());
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("mintleaf cluster {fingerprint}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(failed)?;
        let anchor =
            webpki::anchor_from_trusted_cert(certificate.der()).map_err(failed)?.to_owned();
        let name = rustls::DistinguishedName::in_sequence(anchor.subject.as_ref());
        Ok(Self { key: Issuer::new(params, key), anchor, fingerprint, name })
    }

    /// Signs a new key for a node and its store.
    pub(super) fn certify(&self, node_id: u64, store: u128) -> Result<NodeKey, CredentialsError> {
        let names = vec![node_name(node_id), store_name(store)];
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
        let certificate = params.signed_by(&key, &self.key).map_err(failed)?;
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let signing = any_eddsa_type(&private).map_err(failed)?;
        let certified = CertifiedKey::new(vec![certificate.der().clone()], signing);
        Ok(NodeKey { issuer: Some(self.name.clone()), key: Arc::new(certified) })
    }
}

/// The CA's private key, in PKCS #8.
fn private_key(secret: &[u8]) -> Vec<u8> {
    let mut seed = [0; SEED_BYTES];
    let extracted = Salt::new(HKDF_SHA256, &[]).extract(secret);
    let expanded = extracted.expand(&[PURPOSE], SeedLength).and_then(|okm| okm.fill(&mut seed));
    expanded.expect("HKDF-SHA256 gives up to 8,160 bytes");
    [&PKCS8_HEAD[..], &seed].concat()
}

fn failed(error: impl ToString) -> CredentialsError {
    CredentialsError::Certificate(error.to_string())
}
