//! The scenes: small courses of events on a cluster of three, without chance.
//!
//! Every message and every access to a disk takes a millisecond, and the random numbers of election
//! timeouts come from one seed. So a scene has the same trace each time, to the byte.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{NewMember, TagSpec};
use mintleaf::snowflake::{Format, Layout, SnowflakeSettings};
use mintleaf::tag::BizTag;
use mintleaf_raft::{MemberStatus, Role};
use tokio::time::{sleep, timeout};

use super::narrator::Narrator;
use crate::disk::Disk;
use crate::machine::{Machine, Serving, Site};
use crate::net::{Net, address};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::trace::Trace;

/// Of the random numbers: election timeouts, and the identities of stores and clusters.
pub(crate) const SEED: u64 = 1;
const FOUNDERS: u64 = 3;
/// The node that joins later.
const NEWCOMER: u64 = 4;
const DISK_LATENCY: Duration = Duration::from_millis(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Every wait of a scene ends by then.
const STEP_MAX: Duration = Duration::from_secs(20);
/// Long enough for everything that a step sets off, such as the answers and the next heartbeat.
const SETTLING: Duration = Duration::from_millis(500);
/// How long two followers are apart without a leader: their leases are over by then, and the one with the
/// shorter log is the first to ask again.
const APART: Duration = Duration::from_millis(1250);
/// Long enough after the bootstrap that every node has what it asks for at its start.
const CALM: Duration = Duration::from_secs(5);

/// A scene, whose trace is kept.
pub(crate) struct Scene {
    /// The name of its file, without the extension.
    pub(crate) name: &'static str,
    /// The first lines of its file: what one sees, and where it is described.
    pub(crate) head: &'static str,
    play: for<'a> fn(&'a Stage) -> Played<'a>,
}

type Played<'a> = std::pin::Pin<Box<dyn Future<Output = Option<()>> + 'a>>;

/// Every scene.
pub(crate) const SCENES: [Scene; 6] = [
    Scene {
        name: "bootstrap",
        head: "\
Three new nodes bootstrap a cluster.

Raft leaves open how the first membership comes about. Here n1, the founder with the lowest id,
coordinates a two-phase commit: every founder prepares, which it writes to its disk, and then the
coordinator commits by writing the first membership, entry 0/0. The first election follows at once.
See raft/DESIGN.md, and the Raft paper, section 5.2, for the election.",
        play: |stage| Box::pin(stage.bootstrap()),
    },
    Scene {
        name: "failover",
        head: "\
The leader is killed. A follower is elected, and the old leader comes back as a follower.

A follower asks for pre-votes before it raises its term (Raft thesis, section 9.6), then for votes
(Raft paper, section 5.2). The new leader begins its term with a blank entry, whose commit also
commits what earlier terms left (5.4.2, and section 8). When the old leader is back, it takes itself for
the leader of its term. Nobody hears it before its new incarnation is confirmed (raft/DESIGN.md); then
the new leader sends it the entries that it lacks (5.3).",
        play: |stage| Box::pin(stage.failover()),
    },
    Scene {
        name: "shorter-log",
        head: "\
A candidate whose log is shorter than a voter's is not elected.

One follower is cut away and misses an entry; then the leader is killed. The other follower cannot win
alone. When the first one is back, it asks for pre-votes and is refused, because a leader must have all
committed entries (Raft paper, section 5.4.1). It grants the other's, whose log is longer.",
        play: |stage| Box::pin(stage.shorter_log()),
    },
    Scene {
        name: "returning-follower",
        head: "\
A follower that was cut away comes back without deposing the leader.

While it is alone it asks for pre-votes in vain, so its term does not rise (Raft thesis, section 9.6).
A voter that hears its leader grants nobody a pre-vote (section 4.2.3).",
        play: |stage| Box::pin(stage.returning_follower()),
    },
    Scene {
        name: "membership",
        head: "\
A node joins as a learner, catches up, becomes a voter; then another node is removed.

A learner receives entries and has no vote (Raft thesis, section 4.2.1). Its promotion and the removal
each go through a joint membership, in which both majorities must agree (Raft paper, section 6). The
removed node is told so, because replication to it has ended.",
        play: |stage| Box::pin(stage.membership()),
    },
    Scene {
        name: "leadership-transfer",
        head: "\
An operator makes a follower the leader.

The leader waits until the follower has its whole log and sends it TimeoutNow; the follower stands for
election at once, without a pre-vote (Raft thesis, section 3.10). Its vote requests say that the leader
asked for this. The other follower still refuses: openraft has it wait until its leader's lease has
passed. The votes of the candidate and of the old leader are a majority.",
        play: |stage| Box::pin(stage.leadership_transfer()),
    },
];

