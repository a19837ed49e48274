//! Access to a data directory: only its owner may enter.

use std::path::Path;

/// Revokes the right to enter from all users except the owner. The names, descriptions and addresses inside, and the
/// log itself, are private. A directory that cannot be changed is used all the same, and the log warns about it.
#[cfg(unix)]
pub(crate) fn keep_others_out(dir: &Path) {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let Ok(found) = fs::metadata(dir) else { return };
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return;
    }
    let dir_shown = dir.display();
    match fs::set_permissions(dir, Permissions::from_mode(mode & !0o077)) {
        Ok(()) => tracing::info!(
            dir = %dir_shown,
            before = format_args!("{mode:o}"),
            "others could enter the data directory; its owner alone can now"
        ),
        Err(error) => tracing::warn!(
            dir = %dir_shown,
            mode = format_args!("{mode:o}"),
            %error,
            "others can enter the data directory, and that cannot be changed; chmod 700 it"
        ),
    }
}

#[cfg(not(unix))]
pub(crate) fn keep_others_out(_: &Path) {}
