//! What signals ask of a process that runs nodes.

use std::io;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::server::logging::{self, Log};

/// What signals ask of a process that runs nodes.
pub(super) struct Signals {
    /// Turns true on SIGTERM or SIGINT; a second signal ends the process at once.
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) reload: Reload,
}

/// Requests to read files again, by SIGHUP.
#[derive(Clone, Debug)]
pub struct Reload(watch::Receiver<u64>);

impl Default for Reload {
    /// No request ever comes.
    fn default() -> Self {
        Self(watch::channel(0).1)
    }
}

impl Reload {
    /// Resolves at the next SIGHUP.
    pub(super) async fn asked(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// From here on no SIGHUP ends the process. In any case, the files that a SIGHUP asks for are read later than this.
/// Called before arguments and settings are read, because an operator who replaces a file does not know how far a node
/// has come with its start.
///
/// # Errors
/// The errors of the system.
pub fn survive_hangup() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _within = runtime.enter();
    // The handler stays for as long as the process lives.
    signal(SignalKind::hangup()).map(drop)
}

/// Reads the log level again at each SIGHUP. It has a separate thread, because its file may be on a disk that does not
/// answer. The thread lives as long as the process.
///
/// # Errors
/// The errors of the system.
pub(super) fn follow_log_level(mut log: Log, mut reload: Reload) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let follow = move || {
        loop {
            runtime.block_on(reload.asked());
            log.read_level_again();
        }
    };
    thread::Builder::new().name("mintleaf-log-level".to_owned()).spawn(follow).map(drop)
}

/// Listens for signals.
pub(super) fn listen_for_signals() -> io::Result<Signals> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt, mut hangup) = {
        let _within = runtime.enter();
        let listen = |kind| signal(kind);
        (
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::hangup())?,
        )
    };
    let ((stop, stopping), (again, reload)) = (watch::channel(false), watch::channel(0));
    let wait_for_signals = move || {
        runtime.block_on(async {
            let mut next = async || {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => return,
                        _ = interrupt.recv() => return,
                        _ = hangup.recv() => again.send_modify(|times| *times += 1),
                    }
                }
            };
            next().await;
            tracing::info!("stopping; a second signal stops at once");
            stop.send_replace(true);
            next().await;
            logging::flush();
            std::process::exit(1);
        });
    };
    // The thread lives as long as the process: there is always one more signal to wait for.
    thread::Builder::new().name("mintleaf-signals".to_owned()).spawn(wait_for_signals)?;
    Ok(Signals { stopping, reload: Reload(reload) })
}
