//! Handshake errors, in words that help an operator.

use std::io::{self, ErrorKind};

use rustls::{AlertDescription, CertificateError, Error};

/// An error of a connection, together with the remedy. Errors outside of TLS stay as they are.
pub(super) fn explained(error: io::Error, remedy: &str) -> io::Error {
    match tls_error(&error).map(|cause| explanation(cause, remedy)) {
        Some(text) => io::Error::new(ErrorKind::PermissionDenied, text),
        None => error,
    }
}

/// The text for a refusal of this node's certificate by the other end. The refusal arrives after this node has sent
/// its first frame, which the other end has not looked at.
pub(super) fn refusal_of_proof(error: &io::Error, remedy: &str) -> Option<String> {
    let cause = tls_error(error)?;
    let is_refusal = matches!(cause, Error::AlertReceived(alert) if is_certificate_alert(*alert));
    is_refusal.then(|| explanation(cause, remedy))
}

fn explanation(cause: &Error, remedy: &str) -> String {
    match cause {
        Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented, ..
        }) => {
            let who = presented.first().map_or("another node", |name| name);
            format!("{who} listens there; check --peers and --raft")
        }
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            "its certificate is not for a node of Mintleaf".to_owned()
        }
        Error::InvalidCertificate(
            error @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }),
        ) => {
            format!("its certificate has expired, or a clock is wrong: {error}")
        }
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => format!("it has not proved itself: {remedy}"),
        Error::AlertReceived(alert) if is_certificate_alert(*alert) => {
            format!("it does not accept this node's certificate ({cause}): {remedy}")
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | Error::NoApplicationProtocol => {
            "it speaks another protocol: upgrade the older node".to_owned()
        }
        Error::InvalidMessage(_) => {
            format!("no node that speaks TLS listens there; {remedy}")
        }
        other => other.to_string(),
    }
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn is_certificate_alert(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::CertificateRequired
            | A::DecryptError
    )
}
