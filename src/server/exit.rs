//! How a process that runs nodes ends.

use std::process::ExitCode;

use super::node::NodeFailure;

/// Logs why a node stopped; answers the exit code for that.
pub(super) fn failed(error: &NodeFailure) -> ExitCode {
    let exit_code = error.exit_code();
    tracing::error!(%error, exit_code, "node stopped");
    ExitCode::from(exit_code)
}
