//! The data directory, and the files that hold secrets.

use std::fs::{self, Metadata};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use mintleaf_storage::DataDir;
use rustix::fs::statvfs;
use rustix::process::geteuid;

use super::super::new_file::existing;
use super::finding::{Finding, Findings};
use crate::config::{NodeConfig, PeerKeys, foreign_owner, others_can_use};
use crate::machine::clock::{Clock, SystemClock};

/// Free bytes of a disk: below the first a node soon cannot write; below the second an operator should look.
const FREE_BAD: u64 = 64 << 20;
const FREE_DOUBTFUL: u64 = 1 << 30;
/// A certificate that ends within this many days should be replaced.
const EXPIRY_DAYS: u64 = 30;
const DAY_S: u64 = 24 * 3600;

/// Whether the node can use its data directory, and no other user can enter it. `moved` allows a copy, as for a node.
pub(super) fn data(path: &Path, node_id: u64, moved: bool) -> Finding {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return space(path, format!("{shown} does not exist yet; a node creates it"));
        }
        Err(error) => {
            let hint = "run doctor as the user that runs the node";
            return Finding::bad(format!("{shown}: {error}"), hint);
        }
    };
    if let Some(bad) = misfit(path, &found) {
        return bad;
    }
    if let Err(error) = DataDir::examine(path, node_id, moved) {
        return Finding::bad(
            error.to_string(),
            "mintleaf help copied-directories and mintleaf help a-damaged-node say what to do",
        );
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let said = format!("other users can enter {shown} (mode {mode:o})");
        return Finding::doubtful(
            said,
            "a node changes that when it starts; chmod 700 does it now",
        );
    }
    space(path, format!("only its owner can enter {shown}"))
}

/// Why a directory cannot belong to a node that runs as this user, or perhaps cannot.
fn misfit(path: &Path, found: &Metadata) -> Option<Finding> {
    if !found.is_dir() {
        let hint = "--data names another";
        let shown = path.display();
        return Some(Finding::bad(format!("{shown} is not a directory"), hint));
    }
    if let Some(said) = foreign_owner(path) {
        let hint = "chown -R it to the user that runs the node, or run doctor as that user";
        return Some(Finding::bad(said, hint));
    }
    let owner = found.uid();
    (geteuid().is_root() && owner != 0).then(|| as_root(path, owner))
}

/// The finding about a directory that root can use, and its owner perhaps not.
fn as_root(path: &Path, owner: u32) -> Finding {
    let shown = path.display();
    let said = format!(
        "{shown} belongs to user {owner}, and this is root: whether that user can write there was not checked"
    );
    Finding::doubtful(
        said,
        "run doctor as the user that runs the node: runuser -u USER -- mintleaf doctor …",
    )
}

/// Whether there is space where the directory is, or will be.
fn space(path: &Path, said: String) -> Finding {
    let Ok(disk) = statvfs(existing(path)) else { return Finding::good(said) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let said = format!("{said}; {:.1} GB are free", free as f64 / 1e9);
    let hint = "a node that cannot write exits with 1: free some space, or use a larger disk";
    match free {
        ..FREE_BAD => Finding::bad(said, hint),
        FREE_BAD..FREE_DOUBTFUL => Finding::doubtful(said, hint),
        _ => Finding::good(said),
    }
}

/// Whether the files that nodes, clients and this node prove themselves with can be used, and are kept from others.
pub(super) fn keys(config: &NodeConfig, findings: &mut Findings) {
    let between_nodes = match &config.peer_keys {
        Some(keys) => Some(peer_keys(keys, config.node_id)),
        None => config.raft.map(open_door),
    };
    findings.extend(between_nodes.map(|found| ("keys between nodes", found)));
    if let Some(source) = &config.auth_file {
        let read = source.read().and_then(|text| source.parse(&text).map(drop));
        let found = match read {
            Ok(()) => Finding::good("it can be used, and only its owner can read it"),
            Err(error) => Finding::bad(error.to_string(), HINT),
        };
        findings.push(("auth file", found));
    }
    if let Some(files) = &config.client_tls {
        let read = files.read().and_then(|contents| files.credentials(&contents));
        let found = match read {
            Ok(credentials) => certificate(credentials.expires_at_s(), files.key()),
            Err(error) => Finding::bad(error.to_string(), HINT),
        };
        findings.push(("certificate for clients", found));
    }
}

const HINT: &str = "mintleaf secret, mintleaf token and mintleaf cert make these files";

/// The finding about an internal port that takes a caller for the member it claims to be.
fn open_door(raft: SocketAddr) -> Finding {
    let said =
        format!("there are none: every caller that reaches --raft {raft} can change the cluster");
    let hint = "give every node the same --cluster-secret-file; `mintleaf secret new` makes one";
    Finding::doubtful(said, hint)
}

fn peer_keys(keys: &PeerKeys, node_id: u64) -> Finding {
    let (PeerKeys::Secret(secret) | PeerKeys::Certificate { key: secret, .. }) = keys;
    match keys.read().and_then(|files| keys.credentials(node_id, &files)) {
        Err(error) => Finding::bad(error.to_string(), HINT),
        Ok(_) => kept(secret, "they can be used".to_owned()),
    }
}

fn certificate(expires_at_s: u64, key: &Path) -> Finding {
    let now_s = SystemClock::default().now_ms() / 1_000;
    let days = expires_at_s.saturating_sub(now_s) / DAY_S;
    let said = format!("it is valid for {days} more days");
    match days {
        _ if expires_at_s <= now_s => {
            Finding::bad("it has expired", "replace the file of --tls-cert; no restart is needed")
        }
        ..EXPIRY_DAYS => Finding::doubtful(said, "replace the file of --tls-cert in time"),
        _ => kept(key, said),
    }
}

/// The finding about a file that can be used: whether others can, too.
fn kept(path: &Path, said: String) -> Finding {
    match others_can_use(path) {
        false => Finding::good(format!("{said}, and no other user can read the key")),
        true => {
            let said = format!("other users can read {}", path.display());
            Finding::doubtful(said, "chmod 600 it: whoever can read it can impersonate this node")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_directory_that_others_can_enter_is_doubtful_and_a_file_in_its_place_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let data = |path: &Path| data(path, 1, false);
        let not_yet = data(&path);
        assert!(
            not_yet.health != Health::Bad || not_yet.to_text("data").contains("free"),
            "{not_yet:?}"
        );
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(data(&path).health, Health::Doubtful);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(data(&file).health, Health::Bad);
    }

    #[test]
    fn a_directory_of_another_node_or_a_copy_of_one_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("data"), dir.path().join("copy"));
        drop(DataDir::open_for(&path, 7, 2).unwrap());
        assert_ne!(data(&path, 2, false).health, Health::Bad);
        assert!(data(&path, 1, false).to_text("data").contains("belongs to node 2"));
        fs::create_dir(&copy).unwrap();
        fs::copy(path.join("identity"), copy.join("identity")).unwrap();
        assert_eq!(data(&copy, 2, false).health, Health::Bad);
        assert_ne!(data(&copy, 2, true).health, Health::Bad, "it was moved");
    }

    #[test]
    fn a_certificate_is_told_of_before_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::write(&key, "").unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let now_s = SystemClock::default().now_ms() / 1_000;
        let health = |days: u64| certificate(now_s + days * DAY_S + 60, &key).health;
        assert_eq!([health(31), health(29)], [Health::Good, Health::Doubtful]);
        assert_eq!(certificate(now_s, &key).health, Health::Bad);
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(health(31), Health::Doubtful, "others can read the key");
    }
}
