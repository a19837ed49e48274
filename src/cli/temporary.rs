//! Files and directories that a command makes for the time that it runs. A signal that ends the command leaves none of
//! them behind: a thread waits for it, removes them all, and ends the process. (A file without a name would disappear
//! by itself, but not every file system can name one later, and directories always have names.)

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is to be removed.
static ALL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Attempts to remove a directory while the command still makes files in it.
const ATTEMPTS_MAX: u32 = 20;

/// The name of a file or a directory. When this is dropped, it removes what is there, if anything.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// From now on, removes what is made at a path. Nothing is there yet.
    ///
    /// # Errors
    /// When signals cannot be waited for.
    pub(super) fn at(path: PathBuf) -> io::Result<Self> {
        static WATCHED: OnceLock<io::Result<()>> = OnceLock::new();
        if let Err(error) = WATCHED.get_or_init(watch) {
            return Err(error.kind().into());
        }
        ALL.lock().insert(path.clone());
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        remove(&self.0);
        all.remove(&self.0);
    }
}

/// Waits, on a separate thread, for the signals that people and supervisors use to end a command.
fn watch() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _within = runtime.enter();
        let of = |kind: SignalKind| signal(kind);
        [of(SignalKind::interrupt())?, of(SignalKind::terminate())?, of(SignalKind::hangup())?]
    };
    let named = thread::Builder::new().name("signals".to_owned());
    named.spawn(move || end_at_one_of(&runtime, signals)).map(drop)
}

fn end_at_one_of(runtime: &Runtime, [mut interrupt, mut terminate, mut hangup]: [Signal; 3]) {
    let kind = runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        }
    });
    // The lock is kept to the end, so nothing more is added, and no file gets its final name.
    let all = ALL.lock();
    all.iter().for_each(|path| remove(path));
    // The code that a shell reports for a command that a signal has ended.
    process::exit(128 + kind.as_raw_value())
}

fn remove(path: &Path) {
    for _ in 0..ATTEMPTS_MAX {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // What is gone already needs no removal, and if something cannot be removed, there is nothing more to do.
            _ => return,
        }
    }
}
