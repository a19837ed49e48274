//! A disk with faults, shared by the mount that serves it and the test that breaks it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fuser::Errno;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::cut::{Cut, Flipped};
use crate::disk::{Disk, Ino};
use crate::faults::{Faults, Operation, Rule};

/// A disk and its faults. All methods take effect at once.
#[derive(Debug)]
pub struct Device {
    state: Mutex<State>,
    /// Wakes the syncs that wait.
    healed: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Disk,
    faults: Faults,
    stats: Stats,
}

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Writes that succeeded.
    pub writes: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Calls that failed because of a fault.
    pub failed: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Changes that were unsynced at power cuts, in all cuts together.
    pub caught: u64,
    /// Bits flipped.
    pub flips: u64,
    /// Changes that wait for a sync now, and their bytes.
    pub unsynced: (usize, usize),
}

impl Device {
    /// A device around a disk, without faults.
    pub fn new(disk: Disk) -> Self {
        let state = State { disk, faults: Faults::default(), stats: Stats::default() };
        Self { state: Mutex::new(state), healed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Cuts the power and turns it on again. Processes with open files should be dead by then. Returns how many
    /// unsynced changes there were.
    pub fn cut(&self, cut: Cut, seed: u64) -> usize {
        let mut state = self.lock();
        let caught = state.disk.cut(cut, seed);
        state.stats.cuts += 1;
        state.stats.caught += caught as u64;
        caught
    }

    /// Flips one bit at rest in a matching file, or in any file; `None` when there is none.
    pub fn flip(&self, pattern: Option<&str>, seed: u64) -> Option<Flipped> {
        let mut state = self.lock();
        let flipped = state.disk.flip(pattern, seed)?;
        state.stats.flips += 1;
        Some(flipped)
    }

    /// Makes calls fail from now on.
    pub fn fail(&self, rule: Rule) {
        self.lock().faults.add(rule);
    }

    /// Makes every sync take at least this long.
    pub fn slow_fsync(&self, delay: Duration) {
        self.lock().faults.slow_fsync = delay;
    }

    /// Ends all failures and delays, including those under way. Lost and flipped data stays so.
    pub fn heal(&self) {
        self.lock().faults.heal();
        self.healed.notify_all();
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        let state = self.lock();
        Stats { failed: state.faults.failed, unsynced: state.disk.unsynced(), ..state.stats }
    }

    /// How many bytes its files may still grow by.
    pub fn bytes_free(&self) -> u64 {
        let disk = &self.lock().disk;
        disk.bytes_max().saturating_sub(disk.bytes_used())
    }

    /// Writes all files, as programs read them now, into an empty directory.
    pub fn save(&self, to: &Path) -> io::Result<()> {
        self.lock().disk.save(to)
    }

    pub(crate) fn sync(&self, ino: Ino, data_only: bool) -> Result<(), Errno> {
        let mut state = self.lock();
        let began = Instant::now();
        while began.elapsed() < state.faults.slow_fsync {
            let until = began + state.faults.slow_fsync;
            self.healed.wait_until(&mut state, until);
        }
        if let Err(errno) = state.check(Operation::Fsync, ino) {
            state.disk.forget_unsynced(ino);
            return Err(errno);
        }
        state.disk.sync(ino, data_only)?;
        state.stats.syncs += 1;
        Ok(())
    }

    pub(crate) fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut state = self.lock();
        state.check(Operation::Write, ino)?;
        state.disk.write(ino, offset, bytes)?;
        state.stats.writes += 1;
        Ok(())
    }
}

impl State {
    /// Fails if a rule matches this call on this file or directory.
    pub(crate) fn check(&mut self, operation: Operation, ino: Ino) -> Result<(), Errno> {
        let disk = &self.disk;
        self.faults.check(operation, || disk.path(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{ROOT, Strictness};
    use crate::faults::Failure;

    fn device_with_file() -> (Device, Ino) {
        let mut disk = Disk::new(Strictness::Strict, 1 << 20);
        let ino = disk.create(ROOT, "file", false, 0o644).unwrap();
        disk.sync(ROOT, false).unwrap();
        (Device::new(disk), ino)
    }

    fn fsync_eio(nth: Option<u64>) -> Rule {
        Rule { operation: Operation::Fsync, failure: Failure::Eio, nth, pattern: None }
    }

    #[test]
    fn sync_after_a_failed_one_succeeds_and_saves_nothing() {
        let (device, ino) = device_with_file();
        device.fail(fsync_eio(Some(1)));
        device.write(ino, 0, b"lost").unwrap();
        assert!(device.sync(ino, true).is_err());
        device.sync(ino, true).unwrap();
        assert_eq!(device.lock().disk.read(ino, 0, 9).unwrap(), b"lost");
        device.cut(Cut::Lose, 0);
        assert_eq!(device.lock().disk.read(ino, 0, 9).unwrap(), b"");
    }

    #[test]
    fn nth_call_fails_alone_and_healing_ends_the_rest() {
        let (device, ino) = device_with_file();
        device.fail(fsync_eio(Some(3)));
        let outcomes = [(); 4].map(|()| device.sync(ino, false).is_ok());
        assert_eq!(outcomes, [true, true, false, true]);
        device.fail(fsync_eio(None));
        assert!(device.sync(ino, false).is_err());
        assert!(device.sync(ino, false).is_err());
        device.heal();
        device.sync(ino, false).unwrap();
        assert_eq!(device.stats().failed, 3);
    }

    #[test]
    fn rule_with_a_pattern_spares_other_files() {
        let (device, ino) = device_with_file();
        let rule = |pattern: &str| Rule {
            operation: Operation::Write,
            failure: Failure::Enospc,
            nth: None,
            pattern: Some(pattern.to_owned()),
        };
        device.fail(rule("other*"));
        device.write(ino, 0, b"x").unwrap();
        device.fail(rule("fi*"));
        assert!(device.write(ino, 0, b"x").is_err());
    }

    #[test]
    fn slow_sync_takes_its_time_and_healing_ends_it() {
        let (device, ino) = device_with_file();
        device.slow_fsync(Duration::from_millis(30));
        let began = Instant::now();
        device.sync(ino, false).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(30));
        device.slow_fsync(Duration::from_secs(60));
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| device.sync(ino, false));
            while !slow.is_finished() {
                device.heal();
                std::thread::yield_now();
            }
            slow.join().unwrap().unwrap();
        });
        assert!(began.elapsed() < Duration::from_secs(50));
    }
}
