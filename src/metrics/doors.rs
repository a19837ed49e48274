//! What a node counts and shows of its doors: connections, tokens, certificates, and the files behind both.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{Protocol, Reloaded};
use super::registration::{LevelGauge, by_label, gauge, metric};

/// The connections of clients that speak one protocol.
#[derive(Debug)]
pub(super) struct ConnectionGauges {
    pub(super) open: Gauge,
    pub(super) refused: Counter,
    pub(super) evicted: Counter,
    pub(super) too_slow: Counter,
}

impl ConnectionGauges {
    pub(super) fn new(r: &mut Registry, protocol: &str) -> Self {
        let named = |what: &str| format!("{protocol}_connections{what}");
        let mut counter =
            |what: &str, help: &str| metric(r, &named(what), help, Counter::default());
        let refused = counter("_refused", "Client connections turned away for want of a place");
        let evicted =
            counter("_evicted", "Client connections ended to make room, idle or without a token");
        let too_slow = counter("_too_slow", "Client connections ended for reading too slowly");
        Self { open: gauge(r, &named(""), "Open client connections"), refused, evicted, too_slow }
    }
}

/// Counters and gauges of tokens and certificates.
#[derive(Debug)]
pub(super) struct DoorMetrics {
    pub(super) auth_failures: [Counter; 2],
    pub(super) peer_certificate_expiry: LevelGauge,
    pub(super) client_certificate_expiry: LevelGauge,
    pub(super) handshakes_failed: [Counter; 2],
    pub(super) reloads_failed: [LevelGauge; 3],
}

impl DoorMetrics {
    /// Everything at zero, each registered under its name.
    pub(super) fn new(r: &mut Registry) -> Self {
        Self {
            auth_failures: by_label(
                r,
                "auth_failures",
                "Attempts with a token that does not hold",
                "protocol",
                Protocol::LABELS,
            ),
            peer_certificate_expiry: gauge(
                r,
                "raft_certificate_expiry_timestamp_seconds",
                "When the certificate of --raft-cert expires, in Unix seconds; 0 without one",
            ),
            client_certificate_expiry: gauge(
                r,
                "tls_certificate_expiry_timestamp_seconds",
                "When the certificate of --tls-cert expires, in Unix seconds; 0 without one",
            ),
            handshakes_failed: by_label(
                r,
                "tls_handshakes_failed",
                "Connections of clients that ended before TLS was agreed on",
                "protocol",
                Protocol::LABELS,
            ),
            reloads_failed: by_label(
                r,
                "reload_failed",
                "1 while files that changed, or that cannot be read any more, are not in force",
                "what",
                Reloaded::LABELS,
            ),
        }
    }
}
