//! Ends connections that make no progress, read their answers too slowly, or are idle while others need
//! their places.
//!
//! A head that trickles in, a client that does not read its answers and a connection that is no longer used each hold a
//! place that other clients need. Every few seconds the watchdog checks whether a connection has made progress; a
//! request costs a few counters and no clock. (Hyper's header timeout counts idle time as well, so that one bound would
//! have to serve for both.)
//!
//! On a node with an auth file, requests of strangers do not count: a caller without a valid token that may do nothing
//! without one keeps no place by asking again and again. And a connection that has shown no valid token is unproven: it
//! ends when its place is needed, whatever it does.
//!
//! The acceptor also learns from the looks how long a connection has been idle, and so which one makes room when places
//! run out.

mod progress;

use std::time::Duration;

use tokio::time::Instant;

pub(crate) use self::progress::Progress;
use self::progress::Sample;
use crate::limits::READ_RATE_MIN;

/// Time between two looks.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How many looks without progress end a connection with a half-sent request or an unread answer.
const STALLED_LOOKS_MAX: u64 = 2;
/// The rate of a reader is measured over this many looks: a socket takes answers in lumps of 32 KiB, which
/// 64 kbit/s carries in four seconds.
const RATE_LOOKS: u64 = 4;

/// How long a connection between two requests is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdlePolicy {
    /// How long an idle connection is kept, in seconds, rounded up to the next look.
    pub(crate) idle_seconds_max: u64,
    /// Whether a connection that never brought a request, or only those of a stranger, counts as idle.
    pub(crate) unused_is_idle: bool,
}

/// Why the watchdog ends a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CloseReason {
    /// The connection was idle for too long, or stalled within a request.
    Stalled,
    /// The client took answers at less than [`READ_RATE_MIN`].
    ReadsTooSlowly,
    /// The connection was idle, and its place is needed.
    MakesRoom,
}

/// What the watchdog has seen of one connection.
struct Watchdog<'a> {
    progress: &'a Progress,
    patience: IdlePolicy,
    last: Sample,
    /// Looks without progress.
    looks: u64,
    reader: Reader,
}

/// How fast a client takes the answers that wait for it.
#[derive(Default)]
struct Reader {
    /// Consecutive looks, after the first, that found answers waiting.
    looks: u64,
    sent_at_first: u64,
}

impl Progress {
    /// Resolves when the connection must end. `unsent` says whether answers wait for the client to read
    /// them.
    pub(crate) async fn must_end(
        &self,
        patience: IdlePolicy,
        unsent: impl Fn() -> bool,
    ) -> CloseReason {
        let (last, reader) = (self.look(), Reader::default());
        let mut watchdog = Watchdog { progress: self, patience, last, looks: 0, reader };
        let mut next_look = Instant::now() + LOOK_INTERVAL;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next_look) => {
                    next_look = Instant::now() + LOOK_INTERVAL;
                    if let Some(verdict) = watchdog.look(unsent()) {
                        return verdict;
                    }
                }
                () = self.asked_to_leave() => {
                    if self.is_unproven() || (self.is_untouched() && !unsent()) {
                        return CloseReason::MakesRoom;
                    }
                }
            }
        }
    }

    /// Whether the connection is between two requests, and no byte of the next one has come in.
    fn is_idle(&self, look: Sample, patience: IdlePolicy, unsent: bool) -> bool {
        let used = !look.is_unused() || patience.unused_is_idle;
        let nothing_begun = self.received_bytes() == look.received_at_request;
        used && nothing_begun && !unsent
    }
}

impl Watchdog<'_> {
    fn look(&mut self, unsent: bool) -> Option<CloseReason> {
        let now = self.progress.look();
        let idle = self.progress.is_idle(now, self.patience, unsent);
        self.looks = if now == self.last { self.looks + 1 } else { 0 };
        self.last = now;
        self.progress.note_look(if idle { self.looks } else { 0 });
        let looks_max = match idle {
            true => self.patience.idle_seconds_max / LOOK_INTERVAL.as_secs(),
            false => STALLED_LOOKS_MAX,
        };
        if self.looks >= looks_max {
            return Some(if unsent { CloseReason::ReadsTooSlowly } else { CloseReason::Stalled });
        }
        self.reader.is_too_slow(now.sent, unsent).then_some(CloseReason::ReadsTooSlowly)
    }
}

