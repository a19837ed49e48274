//! A directory of backups: their names, and which of them are kept.
//!
//! The name says cluster and time: `mintleaf-CLUSTER-20261124T031500.123Z.backup`. Other files, and those of other
//! clusters, are never touched.

use std::fs;
use std::path::Path;

use mintleaf_core::backup::BackupHead;

use crate::cli::failure::{Failure, cannot};
use crate::text::timestamp::rfc3339;

const END: &str = ".backup";
/// A time in a name, where a 0 is any digit.
const TIME: &str = "00000000T000000.000Z";

/// The name of a backup.
pub(super) fn name(head: &BackupHead) -> String {
    format!("{}{}{END}", beginning(head), rfc3339(head.taken_at_ms).replace(['-', ':'], ""))
}

/// How the names of this cluster's backups begin.
fn beginning(head: &BackupHead) -> String {
    format!("mintleaf-{:032x}-", head.cluster_id)
}

/// Removes this cluster's backups except the latest `keep`, and never the one with this head, whatever the clocks
/// showed that named the others. Returns the names of what was removed.
///
/// # Errors
/// When the directory cannot be read, or a file cannot be removed. The new backup stays.
pub(super) fn remove_older(
    dir: &Path,
    head: &BackupHead,
    keep: usize,
) -> Result<Vec<String>, Failure> {
    let (new, beginning) = (name(head), beginning(head));
    let unread = |error| cannot("read", dir, &error);
    let mut older = Vec::new();
    for entry in fs::read_dir(dir).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Ok(name) = entry.file_name().into_string()
            && is_file
            && name != new
            && is_of(&beginning, &name)
        {
            older.push(name);
        }
    }
    // The time stands at the end, so the latest come first.
    older.sort_unstable_by(|one, other| other.cmp(one));
    let removed = older.split_off(older.len().min(keep.saturating_sub(1)));
    for name in &removed {
        let path = dir.join(name);
        fs::remove_file(&path).map_err(|error| cannot("remove", &path, &error))?;
    }
    Ok(removed)
}

/// Whether a file is a backup whose name begins so.
fn is_of(beginning: &str, name: &str) -> bool {
    let time = name.strip_prefix(beginning).and_then(|rest| rest.strip_suffix(END));
    time.is_some_and(|time| {
        let fits = |(byte, shape): (u8, u8)| match shape {
            b'0' => byte.is_ascii_digit(),
            shape => byte == shape,
        };
        time.len() == TIME.len() && time.bytes().zip(TIME.bytes()).all(fits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(cluster_id: u128, taken_at_ms: u64) -> BackupHead {
        BackupHead {
            cluster_id,
            node_id: 1,
            log_index: 7,
            level: 3,
            version_needed: String::new(),
            version: String::new(),
            taken_at_ms,
            tags: 0,
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_latest_are_kept_and_what_is_not_this_cluster_s_is_never_touched() {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<_> = (0..5).map(|at| name(&head(0xc1, 1_790_000_000_000 + at))).collect();
        assert_eq!(all[3], format!("mintleaf-{:032x}-20260921T141320.003Z.backup", 0xc1));
        let others = [
            name(&head(0xc2, 0)),
            all[0].replace(".backup", ".backup.gz"),
            all[0].replace("20260921", "yesterday"),
            all[0].replace("20260921T", "2026092110"),
            all[0].replace("mintleaf", "old-mintleaf"),
            "mintleaf-backup".to_owned(),
        ];
        for name in all.iter().chain(&others) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let linked = all[0].replace("141320", "141319");
        std::os::unix::fs::symlink(&all[0], dir.path().join(&linked)).unwrap();
        let removed = remove_older(dir.path(), &head(0xc1, 1_790_000_000_004), 2).unwrap();
        assert_eq!(removed, [&*all[2], &*all[1], &*all[0]]);
        let left = [&others[..], &[linked, all[3].clone(), all[4].clone()]].concat();
        let mut left = left;
        left.sort();
        assert_eq!(names(dir.path()), left);
    }

    #[test]
    fn the_new_backup_stays_even_if_a_clock_was_set_back_before_it_was_taken() {
        let dir = tempfile::tempdir().unwrap();
        let new = head(0xc1, 1_000);
        for head in [&new, &head(0xc1, 2_000), &head(0xc1, 3_000)] {
            fs::write(dir.path().join(name(head)), "").unwrap();
        }
        remove_older(dir.path(), &new, 2).unwrap();
        assert_eq!(names(dir.path()), [name(&new), name(&head(0xc1, 3_000))]);
        remove_older(dir.path(), &new, 1).unwrap();
        assert_eq!(names(dir.path()), [name(&new)]);
    }
}
