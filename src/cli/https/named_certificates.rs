//! Servers whose own certificate is in the file of `--cacert`.
//!
//! rustls takes what a file holds for CAs, and looks for the CA that has signed what a server shows. A server that shows
//! the very certificate that the user has named needs none: it proves that it has the key of it. So that certificate is
//! trusted as curl and Go trust it, under one of its names and within its dates, whether it signs itself, as
//! `openssl req -x509` makes it, or a CA that is not in the file has signed it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Trusts servers with a certificate that a CA of the user has signed, or that the user has named.
#[derive(Debug)]
pub(super) struct NamedCertificates {
    by_cas: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl NamedCertificates {
    /// # Errors
    /// When there is no CA among them that can be used.
    pub(super) fn new(
        cas: RootCertStore,
        named: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let by_cas =
            WebPkiServerVerifier::builder_with_provider(Arc::new(cas), provider).build()?;
        Ok(Self { by_cas, named })
    }
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_named = self.named.contains(shown);
        // No other certificate bears on the verdict about a named one.
        let between = if is_named { &[] } else { between };
        match self.by_cas.verify_server_cert(shown, between, name, ocsp, now) {
            // webpki reports these only of a certificate whose dates fit.
            Err(Error::InvalidCertificate(why)) if is_of_a_ca(&why) || lacks_a_ca(&why) => {
                if !is_named {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_cas.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_cas.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_cas.supported_verify_schemes()
    }
}

/// Whether a server's certificate is refused because it is that of a CA.
fn is_of_a_ca(why: &CertificateError) -> bool {
    let CertificateError::Other(why) = why else { return false };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Whether a server's certificate is refused because no CA that is trusted has signed it.
fn lacks_a_ca(why: &CertificateError) -> bool {
    matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::crypto::ring::default_provider;

    use super::*;

    /// A certificate that signs itself, valid in the years 2020 to 2029.
    fn signs_itself(key: &KeyPair) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        params.self_signed(key).unwrap().der().clone()
    }

    #[test]
    fn a_named_certificate_is_believed_itself_under_its_names_and_within_its_dates() {
        let key = KeyPair::generate().unwrap();
        // The serial numbers differ.
        let [named, other] = [signs_itself(&key), signs_itself(&key)];
        let mut cas = RootCertStore::empty();
        cas.add(named.clone()).unwrap();
        let provider = Arc::new(default_provider());
        let verifier = NamedCertificates::new(cas, vec![named.clone()], provider).unwrap();
        let verdict = |shown: &CertificateDer<'_>, name: &'static str, year: u64| {
            let name = ServerName::try_from(name).unwrap();
            let days = (year - 1970) * 365 + 100;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(days * 24 * 3600));
            match verifier.verify_server_cert(shown, &[], &name, &[], now) {
                Ok(_) => "believed".to_owned(),
                Err(Error::InvalidCertificate(why)) => format!("{why:?}"),
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(verdict(&named, "a.example", 2025), "believed");
        assert_eq!(verdict(&other, "a.example", 2025), "UnknownIssuer");
        assert!(verdict(&named, "b.example", 2025).contains("NotValidForName"));
        assert!(verdict(&named, "a.example", 2031).contains("Expired"));
        assert!(verdict(&named, "a.example", 2018).contains("NotValidYet"));
    }
}
