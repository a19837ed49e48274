//! Opening a data directory: the tail, and both checkpoints brought to where it ends.
//!
//! At any moment one checkpoint is whole and touched by nobody: that of the segment which holds the
//! newest group. The other may be scrap, so it comes first; why in this order: `DESIGN.md`, "Opening".

use crate::checkpoint::{self, Checkpoint};
use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::files;
use crate::groups::Groups;
use crate::planted;
use crate::state::{Group, State};
use crate::tail::Tail;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of the checkpoints, by the segment that each belongs to.
const NAMES: [&str; 2] = ["log-a", "log-b"];
/// The only sled database of release 0.1.
const LEGACY: &str = "log";

/// A store that was opened.
pub(crate) struct Opened {
    pub(crate) tail: Tail,
    pub(crate) state: State,
    /// By segment.
    pub(crate) checkpoints: [Checkpoint; 2],
}

/// Opens the store, or makes it in a new directory.
pub(crate) fn open(data: &DataDir) -> Result<Opened, StorageError> {
    let dir = data.path();
    let is_new = !data.log_made();
    for checkpoint in 0..NAMES.len() {
        files::remove_dir(&checkpoint::unfinished(&path(dir, checkpoint)))?;
    }
    if is_new {
        clear(dir)?;
        Tail::create(dir)?;
    }
    let (mut tail, found) = Tail::open(dir)?;
    let groups = Groups::new(found)?;
    let whole = tail.current() ^ usize::from(planted("whole-checkpoint-opened-first"));
    let other = 1 - whole;
    let (first, mut state) = if is_new {
        let empty = State::default();
        (Checkpoint::make(&path(dir, other), &empty, std::iter::empty())?, empty)
    } else {
        adopt(dir, whole)?;
        open_other(dir, whole, &groups)?
    };
    // The other is whole now as well. With this group it becomes the one that nobody touches.
    let mut begun = Group { state: state.clone(), ..Group::default() };
    if planted("newest-group-again-without-values") {
        begun.state.meta.clear();
    } else {
        state.group += 1;
        begun.state.group = state.group;
    }
    tail.begin(&begun).context(|| "write the tail".into())?;
    let second = open_whole(&path(dir, whole), &groups, &first, &state)?;
    if is_new {
        data.note_log_made()?;
    }
    let checkpoints = if other == 0 { [first, second] } else { [second, first] };
    Ok(Opened { tail, state, checkpoints })
}

pub(crate) fn path(dir: &Path, checkpoint: usize) -> PathBuf {
    dir.join(NAMES[checkpoint])
}

/// Removes what an earlier try to make a store left behind.
fn clear(dir: &Path) -> Result<(), StorageError> {
    [LEGACY, NAMES[0], NAMES[1]].iter().try_for_each(|name| files::remove_dir(&dir.join(name)))
}

/// Gives the database of release 0.1 the place of the checkpoint that is to be whole.
fn adopt(dir: &Path, whole: usize) -> Result<(), StorageError> {
    let (legacy, path) = (dir.join(LEGACY), path(dir, whole));
    if !legacy.exists() || NAMES.iter().any(|name| dir.join(name).exists()) {
        return Ok(());
    }
    let renamed = fs::rename(&legacy, &path);
    renamed.context(|| format!("rename {} to {}", legacy.display(), path.display()))?;
    files::sync_dir(dir)
}

/// Opens the checkpoint that may be scrap, and brings it to the newest group. Where it is of no use, a
/// copy of the whole one takes its place, which is made without opening that.
fn open_other(
    dir: &Path,
    whole: usize,
    groups: &Groups,
) -> Result<(Checkpoint, State), StorageError> {
    let (other, whole) = (path(dir, 1 - whole), path(dir, whole));
    let has_whole = whole.exists();
    if other.exists() {
        match Checkpoint::open(&other, groups) {
            Err(error) if error.is_damage() && has_whole => warn(&other, &error),
            opened => return opened,
        }
    }
    if !has_whole {
        return Err(StorageError::damaged("the log is missing"));
    }
    checkpoint::copy(&whole, &other)?;
    Checkpoint::open(&other, groups)
}

/// Opens the checkpoint that was whole when the other was not known to be. Where it turns out to be of
/// no use, it is made anew from the other, which has state `state`.
fn open_whole(
    dir: &Path,
    groups: &Groups,
    other: &Checkpoint,
    state: &State,
) -> Result<Checkpoint, StorageError> {
    if dir.exists() {
        match Checkpoint::open(dir, groups) {
            Ok((opened, _)) => return Ok(opened),
            Err(error) if error.is_damage() => warn(dir, &error),
            Err(error) => return Err(error),
        }
    }
    Checkpoint::make(dir, state, other.records(state))
}

fn warn(dir: &Path, error: &StorageError) {
    let StorageError::Damaged { what } = error else { return };
    tracing::warn!(
        dir = %dir.display(),
        "a checkpoint of the log is of no use and is made anew from the other one; nothing is lost. \
         After a power cut that is as it should be, at other times look after the disk: {what}"
    );
}