/// Plays a scene, with the nodes' directories under `dir`. Answers its trace; says instead why it came to
/// no end.
pub(crate) async fn play(scene: &Scene, dir: &Path) -> Result<String, String> {
    let narrator = Arc::new(Narrator::new());
    let stage = Stage::new(Arc::clone(&narrator), dir);
    let played = (scene.play)(&stage).await;
    stage.machines.iter().for_each(|machine| {
        machine.crash();
    });
    let violations = stage.site.trace.violations();
    match played {
        _ if !violations.is_empty() => Err(violations.join("\n")),
        None => Err(format!("it comes to no end:\n{}", narrator.text())),
        Some(()) => Ok(narrator.text()),
    }
}

/// A cluster on which a scene is played.
struct Stage {
    narrator: Arc<Narrator>,
    site: Arc<Site>,
    /// The founders, and the newcomer last.
    machines: Vec<Arc<Machine>>,
}

/// The nodes of a cluster that serves, by what they do.
struct Cast {
    leader: u64,
    followers: [u64; 2],
}

impl Stage {
    fn new(narrator: Arc<Narrator>, dir: &Path) -> Self {
        let trace = Arc::new(Trace::new(false));
        let snowflake = SnowflakeSettings {
            format: Format::new(Layout::LEAF, 1_288_834_974_657).expect("a format"),
            window: Duration::from_secs(60),
            max_clock_skew: Duration::from_secs(2),
            worker_ids: Vec::new(),
        };
        let net = Net::new(Arc::clone(&trace), Random::new(SEED, "net"));
        let site = Arc::new(Site {
            net: Arc::new(net.narrated_by(Arc::clone(&narrator))),
            oracle: Arc::new(Oracle::new(Arc::clone(&trace), snowflake.format)),
            trace,
            snowflake,
            peers: (1..=FOUNDERS).map(|id| (id, address(id))).collect(),
            random: Random::new(SEED, "site"),
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

    async fn bootstrap(&self) -> Option<()> {
        self.narrator.listen();
        self.narrator.say("n1 and n2 start, each with the list n1, n2, n3");
        self.machine(1).start();
        self.machine(2).start();
        sleep(Duration::from_millis(500)).await;
        self.narrator.say("n3 starts with the same list");
        self.machine(3).start();
        self.until(|| self.leader()).await?;
        for id in 1..=FOUNDERS {
            self.until(|| self.serving(id)).await?;
        }
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }

    async fn failover(&self) -> Option<()> {
        let Cast { leader, followers: [one, other] } = self.begin().await?;
        self.kill(leader);
        let successor = self.until(|| self.leader().filter(|now| *now != leader)).await?;
        sleep(SETTLING).await;
        let follower = if successor == one { other } else { one };
        self.create_tag(follower, "orders").await?;
        sleep(SETTLING).await;
        self.restart(leader).await?;
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }

    async fn shorter_log(&self) -> Option<()> {
        let Cast { leader, followers: [one, other] } = self.begin().await?;
        self.isolate(one);
        self.create_tag(leader, "orders").await?;
        sleep(SETTLING).await;
        self.kill(leader);
        sleep(APART).await;
        self.reconnect(one);
        self.until(|| self.leader().filter(|now| *now == other)).await?;
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }

    async fn returning_follower(&self) -> Option<()> {
        let Cast { leader, followers: [one, _] } = self.begin().await?;
        self.isolate(one);
        sleep(Duration::from_secs(2)).await;
        self.create_tag(leader, "orders").await?;
        sleep(SETTLING).await;
        self.show_state();
        self.reconnect(one);
        sleep(2 * SETTLING).await;
        self.show_state();
        Some(())
    }

    async fn membership(&self) -> Option<()> {
        let Cast { leader, followers: [one, _] } = self.begin().await?;
        self.narrator.say(format_args!("n{NEWCOMER} starts, and is to join by way of n{one}"));
        let newcomer = self.machine(NEWCOMER);
        newcomer.join(one);
        newcomer.start();
        self.until(|| self.serving(NEWCOMER)).await?;
        sleep(SETTLING).await;
        self.show_state();
        self.narrator.say(format_args!("an operator asks n{leader} to let n{NEWCOMER} vote"));
        self.at(leader, |serving| async move {
            let add = serving.services.cluster.add_node(NewMember {
                id: NEWCOMER,
                raft: address(NEWCOMER),
                http: None,
                voter: true,
            });
            add.await.ok().map(drop)
        })
        .await?;
        sleep(SETTLING).await;
        self.show_state();
        self.narrator.say(format_args!("an operator asks n{leader} to remove n{one}"));
        self.at(leader, move |serving| async move {
            serving.services.cluster.remove_node(one).await.ok()
        })
        .await?;
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }

    async fn leadership_transfer(&self) -> Option<()> {
        let Cast { leader, followers: [one, other] } = self.begin().await?;
        self.narrator.say(format_args!("an operator asks n{other} to make n{one} the leader"));
        self.at(other, move |serving| async move {
            serving.services.cluster.transfer_leader(one).await.ok()
        })
        .await?;
        self.until(|| self.leader().filter(|now| *now != leader)).await?;
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }

    /// Starts the founders, waits until everything is calm, and begins the trace there.
    async fn begin(&self) -> Option<Cast> {
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

    fn machine(&self, id: u64) -> &Arc<Machine> {
        &self.machines[id as usize - 1]
    }

    fn serving(&self, id: u64) -> Option<Serving> {
        self.machine(id).serving()
    }

    /// The node that leads, and knows it.
    fn leader(&self) -> Option<u64> {
        let leads = |id: &u64| {
            let status = self.serving(*id)?.replica.node().status();
            (status.leader_id == Some(*id)).then_some(())
        };
        (1..=NEWCOMER).find(|id| leads(id).is_some())
    }

    fn kill(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is killed"));
        self.machine(id).crash();
    }

    async fn restart(&self, id: u64) -> Option<()> {
        self.narrator.say(format_args!("n{id} starts again"));
        self.machine(id).start();
        self.until(|| self.serving(id)).await.map(drop)
    }

    fn isolate(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is cut away from the others"));
        let others = (1..=NEWCOMER).filter(|other| *other != id);
        let links = others.flat_map(|other| [(id, other), (other, id)]);
        self.site.net.conditions.lock().cut.extend(links);
    }

    fn reconnect(&self, id: u64) {
        self.narrator.say(format_args!("n{id} is reachable again"));
        self.site.net.conditions.lock().cut.clear();
    }

    /// Has a client create a tag at a node: one command.
    async fn create_tag(&self, id: u64, tag: &'static str) -> Option<()> {
        self.narrator.say(format_args!("a client creates a tag at n{id}: one command"));
        self.at(id, move |serving| async move {
            let tag = BizTag::parse(tag).expect("a tag");
            serving.services.tags.create(tag, TagSpec::default()).await.ok().map(drop)
        })
        .await
    }

    /// Calls a node, in a task of its process.
    async fn at<F>(&self, id: u64, call: impl FnOnce(Serving) -> F) -> Option<()>
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let serving = self.serving(id)?;
        let process = Arc::clone(&serving.process);
        timeout(STEP_MAX, process.spawn(call(serving))).await.ok()?.ok()?
    }

    /// Waits for something that comes in time.
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
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
    fn show_state(&self) {
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
