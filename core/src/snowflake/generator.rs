//! Makes the ids of one process, in the windows that it holds.

use std::ops::Range;

use super::layout::{Format, IdParts};

/// The Unix milliseconds `[floor_ms, fence_ms)` of one worker id, owned by the process that they were
/// given to, until it [gives them up](Generator::give_up).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub struct Window {
    /// The worker id.
    pub worker_id: u16,
    /// The first millisecond of the window.
    pub floor_ms: u64,
    /// The first millisecond past the window.
    pub fence_ms: u64,
}

impl Window {
    fn covers(&self, time_ms: u64) -> bool {
        (self.floor_ms..self.fence_ms).contains(&time_ms)
    }
}

/// Why there is no id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// No window is held.
    NoWindow,
    /// The clock has passed the end of every window.
    Ended,
    /// Every id has been given, up to the end of the windows or as far ahead of the clock as ids may go: the
    /// clock went back, or callers took more than the worker ids can make.
    Spent,
}

/// Makes the ids of one process.
///
/// The next id is the smallest one that lies above the last, shows no time before the clock's, and belongs to a
/// millisecond of a window that is held. So ids rise whatever the clock does and for any number of worker ids. While
/// the clock is behind the last id, the generator stays at the time of that id. When the ids of a millisecond are
/// spent, it moves to the next worker id, then to the next millisecond, ahead of the clock, but never as far as a
/// window's fence.
///
/// A millisecond that the clock reaches begins at a random sequence number. At low traffic most
/// milliseconds give one id, and numbers that began at 0 would all fall on the first shards. The
/// skipped ids are not missed: a caller gets ids of the next millisecond instead, without waiting,
/// and a generator that runs ahead of its clock skips nothing.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Eq, Hash, PartialEq))]
pub struct Generator {
    format: Format,
    /// How far ids may run ahead of the clock, and so how large a step back of the clock the generator rides out.
    /// Beyond that, ids would show times that are of no use to a reader.
    ahead_ms_max: u64,
    /// The last id given, the only cursor there is; 0 before the first.
    last: u64,
    /// The windows held, ascending by worker id, one for each at most.
    windows: Vec<Window>,
    /// State of the generator of random sequence numbers.
    random: u64,
    given: u64,
}

impl Generator {
    /// A generator that holds nothing, and gives no id whose time is more than `ahead_ms_max` ahead
    /// of the clock. `seed` should be random: it only spreads sequence numbers.
    pub fn new(format: Format, ahead_ms_max: u64, seed: u64) -> Self {
        Self { format, ahead_ms_max, last: 0, windows: Vec::new(), random: seed, given: 0 }
    }

    /// Adds a window to the held ones. It must either extend the held window of the same worker id, or lie above it and
    /// replace it.
    ///
    /// # Panics
    /// If the window is empty, has times that no id can show, or overlaps the held one without extending it: this
    /// process cannot have been given such a window.
    pub fn install(&mut self, window: Window) {
        let Window { worker_id, floor_ms, fence_ms } = window;
        let times = self.format.times_ms();
        let sound = times.start <= floor_ms && floor_ms < fence_ms && fence_ms <= times.end;
        assert!(sound && worker_id < self.format.layout().worker_ids(), "impossible {window:?}");
        match self.windows.binary_search_by_key(&worker_id, |held| held.worker_id) {
            Ok(at) => {
                let held = &mut self.windows[at];
                let extends = held.floor_ms == floor_ms && held.fence_ms <= fence_ms;
                assert!(extends || held.fence_ms <= floor_ms, "{window:?} meets {held:?}");
                *held = window;
            }
            Err(at) => self.windows.insert(at, window),
        }
    }

    /// The next id. `clock_ms` is the wall clock, which may show any time.
    ///
    /// # Errors
    /// [`Refusal`]; in that case it gives no id.
    #[inline]
    pub fn take_one(&mut self, clock_ms: u64) -> Result<u64, Refusal> {
        self.take_some(1, clock_ms).map(|run| run.start)
    }

