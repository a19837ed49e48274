//! The load: ids of both kinds from all nodes, of a few hot tags and many cold ones and of tags with shapes;
//! and tags that are created, changed and deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use mintleaf_check::history::{Outcome, Row};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::PROBE_TAG;
use crate::lines::STRICT_DAYS;
use crate::links::NodeId;
use crate::random::Random;
use crate::session::{Form, Session, Sessions};

/// The tags of most requests. Their steps are small, so that there are many grabs.
const HOT: u64 = 4;
const HOT_STEP: u32 = 20;
/// The tags of occasional requests.
const COLD: u64 = 200;
const COLD_STEP: u32 = 5;
/// A tag whose ids rise over all nodes.
const STRICT: &str = "strict";
/// A counter for each key.
const SEQUENCE: &str = "sequence";
/// The keys of most requests for numbers, and other keys for occasional requests.
const HOT_KEYS: u64 = 4;
const KEYS: u64 = 100;
/// A tag whose ids begin at 1 each day.
const DAYS: &str = "days";
/// The time zone that decides when a day begins.
const TIME_ZONE: &str = "Asia/Kolkata";
/// How many tags exist at a time that are created, changed and deleted.
const CHURN: u64 = 12;
/// After this time, other tags replace them. A request with an unknown outcome may take effect at any later
/// time. New names keep the number of such requests small for each tag.
const CHURN_AGE: Duration = Duration::from_secs(40);
/// How often the creation of a required tag is tried, with pauses.
const ATTEMPTS: u32 = 50;
/// How often reading a tag at the end is tried, with pauses.
const READ_ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);
/// The number of the client that creates the tags at the start and reads them at the end.
const STEWARD: u32 = 2_000_000;

/// Running clients.
pub(crate) struct Workload {
    sessions: Sessions,
    began: Instant,
    stopping: Arc<AtomicBool>,
    clients: JoinSet<()>,
    shaped: bool,
}

struct Worker {
    session: Session,
    random: Random,
    nodes: Vec<NodeId>,
    began: Instant,
    /// A number that ends each description, so that no two writes have the same one.
    written: u64,
    p: u32,
    /// Whether there are tags with shapes.
    shaped: bool,
}

impl Workload {
    /// Creates the permanent tags, with shaped ones among them if `shaped`. Then starts clients, which together
    /// send `rate` requests a second.
    ///
    /// # Errors
    /// When the tags cannot be created.
    pub(crate) async fn start(
        sessions: Sessions,
        seed: u64,
        (clients, rate): (u32, u32),
        shaped: bool,
    ) -> Result<Self, String> {
        let nodes = sessions.nodes.ids();
        prepare(&sessions.open(STEWARD), &nodes, shaped).await?;
        let (began, stopping) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let period = Duration::from_secs(1) * clients / rate;
        let mut running = JoinSet::new();
        for p in 1..=clients {
            let random = Random::new(seed, &format!("client {p}"));
            let (session, nodes) = (sessions.open(p), nodes.clone());
            let worker = Worker { session, random, nodes, began, written: 0, p, shaped };
            running.spawn(worker.run(period, Arc::clone(&stopping)));
        }
        Ok(Self { sessions, began, stopping, clients: running, shaped })
    }

    /// Lets every client finish its last request, then reads every tag at every node. Returns the nodes where a
    /// read failed.
    pub(crate) async fn conclude(self) -> Vec<String> {
        self.stopping.store(true, Relaxed);
        self.clients.join_all().await;
        let mut tags: Vec<String> = standing(self.shaped).map(|(tag, _)| tag).collect();
        // The mark of such a tag belongs to its latest period, so it is not a watermark.
        tags.retain(|tag| ![DAYS, STRICT_DAYS].contains(&&**tag));
        for age in 0..=age(self.began) {
            tags.extend((0..CHURN).map(|number| churn_tag(number, age)));
        }
        let tags = Arc::new(tags);
        let mut reading = JoinSet::new();
        for id in self.sessions.nodes.ids() {
            let (session, tags) = (self.sessions.open(STEWARD + id as u32), Arc::clone(&tags));
            reading.spawn(async move {
                let unread = first_unreadable(&session, id, &tags).await;
                unread.map(|tag| format!("the tag {tag} could not be read at node {id} at the end"))
            });
        }
        reading.join_all().await.into_iter().flatten().collect()
    }
}

/// Tags that exist from the beginning to the end, and their steps.
fn standing(shaped: bool) -> impl Iterator<Item = (String, u32)> {
    let hot = (0..HOT).map(|number| (hot_tag(number), HOT_STEP));
    let cold = (0..COLD).map(|number| (cold_tag(number), COLD_STEP));
    let shapes =
        [(STRICT, HOT_STEP), (SEQUENCE, COLD_STEP), (DAYS, HOT_STEP), (STRICT_DAYS, HOT_STEP)];
    let shapes = shapes.into_iter().filter(move |_| shaped);
    let others = [(PROBE_TAG, COLD_STEP)].into_iter().chain(shapes);
    hot.chain(cold).chain(others.map(|(tag, step)| (tag.to_owned(), step)))
}

/// The fields of a tag's creation that describe its shape.
fn shape(tag: &str) -> Value {
    match tag {
        STRICT => json!({ "order": "strict" }),
        SEQUENCE => json!({ "kind": "sequence" }),
        DAYS => json!({ "period": "day", "time_zone": TIME_ZONE }),
        STRICT_DAYS => json!({ "order": "strict", "period": "day", "time_zone": TIME_ZONE }),
        _ => json!({}),
    }
}

