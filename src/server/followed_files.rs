//! Files that a node looks at while it runs: every 5 s, and at once on a signal.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

use super::signals::Reload;
use crate::config::ConfigError;
use crate::metrics::{Metrics, Reloaded};
use crate::service::Services;

/// Time between two looks at the files, which a signal cuts short.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How long a look may take: a file of a network disk that is gone never answers.
const READ_MAX: Duration = Duration::from_secs(5);
/// Time between two log lines about files that still cannot be used.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// What a node takes into use whenever its files change.
pub(super) trait FollowedFiles: Clone + Send + 'static {
    /// What log lines call it.
    const WHAT: &'static str;
    /// What the metric of files that cannot be used calls it.
    const LABEL: Reloaded;
    /// What the files hold, usable or not.
    type Content: PartialEq + Send + 'static;

    /// Reads the files. It may block.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(&self) -> Result<Self::Content, ConfigError>;

    /// Takes what the files hold into use.
    ///
    /// # Errors
    /// When it cannot be used; then everything stays as it is.
    fn take(&mut self, content: &Self::Content) -> Result<(), ConfigError>;

    /// What distinguishes what is in use from what was, for the log line about it, if the files have such a thing.
    fn keys(&self) -> Option<String> {
        None
    }

    /// Called before each look, with its number since new content was taken into use.
    fn before_look(&self, _metrics: &Metrics, _look: u32) {}
}

/// Takes the files into use whenever they change, for as long as it is polled; they come with what they held when they
/// were read last. `None` stands for a node without such files. Files that cannot be used change nothing; the log
/// reports them at once and each minute, because what an operator has removed from them stays in force until they can
/// be used again.
pub(super) async fn follow<F: FollowedFiles>(
    opened: Option<(F, F::Content)>,
    mut reload: Reload,
    services: Services,
) {
    let Some((files, seen)) = opened else { return };
    let mut following = Following { files, seen, refused: None, reading: None };
    let (mut streak, mut number) = (Streak::default(), 0_u32);
    loop {
        following.files.before_look(services.ids.metrics(), number);
        let asked = timeout(LOOK_INTERVAL, reload.asked()).await.is_ok();
        let Some(outcome) = following.look(READ_MAX).await else {
            // The runtime is ending.
            sleep(LOOK_INTERVAL).await;
            continue;
        };
        report(&following.files, &mut streak, &outcome, asked, services.ids.metrics());
        number = if matches!(outcome, Outcome::Taken) { 0 } else { number.wrapping_add(1) };
    }
}

/// What a look at the files has found.
#[derive(Debug)]
enum Outcome {
    Unchanged,
    /// New content, which is in use from now on.
    Taken,
    /// Files that cannot be read.
    Unread {
        why: String,
        /// Whether that may be a file which is just being replaced.
        may_pass: bool,
    },
    /// Content that cannot be used.
    Refused {
        why: String,
    },
}

struct Following<F: FollowedFiles> {
    files: F,
    /// What the files held when they were read last.
    seen: F::Content,
    /// Why that cannot be used, if so.
    refused: Option<String>,
    /// The look that is under way. If it takes too long, the next look waits for it again and begins no second one.
    reading: Option<JoinHandle<Result<F::Content, ConfigError>>>,
}

impl<F: FollowedFiles> Following<F> {
    /// Reads the files, and takes what is new. `None` when they cannot be read because the runtime is ending.
    async fn look(&mut self, read_max: Duration) -> Option<Outcome> {
        let reading = self.reading.get_or_insert_with(|| {
            let files = self.files.clone();
            spawn_blocking(move || files.read())
        });
        let Ok(read) = timeout(read_max, &mut *reading).await else {
            let why = format!("they were not read within {read_max:?}");
            return Some(Outcome::Unread { why, may_pass: false });
        };
        self.reading = None;
        Some(match read.ok()? {
            Err(error) => Outcome::Unread { may_pass: error.is_missing(), why: error.to_string() },
            Ok(content) => self.consider(content),
        })
    }

    fn consider(&mut self, content: F::Content) -> Outcome {
        let is_new = content != self.seen;
        if is_new {
            self.refused = self.files.take(&content).err().map(|error| error.to_string());
            self.seen = content;
        }
        match &self.refused {
            Some(why) => Outcome::Refused { why: why.clone() },
            None if is_new => Outcome::Taken,
            None => Outcome::Unchanged,
        }
    }
}