    /// The next ids of one worker id and millisecond: up to `count_max`, which is 1 or more.
    ///
    /// # Errors
    /// [`Refusal`]; in that case it gives no id.
    #[inline]
    pub fn take_some(&mut self, count_max: u64, clock_ms: u64) -> Result<Range<u64>, Refusal> {
        let run = self.run(clock_ms, count_max).ok_or_else(|| self.refusal(clock_ms))?;
        self.given += run.end - run.start;
        Ok(run)
    }

    /// The next `count` ids as ascending ranges, one for each millisecond of a worker id.
    ///
    /// # Errors
    /// [`Refusal`] when there are fewer; in that case it gives no id.
    pub fn take(&mut self, count: u64, clock_ms: u64) -> Result<Vec<Range<u64>>, Refusal> {
        let (last, random) = (self.last, self.random);
        let mut runs = Vec::with_capacity(1 + (count / self.format.layout().ids_per_ms()) as usize);
        let mut missing = count;
        while missing > 0 {
            let Some(run) = self.run(clock_ms, missing) else {
                (self.last, self.random) = (last, random);
                return Err(self.refusal(clock_ms));
            };
            missing -= run.end - run.start;
            runs.push(run);
        }
        self.given += count;
        Ok(runs)
    }

    /// Whether there is an id to take. It takes none.
    ///
    /// # Errors
    /// The [`Refusal`] that a caller who takes one would get.
    pub fn could_take(&self, clock_ms: u64) -> Result<(), Refusal> {
        if self.remaining_ms(clock_ms) > 0 { Ok(()) } else { Err(self.refusal(clock_ms)) }
    }

    /// Takes the next ids, up to `count` of one worker id and millisecond.
    #[inline]
    fn run(&mut self, clock_ms: u64, count: u64) -> Option<Range<u64>> {
        let ids_per_ms = self.format.layout().ids_per_ms();
        let first = self.above_last(clock_ms)?;
        if first.time_ms.saturating_sub(clock_ms) > self.ahead_ms_max {
            return None;
        }
        let start = self.format.encode(first);
        let end = start + count.min(ids_per_ms - first.sequence);
        assert!(start > self.last, "snowflake ids would fall from {} to {start}", self.last);
        self.last = end - 1;
        Some(start..end)
    }

    /// The smallest id above the last, at `clock_ms` or later.
    #[inline]
    fn above_last(&mut self, clock_ms: u64) -> Option<IdParts> {
        let last = self.last_parts();
        let ids_per_ms = self.format.layout().ids_per_ms();
        if clock_ms > last.time_ms {
            if let Some(worker_id) = self.worker_at(clock_ms, 0) {
                let sequence = self.next_random() & (ids_per_ms - 1);
                return Some(IdParts { time_ms: clock_ms, worker_id, sequence });
            }
            return self.first_after(clock_ms);
        }
        if last.sequence + 1 < ids_per_ms && self.holds(last.worker_id, last.time_ms) {
            return Some(IdParts { sequence: last.sequence + 1, ..last });
        }
        match self.worker_at(last.time_ms, last.worker_id + 1) {
            Some(worker_id) => Some(IdParts { time_ms: last.time_ms, worker_id, sequence: 0 }),
            None => self.first_after(last.time_ms),
        }
    }

    /// The first id in the first millisecond after `time_ms` that the window of any worker id covers.
    fn first_after(&self, time_ms: u64) -> Option<IdParts> {
        let next_ms = time_ms.saturating_add(1);
        let later = self.windows.iter().filter(|window| window.fence_ms > next_ms);
        let time_ms = later.map(|window| window.floor_ms.max(next_ms)).min()?;
        let worker_id = self.worker_at(time_ms, 0)?;
        Some(IdParts { time_ms, worker_id, sequence: 0 })
    }

