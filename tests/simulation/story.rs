//! Stories: courses of events that once broke a promise, forced step by step.
//!
//! A seed alone does not preserve such a course, because the next change of a timer turns it into another run.
//! A story forces the steps that matter and leaves the rest, above all the delays of network and disks, to the
//! seed.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, Error, NewMember};
use tokio::time::{Instant, sleep, timeout};

use crate::clients::Clients;
use crate::machine::{Machine, Serving, Site};
use crate::net::address;
use crate::replacement::put_down;

/// The longest wait for one step of a story.
const STEP_MAX: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long a node is cut off: many times the length of an election.
const CUT: Duration = Duration::from_secs(3);
/// How long the other nodes are watched afterwards, and how long one of their grabs may take. No node of a
/// quorum has failed, so a grab waits at most for an election, or for a snapshot on a slow disk, which takes up
/// to sixteen times a fifth of a second.
const WATCHED: Duration = Duration::from_secs(10);
const GRAB_MAX: Duration = Duration::from_secs(4);
/// The number of elections that a slow disk may cause in that time: a leader is silent while its disk writes.
const ELECTIONS_MAX: u64 = 3;

/// A course of events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Story {
    /// A node is removed, wiped and added again under its id. The snapshot that it receives is older than its
    /// removal. So its former store has a vote in the membership that it knows. It is cut off before it
    /// receives the log after that snapshot, and comes back.
    ReturnedLearner,
    /// A follower is cut off, then paused, then restarted, and comes back each time. Term and leader stay.
    ReturningFollower,
    /// As many voters are down as a quorum allows, and another one is to be removed or to lose its vote. That
    /// is refused, and the cluster continues. Then the change is forced, and completes once the voters that are
    /// down are back.
    ChangeWithVotersDown,
}

impl Story {
    /// The story of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::ReturnedLearner, Self::ReturningFollower, Self::ChangeWithVotersDown]
            .into_iter()
            .find(|story| story.name() == name)
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReturnedLearner => "returned-learner",
            Self::ReturningFollower => "returning-follower",
            Self::ChangeWithVotersDown => "change-with-voters-down",
        }
    }
}

/// The cluster of a story.
pub(crate) struct Stage<'a> {
    pub(crate) site: &'a Arc<Site>,
    pub(crate) machines: &'a [Arc<Machine>],
    pub(crate) clients: &'a Arc<Clients>,
}

