//! How founders bootstrap their cluster, by the rules of `two_phase_commit`.
//!
//! Every founder sends handshakes to all others, over and over, until it takes part in a cluster. The answers show
//! which cluster may add it, which of the nodes that it prepared still have to learn of an abort, and whether its own
//! preparation was aborted. The coordinator does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::handshake;
use super::waiting_log::WaitingLog;
use crate::client::CallError;
use crate::core::Core;
use crate::error::{NodeError, StopReason};
use crate::message::{
    AskerKnown, HandshakeReply, KNOWN_OTHERWISE, Origin, Prepare, Prepared, Purpose, Refusal,
    Request, Response,
};
use crate::runtime::{in_process, random_below, random_u128};
use crate::two_phase_commit::{Decision, FounderAnswer, Participant, decide};
use crate::types::Member;

/// Pause between two rounds of handshakes.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
/// How often a waiting founder checks whether it waits in vain, and whether to log that it waits.
const REMINDER_INTERVAL: Duration = Duration::from_secs(5);
/// How long a founder gets to write down that it is prepared, or free.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(2);
/// A coordinator that has not prepared all founders after this long aborts its id. The founders that it did prepare
/// are then free for another coordinator while one is missing.
const PREPARING_MAX: Duration = Duration::from_secs(5);
/// Both times leave room for this many syncs of this node's own disk: other disks may be as slow.
const SYNCS_OF_A_FOUNDER: u32 = 4;
/// Both times double with each id that was given up, at most this often: a disk may be slower than is known.
const DOUBLINGS_MAX: u32 = 4;
/// Two coordinators that got in each other's way each wait for a random time up to this bound. It is far longer than
/// preparing all founders takes, so one of them is first the next time.
const RETREAT_MAX: Duration = Duration::from_secs(2);

/// What each of the other founders answered, and the member record of each one that did.
type Answers = BTreeMap<u64, (FounderAnswer, Option<Member>)>;

/// How long a coordinator waits.
struct Patience {
    /// When this node began to prepare others.
    since: Instant,
    /// How many ids this node has given up.
    aborted: u32,
}

impl Patience {
    /// The time that one founder gets.
    fn with_one(&self, core: &Core) -> Duration {
        self.grown(PREPARE_TIMEOUT, core)
    }

    /// Whether all founders together have had their time.
    fn is_over(&self, core: &Core) -> bool {
        let founders = u32::try_from(core.options.peers.len()).unwrap_or(u32::MAX);
        let all = self.grown(PREPARING_MAX, core).max(founders * self.with_one(core));
        self.since.elapsed() >= all
    }

    fn grown(&self, time: Duration, core: &Core) -> Duration {
        let syncs = SYNCS_OF_A_FOUNDER * core.heard.syncs().bound();
        time.max(syncs) * 2_u32.pow(self.aborted.min(DOUBLINGS_MAX))
    }
}

/// The outcome of a round of handshakes.
enum Round {
    Formed,
    Missing(String),
    Aborted(String),
}

/// Answers a coordinator's prepare request.
pub(crate) async fn prepare_for_coordinator(
    core: &Core,
    from: &Origin,
    request: Prepare,
) -> Result<Response, Refusal> {
    let Prepared { coordinator, store, .. } = request.prepared;
    if (from.node_id, from.store) != (coordinator, store) {
        return Err(Refusal::Failed("the offer is not the sender's".to_owned()));
    }
    core.identity.bootstrap().prepare(&core.options.founders(), request).await?;
    Ok(Response::Done)
}

/// Takes part in the bootstrap of the cluster. Returns once there is a cluster that contains this node.
pub(super) async fn found(core: &Arc<Core>) -> Result<(), NodeError> {
    let mut reminded = Instant::now();
    let mut patience = Patience { since: Instant::now(), aborted: 0 };
    let mut waiting = WaitingLog::default();
    while core.cluster().is_none() {
        let missing = match round(core, &mut patience).await? {
            Round::Formed => return Ok(()),
            Round::Missing(missing) => missing,
            Round::Aborted(why) => {
                patience.aborted += 1;
                tracing::warn!(%why, "gave up a cluster id, and draws another one soon");
                sleep(random_below(RETREAT_MAX)).await;
                why
            }
        };
        *core.waits_for.lock() = Some(missing.clone());
        if reminded.elapsed() >= REMINDER_INTERVAL {
            reminded = Instant::now();
            if waiting.is_told(&missing, Instant::now()) {
                remind(core, &missing);
            }
            if is_known_otherwise(core).await {
                let why = format!("no cluster can form: {KNOWN_OTHERWISE}");
                return Err(NodeError::Stopped(StopReason::operator(why)));
            }
        }
        sleep(ROUND_INTERVAL).await;
    }
    Ok(())
}

