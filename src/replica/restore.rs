//! A new cluster, made from a copy of another one: from a backup, or from one data directory that survived.
//!
//! Nothing is read that must not be: a copy is checked to its end before any of it is used, and its source is never
//! written to. Nothing is left over that must not be: the directory of the new cluster is either whole or not there,
//! its state is raised before it is written, and it has neither the log nor the store nor the cluster id of the old
//! one. So no node of the old cluster and the new one ever listen to each other, and nothing that the old one appended
//! is ever applied on top of a mark that rose. (Lines 1 and 3 of `lib.rs` rest on that.)

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mintleaf_core::backup::{BackupError, BackupHead, read_backup, read_head};
use mintleaf_core::state::{Raise, RaiseError, Restoration, State};
use mintleaf_raft::{Beginning, NewCluster, OfflineError, StoppedNode, read_stopped};
use thiserror::Error;

use crate::replica::{NoListener, StateReplica, snapshot_of};

/// A copy of a cluster's state, read as a whole.
#[derive(Debug)]
pub struct Copy {
    /// Where it comes from.
    pub origin: CopySource,
    /// The state.
    pub state: State,
}

/// Where a copy comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CopySource {
    /// The cluster; `None` for a directory whose node has taken part in none.
    pub cluster_id: Option<u128>,
    /// The node that took the backup, or that the directory belongs to.
    pub node_id: Option<u64>,
    /// The term of the last log entry that a directory holds; `None` for a backup, which does not say.
    pub log_term: Option<u64>,
    /// The leader that wrote that entry.
    pub log_leader: Option<u64>,
    /// The last log entry that the copy holds; for a backup, one that it holds at least.
    pub log_index: Option<u64>,
    /// The level of the cluster.
    pub level: u32,
    /// The version that took the backup; for a directory, the first that supports its level.
    pub version: String,
    /// When the backup was taken; for a directory, the time of the last command in it. In Unix milliseconds.
    pub taken_at_ms: u64,
    /// How many tags there are.
    pub tags: u64,
}

/// What an inspection finds.
#[derive(Debug)]
pub struct Inspection {
    /// Where the copy comes from, as far as that can be read.
    pub origin: Option<CopySource>,
    /// Whether the copy has the root key that hidden ids are made of; `None` for a damaged copy.
    pub root_key: Option<bool>,
    /// What is wrong with it; `None` when it is whole.
    pub damage: Option<SourceError>,
}

/// Why a source cannot be used.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The source cannot be opened.
    #[error("cannot open {}: {source}", .path.display())]
    Unopened {
        /// The source.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The source is a file, and not a backup that can be used.
    #[error("{}: {error}", .path.display())]
    Backup {
        /// The source.
        path: PathBuf,
        /// Why not.
        error: BackupError,
    },
    /// The source is a directory that cannot be used.
    #[error(transparent)]
    Directory(OfflineError),
    /// The source holds the directories of several nodes.
    #[error("{0} holds the data directories of several nodes: name one, such as {0}/node-1")]
    SeveralNodes(String),
}

impl SourceError {
    /// Whether the source is a copy that is damaged, and not something else.
    fn is_damage(&self) -> bool {
        let is_damage = |error: &BackupError| {
            matches!(error, BackupError::NotWhole(_) | BackupError::Content(_))
        };
        match self {
            Self::Backup { error, .. } => is_damage(error),
            Self::Directory(error) => matches!(error, OfflineError::Damaged { .. }),
            Self::Unopened { .. } | Self::SeveralNodes(_) => false,
        }
    }
}

/// What to make from a copy.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How far the state rises.
    pub raise: Raise,
    /// The new cluster's one node, 1 or more.
    pub node_id: u64,
    /// A random number, which becomes the store's identity.
    pub store: u128,
    /// A random number, which becomes the cluster's identity.
    pub cluster_id: u128,
    /// The time, in Unix milliseconds, for the audit.
    pub now_ms: u64,
}

