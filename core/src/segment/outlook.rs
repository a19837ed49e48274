//! How far the ids of a double buffer reach, for people who monitor it.

use std::ops::Range;

/// What one node holds of one tag at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outlook {
    /// The segment that ids come from; `None` before the first.
    pub current: Option<Range<u64>>,
    /// The next id to give from it.
    pub cursor: u64,
    /// The segment behind it, if one is held.
    pub next: Option<Range<u64>>,
    /// How many ids are held, those behind `next` among them.
    pub remaining: u64,
    /// How many more ids are taken before the next grab is asked for; 0 while one is due or in flight.
    pub ids_to_grab: u64,
    /// Whether a grab is in flight.
    pub grab_in_flight: bool,
    /// How many ids the current segment gave.
    pub used: u64,
    /// How many milliseconds that took.
    pub used_in_ms: u64,
}

impl Outlook {
    /// Ids a second, as the current segment gave them; measured over at least a second, so that the first ids of a
    /// segment do not look like a flood.
    pub fn rate(&self) -> f64 {
        self.used as f64 * 1_000.0 / self.used_in_ms.max(1_000) as f64
    }

    /// For how many seconds the held ids last at that rate; `None` where nothing is used.
    pub fn lasts_s(&self) -> Option<f64> {
        let rate = self.rate();
        (rate > 0.0).then(|| self.remaining as f64 / rate)
    }
}
