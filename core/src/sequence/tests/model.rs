//! Leaders that come and go, over a log that keeps one watermark for each section, against a map that remembers
//! the last number of every key.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NODES: usize = 2;
const TAGS: [&str; 3] = ["chat", "mail", "t"];

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A caller asks for numbers of a key.
    Take { tag: usize, key: u16, count: u64 },
    /// A caller asks for the last number of a key.
    Last { tag: usize, key: u16 },
    /// The log grants an interval of a key's section, and the answer is lost.
    LostGrab { tag: usize, key: u16, size: u64 },
    /// A tag is deleted and made again.
    MadeAgain { tag: usize },
    /// One of the nodes leads in a new term, possibly the previous leader: it throws away what it held.
    Failover { to: usize },
    /// The node that leads starts again, under another secret.
    Restart,
}

/// The log, its nodes and what they ever answered.
struct Cluster {
    marks: BTreeMap<(usize, u16), u64>,
    nodes: [Counters; NODES],
    leader: usize,
    starts: u64,
    memory: usize,
    given: BTreeMap<(usize, u16), u64>,
}

impl Cluster {
    fn new(memory: usize) -> Self {
        let nodes = std::array::from_fn(|node| Counters::new(memory, [0, node as u64]));
        let (marks, given) = (BTreeMap::new(), BTreeMap::new());
        Self { marks, nodes, leader: 0, starts: 0, memory, given }
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.nodes[self.leader]
    }

    /// What `apply` does: the mark rises, and the answer is what it rose by.
    fn grab(&mut self, tag: usize, section: u16, size: u64) -> (u64, u64) {
        let mark = self.marks.entry((tag, section)).or_insert(1);
        let start = *mark;
        *mark += size;
        (start, *mark)
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Take { tag, key, count } => self.take(tag, key, count),
            Event::Last { tag, key } => self.last(tag, key),
            Event::LostGrab { tag, key, size } => {
                self.grab(tag, section_of(SequenceKey::parse(&name(key)).expect("a key")), size);
            }
            Event::MadeAgain { tag } => {
                self.nodes.iter_mut().for_each(|counters| counters.forget_tag(TAGS[tag]));
            }
            Event::Failover { to } => {
                self.leader = to;
                self.counters().forget_all();
            }
            Event::Restart => {
                self.starts += 1;
                *self.counters() = Counters::new(self.memory, [self.starts, 7]);
            }
        }
        let (memory, memory_max) = (self.counters().memory(), self.memory.max(16 * 1024));
        assert!(memory <= memory_max, "{memory} bytes are counted");
    }

    fn take(&mut self, tag: usize, key: u16, count: u64) {
        let name = name(key);
        let asked = SequenceKey::parse(&name).expect("a key");
        let numbers = loop {
            match self.counters().take(TAGS[tag], asked, count) {
                Ok(numbers) => break numbers,
                Err(NotHeld { section }) => {
                    let (start, end) = self.grab(tag, section, count.max(10));
                    self.counters().granted(&super::tag(TAGS[tag]), section, start, end);
                }
            }
        };
        assert_eq!(numbers.end() - numbers.start() + 1, count);
        // More is granted while keys are still below.
        if let Some(section) = self.counters().low_section() {
            let (start, end) = self.grab(tag, section, 10);
            self.counters().granted(&super::tag(TAGS[tag]), section, start, end);
        }
        let last = self.given.insert((tag, key), *numbers.end()).unwrap_or(0);
        assert!(*numbers.start() > last, "{name} of {} goes back to {numbers:?}", TAGS[tag]);
        let mark = self.marks[&(tag, section_of(asked))];
        assert!(*numbers.end() < mark, "{numbers:?} were never reserved: the mark is {mark}");
    }

    fn last(&mut self, tag: usize, key: u16) {
        let name = name(key);
        let asked = SequenceKey::parse(&name).expect("a key");
        let given = self.given.get(&(tag, key)).copied().unwrap_or(0);
        match self.counters().last(TAGS[tag], asked) {
            Last::Is(last) => assert_eq!(last, given, "{name}"),
            Last::Below(end) => assert!(given < end, "{name} was given {given}, not below {end}"),
            Last::NotHeld { section } => {
                let mark = self.marks.get(&(tag, section)).copied().unwrap_or(1);
                assert!(given < mark, "{name} was given {given}, not below the mark {mark}");
            }
        }
    }
}

fn name(key: u16) -> String {
    format!("room-{key}")
}

fn event() -> impl Strategy<Value = Event> {
    let tag = || 0..TAGS.len();
    // Few keys that are used again and again, and many that rest.
    let key = || prop_oneof![0_u16..20, 0_u16..5_000];
    prop_oneof![
        400 => (tag(), key(), prop_oneof![Just(1), 1_u64..30])
            .prop_map(|(tag, key, count)| Event::Take { tag, key, count }),
        80 => (tag(), key()).prop_map(|(tag, key)| Event::Last { tag, key }),
        10 => (tag(), key(), 1_u64..100)
            .prop_map(|(tag, key, size)| Event::LostGrab { tag, key, size }),
        2 => tag().prop_map(|tag| Event::MadeAgain { tag }),
        2 => (0..NODES).prop_map(|to| Event::Failover { to }),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_key_ever_goes_back(
        memory in 0_usize..300_000,
        events in prop::collection::vec(event(), 1..3_000),
    ) {
        let mut cluster = Cluster::new(memory);
        events.iter().for_each(|event| cluster.happen(event));
    }
}
