//! What a node counts of its connections, and of answers that wait for their clients.

use super::Metrics;
use super::doors::ConnectionGauges;
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
        self.connections(protocol).open.inc();
    }

    /// Counts a connection that has ended.
    pub(crate) fn connection_closed(&self, protocol: Protocol) {
        self.connections(protocol).open.dec();
    }

    /// How many connections of clients are open.
    pub(crate) fn connections_open(&self) -> u64 {
        let open = |gauges: &ConnectionGauges| u64::try_from(gauges.open.get()).unwrap_or(0);
        open(&self.http_connections) + open(&self.resp_connections)
    }

    pub(crate) fn connection_refused(&self, protocol: Protocol) {
        self.connections(protocol).refused.inc();
    }

    pub(crate) fn connection_evicted(&self, protocol: Protocol) {
        self.connections(protocol).evicted.inc();
    }

    pub(crate) fn connection_too_slow(&self, protocol: Protocol) {
        self.connections(protocol).too_slow.inc();
    }

    fn connections(&self, protocol: Protocol) -> &ConnectionGauges {
        match protocol {
            Protocol::Http => &self.http_connections,
            Protocol::Resp => &self.resp_connections,
        }
    }
}
