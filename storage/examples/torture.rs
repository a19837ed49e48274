//! Writes to a store as fast as it can and prints what was acknowledged. After the process was killed or the power
//! was cut, verifies that all of it is there.
//!
//! `torture write DIR` prints `ack ROUND` after each round of operations. When it is started again, it continues
//! after the last round in the store. `torture verify DIR ROUND` exits with 1 unless the store has exactly the
//! content after some round, ROUND or later. A last argument sets how many records a purge leaves, 300 by default:
//! the fewer it leaves, the more often there is a purge.
//!
//! The operations of a round depend only on its number and that last argument, so the content after each round can be
//! computed. The store keeps the number of its last round as its vote.

use mintleaf_storage::{DataDir, LogEngine, MetaKey, SledEngine, StorageError};
use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: torture write DIR [KEEP] | torture verify DIR ROUND [KEEP]";

/// Default for the number of records that a purge leaves.
const KEEP: &str = "300";

/// The operations of one batch.
enum Round {
    Append(u64),
    /// How many of the last records are removed.
    Truncate(u64),
    /// How many of the first records are removed.
    Purge(u64),
}

/// The operations of a round. Appends outweigh truncations, and purges bound the log.
fn round(number: u64, records: u64, keep: u64) -> Round {
    let chance = mix(number);
    match chance % 16 {
        0 => Round::Truncate(chance / 16 % 20),
        1 if records > keep * 5 / 3 => Round::Purge(records - keep),
        _ => Round::Append(1 + chance / 16 % 8),
    }
}

/// Splitmix64: a number that looks random and depends only on its argument.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The record that a round writes at an index.
fn record(index: u64, round: u64) -> Vec<u8> {
    let size = mix(index ^ round << 32) % 1000;
    let mut bytes = [index.to_le_bytes(), round.to_le_bytes()].concat();
    bytes.resize(bytes.len() + size as usize, index as u8);
    bytes
}

/// The content after a round: which round wrote each record of the log.
struct Expected {
    keep: u64,
    round: u64,
    purged: u64,
    writers: VecDeque<u64>,
}

impl Expected {
    /// The content after `rounds` rounds.
    fn after(rounds: u64, keep: u64) -> Self {
        let mut expected = Expected { keep, round: 0, purged: 0, writers: VecDeque::new() };
        while expected.round < rounds {
            expected.advance();
        }
        expected
    }

    fn next_index(&self) -> u64 {
        self.purged + 1 + self.writers.len() as u64
    }

    fn advance(&mut self) -> Round {
        self.round += 1;
        let records = self.writers.len() as u64;
        let mut round = round(self.round, records, self.keep);
        match &mut round {
            Round::Append(count) => self.writers.extend((0..*count).map(|_| self.round)),
            Round::Truncate(count) => {
                *count = (*count).min(records);
                self.writers.truncate((records - *count) as usize);
            }
            Round::Purge(count) => {
                self.purged += *count;
                self.writers.drain(..*count as usize);
            }
        }
        round
    }

    /// Runs the next round on the engine. All of it is acknowledged on return.
    fn advance_with(&mut self, engine: &SledEngine) -> Result<(), StorageError> {
        let first = self.next_index();
        let round = self.advance();
        engine.put_meta(MetaKey::Vote, &self.round.to_le_bytes())?;
        match round {
            Round::Append(count) => {
                let indices = first..first + count;
                engine.append(first, indices.map(|index| record(index, self.round)).collect())?;
            }
            Round::Truncate(_) => engine.truncate_from(self.next_index())?,
            Round::Purge(_) => engine.purge_upto(self.purged, &self.round.to_le_bytes())?,
        }
        engine.sync()
    }

    /// Compares the content of the engine with the expected one.
    fn check(&self, engine: &SledEngine) -> Result<(), Box<dyn Error>> {
        let purged = engine.purge_mark().map_or(0, |(index, _)| index);
        if purged != self.purged {
            return Err(format!("purged up to {purged}, not {}", self.purged).into());
        }
        let first = self.purged + 1;
        let bounds = (first < self.next_index()).then(|| (first, self.next_index() - 1));
        if engine.bounds() != bounds {
            return Err(format!("log is {:?}, not {bounds:?}", engine.bounds()).into());
        }
        let found = engine.read(first..self.next_index(), usize::MAX)?;
        for ((index, writer), found) in (first..).zip(&self.writers).zip(found) {
            if found != record(index, *writer) {
                return Err(format!("record {index} is not the one of round {writer}").into());
            }
        }
        Ok(())
    }
}

/// Opens the store and verifies that it has the content after its last round.
fn open(dir: &Path, keep: u64) -> Result<(SledEngine, Expected), Box<dyn Error>> {
    let engine = SledEngine::open(&DataDir::open(dir, 1)?)?;
    let round = match engine.get_meta(MetaKey::Vote)? {
        Some(vote) => u64::from_le_bytes(vote.as_slice().try_into()?),
        None => 0,
    };
    let expected = Expected::after(round, keep);
    expected.check(&engine)?;
    Ok((engine, expected))
}

fn write(dir: &Path, keep: &str) -> Result<(), Box<dyn Error>> {
    let (engine, mut expected) = open(dir, keep.parse()?)?;
    let mut out = std::io::stdout().lock();
    loop {
        expected.advance_with(&engine)?;
        writeln!(out, "ack {}", expected.round)?;
    }
}

fn verify(dir: &Path, acknowledged: &str, keep: &str) -> Result<(), Box<dyn Error>> {
    let acknowledged: u64 = acknowledged.parse()?;
    let (_, expected) = open(dir, keep.parse()?)?;
    let round = expected.round;
    if round < acknowledged {
        return Err(format!("store is at round {round}, {acknowledged} was acknowledged").into());
    }
    println!("ok round {round} acknowledged {acknowledged}");
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["write", dir] => write(Path::new(dir), KEEP),
        ["write", dir, keep] => write(Path::new(dir), keep),
        ["verify", dir, round] => verify(Path::new(dir), round, KEEP),
        ["verify", dir, round, keep] => verify(Path::new(dir), round, keep),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = result {
        eprintln!("torture: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
