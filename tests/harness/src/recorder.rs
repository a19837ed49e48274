//! The history of a run: every operation, every grant that a node logged, every fault.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use mintleaf_check::history::{Fault, Healed, Layout, Record};
use parking_lot::Mutex;

/// The default layout of snowflake ids.
pub const LAYOUT: Layout =
    Layout { epoch_ms: 1_288_834_974_657, worker_bits: 10, sequence_bits: 12 };

/// Writes a history. All recording threads share it.
#[derive(Debug)]
pub struct Recorder {
    began: Instant,
    path: PathBuf,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    file: BufWriter<File>,
    /// The first error. A history with gaps must not be judged.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Starts a history in this file.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let written = Written { file: BufWriter::new(File::create(path)?), failed: None };
        let recorder =
            Self { began: Instant::now(), path: path.to_owned(), written: Mutex::new(written) };
        recorder.write(&Record::Layout(LAYOUT));
        Ok(recorder)
    }

    /// Starts another file of the same history, with times of the same clock.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn beside(&self, path: &Path) -> io::Result<Self> {
        Ok(Self { began: self.began, ..Self::create(path)? })
    }

    /// The current time in a history: nanoseconds since it began.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds a line.
    pub fn write(&self, record: &Record<'_>) {
        let mut written = self.written.lock();
        if let Err(error) = record.write(&mut written.file) {
            written.failed.get_or_insert(error);
        }
    }

    /// Notes that a fault begins.
    pub fn fault(&self, what: &str) {
        self.write(&Record::Fault(Fault { what: what.into(), inv: self.now(), ret: None }));
    }

    /// Notes that all faults are healed.
    pub fn healed(&self) {
        self.write(&Record::Healed(Healed { at: self.now() }));
    }

    /// Completes the file and returns its path.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(&self) -> io::Result<&Path> {
        let mut written = self.written.lock();
        written.file.flush()?;
        match written.failed.take() {
            Some(error) => Err(error),
            None => Ok(&self.path),
        }
    }
}
