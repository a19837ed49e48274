//! Random numbers from a seed. Every part of a run draws from a separate stream, so its numbers do not depend
//! on the speed of other parts.

use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// A stream of random numbers.
pub(crate) struct Random(StdRng);

impl Random {
    /// The stream `name` of a seed.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        for (byte, named) in bytes[8..].iter_mut().zip(name.bytes()) {
            *byte = named;
        }
        Self(StdRng::from_seed(bytes))
    }

    /// A number in the range.
    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.gen_range(range)
    }

    /// True `percent` times in a hundred.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.0.gen_ratio(percent, 100)
    }

    /// One of several, of which there must be at least one.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        from.choose(&mut self.0).expect("there is something to pick from")
    }

    /// The same items in a random order.
    pub(crate) fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        items.shuffle(&mut self.0);
        items
    }
}