    /// The lowest worker id from `lowest` up whose window covers `time_ms`.
    #[inline]
    fn worker_at(&self, time_ms: u64, lowest: u16) -> Option<u16> {
        let mut windows = self.windows.iter();
        let found = windows.find(|window| window.worker_id >= lowest && window.covers(time_ms));
        found.map(|window| window.worker_id)
    }

    fn holds(&self, worker_id: u16, time_ms: u64) -> bool {
        self.worker_at(time_ms, worker_id) == Some(worker_id)
    }

    fn last_parts(&self) -> IdParts {
        self.format.decode(self.last).expect("ids are made in the format that they are read in")
    }

    fn refusal(&self, clock_ms: u64) -> Refusal {
        match self.windows.iter().map(|window| window.fence_ms).max() {
            None => Refusal::NoWindow,
            Some(fence_ms) if fence_ms <= clock_ms => Refusal::Ended,
            Some(_) => Refusal::Spent,
        }
    }

    /// The next number of SplitMix64, which takes a few operations and has no weak bit.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Gives up the window of a worker id: no more ids come from it. Returns the first of its milliseconds that no id
    /// shows, or its fence when every millisecond is used; `None` when no window of the worker id is held.
    pub fn give_up(&mut self, worker_id: u16) -> Option<u64> {
        let at = self.windows.binary_search_by_key(&worker_id, |held| held.worker_id).ok()?;
        let window = self.windows.remove(at);
        let unused_from_ms = match self.last {
            0 => window.floor_ms,
            _ => self.last_parts().time_ms + 1,
        };
        Some(unused_from_ms.clamp(window.floor_ms, window.fence_ms))
    }

    /// Gives up every millisecond below `floor_ms`: no more ids come from there. A window that reaches above `floor_ms`
    /// begins there from now on; the generator gives up the others completely. Returns their worker ids, each with its
    /// first millisecond that no id shows, as [`give_up`](Self::give_up) does.
    pub fn lift(&mut self, floor_ms: u64) -> Vec<(u16, u64)> {
        let below = self.windows.iter().filter(|window| window.fence_ms <= floor_ms);
        let below: Vec<u16> = below.map(|window| window.worker_id).collect();
        let given_up = below.into_iter().filter_map(|id| Some((id, self.give_up(id)?))).collect();
        for window in &mut self.windows {
            window.floor_ms = window.floor_ms.max(floor_ms);
        }
        given_up
    }

    /// The windows held, ascending by worker id.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// How many ids were given.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// How far the next id's time is ahead of the clock, when that is further than ids may run.
    pub fn too_far_ahead_ms(&self, clock_ms: u64) -> Option<u64> {
        let last_ms = if self.last == 0 { 0 } else { self.last_parts().time_ms };
        let floors = self.windows.iter().map(|window| window.floor_ms);
        let next_ms = floors.min().map_or(last_ms, |floor_ms| last_ms.max(floor_ms));
        let ahead_ms = next_ms.saturating_sub(clock_ms);
        (ahead_ms > self.ahead_ms_max).then_some(ahead_ms)
    }

    /// The worker ids whose windows begin further ahead of the clock than ids may run.
    pub fn out_of_reach(&self, clock_ms: u64) -> Vec<u16> {
        let reach_ms = clock_ms.saturating_add(self.ahead_ms_max);
        let beyond = self.windows.iter().filter(|window| window.floor_ms > reach_ms);
        beyond.map(|window| window.worker_id).collect()
    }

    /// How many whole milliseconds are left until the last window ends, counted from the clock or from
    /// the last id, whichever is ahead; 0 while ids would run too far ahead of the clock.
    pub fn remaining_ms(&self, clock_ms: u64) -> u64 {
        if self.too_far_ahead_ms(clock_ms).is_some() {
            return 0;
        }
        let fence_ms = self.windows.iter().map(|window| window.fence_ms).max().unwrap_or(0);
        fence_ms.saturating_sub(clock_ms.max(self.last_parts().time_ms + 1))
    }
}

#[cfg(test)]
mod tests;
