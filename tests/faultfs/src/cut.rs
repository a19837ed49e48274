//! What a power cut leaves of unsynced changes; and bits that flip at rest.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::disk::{Change, Content, Disk};
use crate::glob;

/// The size in bytes of a sector, which a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
/// The size in bytes of a page, which a kernel writes back as a whole.
const PAGE_BYTES: usize = 4096;

/// What happens to the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All are lost.
    Lose,
    /// The changes up to a random moment survive, and part of the write at that moment: usually up to the end
    /// of a sector, sometimes up to any byte.
    Tear,
    /// Every page, or every sector, survives in its state at a separate random moment, as when a kernel and a
    /// drive write back in any order. Names and lengths, which a journal keeps in order, survive up to one
    /// common random moment.
    Scatter,
}

/// What a flip changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flipped {
    /// The file.
    pub path: String,
    /// The offset of the byte.
    pub offset: usize,
    /// The bit; 0 is the lowest.
    pub bit: u8,
}

impl Disk {
    /// Cuts the power and turns it on again. Returns how many unsynced changes there were.
    pub fn cut(&mut self, cut: Cut, seed: u64) -> usize {
        let mut random = StdRng::seed_from_u64(seed);
        let changes = std::mem::take(&mut self.pending);
        let count = changes.len();
        let survivors = match cut {
            Cut::Lose => Vec::new(),
            Cut::Tear => tear(changes, &mut random),
            Cut::Scatter => scatter(changes, &mut random),
        };
        self.settle(survivors);
        self.restart();
        count
    }

    /// Flips one bit of a file at rest, in the cache and on the platter. Returns `None` when all matching files
    /// are empty. Most flips hit a byte that is not zero, because many files are preallocated and hold zeros.
    pub fn flip(&mut self, pattern: Option<&str>, seed: u64) -> Option<Flipped> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut paths = self.paths();
        paths.retain(|(path, ino)| {
            let wanted = pattern.is_none_or(|pattern| glob::matches(pattern, path));
            wanted && self.attributes(*ino).is_ok_and(|file| file.len > 0)
        });
        paths.sort();
        let (path, ino) = paths.choose(&mut random)?.clone();
        let inode = self.inodes.get_mut(&ino)?;
        let Content::File(live) = &mut inode.live else { return None };
        let offset = pick(live, &mut random);
        let bit = random.gen_range(0..8);
        live[offset] ^= 1 << bit;
        if let Content::File(durable) = &mut inode.durable
            && let Some(byte) = durable.get_mut(offset)
        {
            *byte = live[offset];
        }
        Some(Flipped { path, offset, bit })
    }
}

fn tear(mut changes: Vec<Change>, random: &mut StdRng) -> Vec<Change> {
    changes.truncate(random.gen_range(0..=changes.len()));
    if let Some(Change::Write { offset, bytes, .. }) = changes.last_mut() {
        let mut kept = random.gen_range(0..=bytes.len());
        if random.gen_ratio(3, 4) {
            let end = (*offset + kept) / SECTOR_BYTES * SECTOR_BYTES;
            kept = end.saturating_sub(*offset);
        }
        bytes.truncate(kept);
    }
    changes
}

fn scatter(changes: Vec<Change>, random: &mut StdRng) -> Vec<Change> {
    let unit = if random.gen_bool(0.5) { SECTOR_BYTES } else { PAGE_BYTES };
    let count = changes.len();
    let mut last_moment = || random.gen_range(0..=count);
    let names_and_lengths = last_moment();
    // A unit reaches the platter in its state at some moment, with all writes before that.
    let mut moments = BTreeMap::new();
    let mut survivors = Vec::new();
    for (now, change) in changes.into_iter().enumerate() {
        match change {
            Change::Write { ino, offset, bytes } => {
                for (offset, bytes) in pieces(offset, &bytes, unit) {
                    let moment =
                        moments.entry((ino, offset / unit)).or_insert_with(&mut last_moment);
                    if now < *moment {
                        survivors.push(Change::Write { ino, offset, bytes });
                    }
                }
            }
            in_order if now < names_and_lengths => survivors.push(in_order),
            _ => {}
        }
    }
    survivors
}

/// Splits a write at multiples of `unit`.
fn pieces(mut offset: usize, mut bytes: &[u8], unit: usize) -> Vec<(usize, Vec<u8>)> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(unit - offset % unit));
        pieces.push((offset, piece.to_owned()));
        offset += piece.len();
        bytes = rest;
    }
    pieces
}

fn pick(bytes: &[u8], random: &mut StdRng) -> usize {
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let anywhere = random.gen_range(0..bytes.len());
    if random.gen_ratio(1, 4) { anywhere } else { *used.choose(random).unwrap_or(&anywhere) }
}
