use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn ca() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, key()).unwrap()
}

fn files() -> PemContents {
    let key = key();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let made = params.signed_by(&key, &ca()).unwrap();
    PemContents {
        certificate: made.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        client_ca: None,
    }
}

#[test]
fn files_that_fit_are_taken() {
    let made = ClientTls::from_pem(&files()).unwrap();
    assert!(made.expires_at_s() > 4_000_000_000 / 2, "{}", made.expires_at_s());
    let with_clients = PemContents { client_ca: Some(ca().pem().into_bytes()), ..files() };
    let made = ClientTls::from_pem(&with_clients).unwrap();
    let config = made.of(crate::metrics::Protocol::Http);
    assert_eq!(config.send_tls13_tickets, 0, "clients with certificates resume nothing");
    assert!(!config.ticketer.enabled());
}

#[test]
fn files_that_do_not_are_refused_with_the_flag() {
    let (good, other) = (files(), files());
    let cut = good.certificate[..good.certificate.len() / 2].to_vec();
    for (broken, why) in [
        (PemContents { certificate: cut, ..good.clone() }, "--tls-cert"),
        (PemContents { certificate: vec![], ..good.clone() }, "--tls-cert holds no certificate"),
        (PemContents { key: vec![], ..good.clone() }, "--tls-key holds no private key"),
        (PemContents { key: other.key, ..good.clone() }, "--tls-key is not the key of --tls-cert"),
        (
            PemContents { client_ca: Some(vec![]), ..good.clone() },
            "--tls-client-ca holds no certificate",
        ),
    ] {
        let refused = ClientTls::from_pem(&broken).unwrap_err().to_string();
        assert!(refused.starts_with(why), "{why}: {refused}");
    }
}
