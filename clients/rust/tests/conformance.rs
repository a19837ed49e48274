//! The cases of `clients/conformance`, played to this client.

#![allow(clippy::unwrap_used, reason = "a test that fails shows where")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mintleaf_client::blocking::Client;
use mintleaf_client::{Error, Layout, Pool, WorkerLease, WorkerSnowflakes};
use mintleaf_conformance::case::{Case, Cases};
use mintleaf_conformance::{stage::Stage, verdict};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// How many cases are played at once. Most of their time is spent waiting.
const PLAYERS: usize = 6;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(rename = "do")]
    what: String,
    #[serde(default)]
    tag: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    pool: String,
    #[serde(rename = "as", default)]
    name: String,
    #[serde(default)]
    of: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    count: usize,
    seconds: Option<u64>,
    ms: Option<Value>,
    call: Option<Box<Step>>,
    times: Option<usize>,
    beside: Option<usize>,
    gives: Option<Value>,
    fails: Option<Fails>,
    after_ms: Option<u64>,
    within_ms: Option<u64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    code: Option<String>,
    status: Option<u16>,
    detail: Option<String>,
}

/// What a step gave: one value each time that it was done.
type Given = Result<Vec<Value>, Error>;

#[test]
fn every_case() {
    let Cases { cases } =
        serde_json::from_str(include_str!("../../conformance/cases.json")).unwrap();
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = play(case);
                    faults
                        .lock()
                        .unwrap()
                        .extend(found.into_iter().map(|fault| format!("{}: {fault}", case.name)));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What was wrong in a case.
fn play(case: &Case) -> Vec<String> {
    let stage = Stage::new(case.clone()).unwrap();
    let test = Arc::new(Test { client: client(&stage), seen: Mutex::default() });
    let mut names = Names::default();
    let mut faults = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        let step: Step = serde_json::from_value(step.clone()).unwrap();
        let began = Instant::now();
        let fault = match names.carry_out(&step, &test, &stage) {
            Some(given) => judge(&step, &given, &stage),
            None => None,
        };
        let took = began.elapsed().as_millis() as u64;
        let is_late = step.within_ms.is_some_and(|within| took > within);
        let is_early = step.after_ms.is_some_and(|after| took < after);
        let time = (is_late || is_early).then(|| format!("took {took} ms"));
        faults.extend(
            fault
                .into_iter()
                .chain(time)
                .map(|fault| format!("step {number}, {}: {fault}", step.what)),
        );
    }
    let seen = stage.seen();
    let requests = verdict::faults(case, &seen);
    if !requests.is_empty() {
        faults.extend(requests);
        faults.extend(verdict::shown(&seen).iter().map(Value::to_string));
    }
    test.client.close();
    faults
}

fn client(stage: &Stage) -> Client {
    let settings = &stage.case().client;
    let mut builder = Client::builder().endpoints(stage.endpoints());
    if let Some(ms) = settings.attempt_ms {
        builder = builder.attempt_timeout(Duration::from_millis(ms));
    }
    if let Some(ms) = settings.call_ms {
        builder = builder.timeout(Duration::from_millis(ms));
    }
    if let Some(ids) = settings.lease_max {
        builder = builder.lease_max(u32::try_from(ids).unwrap());
    }
    if let Some(zone) = &settings.zone {
        builder = builder.zone(zone);
    }
    if let Some(token) = &settings.token {
        builder = builder.token(token);
    }
    builder.build_blocking().unwrap()
}

/// The client under test, and all ids that it gave.
struct Test {
    client: Client,
    seen: Mutex<HashMap<String, HashSet<String>>>,
}

/// What steps have given a name.
#[derive(Default)]
struct Names {
    calls: BTreeMap<String, JoinHandle<Given>>,
    leases: BTreeMap<String, WorkerLease>,
    generators: BTreeMap<String, WorkerSnowflakes>,
}

impl Names {
    /// What the step gave; `None` when it gives nothing.
    fn carry_out(&mut self, step: &Step, test: &Arc<Test>, stage: &Stage) -> Option<Given> {
        match step.what.as_str() {
            "sleep" => wait(step.ms.as_ref().and_then(Value::as_u64).unwrap()),
            "phase" => stage.enter(&step.to).unwrap(),
            "start" => {
                let (test, call) = (Arc::clone(test), step.call.clone().unwrap());
                let running = std::thread::spawn(move || test.calls(&call));
                self.calls.insert(step.name.clone(), running);
            }
            "await" => return Some(self.calls.remove(&step.name).unwrap().join().unwrap()),
            "lease_worker" => return Some(self.lease(step, test).map(|given| vec![given])),
            "close_lease" => {
                if let Some(lease) = self.leases.get(&step.of) {
                    lease.close_blocking();
                } else {
                    self.generators[&step.of].close_blocking();
                }
            }
            "may_stamp" => {
                let ms = step.ms.as_ref().and_then(Value::as_str).unwrap().parse().unwrap();
                // A generator takes the place of its lease, so that there is nothing left to ask.
                let may = self.leases.get(&step.of).is_some_and(|lease| lease.may_stamp(ms));
                return Some(Ok(vec![json!(may)]));
            }
            "is_lost" => return Some(Ok(vec![json!(self.leases[&step.of].is_lost())])),
            "generate" => return Some(self.generate(step, test)),
            _ => return Some(test.calls(step)),
        }
        None
    }

