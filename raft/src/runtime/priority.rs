//! The priority of Raft's threads, which is lower than that of the threads that serve clients.

use rustix::process::{getpid, getpriority_process, setpriority_process};

/// Raft's threads are this much nicer than the process's first thread, which gives them a third of its weight.
///
/// A commit is a millisecond of work in short steps, and about one request for ids in a thousand causes one. When
/// both want the same core, ids are served first, from segments that are held already, and the commit takes what is
/// left. On a saturated core Raft still gets a quarter of the time, many times what it needs, and its steps are late
/// by milliseconds, which is far less than its timers allow for. With ten instead of five its steps were late by up
/// to a tenth of a second.
const NICENESS: i32 = 5;

/// Lowers the priority of the calling thread, and of the threads that it starts from now on, below that of the
/// threads that serve clients. Threads that run a node call it; calling it again changes nothing.
pub fn lower_priority() {
    // Systems other than Linux only have a priority for whole processes.
    if !cfg!(target_os = "linux") {
        return;
    }
    let first = getpriority_process(Some(getpid()));
    // Lowering a priority needs no privilege.
    if let Err(error) = first.and_then(|first| setpriority_process(None, first + NICENESS)) {
        tracing::warn!(%error, "Raft's threads keep the priority of those that serve clients");
    }
}
