//! How much of the log a start would replay.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum size of commands behind a small snapshot. A start replays them in a fifth of a second.
const BYTES_MAX: u64 = 8 << 20;
/// Behind a large one: this part of its size, so that no more than four bytes of snapshots are written for a byte of
/// the log.
const SNAPSHOT_PART: u64 = 4;

/// The bytes of the commands that were applied behind the newest snapshot.
///
/// openraft counts entries, and an entry holds one command or a thousand. So an hour of grabs may make no snapshot, and
/// an import makes one every second.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    bytes: AtomicU64,
    snapshot_bytes: AtomicU64,
}

impl Replay {
    /// Notes the commands of an entry that was applied.
    pub(super) fn applied<'a>(&self, commands: impl IntoIterator<Item = &'a Vec<u8>>) {
        let bytes: usize = commands.into_iter().map(Vec::len).sum();
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes that a snapshot will hold everything that was applied so far.
    pub(super) fn freeze(&self) {
        self.bytes.store(0, Relaxed);
    }

    /// Notes the size of the newest snapshot.
    pub(super) fn snapshot(&self, bytes: u64) {
        self.snapshot_bytes.store(bytes, Relaxed);
    }

    /// Whether a start would replay so much that a snapshot is due.
    pub(crate) fn is_long(&self) -> bool {
        let max = BYTES_MAX.max(self.snapshot_bytes.load(Relaxed) / SNAPSHOT_PART);
        self.bytes.load(Relaxed) >= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(replay: &Replay, bytes: u64) {
        replay.applied(&[vec![0; bytes as usize]]);
    }

    #[test]
    fn a_snapshot_is_due_by_bytes_and_later_behind_a_large_one() {
        let replay = Replay::default();
        apply(&replay, BYTES_MAX - 1);
        assert!(!replay.is_long());
        apply(&replay, 1);
        assert!(replay.is_long());
        replay.freeze();
        replay.snapshot(BYTES_MAX * 2 * SNAPSHOT_PART);
        apply(&replay, BYTES_MAX);
        assert!(!replay.is_long());
        apply(&replay, BYTES_MAX);
        assert!(replay.is_long());
    }
}
