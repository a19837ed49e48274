//! What a node counts of its connections, and of answers that wait for their clients.

use super::Metrics;
use super::labels::Protocol;

impl Metrics {
    /// Counts bytes of answers that are held until a client reads them.
    pub(crate) fn answers_unread(&self, bytes: usize) {
        self.unread_answers.inc_by(bytes as i64);
    }

    /// Counts bytes of answers that are held no longer.
    pub(crate) fn answers_read(&self, bytes: usize) {
        self.unread_answers.dec_by(bytes as i64);
    }

    /// Counts a connection that ended because the memory for unread answers was used up.
    pub(crate) fn answers_dropped(&self) {
        self.answers_dropped.inc();
    }

    /// Counts a connection that was accepted.
    pub(crate) fn connection_opened(&self, protocol: Protocol) {
        self.connections[protocol as usize].open.inc();
    }

    /// Counts a connection that has ended.
    pub(crate) fn connection_closed(&self, protocol: Protocol) {
        self.connections[protocol as usize].open.dec();
    }

    /// How many connections of clients are open.
    pub(crate) fn connections_open(&self) -> u64 {
        self.connections.iter().map(|of| u64::try_from(of.open.get()).unwrap_or(0)).sum()
    }

    pub(crate) fn connection_refused(&self, protocol: Protocol) {
        self.connections[protocol as usize].refused.inc();
    }

    pub(crate) fn connection_evicted(&self, protocol: Protocol) {
        self.connections[protocol as usize].evicted.inc();
    }

    pub(crate) fn connection_too_slow(&self, protocol: Protocol) {
        self.connections[protocol as usize].too_slow.inc();
    }
}
