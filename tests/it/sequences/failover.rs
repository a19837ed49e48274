//! Leaders that are killed while callers count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;

use mintleaf_client::blocking::Client;

use super::{create, last, next, path};
use crate::harness::{Api, eventually, mintleaf, ms, pause, secs};

const KEYS: usize = 8;
const STEP: u32 = 50;

/// Callers that count the same keys through different nodes, and check that each gets higher numbers than were
/// in the answers before its request.
struct Callers {
    stopping: Arc<AtomicBool>,
    answered: Arc<[AtomicU64; KEYS]>,
    threads: Vec<JoinHandle<Vec<(usize, u64)>>>,
}

impl Callers {
    fn start(nodes: &[Api]) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let answered: Arc<[AtomicU64; KEYS]> = Arc::default();
        let threads = nodes.iter().map(|api| {
            let (api, stopping, answered) = (*api, Arc::clone(&stopping), Arc::clone(&answered));
            std::thread::spawn(move || count(api, &stopping, &answered))
        });
        Self { threads: threads.collect(), stopping, answered }
    }

    fn total(&self) -> u64 {
        self.answered.iter().map(|number| number.load(SeqCst)).sum()
    }

    /// Waits until every key has advanced since this call.
    fn await_more(&self) {
        let before: Vec<u64> = self.answered.iter().map(|number| number.load(SeqCst)).collect();
        eventually("every key to go on", secs(60), || {
            let mut both = self.answered.iter().zip(&before);
            both.all(|(number, before)| number.load(SeqCst) > *before).then_some(())
        });
    }

    /// Stops them, and fails if a number was given twice or out of order.
    fn judge(self) {
        self.stopping.store(true, SeqCst);
        let mut all: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        for thread in self.threads {
            for number in thread.join().expect("numbers came in order") {
                *all.entry(number).or_default() += 1;
            }
        }
        assert!(all.len() > 100, "only {} numbers", all.len());
        let twice = all.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "a number was given twice");
    }
}

fn count(api: Api, stopping: &AtomicBool, answered: &[AtomicU64; KEYS]) -> Vec<(usize, u64)> {
    let mut taken = Vec::new();
    for key in (0..KEYS).cycle() {
        if stopping.load(SeqCst) {
            break;
        }
        let above = answered[key].load(SeqCst);
        let answer = api.try_get(&format!("{}?count=3", path("chat", &format!("room-{key}"))));
        let Some(answer) = answer.ok().filter(|answer| answer.is_ok()) else {
            pause(ms(20));
            continue;
        };
        let numbers = answer.ids();
        assert!(numbers[0] > above, "room-{key} gives {numbers:?} after {above}");
        answered[key].fetch_max(numbers[2], SeqCst);
        taken.extend(numbers.into_iter().map(|number| (key, number)));
    }
    taken
}

#[test]
fn no_key_goes_back_when_leaders_are_killed() {
    let mut cluster = mintleaf().cluster(3);
    let nodes: Vec<Api> = cluster.ids().into_iter().map(|id| cluster.api(id)).collect();
    create(nodes[0], "chat", STEP);
    let callers = Callers::start(&nodes);
    for _ in 0..3 {
        callers.await_more();
        let leader = cluster.leader();
        let (before, busiest) = (callers.total(), highest(&callers));
        cluster.kill(leader);
        callers.await_more();
        let jump = callers.answered.iter().map(|number| number.load(SeqCst)).max().unwrap_or(0);
        assert!(before > 0 && jump > busiest, "{jump} after {busiest}");
        cluster.start_node(leader);
        cluster.await_ready();
    }
    callers.judge();
}

fn highest(callers: &Callers) -> u64 {
    callers.answered.iter().map(|number| number.load(SeqCst)).max().unwrap_or(0)
}

#[test]
fn a_key_goes_on_at_the_mark_of_its_section_after_a_restart() {
    let mut cluster = mintleaf().cluster(1);
    cluster.await_ready();
    let api = cluster.api(1);
    create(api, "chat", STEP);
    let given: Vec<u64> = (1..=7).map(|_| next(api, "chat", "room")).collect();
    assert_eq!(given, (1..=7).collect::<Vec<_>>());
    cluster.kill(1);
    cluster.start_node(1);
    cluster.await_ready();
    let bound = u64::from(STEP);
    assert_eq!(last(api, "chat", "room"), (Some(bound), false), "no number above it was given");
    assert_eq!(last(api, "chat", "never"), (None, true));
    assert_eq!(next(api, "chat", "room"), bound + 1);
    assert_eq!(last(api, "chat", "room"), (Some(bound + 1), true));
}

#[test]
fn without_a_quorum_there_are_no_numbers() {
    let mut cluster = mintleaf().cluster(3);
    let leader = cluster.leader();
    let api = cluster.api(leader);
    create(api, "chat", STEP);
    let given = next(api, "chat", "room");
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    others.iter().for_each(|id| cluster.kill(*id));
    let refused = api.get(&path("chat", "room"));
    assert_eq!(refused.problem(), (503, "unavailable".to_owned()));
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(api.get(&format!("{}/last", path("chat", "room"))).problem().0, 503);
    cluster.start_node(others[0]);
    let more = eventually("numbers again", secs(30), || {
        api.try_get(&path("chat", "room")).ok().filter(|answer| answer.is_ok())
    });
    assert!(more.ids()[0] > given);
}

#[test]
fn the_client_library_takes_numbers_of_keys_while_a_leader_dies() {
    let mut cluster = mintleaf().cluster(3);
    create(cluster.api(1), "chat", STEP);
    let endpoints = cluster.ids().into_iter().map(|id| format!("http://{}", cluster.api(id).0));
    let client = Client::builder().endpoints(endpoints).timeout(secs(30)).build_blocking().unwrap();
    let mut numbers: Vec<u64> =
        (0..20).map(|_| client.next_id_of("chat", "a/ü").unwrap()).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>(), "none is kept for another call");
    let leader = cluster.leader();
    cluster.kill(leader);
    numbers.extend((0..20).map(|_| client.next_id_of("chat", "a/ü").unwrap()));
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}
