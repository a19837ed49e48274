//! Tags with periods on three nodes with clocks that differ and jump around midnight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::json;

use crate::harness::{Cluster, WallClocks, eventually, mintleaf, ms, pause, secs};

const STEP: u64 = 5;

/// A midnight of a time zone, and the days before and after it. The days of New York have 23 and 25 hours.
struct Midnight {
    time_zone: &'static str,
    at: &'static str,
    days: [&'static str; 2],
}

const MIDNIGHTS: [Midnight; 3] = [
    Midnight {
        time_zone: "Asia/Kolkata",
        at: "2027-06-30T18:30:00Z",
        days: ["20270630", "20270701"],
    },
    Midnight {
        time_zone: "America/New_York",
        at: "2027-03-15T04:00:00Z",
        days: ["20270314", "20270315"],
    },
    Midnight {
        time_zone: "America/New_York",
        at: "2027-11-07T04:00:00Z",
        days: ["20271106", "20271107"],
    },
];

/// The distances of the middle clock from midnight, one after the other.
const MIDDLE_MS: [i64; 9] = [-6_000, -1_500, 300, -700, 1_200, -4_000, 2_100, -300, 5_000];
/// The distances of the clocks from the middle one, in turn.
const APART_MS: [[i64; 3]; 3] = [[-1_900, 0, 1_900], [0, 1_900, -1_900], [1_900, -1_900, 0]];

fn machine_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Takes ids through every node, and records them by period; returns the periods in the answers.
fn take(
    cluster: &Cluster,
    tag: &str,
    seen: &mut BTreeMap<String, BTreeSet<u64>>,
) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    for node in cluster.ids() {
        let answer = cluster.api(node).get(&format!("/v1/segment/{tag}?count=3"));
        // If a node's view of the time lags behind the jump, the log may let it into no period.
        if answer.status == 503 {
            continue;
        }
        let answer = answer.ok();
        let period = answer["period"].as_str().unwrap().to_owned();
        for id in answer["ids"].as_array().unwrap() {
            let id = id.as_str().unwrap();
            let number = id.strip_prefix(&format!("{period}-")).unwrap().parse().unwrap();
            let numbers = seen.entry(period.clone()).or_default();
            assert!(numbers.insert(number), "{id} came twice");
        }
        told.insert(period);
    }
    told
}

#[test]
fn no_id_of_a_period_comes_twice_with_clocks_apart_that_jump_around_midnight() {
    let mut cluster = mintleaf().prepare(3, &[]);
    let Some(clocks) = WallClocks::of(&mut cluster, "periods") else { return };
    cluster.start_all();
    let api = cluster.api(1);
    for (number, Midnight { time_zone, at, days }) in MIDNIGHTS.into_iter().enumerate() {
        let tag = format!("orders-{number}");
        let made = json!({
            "tag": tag, "period": "day", "time_zone": time_zone, "format": "{period}-{id}", "step": STEP,
        });
        eventually("the tag to be there", secs(10), || {
            [201, 409].contains(&api.post("/v1/tags", &made).status).then_some(())
        });
        let midnight_ms = at.parse::<Timestamp>().unwrap().as_millisecond();
        let set = |middle_ms: i64, apart_ms: [i64; 3]| {
            let middle_ms = midnight_ms + middle_ms - machine_ms();
            for (node, apart_ms) in cluster.ids().into_iter().zip(apart_ms) {
                clocks.shift(node, middle_ms + apart_ms);
            }
        };
        let mut seen = BTreeMap::new();
        set(-60_000, APART_MS[0]);
        eventually("ids of the day before", secs(20), || {
            let told = take(&cluster, &tag, &mut seen);
            (told == BTreeSet::from([days[0].to_owned()])).then_some(())
        });
        for (turn, middle_ms) in MIDDLE_MS.into_iter().enumerate() {
            set(middle_ms, APART_MS[turn % 3]);
            pause(ms(150));
            for period in take(&cluster, &tag, &mut seen) {
                assert!(days.contains(&period.as_str()), "{period} in {time_zone}");
            }
        }
        set(60_000, APART_MS[1]);
        eventually("ids of the day after", secs(20), || {
            let told = take(&cluster, &tag, &mut seen);
            (told == BTreeSet::from([days[1].to_owned()])).then_some(())
        });
        for day in days {
            // A node that grabbed first and was not asked during that day wastes ids.
            let first = seen[day].first().unwrap();
            assert!(*first <= 1 + 3 * STEP, "{day} begins at {first}");
        }
    }
}