/// Why a copy was not restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The state cannot be raised so.
    #[error(transparent)]
    Raise(#[from] RaiseError),
    /// The directory cannot be made.
    #[error(transparent)]
    Directory(#[from] OfflineError),
}

/// Reads a backup, or the data directory of a node that has stopped. While it reads a directory, it keeps a copy of the
/// log in `scratch`, which must not exist. `progress` is called with the bytes of a backup, or the entries of a log.
///
/// # Errors
/// [`SourceError`], also when anything in the source is damaged.
pub fn read_copy(
    source: &Path,
    scratch: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Copy, SourceError> {
    if is_directory(source)? {
        read_directory(source, scratch, progress)
    } else {
        let in_file = |error| SourceError::Backup { path: source.to_path_buf(), error };
        let (head, state) = read_backup(open(source)?, progress).map_err(in_file)?;
        Ok(Copy { origin: head.into(), state })
    }
}

/// Reports where a copy comes from, and whether it is whole. Parameters as for [`read_copy`].
///
/// # Errors
/// [`SourceError`] when the source is not a copy that this build can check.
pub fn inspect(
    source: &Path,
    scratch: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Inspection, SourceError> {
    match read_copy(source, scratch, progress) {
        Ok(Copy { origin, state }) => {
            let root_key = Some(state.has_root());
            Ok(Inspection { origin: Some(origin), root_key, damage: None })
        }
        Err(damage) if damage.is_damage() => {
            let origin = match &damage {
                SourceError::Backup { .. } => {
                    read_head(&mut open(source)?).ok().map(CopySource::from)
                }
                _ => None,
            };
            Ok(Inspection { origin, root_key: None, damage: Some(damage) })
        }
        Err(error) => Err(error),
    }
}

/// Makes a new cluster from a copy, in a prepared directory. The directory is whole when this returns, and the audit in
/// it says what was made from what.
///
/// # Errors
/// [`RestoreError`]; nothing is left in the directory then.
pub fn restore(new: NewCluster, copy: Copy, plan: &Plan) -> Result<(), RestoreError> {
    let Copy { origin, state } = copy;
    let &Plan { ref raise, node_id, store, cluster_id, now_ms } = plan;
    let CopySource { cluster_id: from_cluster, log_index, .. } = origin;
    let restoration =
        Restoration { time_ms: now_ms, from_cluster, log_index, to_cluster: cluster_id };
    let restored = state.restored(raise, &restoration)?;
    // A comparison of the two clusters shows that the new one begins behind the copy.
    let log_index = log_index.unwrap_or(0).saturating_add(1);
    let beginning = Beginning { node_id, store, cluster_id, log_index };
    Ok(new.begin(&beginning, snapshot_of(restored.freeze()))?)
}

fn read_directory(
    source: &Path,
    scratch: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Copy, SourceError> {
    if !source.join("identity").exists() && source.join("node-1").is_dir() {
        return Err(SourceError::SeveralNodes(source.display().to_string()));
    }
    let replica = StateReplica::new(draws_none, Arc::new(NoListener));
    let mut applied = 0;
    let read = read_stopped(source, scratch, &replica, |_| {
        applied += 1;
        progress(applied);
    });
    let StoppedNode { node_id, cluster_id, log_term, log_leader, log_index } =
        read.map_err(SourceError::Directory)?;
    let state = replica.into_state();
    let origin = CopySource {
        cluster_id,
        node_id,
        log_term,
        log_leader,
        log_index,
        level: state.level(),
        version: state.version_needed().to_owned(),
        taken_at_ms: state.clock_ms(),
        tags: state.len() as u64,
    };
    Ok(Copy { origin, state })
}

/// A copy leads no cluster whose level it could raise.
fn draws_none() -> io::Result<[u8; 32]> {
    Err(io::Error::other("a copy draws no keys"))
}

impl From<BackupHead> for CopySource {
    fn from(head: BackupHead) -> Self {
        Self {
            cluster_id: Some(head.cluster_id),
            node_id: Some(head.node_id),
            log_term: None,
            log_leader: None,
            log_index: Some(head.log_index),
            level: head.level,
            version: head.version,
            taken_at_ms: head.taken_at_ms,
            tags: head.tags,
        }
    }
}

fn is_directory(path: &Path) -> Result<bool, SourceError> {
    let looked_at = fs::metadata(path).map_err(unopened(path))?;
    Ok(looked_at.is_dir())
}

fn open(path: &Path) -> Result<File, SourceError> {
    File::open(path).map_err(unopened(path))
}

fn unopened(path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    let path = path.to_path_buf();
    move |source| SourceError::Unopened { path, source }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::TempDir;

    use super::*;
    use mintleaf_core::backup::write_backup;
    use mintleaf_core::encoding::write_snapshot;
    use mintleaf_core::state::Command;
    use mintleaf_core::tag::BizTag;
    use mintleaf_core::version::VERSION;

    const OLD_CLUSTER: u128 = 0x01d;
    const NEW_CLUSTER: u128 = 0x2e3;

    fn two_tags_and_a_tombstone() -> State {
        let mut state = State::default();
        let tag = |name| BizTag::parse(name).unwrap();
        for name in ["a", "b", "c"] {
            let description = String::new();
            let create = Command::CreateTag { tag: tag(name), step: 10, start: 1, description };
            state.apply(1_000, &create);
            state.apply(1_000, &Command::Grab { tag: tag(name), size: 0 });
        }
        state.apply(4_000, &Command::DeleteTag { tag: tag("b") });
        state
    }

    fn written(state: &State) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_snapshot(&state.freeze(), &mut bytes).unwrap();
        bytes
    }

    fn backup(dir: &TempDir) -> PathBuf {
        let state = two_tags_and_a_tombstone();
        let head = BackupHead {
            cluster_id: OLD_CLUSTER,
            node_id: 2,
            log_index: 700,
            level: 1,
            version_needed: "0.2.0".to_owned(),
            version: VERSION.to_owned(),
            taken_at_ms: 5_000,
            tags: state.len() as u64,
        };
        let path = dir.path().join("backup");
        let mut file = File::create(&path).unwrap();
        write_backup(&head, &state.freeze(), &mut file).unwrap();
        file.flush().unwrap();
        path
    }

    fn read(dir: &TempDir, source: &Path) -> Copy {
        read_copy(source, &dir.path().join("scratch"), &mut |_| {}).unwrap()
    }

    fn plan(tag: Option<&str>) -> Plan {
        let tags = tag.map(|tag| (BizTag::parse(tag).unwrap(), 500));
        let raise = Raise {
            all: 100,
            tags: tags.into_iter().collect(),
            floor_ms: 9_000,
            ..Raise::default()
        };
        Plan { raise, node_id: 4, store: 0x5e, cluster_id: NEW_CLUSTER, now_ms: 6_000 }
    }

    #[test]
    fn a_restored_directory_is_another_cluster_with_a_raised_state_and_no_log() {
        let dir = TempDir::new().unwrap();
        let (source, data) = (backup(&dir), dir.path().join("data"));
        let copy = read(&dir, &source);
        let restoration = Restoration {
            time_ms: 6_000,
            from_cluster: Some(OLD_CLUSTER),
            log_index: Some(700),
            to_cluster: NEW_CLUSTER,
        };
        let restored = copy.state.clone().restored(&plan(None).raise, &restoration).unwrap();
        restore(NewCluster::prepare(&data).unwrap(), copy, &plan(None)).unwrap();
        let made = read(&dir, &data);
        let CopySource { cluster_id, node_id, log_index, tags, .. } = made.origin;
        assert_eq!((cluster_id, node_id), (Some(NEW_CLUSTER), Some(4)));
        assert_eq!((log_index, tags), (Some(701), 2));
        assert_eq!(written(&made.state), written(&restored));
        assert_eq!((made.state.advance(), made.state.snowflake_floor_ms()), (100, 9_000));
    }

    #[test]
    fn a_restore_that_fails_leaves_nothing_behind() {
        let dir = TempDir::new().unwrap();
        let (source, data) = (backup(&dir), dir.path().join("data"));
        let new = NewCluster::prepare(&data).unwrap();
        let refused = restore(new, read(&dir, &source), &plan(Some("unknown"))).unwrap_err();
        assert!(refused.to_string().contains("`unknown`"), "{refused}");
        assert!(!data.exists());
    }

    #[test]
    fn a_damaged_backup_is_shown_for_what_it_says_and_not_for_whole() {
        let dir = TempDir::new().unwrap();
        let path = backup(&dir);
        let whole = fs::read(&path).unwrap();
        let scratch = dir.path().join("scratch");
        for (at, is_known) in [(12, false), (whole.len() - 50, true)] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            let found = inspect(&path, &scratch, &mut |_| {}).unwrap();
            assert!(found.damage.is_some());
            assert_eq!(found.origin.is_some_and(|origin| origin.tags == 2), is_known, "byte {at}");
        }
    }
}
