//! The files that a node proves itself with to other nodes: the cluster's secret, or a certificate.

use std::path::{Path, PathBuf};

use mintleaf_raft::{Credentials, PemBytes};

use super::args::ServeArgs;
use super::error::{ConfigError, fault};
use super::named_file::{self, Kept, PEM_BYTES_MAX};

/// Longest secret, far longer than any needs to be.
const SECRET_BYTES_MAX: usize = 1024;

/// Where the keys of a node are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerKeys {
    /// The secret that members share is in this file.
    Secret(PathBuf),
    /// A CA of the operator signs the nodes' certificates.
    Certificate {
        /// This node's certificate and those between it and the CA.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
        /// The CAs that sign the certificates of nodes.
        ca: PathBuf,
    },
}

/// What the files held when they were read. It has no debug form, because that would show secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyFiles(Vec<Vec<u8>>);

impl PeerKeys {
    /// The keys that the settings name, if any.
    pub(super) fn of(args: &ServeArgs) -> Result<Option<Self>, ConfigError> {
        let secret = args.cluster_secret_file.clone().map(Self::Secret);
        let flags = [&args.raft_cert, &args.raft_key, &args.raft_ca];
        let certificate = match flags.map(Clone::clone) {
            [Some(certificate), Some(key), Some(ca)] => {
                Some(Self::Certificate { certificate, key, ca })
            }
            [None, None, None] => None,
            _ => {
                return Err(fault(
                    "raft-cert",
                    "needs --raft-key and --raft-ca, and they need --raft-cert",
                ));
            }
        };
        if secret.is_some() && certificate.is_some() {
            let why = "and --raft-cert exclude each other: nodes prove themselves by one of them";
            return Err(fault("cluster-secret-file", why));
        }
        Ok(secret.or(certificate))
    }

    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, or is too long.
    pub fn read(&self) -> Result<KeyFiles, ConfigError> {
        let files = match self {
            Self::Secret(path) => vec![("cluster-secret-file", path, Kept::Owned)],
            Self::Certificate { certificate, key, ca } => vec![
                ("raft-cert", certificate, Kept::Public),
                ("raft-key", key, Kept::Owned),
                ("raft-ca", ca, Kept::Public),
            ],
        };
        let read = files
            .into_iter()
            .map(|(flag, path, kept)| named_file::read(flag, path, PEM_BYTES_MAX, kept));
        read.collect::<Result<_, _>>().map(KeyFiles)
    }

    /// The credentials that the files hold.
    ///
    /// # Errors
    /// When they hold none that can be used.
    pub fn credentials(&self, node_id: u64, files: &KeyFiles) -> Result<Credentials, ConfigError> {
        match (self, &files.0[..]) {
            (Self::Secret(path), [text]) => Credentials::from_secrets(&secrets(path, text)?)
                .map_err(|error| fault("cluster-secret-file", about(path, error))),
            (Self::Certificate { .. }, [certificate, key, ca]) => {
                let [certificate, key, ca] = [certificate, key, ca].map(Clone::clone);
                Credentials::from_pem(node_id, &PemBytes { certificate, key, ca })
                    .map_err(ConfigError::of)
            }
            _ => unreachable!("`read` gives the files of these keys"),
        }
    }

    /// Warns of keys that other users of this machine can read.
    pub fn warn_if_exposed(&self) {
        let (Self::Secret(path) | Self::Certificate { key: path, .. }) = self;
        named_file::warn_if_exposed(path);
    }
}

/// The secrets in a file, one a line: the present one, and the one before it if there is a second line.
fn secrets<'a>(path: &Path, text: &'a [u8]) -> Result<Vec<&'a [u8]>, ConfigError> {
    let without_end = |line: &'a [u8]| line.strip_suffix(b"\r").unwrap_or(line);
    let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(without_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    if lines.iter().any(|line| line.len() > SECRET_BYTES_MAX) {
        let why = about(path, format_args!("a line is longer than {SECRET_BYTES_MAX} bytes"));
        return Err(fault("cluster-secret-file", why));
    }
    Ok(lines)
}

fn about(path: &Path, what: impl std::fmt::Display) -> String {
    format!(
        "{}: {what}; it holds one secret a line, and `mintleaf secret new` prints one",
        path.display()
    )
}