impl Reader {
    /// Whether answers waited over [`RATE_LOOKS`] looks, and fewer bytes were taken than required.
    fn is_too_slow(&mut self, sent: u64, unsent: bool) -> bool {
        if !unsent {
            *self = Self::default();
            return false;
        }
        if self.looks == 0 {
            (self.looks, self.sent_at_first) = (1, sent);
            return false;
        }
        if self.looks < RATE_LOOKS {
            self.looks += 1;
            return false;
        }
        let taken = sent - self.sent_at_first;
        *self = Self { looks: 1, sent_at_first: sent };
        taken < READ_RATE_MIN * RATE_LOOKS * LOOK_INTERVAL.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds_until_stalled(progress: &Progress, unsent: bool) -> u64 {
        let began = Instant::now();
        let patience = IdlePolicy { idle_seconds_max: 75, unused_is_idle: false };
        progress.must_end(patience, || unsent).await;
        began.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_no_request_is_stalled() {
        let progress = Progress::default();
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
        progress.received(7);
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_longer() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        progress.sent(50);
        assert_eq!(seconds_until_stalled(&progress, false).await, 75);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_is_kept_where_it_counts_as_idle() {
        let progress = Progress::default();
        let began = Instant::now();
        let patience = IdlePolicy { idle_seconds_max: 30, unused_is_idle: true };
        progress.must_end(patience, || false).await;
        assert_eq!(began.elapsed().as_secs(), 30);
        progress.received(10);
        progress.requests_begun(9);
        progress.must_end(patience, || false).await;
        assert_eq!(began.elapsed().as_secs(), 40, "the tenth byte begins another request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_a_stranger_is_kept_as_an_unused_one() {
        let progress = Progress::default();
        for _ in 0..2 {
            progress.received(100);
            progress.request_begun();
            progress.request_of_stranger();
        }
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
        progress.received(100);
        progress.request_begun();
        assert_eq!(seconds_until_stalled(&progress, false).await, 75, "it has shown a token");
        progress.request_begun();
        progress.request_of_stranger();
        assert_eq!(seconds_until_stalled(&progress, false).await, 75, "its token has left");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_shown_no_token_gives_up_its_place_although_it_has_just_asked_and_does_not_read()
     {
        let patience = IdlePolicy { idle_seconds_max: 75, unused_is_idle: true };
        for is_proven in [false, true] {
            let progress = Progress::unproven();
            progress.received(100);
            progress.request_begun();
            if is_proven {
                progress.prove();
            }
            progress.ask_to_leave();
            let began = Instant::now();
            let (verdict, after_s) = match is_proven {
                false => (CloseReason::MakesRoom, 0),
                true => (CloseReason::ReadsTooSlowly, 10),
            };
            assert_eq!(progress.must_end(patience, || true).await, verdict);
            assert_eq!(began.elapsed().as_secs(), after_s);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_stalled() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        assert_eq!(seconds_until_stalled(&progress, true).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_head_may_not_trickle_either() {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        progress.received(1);
        assert_eq!(seconds_until_stalled(&progress, false).await, 10);
    }

    /// Answers wait from the first moment on; the client takes `bytes_per_second` each second.
    async fn seconds_of_a_reader(bytes_per_second: usize) -> Option<(u64, CloseReason)> {
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        let began = Instant::now();
        let reads = async {
            // Between the seconds, so that no read falls on the same moment as a look.
            tokio::time::sleep(Duration::from_millis(500)).await;
            for _ in 0..600 {
                progress.sent(bytes_per_second);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let patience = IdlePolicy { idle_seconds_max: 75, unused_is_idle: false };
        tokio::select! {
            verdict = progress.must_end(patience, || true) => {
                Some((began.elapsed().as_secs(), verdict))
            }
            () = reads => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_a_trickle_is_ended_and_a_slow_link_is_not() {
        assert_eq!(seconds_of_a_reader(350).await, Some((25, CloseReason::ReadsTooSlowly)));
        assert_eq!(seconds_of_a_reader(4_000).await, Some((25, CloseReason::ReadsTooSlowly)));
        assert_eq!(seconds_of_a_reader(64_000 / 8).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_given_up_by_who_rests_and_kept_by_who_has_just_asked() {
        let patience = IdlePolicy { idle_seconds_max: 75, unused_is_idle: false };
        let progress = Progress::default();
        progress.received(100);
        progress.request_begun();
        let began = Instant::now();
        let asks = async {
            tokio::time::sleep(Duration::from_secs(11)).await;
            assert_eq!(progress.idle_looks(), 2);
            progress.received(100);
            assert_eq!(progress.idle_looks(), 0);
            progress.ask_to_leave();
            progress.request_begun();
            tokio::time::sleep(Duration::from_secs(11)).await;
            progress.ask_to_leave();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            verdict = progress.must_end(patience, || false) => assert_eq!(verdict, CloseReason::MakesRoom),
            () = asks => {}
        }
        assert_eq!(began.elapsed().as_secs(), 22);
    }
}
