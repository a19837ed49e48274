//! How a process that runs nodes ends.

use std::io;
use std::process::ExitCode;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::node::NodeFailure;

/// Turns true on SIGTERM or SIGINT; a second signal ends the process at once.
pub(super) fn stop_on_signal() -> io::Result<watch::Receiver<bool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _within = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let (stop, stopping) = watch::channel(false);
    let wait_for_signals = move || {
        runtime.block_on(async {
            let mut next = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            next().await;
            tracing::info!("stopping; a second signal stops at once");
            stop.send_replace(true);
            next().await;
            std::process::exit(1);
        });
    };
    // The thread lives as long as the process: there is always one more signal to wait for.
    thread::Builder::new().name("mintleaf-signals".to_owned()).spawn(wait_for_signals)?;
    Ok(stopping)
}

/// Logs why a node stopped; answers the exit code for that.
pub(super) fn failed(error: &NodeFailure) -> ExitCode {
    let exit_code = error.exit_code();
    tracing::error!(%error, exit_code, "node stopped");
    ExitCode::from(exit_code)
}