/// Whether all other founders belong to one cluster that knows this node's id with another data directory. Waiting is
/// useless then, and because this directory holds nothing yet, ending the node loses nothing.
async fn is_known_otherwise(core: &Core) -> bool {
    let mut clusters = BTreeSet::new();
    for (&id, address) in &core.options.peers {
        if id == core.identity.node_id() {
            continue;
        }
        let purpose = Purpose::Found { founders: core.options.founders() };
        match handshake::send(core, Some(id), address, purpose).await {
            Ok((
                from,
                HandshakeReply { cluster: Some(cluster), asker: AskerKnown::Otherwise, .. },
            )) if from.node_id == id => {
                clusters.insert(cluster);
            }
            _ => return false,
        }
    }
    clusters.len() == 1
}

fn remind(core: &Core, missing: &str) {
    match core.identity.bootstrap().prepared() {
        Some(prepared) if prepared.store != core.identity.store() => {
            let bound = prepared.refusal();
            tracing::warn!(%bound, %missing, "waiting for the cluster to form");
        }
        _ => tracing::warn!(%missing, "waiting for the cluster to form"),
    }
}

/// Asks all founders once and acts on their answers.
async fn round(core: &Arc<Core>, patience: &mut Patience) -> Result<Round, NodeError> {
    let before = core.identity.bootstrap().prepared();
    let answers = ask_founders(core).await;
    resolve(core, before, &answers).await;
    let (own, founders) = (core.identity.bootstrap().prepared(), core.options.founders());
    let coordinates = core.options.peers.keys().next() == Some(&core.identity.node_id());
    let me = core.identity.store();
    let said = answers.iter().map(|(&id, (answer, _))| (id, answer));
    let decision = decide(me, own.as_ref(), &founders, said);
    match own {
        Some(own) if own.store == me => {
            let why = match decision {
                _ if !coordinates => "this node does not coordinate any more".to_owned(),
                Decision::Abort(why) => why,
                Decision::Wait(why) if patience.is_over(core) => why,
                _ if patience.is_over(core) => "it took too long".to_owned(),
                Decision::Wait(missing) => return Ok(Round::Missing(missing)),
                Decision::Draw | Decision::Prepare => {
                    return prepare_all(core, own, answers, patience.with_one(core)).await;
                }
            };
            abort(core, own, why, &answers).await
        }
        None if coordinates && decision == Decision::Draw => {
            patience.since = Instant::now();
            draw(core, founders, answers, patience.with_one(core)).await
        }
        None if coordinates => match decision {
            Decision::Wait(missing) => Ok(Round::Missing(missing)),
            _ => Ok(Round::Missing("this node's own bond".to_owned())),
        },
        _ => Ok(Round::Missing(missing_of(&answers))),
    }
}

/// Draws a cluster id, preparing this store for it first.
async fn draw(
    core: &Arc<Core>,
    founders: String,
    answers: Answers,
    within: Duration,
) -> Result<Round, NodeError> {
    let (cluster, store) = (random_u128(), core.identity.store());
    let prepared = Prepared { cluster, coordinator: core.identity.node_id(), store, founders };
    if !core.identity.bootstrap().prepare_itself(prepared.clone()).await? {
        return Ok(Round::Missing("this node was let in elsewhere".to_owned()));
    }
    prepare_all(core, prepared, answers, within).await
}

/// Prepares all other founders for this coordinator's cluster id in parallel, and commits once all are prepared.
async fn prepare_all(
    core: &Arc<Core>,
    prepared: Prepared,
    answers: Answers,
    within: Duration,
) -> Result<Round, NodeError> {
    let mut members = BTreeMap::from([(core.identity.node_id(), core.myself())]);
    let mut preparing = JoinSet::new();
    for (&id, (answer, member)) in &answers {
        let (FounderAnswer::Participant(participant), Some(member)) = (answer, member) else {
            return Ok(Round::Missing(format!("node {id}")));
        };
        members.insert(id, member.clone());
        let (prepared, ticket) = (prepared.clone(), participant.ticket);
        let (core, member) = (Arc::clone(core), member.clone());
        preparing.spawn(in_process(async move {
            let (cluster, prepare) = (prepared.cluster, Prepare { prepared, ticket });
            let request = Request::Prepare(prepare);
            (id, core.client.call_in(cluster, id, &member, request, within).await)
        }));
    }
    let mut unanswered = None;
    while let Some(Ok((id, answer))) = preparing.join_next().await {
        match answer {
            Ok(_) => {}
            Err(error @ CallError::Refused { .. }) => {
                let why = format!("node {id}: {error}");
                return abort(core, prepared, why, &answers).await;
            }
            Err(error) => unanswered = Some(format!("node {id}: {error}")),
        }
    }
    if let Some(missing) = unanswered {
        return Ok(Round::Missing(missing));
    }
    if !core.identity.bootstrap().enter(prepared.cluster).await? {
        return Ok(Round::Missing("this node was let in elsewhere".to_owned()));
    }
    let founders = members.keys().map(u64::to_string).collect::<Vec<_>>().join(",");
    tracing::info!(founders, "forming the cluster");
    core.raft.initialize(members).await.map_err(NodeError::raft)?;
    Ok(Round::Formed)
}