    fn lease(&mut self, step: &Step, test: &Test) -> Result<Value, Error> {
        let pool = Pool::new(&step.pool);
        let pool = match step.seconds {
            Some(seconds) => pool.seconds(u32::try_from(seconds).unwrap()),
            None => pool,
        };
        let lease = test.client.lease_worker(pool)?;
        assert_eq!(lease.pool(), step.pool);
        let given = json!({
            "worker_id": lease.worker_id(),
            "from_ms": lease.from_ms().to_string(),
            "until_ms": lease.until_ms().to_string(),
        });
        self.leases.insert(step.name.clone(), lease);
        Ok(given)
    }

    /// Takes ids of the generator, which takes the place of its lease.
    fn generate(&mut self, step: &Step, test: &Test) -> Given {
        if let Some(lease) = self.leases.remove(&step.of) {
            self.generators.insert(step.of.clone(), lease.into_generator(Layout::default())?);
        }
        let generator = &self.generators[&step.of];
        let number = |name: &str| {
            let value = step.gives.as_ref().and_then(|gives| gives.get(name));
            value.map(|value| {
                value.as_u64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
            })
        };
        let mut last = 0;
        for _ in 0..step.times.unwrap() {
            let id = generator.next_id()?;
            let ms = (id >> 22) + 1_288_834_974_657;
            assert!(id > last, "{id} after {last}");
            assert!(number("worker_id").is_none_or(|wanted| wanted == id >> 12 & 1023), "{id}");
            assert!(number("from_ms").is_none_or(|from_ms| from_ms <= ms), "{ms}");
            assert!(number("until_ms").is_none_or(|until_ms| ms < until_ms), "{ms}");
            test.remember("generated", &json!(id.to_string()));
            last = id;
        }
        Ok(Vec::new())
    }
}

impl Test {
    /// Does the call as often as the step says.
    fn calls(&self, step: &Step) -> Given {
        if let Some(beside) = step.beside {
            return std::thread::scope(|scope| {
                let calls: Vec<_> = (0..beside).map(|_| scope.spawn(|| self.call(step))).collect();
                calls.into_iter().map(|call| call.join().unwrap()).collect()
            });
        }
        (0..step.times.unwrap_or(1)).map(|_| self.call(step)).collect()
    }

    fn call(&self, step: &Step) -> Result<Value, Error> {
        let (client, tag, key) = (&self.client, step.tag.as_str(), step.key.as_str());
        let (line, given) = match step.what.as_str() {
            "next_id" => (tag.to_owned(), json!(client.next_id(tag)?.to_string())),
            "next_text" => (tag.to_owned(), json!(client.next_text(tag)?)),
            "next_snowflake" => {
                ("snowflakes".to_owned(), json!(client.next_snowflake()?.to_string()))
            }
            "next_number" => {
                (format!("{tag}/{key}"), json!(client.next_id_of(tag, key)?.to_string()))
            }
            "next_ids" => {
                let ids = client.next_ids(tag, step.count)?;
                assert_eq!(ids.len(), step.count);
                (tag.to_owned(), ids.iter().map(u64::to_string).collect())
            }
            "register" => {
                let given = client.register(tag, key)?;
                return Ok(json!({
                    "id": given.id.to_string(), "text": given.text, "period": given.period, "new": given.is_new,
                }));
            }
            "close" => {
                client.close();
                return Ok(Value::Null);
            }
            other => panic!("there is no step {other}"),
        };
        self.remember(&line, &given);
        Ok(given)
    }

    /// Fails when an id was given before.
    fn remember(&self, line: &str, given: &Value) {
        let ids = given.as_array().map_or(std::slice::from_ref(given), Vec::as_slice);
        let mut seen = self.seen.lock().unwrap();
        let seen = seen.entry(line.to_owned()).or_default();
        for id in ids {
            assert!(seen.insert(id.as_str().unwrap().to_owned()), "{id} of {line} twice");
        }
    }
}

/// What is wrong with what a step gave.
fn judge(step: &Step, given: &Given, stage: &Stage) -> Option<String> {
    let first = stage.endpoints()[0].replace("http://", "");
    let is_as_wanted = match (given, &step.fails, &step.gives) {
        (Err(error), Some(fails), _) => {
            let status =
                if let Error::Refused(refusal) = error { Some(refusal.status) } else { None };
            fails.code.as_ref().is_none_or(|code| code == error.code())
                && (fails.status.is_none() || fails.status == status)
                && fails.detail.as_ref().is_none_or(|detail| {
                    error.to_string().contains(&detail.replace("{endpoint}", &first))
                })
        }
        (Ok(given), None, Some(Value::Object(wanted))) => {
            given.iter().all(|given| has(given, wanted))
        }
        (Ok(given), None, Some(wanted)) => given.as_slice() == std::slice::from_ref(wanted),
        (Ok(_), None, None) => true,
        _ => false,
    };
    (!is_as_wanted).then(|| format!("gave {given:?}"))
}

fn has(given: &Value, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, value)| given.get(name) == Some(value))
}

/// Sleeps by waiting on a channel that has no sender.
fn wait(ms: u64) {
    let (_kept, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_millis(ms));
}