fn key(number: u64) -> String {
    format!("room-{number}")
}

fn hot_tag(number: u64) -> String {
    format!("hot-{number}")
}

fn cold_tag(number: u64) -> String {
    format!("cold-{number}")
}

fn churn_tag(number: u64, age: u64) -> String {
    format!("churn-{number}-{age}")
}

fn age(began: Instant) -> u64 {
    began.elapsed().as_secs() / CHURN_AGE.as_secs()
}

async fn prepare(session: &Session, nodes: &[NodeId], shaped: bool) -> Result<(), String> {
    [STRICT, STRICT_DAYS].into_iter().for_each(|tag| session.promise_order(tag));
    (0..KEYS).for_each(|number| session.introduce_key(SEQUENCE, &key(number)));
    for ((tag, step), &node) in standing(shaped).zip(nodes.iter().cycle()) {
        let (mut created, text) = (false, format!("standing {tag}"));
        for _ in 0..ATTEMPTS {
            let outcome = session.create_shaped(node, &tag, &shape(&tag), step, &text).await;
            created =
                outcome == Outcome::Ok || session.read(node, &tag, false).await == Outcome::Ok;
            if created {
                break;
            }
            sleep(ATTEMPT_PAUSE).await;
        }
        if !created {
            return Err(format!("the tag {tag} cannot be created before anything is broken"));
        }
    }
    Ok(())
}

/// Reads tags until one cannot be read. By then all faults are healed.
async fn first_unreadable<'a>(
    session: &Session,
    node: NodeId,
    tags: &'a [String],
) -> Option<&'a str> {
    for tag in tags {
        let mut attempts = 0;
        while session.read(node, tag, false).await != Outcome::Ok {
            attempts += 1;
            if attempts == READ_ATTEMPTS {
                return Some(tag);
            }
            sleep(ATTEMPT_PAUSE).await;
        }
    }
    None
}

impl Worker {
    async fn run(mut self, period: Duration, stopping: Arc<AtomicBool>) {
        // Clients start at different moments.
        sleep(period.mul_f64(f64::from(self.p % 97) / 97.0)).await;
        let mut next = Instant::now();
        while !stopping.load(Relaxed) {
            self.turn().await;
            // A client that was delayed does not catch up in a burst.
            next = (next + period).max(Instant::now());
            sleep_until(next).await;
        }
    }

    async fn turn(&mut self) {
        let node = *self.random.pick(&self.nodes);
        match self.random.within(0..=99) {
            0..=14 if self.shaped => self.shaped(node).await,
            0..=44 => {
                let (tag, form) = (self.tag(), self.form(40, 400));
                self.session.ids(node, &tag, form).await;
            }
            45..=74 => {
                let form = self.form(60, 9_000);
                self.session.flakes(node, form).await;
            }
            75..=79 => {
                let tag = self.tag();
                self.session.read(node, &tag, false).await;
            }
            _ => self.churn(node).await,
        }
    }

    /// Takes ids of the strict tag, numbers of a key, or ids of a day.
    async fn shaped(&mut self, node: NodeId) {
        let form = self.form(40, 400);
        // Numbers of keys and ids of days exist in version 1 only.
        let listed = if form == Form::Leaf { Form::Ids(1) } else { form };
        match self.random.within(0..=99) {
            0..=39 => self.session.ids(node, STRICT, form).await,
            40..=79 => {
                let keys = if self.random.chance(70) { HOT_KEYS } else { KEYS };
                let key = key(self.random.within(0..=keys - 1));
                match self.random.chance(40) {
                    true => {
                        let count = self.random.within(1..=30);
                        self.session.numbers_by_redis(node, SEQUENCE, &key, count).await
                    }
                    false => self.session.numbers(node, SEQUENCE, &key, listed).await,
                }
            }
            80..=89 => self.session.ids_of_period(node, DAYS, listed).await,
            _ => self.session.ids_of_period(node, STRICT_DAYS, listed).await,
        };
    }

    fn tag(&mut self) -> String {
        match self.random.within(0..=99) {
            0..=64 => hot_tag(self.random.within(0..=HOT - 1)),
            65..=89 => cold_tag(self.random.within(0..=COLD - 1)),
            _ => self.churning(),
        }
    }

    /// How many ids a request asks for: mostly one, sometimes a few, seldom many.
    fn form(&mut self, ids_max: u64, ranges_max: u64) -> Form {
        match self.random.within(0..=19) {
            0..=8 => Form::Leaf,
            9..=15 => Form::Ids(1),
            16..=18 => Form::Ids(self.random.within(2..=ids_max)),
            _ => Form::Ranges(self.random.within(2..=ranges_max)),
        }
    }

    fn churning(&mut self) -> String {
        churn_tag(self.random.within(0..=CHURN - 1), age(self.began))
    }

    async fn churn(&mut self, node: NodeId) {
        let tag = self.churning();
        let step = self.random.within(1..=50) as u32;
        self.written += 1;
        let text = format!("{}-{}", self.p, self.written);
        match self.random.within(0..=99) {
            0..=24 => self.session.create(node, &tag, step, &text).await,
            25..=49 => {
                let step = self.random.chance(50).then_some(step);
                let row = Row { step, description: Some(text.into()), max_id: None };
                self.session.update(node, &tag, row).await
            }
            50..=61 => self.session.delete(node, &tag).await,
            62..=84 => self.session.read(node, &tag, false).await,
            _ => self.session.read(node, &tag, true).await,
        };
    }
}
