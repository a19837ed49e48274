//! TLS of the command line: which servers it trusts, what it shows, and errors that a person can act on.

mod named_certificates;

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use self::named_certificates::NamedCertificates;
use super::failure::Failure;

/// The certificates to trust for https, and the one to show.
#[derive(Args, Clone, Debug)]
pub(super) struct TlsArgs {
    /// PEM file with the CAs that sign the nodes' certificates, or with those certificates themselves, for https
    /// [default: the CAs of this machine]
    #[arg(long, env = "MINTLEAF_CACERT", value_name = "FILE", global = true)]
    cacert: Option<PathBuf>,
    /// PEM file with a certificate to show to nodes that ask for one; needs --key
    #[arg(long, env = "MINTLEAF_CERT", value_name = "FILE", global = true)]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, env = "MINTLEAF_KEY", value_name = "FILE", global = true)]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// The connector for requests over `http`, and over TLS if `wanted`; otherwise no file is read.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub(super) fn connector(
        &self,
        http: HttpConnector,
        wanted: bool,
    ) -> Result<HttpsConnector<HttpConnector>, Failure> {
        let provider = Arc::new(default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::new(format!("cannot speak TLS: {error}")))?;
        let config = match wanted {
            true => {
                let (cas, named) = self.believed()?;
                let verifier = NamedCertificates::new(cas, named, provider)
                    .map_err(|error| Failure::new(format!("cannot speak TLS: {error}")))?;
                config.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            false => config.with_root_certificates(RootCertStore::empty()),
        };
        let config = match self.identity().filter(|_| wanted) {
            Some(files) => {
                let (chain, key) = files?;
                let fits = config.with_client_auth_cert(chain, key);
                fits.map_err(|error| {
                    Failure::new(format!("--key is not the key of --cert: {error}"))
                })?
            }
            None => config.with_no_client_auth(),
        };
        Ok(HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http))
    }

    /// The CAs to believe, and the certificates that `--cacert` names.
    fn believed(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Failure> {
        let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
        match &self.cacert {
            Some(path) => {
                named = certificates("--cacert", path)?;
                for ca in &named {
                    let added = roots.add(ca.clone());
                    added.map_err(|error| unusable("--cacert", path, &error))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                // This TLS library cannot trust a CA that it cannot read, so that CA is left out.
                let (added, _) = roots.add_parsable_certificates(found.certs);
                if added == 0 {
                    let why = "this machine trusts no CA: give the CA of the nodes by --cacert";
                    return Err(Failure::new(why));
                }
            }
        }
        Ok((roots, named))
    }

    /// What to show to a node that asks, if anything.
    fn identity(
        &self,
    ) -> Option<Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure>> {
        match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(certificates("--cert", cert).and_then(|chain| {
                let read = PrivateKeyDer::from_pem_file(key);
                Ok((chain, read.map_err(|error| unusable("--key", key, &error))?))
            })),
            _ => Some(Err(Failure::new("--cert and --key need each other"))),
        }
    }
}

fn certificates(flag: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unusable(flag, path, &error))?;
    if found.is_empty() {
        return Err(unusable(flag, path, &"it holds no certificate"));
    }
    Ok(found)
}

fn unusable(flag: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{flag} {}: {why}", path.display()))
}

/// What is wrong with a connection, if TLS is the cause.
pub(super) fn explained(error: &(dyn StdError + 'static)) -> Option<String> {
    let error = tls_error(error)?;
    Some(match error {
        rustls::Error::InvalidCertificate(why) => of_certificate(why),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it asks clients for a certificate: give --cert and --key".to_owned()
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown,
        ) => "it does not accept the certificate of --cert".to_owned(),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS: ask it by http://".to_owned(),
        other => other.to_string(),
    })
}

/// What is wrong with the certificate of a node.
fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by no CA that is trusted here: --cacert names the file with the right one"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (expected, presented) = (expected.to_str(), presented.join(", "));
            format!("its certificate is for another name than {expected}: {presented}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired, or the clock here is wrong: {error}")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("its certificate is not valid yet, or the clock here is wrong: {error}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not a server certificate".to_owned()
        }
        CertificateError::BadEncoding => "its certificate cannot be read".to_owned(),
        _ => "its certificate uses a feature that is not supported here".to_owned(),
    }
}

/// The error of TLS behind an error, if there is one. An [`io::Error`] does not name what it holds as its source.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let within: Option<&'a (dyn StdError + 'static)> = match held {
        Some(held) => Some(held),
        None => error.source(),
    };
    within.and_then(tls_error)
}