/// Writes to the log and the metrics what a look has found. `asked` is true if an operator's signal caused it: the log
/// line must come then.
fn report<F: FollowedFiles>(
    files: &F,
    streak: &mut Streak,
    outcome: &Outcome,
    asked: bool,
    metrics: &Metrics,
) {
    let what = F::WHAT;
    match outcome {
        Outcome::Unread { why, may_pass } => {
            if streak.is_told(why, *may_pass, asked, Instant::now()) {
                tracing::error!(error = %why, "cannot read the {what} again; the old ones stay");
            }
        }
        Outcome::Refused { why } => {
            if streak.is_told(why, false, asked, Instant::now()) {
                tracing::error!(error = %why, "new {what} cannot be used; the old ones stay");
            }
        }
        Outcome::Unchanged if streak.end() => {
            tracing::info!("the {what} can be used again, and are unchanged");
        }
        Outcome::Unchanged if asked => tracing::info!("the {what} are unchanged"),
        Outcome::Unchanged => {}
        Outcome::Taken => {
            streak.end();
            tracing::info!(keys = files.keys(), "took new {what} into use");
        }
    }
    metrics.reload_failed(F::LABEL, streak.told.is_some());
}

/// Looks in a row that found unusable files.
#[derive(Debug, Default)]
struct Streak {
    looks: u32,
    /// When the log last reported it, and why the files could not be used then.
    told: Option<(Instant, String)>,
}

impl Streak {
    /// Whether the log reports one more such look: at once, on request, for another reason than before, and each
    /// minute. What may pass by itself is reported from the second look on.
    fn is_told(&mut self, why: &str, may_pass: bool, asked: bool, now: Instant) -> bool {
        self.looks += 1;
        let is_due = match &self.told {
            None => !may_pass || self.looks > 1,
            Some((at, before)) => before != why || now.duration_since(*at) >= REPORT_INTERVAL,
        };
        let is_told = asked || is_due;
        if is_told {
            self.told = Some((now, why.to_owned()));
        }
        is_told
    }

    /// Ends the row; returns whether the log had reported it.
    fn end(&mut self) -> bool {
        std::mem::take(self).told.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};

    use parking_lot::Mutex;

    use super::*;

    /// The looks of a row, one every 5 s, that the log reports.
    fn told(whys: &[(&str, bool)]) -> Vec<usize> {
        let (mut streak, start) = (Streak::default(), Instant::now());
        let mut is_told = |look: usize| {
            let (why, may_pass) = whys[look];
            streak.is_told(why, may_pass, false, start + LOOK_INTERVAL * look as u32)
        };
        (0..whys.len()).filter(|look| is_told(*look)).collect()
    }

    #[test]
    fn files_that_cannot_be_used_are_told_of_at_once_and_each_minute() {
        assert_eq!(told(&[("exposed", false); 26]), [0, 12, 24]);
    }

    #[test]
    fn a_missing_file_is_told_of_from_the_second_look_on() {
        assert_eq!(told(&[("missing", true)]), [0; 0]);
        assert_eq!(told(&[("missing", true); 15]), [1, 13]);
    }

    #[test]
    fn another_reason_is_told_of_at_once() {
        let (missing, exposed) = (("missing", true), ("exposed", false));
        assert_eq!(told(&[missing, missing, exposed, exposed, missing]), [1, 2, 4]);
    }

    #[test]
    fn somebody_who_asks_is_answered_and_the_end_is_told_of_where_the_beginning_was() {
        let (mut streak, now) = (Streak::default(), Instant::now());
        assert!(!streak.is_told("missing", true, false, now));
        assert!(!streak.end());
        assert!(streak.is_told("missing", true, true, now));
        assert!(streak.is_told("missing", true, true, now));
        assert!(streak.end() && !streak.end());
    }

    /// Files whose content comes when the test sends it, with how often they were read.
    #[derive(Clone)]
    struct Slow(Arc<Mutex<mpsc::Receiver<u32>>>, Arc<AtomicU32>);

    impl FollowedFiles for Slow {
        const WHAT: &'static str = "slow files";
        const LABEL: Reloaded = Reloaded::Tokens;
        type Content = u32;

        fn read(&self) -> Result<u32, ConfigError> {
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(self.0.lock().recv().unwrap())
        }

        fn take(&mut self, _: &u32) -> Result<(), ConfigError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_look_that_does_not_end_is_a_failure_and_no_second_one_begins() {
        let (send, content) = mpsc::channel();
        let reads = Arc::new(AtomicU32::new(0));
        let files = Slow(Arc::new(Mutex::new(content)), Arc::clone(&reads));
        let mut following = Following { files, seen: 1, refused: None, reading: None };
        for _ in 0..3 {
            let looked = following.look(Duration::from_millis(20)).await;
            let Some(Outcome::Unread { why, may_pass: false }) = looked else { panic!() };
            assert!(why.contains("not read within"), "{why}");
        }
        for (sent, is_new) in [(1, false), (2, true)] {
            send.send(sent).unwrap();
            let looked = following.look(READ_MAX).await.unwrap();
            assert_eq!(matches!(looked, Outcome::Taken), is_new, "{looked:?}");
        }
        assert_eq!(reads.load(Ordering::SeqCst), 2, "one for each content");
    }
}
