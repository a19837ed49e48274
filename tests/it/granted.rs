//! Every id of a shaped tag that is handed out lies in a grant to some process, according to the nodes' own logs.

use std::time::Instant;

use mintleaf_check::Invariant;
use mintleaf_check::history::{Call, Drawn, Grant, Ids, Outcome, Record, Strict};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually, judge, mintleaf, secs};

/// Keys of a sequence, and their permanent sections.
const KEYS: [(&str, u64); 3] = [("a", 2067), ("room-17", 261), ("user%2F42", 994)];

/// The requests of clients, and the answers.
struct Recorder {
    first: Instant,
    records: Vec<Record<'static>>,
}

impl Recorder {
    fn new() -> Self {
        let strict = |key: String| Record::Strict(Strict { key: key.into() });
        let mut records = vec![strict("strict".to_owned())];
        for (key, section) in KEYS {
            let key = format!("rooms/{key}");
            let from = format!("rooms#{section}").into();
            records.extend([strict(key.clone()), Record::Drawn(Drawn { key: key.into(), from })]);
        }
        Self { first: Instant::now(), records }
    }

    /// Asks a node for ids, and records its answer. `name` gives the name for the ids in an answer.
    fn ask(&mut self, (node, api): (u64, Api), path: &str, name: impl Fn(&Answer) -> String) {
        let ns = |at: Instant| u64::try_from((at - self.first).as_nanos()).unwrap();
        let began = Instant::now();
        let answer = api.try_get(&format!("{path}?count=7&format=ranges"));
        let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else { return };
        let (p, inv) = (node as u32, ns(began));
        let (ret, out) = (Some(ns(Instant::now())), Outcome::Ok);
        let call = Call { p, node, boot: None, inv, ret, out, code: None };
        let r = answer.intervals().unwrap();
        self.records.push(Record::Ids(Ids { call, key: name(&answer).into(), r }));
    }

    fn ask_for_all(&mut self, (node, api): (u64, Api)) {
        let of_period = |answer: &Answer| {
            let json = answer.json();
            let [tag, period] = ["tag", "period"].map(|field| json[field].as_str().unwrap());
            format!("{tag}/{period}")
        };
        self.ask((node, api), "/v1/segment/strict", |_| "strict".to_owned());
        self.ask((node, api), "/v1/segment/monthly", of_period);
        self.ask((node, api), "/v1/segment/strict-monthly", of_period);
        for (key, _) in KEYS {
            self.ask((node, api), &format!("/v1/sequence/rooms/{key}"), |_| format!("rooms/{key}"));
        }
    }

    /// Records that the ids of a strict tag rise over all nodes, in all its periods.
    fn strict_periods(&mut self) {
        let of_strict = |record: &Record<'static>| match record {
            Record::Ids(ids) if ids.key.0.starts_with("strict-monthly/") => Some(ids.key.clone()),
            _ => None,
        };
        let keys: Vec<_> = self.records.iter().filter_map(of_strict).collect();
        self.records.extend(keys.into_iter().map(|key| Record::Strict(Strict { key })));
    }
}

/// The grants in the nodes' logs.
fn grants(cluster: &mut Cluster) -> Vec<Record<'static>> {
    let mut grants = Vec::new();
    for node in cluster.ids() {
        let log = cluster.process(node).log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for event in events.filter(|event| event["target"] == "mintleaf::grants") {
            let fields = &event["fields"];
            let number = |name: &str| fields[name].as_u64();
            // Windows of snowflake ids have neither field.
            let (Some(start), Some(end)) = (number("start"), number("end")) else { continue };
            let tag = fields["tag"].as_str().unwrap();
            let key = match (number("section"), number("period")) {
                (Some(section), _) => format!("{tag}#{section}"),
                (None, Some(period)) => format!("{tag}/{period}"),
                (None, None) => tag.to_owned(),
            };
            let (key, r) = (key.into(), vec![(start, end)]);
            grants.push(Record::Grant(Grant { key, node, boot: None, at: 0, r }));
        }
    }
    grants
}

#[test]
fn every_id_lies_in_what_a_process_was_granted_while_leaders_die() {
    let mut cluster = mintleaf().prepare(3, &["--log-format", "json"]);
    for id in cluster.ids() {
        cluster.set_env(id, "RUST_LOG", "info,mintleaf::grants=debug");
    }
    cluster.start_all();
    let leader = cluster.leader();
    for tag in [
        json!({ "tag": "monthly", "period": "month", "step": 20 }),
        json!({ "tag": "rooms", "kind": "sequence", "step": 20 }),
        json!({ "tag": "strict", "order": "strict", "step": 20 }),
        json!({ "tag": "strict-monthly", "order": "strict", "period": "month", "step": 20 }),
    ] {
        cluster.api(leader).post("/v1/tags", &tag).ok();
    }
    let mut recorder = Recorder::new();
    for _ in 0..2 {
        for _ in 0..10 {
            cluster.ids().into_iter().for_each(|id| recorder.ask_for_all((id, cluster.api(id))));
        }
        let old = cluster.leader();
        cluster.kill(old);
        let survivors = cluster.others(old);
        let before = recorder.records.len();
        eventually("ids of another leader", secs(30), || {
            survivors.iter().for_each(|&id| recorder.ask_for_all((id, cluster.api(id))));
            (recorder.records.len() > before + 20).then_some(())
        });
        cluster.start_node(old);
        cluster.await_ready();
    }
    recorder.strict_periods();
    let granted = grants(&mut cluster);
    for name in ["strict", "rooms#2067", "strict-monthly/", "monthly/"] {
        let of_name = granted.iter().filter(|record| match record {
            Record::Grant(grant) => grant.key.0.starts_with(name),
            _ => false,
        });
        assert!(of_name.count() >= 3, "grants of {name}");
    }
    let report = judge(recorder.records.into_iter().chain(granted));
    assert!(report.is_clean(), "{report}");
    assert!(report.verdicts[&Invariant::I2].unchecked.is_empty(), "{report}");
    assert!(report.ids > 1_000, "{report}");
}
