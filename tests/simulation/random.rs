//! Random numbers from a seed. Every part of the simulation draws from a separate stream, so that a change of
//! one part does not shift the others.

use std::ops::Range;

use parking_lot::Mutex;

/// A stream of random numbers.
pub(crate) struct Random(Mutex<u64>);

impl Random {
    /// The stream `name` of a seed.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        Self(Mutex::new(fnv(seed ^ 0xcbf2_9ce4_8422_2325, name.as_bytes())))
    }

    /// The next number: SplitMix64.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in the range.
    pub(crate) fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// True `percent` times in a hundred.
    pub(crate) fn chance(&self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// One of several values.
    pub(crate) fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.within(0..from.len() as u64) as usize]
    }
}

/// FNV-1a of 64 bits, continued from `hash`.
pub(crate) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
