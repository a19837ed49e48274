//! The requests to a cluster: first one at a time, to measure the time of each, then all kinds at once.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::report::{Kind, Report};
use super::world::World;
use crate::client::Client;
use crate::climate::Climate;
use crate::links::NodeId;

/// Samples of each kind at each node.
const SAMPLES: usize = 5;
/// The same where disks are slow and each sample takes many seconds.
const SLOW_SAMPLES: usize = 3;
/// Longer than a node may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Pause of a client between two changes or strict ids.
const PAUSE: Duration = Duration::from_millis(100);
/// The same between two plain ids.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
const STRICT: &str = "strict";
const PLAIN: &str = "plain";
/// How often a request for a tag that all measurements need is repeated.
const ATTEMPTS: usize = 10;

/// Sends one request after another, each to a cluster that is otherwise idle.
pub(crate) async fn measure(world: &World, climate: Climate, leader: NodeId, report: &mut Report) {
    prepare(world, leader, report).await;
    let samples = if climate.has_slow_disks() { SLOW_SAMPLES } else { SAMPLES };
    for turn in 0..samples {
        for id in world.ids() {
            for kind in [Kind::Create, Kind::Strict, Kind::FirstUse] {
                let (path, body) = match kind {
                    Kind::Create => {
                        ("/v1/tags".to_owned(), Some(json!({ "tag": format!("made-{id}-{turn}") })))
                    }
                    Kind::FirstUse => (format!("/v1/segment/first-{id}-{turn}"), None),
                    _ => (format!("/v1/segment/{STRICT}"), None),
                };
                let method = if body.is_some() { Method::POST } else { Method::GET };
                let took = time(&world.client, id, method, &path, body.as_ref()).await;
                report.sample(kind, id, took);
                // Followers may still be working on the last request. That work must not count for the next one.
                sleep(climate.sync(id) + world_rest(climate, &world.ids())).await;
            }
        }
    }
}

fn world_rest(climate: Climate, ids: &[NodeId]) -> Duration {
    let pairs = ids.iter().flat_map(|&a| ids.iter().map(move |&b| climate.round_trip(a, b)));
    pairs.max().unwrap_or_default()
}

/// Creates the tags that all requests use, and has every node hold ids of them.
async fn prepare(world: &World, leader: NodeId, report: &mut Report) {
    for body in [json!({ "tag": STRICT, "order": "strict" }), json!({ "tag": PLAIN })] {
        let client = &world.client;
        until_ok(client, leader, Method::POST, "/v1/tags", Some(&body), report).await;
    }
    for id in world.ids() {
        for tag in [STRICT, PLAIN] {
            let path = format!("/v1/segment/{tag}");
            until_ok(&world.client, id, Method::GET, &path, None, report).await;
        }
    }
}

async fn until_ok(
    client: &Client,
    node: NodeId,
    method: Method,
    path: &str,
    body: Option<&Value>,
    report: &mut Report,
) {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        match client.ask(node, method.clone(), path, body, ANSWER_MAX).await {
            Ok(answer) if answer.is_ok() || answer.status == 409 => return,
            other => last = format!("{other:?}"),
        }
        sleep(PAUSE).await;
    }
    report.broken.push(format!("{path} at node {node} was never answered: {last}"));
}

/// How long one request takes; the error is a refusal as text.
async fn time(
    client: &Client,
    node: NodeId,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Duration, String> {
    let began = Instant::now();
    match client.ask(node, method, path, body, ANSWER_MAX).await {
        Ok(answer) if answer.is_ok() => Ok(began.elapsed()),
        Ok(answer) => Err(format!(
            "{path} at node {node} after {} ms: {} {}",
            began.elapsed().as_millis(),
            answer.status,
            String::from_utf8_lossy(&answer.body)
        )),
        Err(error) => Err(format!("{path} at node {node}: {error}")),
    }
}

/// Sends all kinds of requests to every node at once.
pub(crate) async fn press(world: &World, length: Duration, report: &mut Report) {
    let until = Instant::now() + length;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut callers = JoinSet::new();
    for id in world.ids() {
        for kind in [Kind::Create, Kind::Patch, Kind::Strict, Kind::Plain] {
            let (client, seen) = (world.client.clone(), Arc::clone(&seen));
            callers.spawn(async move {
                let mut turn = 0;
                while Instant::now() < until {
                    let (method, path, body) = request(kind, id, turn);
                    let took = time(&client, id, method, &path, body.as_ref()).await;
                    seen.lock().push((kind, id, took));
                    sleep(if kind == Kind::Plain { SHORT_PAUSE } else { PAUSE }).await;
                    turn += 1;
                }
            });
        }
    }
    while callers.join_next().await.is_some() {}
    for (kind, id, took) in seen.lock().drain(..) {
        report.pressed(kind, id, took);
    }
}

fn request(kind: Kind, id: NodeId, turn: u64) -> (Method, String, Option<Value>) {
    match kind {
        Kind::Create => {
            let body = json!({ "tag": format!("loaded-{id}-{turn}") });
            (Method::POST, "/v1/tags".to_owned(), Some(body))
        }
        Kind::Patch => {
            let body = json!({ "description": format!("{id} {turn}") });
            (Method::PATCH, format!("/v1/tags/{PLAIN}"), Some(body))
        }
        Kind::Strict => (Method::GET, format!("/v1/segment/{STRICT}"), None),
        Kind::Plain | Kind::FirstUse => (Method::GET, format!("/v1/segment/{PLAIN}"), None),
    }
}
