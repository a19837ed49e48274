//! Who ends a lease.

use std::sync::Arc;

use crate::client::Client;
use crate::engine::workers::Worker;

/// Ends a lease when it is dropped, and keeps the client.
pub(super) struct Owner {
    client: Client,
    worker: Arc<Worker>,
}

impl Owner {
    pub(super) fn new(client: Client, worker: Arc<Worker>) -> Self {
        Self { client, worker }
    }

    pub(super) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    pub(super) async fn close(&self) {
        if let Some(given_back) = self.client.inner.engine.give_back(&self.worker) {
            // An error means that the request has ended with the client.
            let _ = given_back.await;
        }
    }

    pub(super) fn close_blocking(&self) {
        if let Some(given_back) = self.client.inner.engine.give_back(&self.worker) {
            // As above.
            let _ = given_back.blocking_recv();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The request goes on without an owner.
        drop(self.client.inner.engine.give_back(&self.worker));
    }
}
