//! A handle that lets any part of a node stop the node. A node stops when in doubt; it never guesses.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::StopReason;

/// Stops a node, and reports whether and why it must stop. Clones stop the same node.
#[derive(Clone)]
pub(crate) struct StopHandle(Arc<watch::Sender<Option<StopReason>>>);

impl StopHandle {
    /// The handle of a node that has no reason to stop yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Stops the node for the reason given. Only the first reason is kept.
    pub(crate) fn stop(&self, why: impl Into<StopReason>) {
        let why = why.into();
        self.0.send_if_modified(|reason| {
            let first = reason.is_none();
            if first {
                *reason = Some(why);
            }
            first
        });
    }

    /// Stops the node because its build does not support the level of the cluster. Only another build can continue.
    pub(crate) fn stop_as_outdated(&self, why: &impl ToString) {
        self.stop(StopReason::operator(why.to_string()));
    }

    /// Why the node must stop, if it must.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.0.borrow().clone()
    }

    /// Whether the node must stop.
    pub(crate) fn must_stop(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Resolves with the reason once the node must stop.
    pub(crate) async fn stopped(&self) -> StopReason {
        let mut reason = self.0.subscribe();
        let reason = reason.wait_for(Option::is_some).await.map(|reason| reason.clone());
        reason.ok().flatten().unwrap_or_else(|| StopReason::restart("the node has ended"))
    }
}

/// Stops the node when a panic drops the owner of this guard.
pub(crate) struct StopOnPanic(pub(crate) StopHandle);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("a task of the node panicked; see the message above".to_owned());
        }
    }
}
