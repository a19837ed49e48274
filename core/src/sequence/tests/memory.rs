//! Many more keys than memory has room for: what the process takes, and that no key goes back.

use std::env;
use std::process::Command;

use super::*;

/// Set for the process that is measured. `scripts/sequence-memory` sets the other two.
const MEASURED: &str = "MINTLEAF_SEQUENCE_MEASURED";
const KEYS: &str = "MINTLEAF_SEQUENCE_KEYS";
const MEMORY_MIB: &str = "MINTLEAF_SEQUENCE_MEMORY_MIB";

/// After this many keys, two that were used before are used again.
const AGAIN_EVERY: u64 = 16;

#[test]
fn millions_of_keys_stay_within_their_memory_and_never_go_back() {
    let keys = number(KEYS, 2_000_000);
    let memory = number(MEMORY_MIB, 16) as usize * MIB;
    if env::var_os(MEASURED).is_some() {
        return measure(keys, memory);
    }
    // A separate process, because other tests take memory of this one.
    let mut child = Command::new(env::current_exe().expect("this test's binary"));
    let name = "millions_of_keys_stay_within_their_memory_and_never_go_back";
    let name = format!("sequence::tests::memory::{name}");
    let out = child.env(MEASURED, "1").args(["--exact", &name, "--nocapture"]).output();
    let out = out.expect("this test's binary starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains(" keys in "), "the measured process ran no test: {said}");
    print!("{said}");
}

fn measure(keys: u64, memory: usize) {
    let mut log = Log::new(keys);
    let before = resident();
    let mut counters = Counters::new(memory, [3, 5]);
    let mut most = 0;
    for n in 0..keys {
        log.next(&mut counters, n);
        if n % AGAIN_EVERY == 0 {
            // A key of long ago, and one of a moment ago.
            log.next(&mut counters, n / 2);
            log.next(&mut counters, n.saturating_sub(100));
        }
        if n % 1_024 == 0 {
            most = most.max(counters.memory());
        }
    }
    let taken = resident().saturating_sub(before);
    println!(
        "{keys} keys in {} MiB: {} held, {} forgotten, {} MiB counted, {} MiB resident, \
         the highest number is {}",
        memory / MIB,
        counters.keys_held(),
        counters.keys_forgotten(),
        most / MIB,
        taken / MIB,
        log.given.iter().max().unwrap_or(&0),
    );
    assert!(most <= memory, "{most} bytes are counted, {memory} are allowed");
    assert!(taken <= memory + memory / 5, "{taken} bytes are resident, {memory} are allowed");
    assert!(taken >= most / 2, "{taken} bytes are resident, {most} are counted");
    assert!(counters.keys_held() > memory / 64, "{} keys are held", counters.keys_held());
}

/// One tag's watermarks, and what each key was given last, in memory that is in use from the beginning.
struct Log {
    tag: BizTag,
    marks: Vec<u64>,
    given: Vec<u32>,
}

impl Log {
    fn new(keys: u64) -> Self {
        // A filled list is in use at once; a list of zeros would be when it is written to.
        let mut given = vec![u32::MAX; usize::try_from(keys).expect("keys")];
        given.fill(0);
        Self { tag: tag("chat"), marks: vec![1; usize::from(SECTIONS)], given }
    }

    /// Gives a key its next number, which must be above its last one.
    fn next(&mut self, counters: &mut Counters, n: u64) {
        let name = format!("room-{n}");
        let number = loop {
            match counters.take("chat", key(&name), 1) {
                Ok(numbers) => break u32::try_from(*numbers.end()).expect("a number of 32 bits"),
                Err(NotHeld { section }) => {
                    let mark = &mut self.marks[usize::from(section)];
                    let start = *mark;
                    *mark += 1_000;
                    counters.granted(&self.tag, section, start, *mark);
                }
            }
        };
        let last = std::mem::replace(&mut self.given[n as usize], number);
        assert!(number > last, "{name} went from {last} to {number}");
    }
}

/// Bytes of memory that the process has in use.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

fn number(name: &str, default: u64) -> u64 {
    let text = env::var_os(name).map(|text| text.into_string().expect("UTF-8"));
    text.map_or(default, |text| text.parse().expect("a number"))
}
