//! The cluster of a scene: three founders and a node that may join, without chance.
//!
//! Every message and every disk access takes a millisecond, and the random numbers of election timeouts come
//! from one seed. So each run of a scene has the same trace, byte by byte.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, TagSpec};
use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_core::tag::BizTag;
use mintleaf_raft::{MemberStatus, Role};
use tokio::time::{sleep, timeout};

use super::narrator::Narrator;
use crate::climate::Sky;
use crate::disk::Disk;
use crate::machine::{Machine, Serving, Site};
use crate::net::{Net, address};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::trace::Trace;
use crate::turn::Turn;

/// The seed of the random numbers: election timeouts, and the identities of stores and clusters.
pub(crate) const SEED: u64 = 1;
/// The nodes 1 to 3 bootstrap the cluster.
pub(super) const FOUNDERS: u64 = 3;
/// The node that joins later.
pub(super) const NEWCOMER: u64 = 4;
const DISK_LATENCY: Duration = Duration::from_millis(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// The longest wait of a scene.
const STEP_MAX: Duration = Duration::from_secs(20);
/// The calm after the bootstrap. By its end every node has received what it asks for at its start.
const CALM: Duration = Duration::from_secs(5);

/// The cluster of a scene.
pub(super) struct Stage {
    pub(super) narrator: Arc<Narrator>,
    pub(super) site: Arc<Site>,
    /// The founders, and the newcomer last.
    pub(super) machines: Vec<Arc<Machine>>,
}

/// The nodes of a running cluster, by their roles.
pub(super) struct Cast {
    pub(super) leader: u64,
    pub(super) followers: [u64; 2],
}

impl Stage {
    pub(super) fn new(narrator: Arc<Narrator>, dir: &Path) -> Self {
        let trace = Arc::new(Trace::new(false));
        let snowflake = SnowflakeSettings::leaf();
        let sky = Arc::new(Sky::mild());
        let net = Net::new(Arc::clone(&trace), Random::new(SEED, "net"), true, Arc::clone(&sky));
        let site = Arc::new(Site {
            net: Arc::new(net.narrated_by(Arc::clone(&narrator))),
            oracle: Arc::new(Oracle::new(Arc::clone(&trace), snowflake.format)),
            trace,
            snowflake,
            turn: Turn::quiet(),
            peers: (1..=FOUNDERS).map(|id| (id, address(id))).collect(),
            random: Random::new(SEED, "site"),
            sky,
            disk_latency: Some(DISK_LATENCY),
        });
        let machine = |id: u64| {
            let disk = Disk::new(Random::new(SEED, &format!("disk {id}")));
            let dir = dir.join(format!("node-{id}"));
            Arc::new(Machine::new(id, Arc::clone(&site), dir, 0, disk))
        };
        let machines = (1..=NEWCOMER).map(machine).collect();
        Self { narrator, site, machines }
    }

    /// Starts the founders, waits until the cluster is calm, and then begins the trace.
    pub(super) async fn begin(&self) -> Option<Cast> {
        (1..=FOUNDERS).for_each(|id| self.machine(id).start());
        for id in 1..=FOUNDERS {
            self.until(|| self.serving(id)).await?;
        }
        sleep(CALM).await;
        let leader = self.leader()?;
        let mut followers = (1..=FOUNDERS).filter(|id| *id != leader);
        let followers = [followers.next()?, followers.next()?];
        self.narrator.listen();
        self.show_state();
        Some(Cast { leader, followers })
    }

    pub(super) fn machine(&self, id: u64) -> &Arc<Machine> {
        &self.machines[id as usize - 1]
    }

    pub(super) fn serving(&self, id: u64) -> Option<Serving> {
        self.machine(id).serving()
    }

    /// The node that leads and knows that it does.
    pub(super) fn leader(&self) -> Option<u64> {
        let leads = |id: &u64| {
            let status = self.serving(*id)?.replica.node().status();
            (status.leader_id == Some(*id)).then_some(())
        };
        (1..=NEWCOMER).find(|id| leads(id).is_some())
    }

    pub(super) fn kill(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is killed"));
        self.machine(id).crash();
    }

    pub(super) async fn restart(&self, id: u64) -> Option<()> {
        self.narrator.say(format_args!("n{id} starts again"));
        self.machine(id).start();
        self.until(|| self.serving(id)).await.map(drop)
    }

    pub(super) fn isolate(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is cut away from the others"));
        let others = (1..=NEWCOMER).filter(|other| *other != id);
        let links = others.flat_map(|other| [(id, other), (other, id)]);
        self.site.net.conditions.lock().cut.extend(links);
    }

    pub(super) fn reconnect(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is reachable again"));
        self.site.net.conditions.lock().cut.clear();
    }

    /// Creates a tag at a node, as a client does: one command.
    pub(super) async fn create_tag(&self, id: u64, tag: &'static str) -> Option<()> {
        self.narrator.say(format_args!("a client creates a tag at n{id}: one command"));
        self.at(id, move |serving| async move {
            let tag = BizTag::parse(tag).expect("a tag");
            serving
                .services
                .tags
                .create(&Actor::default(), tag, TagSpec::default())
                .await
                .ok()
                .map(drop)
        })
        .await
    }

    /// Calls a node, in a task of its process.
    pub(super) async fn at<F>(&self, id: u64, call: impl FnOnce(Serving) -> F) -> Option<()>
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let serving = self.serving(id)?;
        let process = Arc::clone(&serving.process);
        timeout(STEP_MAX, process.spawn(call(serving))).await.ok()?.ok()?
    }

    /// Waits until `look` returns a value, for a limited time.
    pub(super) async fn until<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        let looked = timeout(STEP_MAX, async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                sleep(LOOK_INTERVAL).await;
            }
        });
        looked.await.ok()
    }

    /// Writes what each node knows.
    pub(super) fn show_state(&self) {
        let mut members = Vec::new();
        for machine in &self.machines {
            let Some(serving) = machine.serving() else { continue };
            let status = serving.replica.node().status();
            let (id, term) = (machine.node_id, status.term);
            let role = match status.leader_id {
                Some(leader) if leader == id => format!("leads term {term}"),
                Some(leader) => format!("follows n{leader} in term {term}"),
                None => format!("knows no leader in term {term}"),
            };
            let index =
                |index: Option<u64>| index.map_or("0".to_owned(), |index| index.to_string());
            let (last, applied) = (index(status.last_log_index), index(status.last_applied_index));
            self.narrator
                .say(format_args!("n{id} {role}: its log ends at {last}, applied up to {applied}"));
            let is_learner = |member: &MemberStatus| member.role == Role::Learner;
            let (learners, voters): (Vec<_>, Vec<_>) =
                status.members.into_iter().partition(is_learner);
            members.push((voters, learners));
        }
        let ids = |of: &[MemberStatus]| {
            of.iter().map(|member| format!("n{}", member.id)).collect::<Vec<_>>().join(" ")
        };
        let mut told: Vec<String> = members
            .iter()
            .map(|(voters, learners)| match &learners[..] {
                [] => format!("voters {}", ids(voters)),
                _ => format!("voters {}, learners {}", ids(voters), ids(learners)),
            })
            .collect();
        told.dedup();
        self.narrator.say(told.join(" or "));
    }
}
