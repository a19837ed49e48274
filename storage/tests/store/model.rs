//! Random operations on the engine and on a plain map, with reopens and crashes at random points.

use crate::common::{Content, content, copy, open, quick_dir};
use mintleaf_storage::{LogEngine, MetaKey, SledEngine};
use proptest::prelude::*;
use std::fs;

#[derive(Debug, Clone)]
enum Op {
    Append(Vec<usize>),
    Vote(u8),
    Sync,
    /// Truncates this many records at the end.
    Truncate(u64),
    /// Purges up to this far behind the first index.
    Purge(u64),
    Reopen,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec(0..3000_usize, 1..8).prop_map(Op::Append),
        2 => any::<u8>().prop_map(Op::Vote),
        4 => Just(Op::Sync),
        2 => (0..8_u64).prop_map(Op::Truncate),
        2 => (0..12_u64).prop_map(Op::Purge),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

/// The content that the engine must show now, and the content that it must show after a crash.
#[derive(Default)]
struct Model {
    now: Content,
    synced: Content,
    written: u64,
}

impl Model {
    fn next_index(&self) -> u64 {
        let after_log = self.now.log.last_key_value().map(|(last, _)| last + 1);
        after_log.or(self.now.purged.as_ref().map(|(index, _)| index + 1)).unwrap_or(1)
    }

    fn append(&mut self, engine: &SledEngine, sizes: &[usize]) {
        let first = self.next_index();
        let mut records = Vec::new();
        for size in sizes {
            self.written += 1;
            let mut record = self.written.to_le_bytes().to_vec();
            record.resize(8 + size, 0x5a);
            records.push(record);
        }
        self.now.log.extend((first..).zip(records.iter().cloned()));
        engine.append(first, records).unwrap();
    }

    fn truncate(&mut self, engine: &SledEngine, back: u64) {
        let floor = self.now.purged.as_ref().map_or(0, |(index, _)| index + 1);
        let index = self.next_index().saturating_sub(back).max(floor);
        engine.truncate_from(index).unwrap();
        if self.now.log.split_off(&index).is_empty() {
            return; // Nothing was removed, so the engine did not have to sync.
        }
        self.synced = self.now.clone();
    }

    fn purge(&mut self, engine: &SledEngine, ahead: u64) {
        let first = self.now.log.first_key_value().map_or(self.next_index(), |(first, _)| *first);
        let index = first + ahead;
        engine.purge_upto(index, &index.to_le_bytes()).unwrap();
        self.now.log = self.now.log.split_off(&(index + 1));
        self.now.purged = Some((index, index.to_le_bytes().to_vec()));
        self.synced = self.now.clone();
    }
}

fn run(ops: &[Op]) {
    let root = quick_dir();
    let mut dir = root.path().join("0");
    let mut engine = open(&dir).unwrap();
    let mut model = Model::default();
    for (step, op) in ops.iter().enumerate() {
        match op {
            Op::Append(sizes) => model.append(&engine, sizes),
            Op::Vote(vote) => {
                engine.put_meta(MetaKey::Vote, &[*vote]).unwrap();
                model.now.vote = Some(vec![*vote]);
            }
            Op::Sync => {
                engine.sync().unwrap();
                model.synced = model.now.clone();
            }
            Op::Truncate(back) => model.truncate(&engine, *back),
            Op::Purge(ahead) => model.purge(&engine, *ahead),
            Op::Reopen => {
                drop(engine);
                engine = open(&dir).unwrap();
                model.now = model.synced.clone();
            }
            Op::Crash => {
                let copied = root.path().join((step + 1).to_string());
                copy(&dir, &copied);
                drop(engine);
                fs::remove_dir_all(&dir).unwrap();
                dir = copied;
                engine = open(&dir).unwrap();
                model.now = model.synced.clone();
            }
        }
        assert_eq!(content(&engine), model.now, "after step {step}, {op:?}");
    }
    drop(engine);
    assert_eq!(content(&open(&dir).unwrap()), model.synced);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_operations_leave_what_a_map_would_hold(ops in prop::collection::vec(op(), 1..60)) {
        run(&ops);
    }
}