impl Stage<'_> {
    /// Plays a story on a running cluster.
    pub(crate) async fn play(&self, story: Story) {
        let played = match story {
            Story::ReturnedLearner => self.returned_learner().await,
            Story::ReturningFollower => self.returning_follower().await,
            Story::ChangeWithVotersDown => self.change_with_voters_down().await,
        };
        if played.is_none() {
            self.site.trace.violation(&format!("the story {} comes to no end", story.name()));
        }
    }

    async fn returned_learner(&self) -> Option<()> {
        let leader = self.leader().await?;
        let target = self.machines.iter().find(|machine| machine.node_id != leader)?;
        self.until("a snapshot", async || {
            let serving = self.serving(leader)?;
            drop(self.grab(&serving).await);
            let status = serving.replica.node().status();
            status.snapshot_index.filter(|_| status.purged_index.is_some()).map(drop)
        })
        .await?;
        let id = target.node_id;
        self.until("the removal", async || {
            let removed = self
                .other_than(id)?
                .services
                .cluster
                .remove_node(Actor::default(), id, false)
                .await;
            matches!(removed, Ok(()) | Err(Error::NotFound(_))).then_some(())
        })
        .await?;
        target.wipe(leader);
        self.site.net.conditions.lock().mute_snapshots = Some(id);
        target.start();
        self.until("the snapshot", async || {
            let status = target.serving()?.replica.node().status();
            status.snapshot_index.map(drop)
        })
        .await?;
        let held = target.serving()?.replica.node().status();
        self.site.trace.note(format_args!("node {id} holds {:?}", held.members));
        self.isolate(id);
        sleep(CUT).await;
        *self.site.net.conditions.lock() = Default::default();
        let before = self.other_than(id)?.replica.node().status().term;
        self.watch_all_but(id).await;
        let after = self.other_than(id)?.replica.node().status().term;
        if after > before + ELECTIONS_MAX {
            let what = format!("term {before} became {after}: node {id} unseats leaders");
            self.site.trace.violation(&what);
        }
        self.until("the return", async || {
            let others = self.other_than(id)?;
            others
                .services
                .cluster
                .add_node(
                    Actor::default(),
                    NewMember { id, raft: address(id), http: None, voter: true, force: false },
                )
                .await
                .ok()
                .map(drop)
        })
        .await
    }

    async fn returning_follower(&self) -> Option<()> {
        let leader = self.leader().await?;
        let follower = self.machines.iter().find(|machine| machine.node_id != leader)?;
        let before = self.serving(leader)?.replica.node().status().term;
        self.isolate(follower.node_id);
        sleep(CUT).await;
        let alone = follower.serving()?.replica.node().status().term;
        *self.site.net.conditions.lock() = Default::default();
        sleep(CUT).await;
        follower.pause(CUT);
        sleep(2 * CUT).await;
        follower.crash();
        sleep(CUT).await;
        follower.start();
        self.until("the return", async || follower.serving().map(drop)).await?;
        sleep(CUT).await;
        let after = self.serving(leader)?.replica.node().status();
        if (alone, after.term, after.leader_id) != (before, before, Some(leader)) {
            let what = format!(
                "term {before} of leader {leader} became {alone} alone, then {} of {:?}",
                after.term, after.leader_id
            );
            self.site.trace.violation(&what);
        }
        Some(())
    }

    async fn change_with_voters_down(&self) -> Option<()> {
        let leader = self.leader().await?;
        let mut others = self.machines.iter().filter(|machine| machine.node_id != leader);
        let down: Vec<_> = others.by_ref().take((self.machines.len() - 1) / 2).collect();
        let id = others.next()?.node_id;
        for machine in &down {
            put_down(machine).await;
        }
        let is_refused = |outcome: Result<(), Error>| match outcome {
            Err(Error::Conflict(detail)) => detail.contains(" not answer: ").then_some(()),
            _ => None,
        };
        self.until("the refusal of the removal", async || {
            let cluster = &self.serving(leader)?.services.cluster;
            is_refused(cluster.remove_node(Actor::default(), id, false).await)
        })
        .await?;
        let member = |voter, force| NewMember { id, raft: address(id), http: None, voter, force };
        self.until("the refusal of the demotion", async || {
            let cluster = &self.serving(leader)?.services.cluster;
            let demoted = cluster.add_node(Actor::default(), member(false, false)).await;
            is_refused(demoted.map(drop))
        })
        .await?;
        self.watch_all_but(down.first()?.node_id).await;

        let serving = self.serving(leader)?;
        let forced = serving.services.cluster.add_node(Actor::default(), member(false, true));
        drop(timeout(CUT, forced).await);
        let halves = serving.replica.node().status().voters.len();
        if halves != 2 {
            self.site.trace.violation("a change that was forced has not begun, or has ended");
        }
        down.iter().for_each(|machine| machine.start());
        self.until("the end of the change", async || {
            let voters = self.other_than(id)?.replica.node().status().voters;
            (voters.len() == 1 && !voters[0].contains(&id)).then_some(())
        })
        .await?;
        self.until("the vote to be back", async || {
            let cluster = &self.other_than(id)?.services.cluster;
            cluster.add_node(Actor::default(), member(true, false)).await.ok().map(drop)
        })
        .await
    }

    fn isolate(&self, id: u64) {
        let conditions = &mut *self.site.net.conditions.lock();
        for other in
            self.machines.iter().map(|machine| machine.node_id).filter(|other| *other != id)
        {
            conditions.cut.extend([(id, other), (other, id)]);
        }
    }

    /// Checks that every node but one keeps grabbing.
    async fn watch_all_but(&self, id: u64) {
        let until = Instant::now() + WATCHED;
        while Instant::now() < until {
            for machine in self.machines.iter().filter(|machine| machine.node_id != id) {
                let Some(serving) = machine.serving() else { continue };
                if !matches!(timeout(GRAB_MAX, self.grab(&serving)).await, Ok(Ok(()))) {
                    let what = format!("node {} grabs nothing for {GRAB_MAX:?}", machine.node_id);
                    return self.site.trace.violation(&what);
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Takes an id of a new tag, which needs a grab.
    async fn grab(&self, serving: &Serving) -> Result<(), Error> {
        let tag = format!("story-{}", self.site.random.next());
        self.clients.take(serving, &tag, 1).await.map(drop)
    }

    async fn leader(&self) -> Option<u64> {
        self.until("a leader", async || {
            self.machines.iter().find_map(|one| one.serving()?.services.cluster.view().leader_id)
        })
        .await
    }

    fn serving(&self, id: u64) -> Option<Serving> {
        self.machines.iter().find(|machine| machine.node_id == id)?.serving()
    }

    fn other_than(&self, id: u64) -> Option<Serving> {
        self.machines.iter().filter(|machine| machine.node_id != id).find_map(|one| one.serving())
    }

    /// Repeats a request until it has an answer. It is a violation if none comes in time.
    async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
        let asked = timeout(STEP_MAX, async {
            loop {
                if let Some(found) = ask().await {
                    return found;
                }
                sleep(LOOK_INTERVAL).await;
            }
        });
        let found = asked.await.ok();
        self.site.trace.note(format_args!("{what}: {}", found.is_some()));
        if found.is_none() {
            self.site.trace.violation(&format!("{what} does not come within {STEP_MAX:?}"));
        }
        found
    }
}
