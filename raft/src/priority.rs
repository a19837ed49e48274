//! Which threads give way to which.

use rustix::process::{getpid, getpriority_process, setpriority_process};

/// How much nicer Raft's threads are than the process's first one: a third of the weight.
///
/// A commit is a millisecond of work in short steps, and one of a thousand requests for ids brings one
/// about. Where both want the same core, ids are served first, from segments that are there, and
/// the commit takes what they leave. On a core that is saturated Raft still gets a quarter of it, many
/// times what it needs, and its steps come late by milliseconds: far less than its timers bear. With ten
/// instead of five they came late by up to a tenth of a second.
const NICENESS: i32 = 5;

/// Makes the calling thread, and those it starts from now on, give way to those that serve clients. For
/// threads that carry a node; to call it again changes nothing.
pub fn give_way() {
    // Elsewhere than on Linux, this is a matter of whole processes.
    if !cfg!(target_os = "linux") {
        return;
    }
    let first = getpriority_process(Some(getpid()));
    // Anybody may be nicer.
    if let Err(error) = first.and_then(|first| setpriority_process(None, first + NICENESS)) {
        tracing::warn!(%error, "Raft's threads keep the priority of those that serve clients");
    }
}
