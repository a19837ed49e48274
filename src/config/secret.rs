//! The secret that the members of a cluster share.

use std::path::Path;

use super::error::{ConfigError, fault};

/// Shortest secret: a shorter one can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// Longest secret: it is sent first on every connection, before anything else is believed.
const SECRET_BYTES_MAX: usize = 1024;

/// The secret in `path`, without the line break at its end.
///
/// # Errors
/// When the file cannot be read, or does not hold 16 to 1024 bytes.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let unreadable =
        |error| fault("cluster-secret-file", format_args!("{}: {error}", path.display()));
    let mut secret = std::fs::read(path).map_err(unreadable)?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
        if secret.last() == Some(&b'\r') {
            secret.pop();
        }
    }
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        let why = format_args!(
            "{}: holds {} bytes and must hold {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}; \
             try: openssl rand -hex 32",
            path.display(),
            secret.len()
        );
        return Err(fault("cluster-secret-file", why));
    }
    warn_if_exposed(path);
    Ok(secret)
}

#[cfg(unix)]
fn warn_if_exposed(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "others can read the cluster secret; chmod 600 it");
    }
}

#[cfg(not(unix))]
fn warn_if_exposed(_: &Path) {}
