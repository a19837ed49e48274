//! Files with keys and certificates, read whole and within a bound.

use std::fs::Metadata;
use std::path::Path;

use super::error::{ConfigError, fault};

/// Longest file of these: a chain of certificates and a bundle of CAs fit many times.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the file that a flag names.
///
/// # Errors
/// When it cannot be read, or is too long.
pub(super) fn read(flag: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    let unreadable = |error| fault(flag, format_args!("{}: {error}", path.display()));
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        return Err(fault(flag, format_args!("{}: is longer than 1 MiB", path.display())));
    }
    std::fs::read(path).map_err(unreadable)
}

/// Warns of a file that other users of this machine can read.
pub(super) fn warn_if_exposed(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|meta| is_exposed(&meta)) {
        tracing::warn!(path = %path.display(), "other users can read this file; chmod 600 it");
    }
}

/// Whether other users of this machine can read or write a file.
#[cfg(unix)]
pub(super) fn is_exposed(meta: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
pub(super) fn is_exposed(_: &Metadata) -> bool {
    false
}
