//! The status of a node's lease: whether anything keeps the node from having windows, or soon will; and when the log
//! reports that to an operator.

use std::mem::discriminant;
use std::time::Duration;

use tokio::time::Instant;

use mintleaf_core::snowflake::Format;

/// A status that lasts is logged again after this long.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);
/// A lost quorum is logged if it lasts this long: an election is over by then, and windows last longer.
const ELECTION_MAX: Duration = Duration::from_secs(3);

/// Whether anything keeps a node from having windows, or soon will.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::service) enum LeaseStatus {
    /// The node has windows, or will have them at once.
    InOrder,
    /// The node has only just started.
    Starting,
    /// No leader with a quorum answers.
    NoQuorum,
    /// The node's clock is further from the cluster's time than it may be.
    Skewed {
        /// The reading of the node's clock, Unix milliseconds.
        own_ms: u64,
        /// The median of the voters' clocks at that moment.
        cluster_ms: u64,
    },
    /// Every worker id, or the configured one, belongs to another grant.
    NoWorkerFree {
        /// The configured worker id, if there is one.
        pinned: Option<u16>,
        /// When the first of them is free, Unix milliseconds.
        until_ms: u64,
    },
    /// The snowflake floor lies further ahead than a window reaches.
    FloorAhead {
        /// The floor, Unix milliseconds.
        floor_ms: u64,
    },
    /// The format cannot show the cluster's time.
    OutOfTime,
}

impl LeaseStatus {
    /// The status in words, for a caller that gets no snowflake id.
    pub(in crate::service) fn message(&self) -> String {
        match self {
            Self::InOrder => "another is on its way".to_owned(),
            Self::Starting => "no worker id is held yet".to_owned(),
            Self::NoQuorum => "no leader with a quorum gives this node more time".to_owned(),
            Self::Skewed { own_ms, cluster_ms } => format!(
                "this node's clock shows {own_ms} and the median of the cluster's {cluster_ms}: \
                 it is given no worker id until its clock is right"
            ),
            Self::NoWorkerFree { pinned: None, until_ms } => {
                format!("every worker id is in use; the first is free at {until_ms}")
            }
            Self::NoWorkerFree { pinned: Some(worker_id), until_ms } => {
                format!("worker id {worker_id}, as configured, is in use until {until_ms}")
            }
            Self::FloorAhead { floor_ms } => format!(
                "no id may show a time before {floor_ms}, the snowflake floor: ids go on once that is less \
                 than a window ahead"
            ),
            Self::OutOfTime => "the layout cannot show the cluster's time".to_owned(),
        }
    }

    /// Whether the status soon passes by itself, as a rule.
    pub(in crate::service) fn is_brief(&self) -> bool {
        matches!(self, Self::InOrder | Self::Starting | Self::NoQuorum)
    }
}

/// Logs what an operator has to know: changes of the status, and reminders.
pub(in crate::service) struct StatusLog {
    format: Format,
    remind_at: Instant,
    /// Whether the quorum was lost a moment ago, which the log does not say yet.
    is_untold: bool,
}

impl StatusLog {
    pub(in crate::service) fn new(format: Format) -> Self {
        Self { format, remind_at: Instant::now(), is_untold: false }
    }

    /// Logs the status `now`, which was `before` a moment ago, if it is new or its reminder is due.
    pub(in crate::service) fn note(
        &mut self,
        before: &LeaseStatus,
        now: &LeaseStatus,
        remaining_s: u64,
    ) {
        let changed = discriminant(before) != discriminant(now);
        match now {
            LeaseStatus::NoQuorum if changed => {
                self.is_untold = true;
                self.remind_at = Instant::now() + ELECTION_MAX;
            }
            LeaseStatus::NoQuorum => {}
            LeaseStatus::InOrder if std::mem::take(&mut self.is_untold) => return,
            _ => self.is_untold = false,
        }
        if (!changed || self.is_untold) && self.remind_at > Instant::now() {
            return;
        }
        self.is_untold = false;
        self.remind_at = Instant::now() + REMINDER_INTERVAL;
        match now {
            LeaseStatus::InOrder if changed => {
                tracing::info!(remaining_s, "snowflake ids are in order");
            }
            LeaseStatus::InOrder | LeaseStatus::Starting => {}
            LeaseStatus::Skewed { own_ms, cluster_ms } => tracing::error!(
                own_ms,
                cluster_ms,
                remaining_s,
                "this node's clock is wrong: it is given no worker id until it is right"
            ),
            LeaseStatus::NoQuorum => {
                tracing::warn!(remaining_s, "no quorum renews the worker ids");
            }
            LeaseStatus::NoWorkerFree { .. } => {
                tracing::error!(remaining_s, "no worker id: {}", now.message());
            }
            LeaseStatus::FloorAhead { .. } => {
                tracing::warn!(remaining_s, "no snowflake ids for now: {}", now.message());
            }
            LeaseStatus::OutOfTime => tracing::error!(
                remaining_s, format = %self.format,
                "snowflake ids cannot show the cluster's time any more"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::time::advance;

    use super::*;

    /// The log of a test.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock());
            String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quorum_that_is_back_after_an_election_was_never_reported_lost() {
        use LeaseStatus::{InOrder, NoQuorum};
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().without_time().with_ansi(false);
        let _log =
            tracing::subscriber::set_default(log.with_writer(move || writer.clone()).finish());
        let mut status = StatusLog::new(Format::LEAF);

        status.note(&InOrder, &NoQuorum, 30);
        advance(ELECTION_MAX - Duration::from_millis(1)).await;
        status.note(&NoQuorum, &NoQuorum, 27);
        status.note(&NoQuorum, &InOrder, 30);
        assert_eq!(lines.take(), Vec::<String>::new());

        status.note(&InOrder, &NoQuorum, 30);
        advance(ELECTION_MAX).await;
        status.note(&NoQuorum, &NoQuorum, 27);
        status.note(&NoQuorum, &NoQuorum, 27);
        status.note(&NoQuorum, &InOrder, 30);
        let told = lines.take();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("WARN") && told[0].contains("no quorum renews the worker ids"));
        assert!(told[1].contains("INFO") && told[1].contains("snowflake ids are in order"));
    }
}
