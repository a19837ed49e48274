//! What a node reports to the service manager that started it, by systemd's protocol: that it is ready, why it is not,
//! that it lives, and that it stops. Without `NOTIFY_SOCKET` it reports nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::service::{Readiness, Services};

/// Time between two looks at the readiness.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Reports when the node is ready for the first time, and from then on its readiness. If the service manager has a
/// watchdog, also reports that this runtime still runs. Goes on for as long as it is polled.
pub(super) async fn keep_informed(services: Services) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    // Three signs of life in the time that makes the manager take a silent node for hung.
    let beat_interval = sd_notify::watchdog_enabled().map(|time| time / 3);
    let mut last_beat = Instant::now();
    let (mut was_ready, mut told) = (false, String::new());
    loop {
        let readiness = services.cluster.readiness();
        let becomes_ready = readiness.ready && !was_ready;
        was_ready |= readiness.ready;
        let status = in_words(&readiness);
        let is_news = status != told;
        let beats = beat_interval.is_some_and(|time| last_beat.elapsed() >= time);
        if beats {
            last_beat = Instant::now();
        }
        if becomes_ready || is_news || beats {
            told.clone_from(&status);
            let tell = move || {
                let mut news = Vec::from_iter(is_news.then_some(NotifyState::Status(&status)));
                news.extend(becomes_ready.then_some(NotifyState::Ready));
                news.extend(beats.then_some(NotifyState::Watchdog));
                send(&news);
            };
            // A manager that is slow to read delays nothing but the next report.
            let _ = spawn_blocking(tell).await;
        }
        sleep(beat_interval.map_or(LOOK_INTERVAL, |time| time.min(LOOK_INTERVAL))).await;
    }
}

/// Reports to the service manager that the node stops deliberately.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

fn send(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        tracing::warn!(%error, "cannot tell the service manager how the node is");
    }
}

/// A readiness as one line, as `systemctl status` shows it.
fn in_words(readiness: &Readiness) -> String {
    let state = if readiness.ready { "ready" } else { "not ready" };
    let reasons = readiness.reasons.join("; ").replace('\n', " ");
    if reasons.is_empty() { state.to_owned() } else { format!("{state}: {reasons}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_line() {
        let of = |ready, reasons: &[&str]| {
            let reasons = reasons.iter().map(|&reason| reason.to_owned()).collect();
            in_words(&Readiness { ready, reasons })
        };
        assert_eq!(of(true, &[]), "ready");
        assert_eq!(of(false, &["a: b", "c:\nd"]), "not ready: a: b; c: d");
    }
}
