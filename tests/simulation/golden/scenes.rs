//! The scenes: short courses of events, each of which shows one thing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, NewMember};
use tokio::time::sleep;

use super::narrator::Narrator;
use super::stage::{Cast, FOUNDERS, NEWCOMER, Stage};
use crate::net::address;

/// Long enough for all effects of a step, such as the answers and the next heartbeat.
const SETTLING: Duration = Duration::from_millis(500);
/// How long two followers are separated without a leader. By then their leases have expired, and the one with
/// the shorter log is the first to ask again.
const APART: Duration = Duration::from_millis(1250);

/// A scene, whose trace is kept.
pub(crate) struct Scene {
    /// The name of its file, without the extension.
    pub(crate) name: &'static str,
    /// The first lines of its file: what it shows, and where that is described.
    pub(crate) head: &'static str,
    play: for<'a> fn(&'a Stage) -> Played<'a>,
}

type Played<'a> = std::pin::Pin<Box<dyn Future<Output = Option<()>> + 'a>>;

/// All scenes.
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
committed entries (Raft paper, section 5.4.1). It grants its own to the other, whose log is longer.",
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

/// Plays a scene, with the nodes' directories under `dir`. Returns its trace, or the reason why the scene could
/// not be completed.
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

impl Stage {
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
            let add = serving.services.cluster.add_node(
                Actor::default(),
                NewMember {
                    id: NEWCOMER,
                    raft: address(NEWCOMER),
                    http: None,
                    voter: true,
                    force: false,
                },
            );
            add.await.ok().map(drop)
        })
        .await?;
        sleep(SETTLING).await;
        self.show_state();
        self.narrator.say(format_args!("an operator asks n{leader} to remove n{one}"));
        self.at(leader, move |serving| async move {
            serving.services.cluster.remove_node(Actor::default(), one, false).await.ok()
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
            serving.services.cluster.transfer_leader(Actor::default(), one).await.ok()
        })
        .await?;
        self.until(|| self.leader().filter(|now| *now != leader)).await?;
        sleep(SETTLING).await;
        self.show_state();
        Some(())
    }
}
