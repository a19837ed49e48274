//! Simulated time: one thread, a paused clock, and tokio's random choices made by the seed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;

/// How long simulated time may stand still, in real time.
const SPIN_MAX: Duration = Duration::from_secs(20);

/// Carries out `work` in simulated time, with a scratch directory that is removed afterwards. Returns its
/// outcome, and all panics: nothing in a node may ever panic.
pub(crate) fn run<T>(seed: u64, work: impl AsyncFnOnce(&Path) -> T) -> (T, Vec<String>) {
    let dir = tempfile::Builder::new().prefix("mintleaf-simulation-").tempdir_in(scratch());
    let dir = dir.expect("a scratch directory can be made");
    let mut runtime = Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    // The lints run without this flag.
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    let runtime = runtime.build();
    let pulse = Arc::new(AtomicU64::new(0));
    watch_for_spins(seed, Arc::clone(&pulse));
    let panics = count_panics();
    let outcome = runtime.expect("a runtime").block_on(async {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                pulse.fetch_add(1, Ordering::Relaxed);
            }
        });
        work(dir.path()).await
    });
    let panics = std::mem::take(&mut *panics.lock());
    (outcome, panics)
}

/// A directory in memory, if there is one, so that nothing is written to a real disk.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// Records every panic from now on.
fn count_panics() -> Arc<Mutex<Vec<String>>> {
    let panics = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        noted.lock().push(panic.to_string());
    }));
    panics
}

/// Ends the process when simulated time stands still.
fn watch_for_spins(seed: u64, pulse: Arc<AtomicU64>) {
    thread::spawn(move || {
        let (_never, timer) = mpsc::channel::<()>();
        let mut seen = 0;
        loop {
            let _ = timer.recv_timeout(SPIN_MAX);
            let now = pulse.load(Ordering::Relaxed);
            if now == seen {
                println!("violation\tsimulated time stands still in seed {seed}");
                std::process::exit(3);
            }
            seen = now;
        }
    });
}
