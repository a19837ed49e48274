//! Which threads give way to which.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

/// How much nicer Raft's threads are than those that serve clients: a third of the weight.
///
/// A commit is a millisecond of work in short steps, and one of a thousand requests for ids brings one
/// about. Where both want the same core, ids are served first, from segments that are there, and
/// the commit takes what they leave. On a core that is saturated Raft still gets a quarter of it, many
/// times what it needs, and its steps come late by milliseconds: far less than its timers bear. With ten
/// instead of five they came late by up to a tenth of a second.
const RAFT_NICENESS: i32 = 5;

/// What a thread of Raft does first. Threads that it starts inherit it: the log's, and sled's.
///
/// # Errors
/// When this process's priority cannot be read.
pub(super) fn lower_than_this() -> io::Result<impl Fn() + Clone> {
    let niceness = getpriority_process(None)? + RAFT_NICENESS;
    Ok(move || {
        // Anybody may be nicer. Elsewhere than on Linux this is a matter of whole processes.
        if cfg!(target_os = "linux")
            && let Err(error) = setpriority_process(None, niceness)
        {
            tracing::warn!(%error, "Raft's threads keep the priority of those that serve clients");
        }
    })
}