/// Aborts the cluster id that this store has drawn, for good, and then notifies the founders that may be prepared for
/// it. A founder that cannot be reached now is notified when it next answers.
async fn abort(
    core: &Core,
    own: Prepared,
    why: String,
    answers: &Answers,
) -> Result<Round, NodeError> {
    let ended = core.identity.bootstrap().abort(own.cluster, core.identity.store()).await;
    ended.map_err(|refusal| NodeError::Stopped(StopReason::restart(refusal.to_string())))?;
    if core.identity.bootstrap().prepared().is_some_and(|prepared| prepared.cluster == own.cluster)
    {
        return Ok(Round::Missing("this node was let in meanwhile".to_owned()));
    }
    for (&id, (_, member)) in answers {
        if let Some(member) = member {
            send_abort(core, own.cluster, id, member).await;
        }
    }
    Ok(Round::Aborted(why))
}

async fn send_abort(core: &Core, cluster: u128, id: u64, member: &Member) {
    let abort = Request::Abort { cluster };
    let told = core.client.call_in(cluster, id, member, abort, PREPARE_TIMEOUT).await;
    if let Err(error) = told {
        tracing::debug!(peer = id, %error, "cannot be told that it is free");
    }
}

/// Frees the founders that are prepared for an id that this store has aborted. Frees this store too, if its
/// coordinator has aborted. A store draws one id at a time, so it has aborted every other id that it drew.
///
/// `before` is what this store was prepared for when it asked. An answer may not reflect a later preparation.
async fn resolve(core: &Core, before: Option<Prepared>, answers: &Answers) {
    let me = core.identity.store();
    for (&id, (answer, member)) in answers {
        let (FounderAnswer::Participant(participant), Some(member)) = (answer, member) else {
            continue;
        };
        if let Some(theirs) = &participant.prepared
            && theirs.is_aborted(me, &core.identity.bootstrap().participant())
        {
            send_abort(core, theirs.cluster, id, member).await;
        }
        if let Some(ours) = &before
            && ours.is_aborted(member.store, participant)
        {
            let _ = core.identity.bootstrap().abort(ours.cluster, member.store).await;
        }
    }
}

/// Asks all other founders in parallel: on a slow link the first answer takes several round trips.
async fn ask_founders(core: &Arc<Core>) -> Answers {
    let mut asked = JoinSet::new();
    for (&id, address) in
        core.options.peers.iter().filter(|(id, _)| **id != core.identity.node_id())
    {
        let (core, address) = (Arc::clone(core), address.clone());
        asked.spawn(in_process(async move { (id, ask_founder(&core, id, &address).await) }));
    }
    let mut answers = Answers::new();
    while let Some(answered) = asked.join_next().await {
        answers.extend(answered);
    }
    let cluster = |(answer, _): &(FounderAnswer, _)| match answer {
        FounderAnswer::Participant(participant) => participant.cluster,
        _ => None,
    };
    let mut clusters: Vec<u128> = answers.values().filter_map(cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    match clusters[..] {
        [] => {}
        [cluster] => core.identity.bootstrap().invite(Some(cluster)),
        // The operator has mixed clusters up.
        _ => core.identity.bootstrap().invite(None),
    }
    answers
}

async fn ask_founder(core: &Core, id: u64, address: &str) -> (FounderAnswer, Option<Member>) {
    let purpose = Purpose::Found { founders: core.options.founders() };
    match handshake::send(core, Some(id), address, purpose).await {
        Ok((from, reply)) if from.node_id == id => known(&from, reply),
        Ok((from, _)) => {
            let other = from.node_id;
            let why =
                format!("node {other} answered at {address}, which --peers gives to node {id}");
            (FounderAnswer::Silent(why), None)
        }
        Err(error @ CallError::Refused { .. }) => (FounderAnswer::Refused(error.to_string()), None),
        Err(error) => (FounderAnswer::Silent(error.to_string()), None),
    }
}

fn known(from: &Origin, reply: HandshakeReply) -> (FounderAnswer, Option<Member>) {
    let HandshakeReply { raft, http, cluster, prepared, ticket, .. } = reply;
    let member = Member { raft, http, store: from.store };
    (FounderAnswer::Participant(Participant { cluster, prepared, ticket }), Some(member))
}

/// Lists what a founder that does not coordinate is waiting for: every node that holds it up.
fn missing_of(answers: &Answers) -> String {
    let hindered = answers.iter().filter_map(|(id, (answer, _))| match answer {
        FounderAnswer::Silent(why) | FounderAnswer::Refused(why) => {
            Some(format!("node {id}: {why}"))
        }
        FounderAnswer::Participant(Participant { cluster: Some(_), .. }) => {
            Some(format!("node {id} belongs to a cluster already; waiting to be let in, by `mintleaf cluster add`"))
        }
        FounderAnswer::Participant(_) => None,
    });
    match hindered.collect::<Vec<_>>() {
        none if none.is_empty() => "the founder with the lowest id, to bind all others".to_owned(),
        hindered => hindered.join("; "),
    }
}
