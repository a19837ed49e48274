//! A leader's heartbeats.
//!
//! A heartbeat is answered from memory, on connections that carry no entries. So silence means that a node is gone,
//! never that a disk is busy: neither a follower's nor the leader's own, which openraft's core waits for. Several
//! heartbeats travel at once on a slow link, so that one lost packet delays only one of them. A leader that no quorum
//! answers pauses its heartbeats, so that its followers may elect another leader. They do so an election timeout
//! later than if its process were gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::client::CallError;
use crate::core::Core;
use crate::message::{Lead, Refusal, Request, Response};
use crate::peers::LATE;
use crate::runtime::in_process;
use crate::types::{Member, NamesLeader, RaftLogId, RaftVote};

/// Maximum number of heartbeats to one member that are under way at once.
const UNDER_WAY_MAX: usize = 4;
/// How often openraft sends its own heartbeats, so that nothing that its streams lost stays lost. They carry the same
/// information as the heartbeats of this module, but keep a stream busy for a round trip, and it carries no entry
/// while they do.
const OPENRAFT_INTERVAL: Duration = Duration::from_secs(5);

/// The heartbeats to one member.
#[derive(Default)]
struct Line {
    under_way: usize,
    sent: Option<Instant>,
}

/// What an answer calls for.
enum Answer {
    /// The member follows this leader, or did not answer.
    Nothing,
    /// The member knows of a later vote, which openraft has to learn of.
    LaterVote,
}

/// Sends heartbeats whenever this node leads, as long as it runs.
pub(crate) async fn run(core: Arc<Core>) {
    let me = Some(core.identity.node_id());
    // The server metrics change when the leader does, not with every answer.
    let mut metrics = core.raft.server_metrics();
    loop {
        let Ok(vote) = metrics.wait_for(|now| now.leader() == me).await.map(|leads| leads.vote)
        else {
            return; // openraft has ended.
        };
        if lead(&core, vote).await.is_err() {
            return;
        }
    }
}

/// The error of a node whose openraft has ended.
struct Ended;

/// Sends heartbeats until this node no longer leads by this vote.
async fn lead(core: &Arc<Core>, vote: RaftVote) -> Result<(), Ended> {
    let term = vote.leader_id.term;
    let interval = core.options.tuning.heartbeat;
    let mut lines = BTreeMap::<u64, Line>::new();
    let mut under_way = JoinSet::new();
    let mut openraft_due = Instant::now() + OPENRAFT_INTERVAL;
    let mut metrics = core.raft.server_metrics();
    while core.leads_by(vote) {
        metrics.mark_unchanged();
        let (now, others) = (Instant::now(), core.others());
        let (due, is_alone) = (core.next_look(interval), others.is_empty());
        if !core.transfer.heartbeats_are_paused() && core.heard.may_send(term, now) {
            let mut is_refused = false;
            for (id, member) in others {
                is_refused |= !core.heard.weather().takes_heartbeats(id);
                let line = lines.entry(id).or_default();
                if is_due(core, id, term, line) {
                    line.under_way += 1;
                    line.sent = Some(now);
                    let heartbeat = send(Arc::clone(core), id, member, vote);
                    under_way.spawn(in_process(async move { (id, heartbeat.await) }));
                }
            }
            if is_refused || now >= openraft_due {
                openraft_due = now + OPENRAFT_INTERVAL;
                core.raft.trigger().heartbeat().await.map_err(|_| Ended)?;
            }
        }
        while let Some(ended) = tokio::select! {
            Some(ended) = under_way.join_next() => Some(ended),
            () = sleep_until(due) => None,
            // The first follower gets its first heartbeat at once.
            runs = metrics.changed(), if is_alone => {
                runs.map_err(|_| Ended)?;
                None
            }
        } {
            let Ok((id, answer)) = ended else { continue };
            if let Some(line) = lines.get_mut(&id) {
                line.under_way -= 1;
            }
            if matches!(answer, Answer::LaterVote) {
                core.raft.trigger().heartbeat().await.map_err(|_| Ended)?;
            }
        }
        // A leader that was not running has sent nothing, so its followers owe it no answer.
        if Instant::now() > due + LATE {
            core.heard.contact().await_followers_anew(Instant::now());
        }
    }
    Ok(())
}

/// Whether a heartbeat to a member is due. It is not if the member has acknowledged a message that was sent within
/// the last half interval, or if the last heartbeat went out too recently: heartbeats are an interval apart, or half
/// a round trip on a slow link.
fn is_due(core: &Core, id: u64, term: u64, line: &Line) -> bool {
    let (weather, interval) = (core.heard.weather(), core.options.tuning.heartbeat);
    let now = Instant::now();
    let is_acknowledged = || {
        let acknowledged = core.heard.contact().acknowledged_at(term, id);
        acknowledged.is_some_and(|at| now < at + interval / 2)
    };
    let pace = interval.max(weather.round_trip(id).unwrap_or_default() / 2);
    let is_soon = line.sent.is_some_and(|sent| now + interval / 2 < sent + pace);
    line.under_way < UNDER_WAY_MAX
        && weather.may_take_heartbeats(id)
        && !is_soon
        && !is_acknowledged()
}

/// Sends one heartbeat and records its answer.
async fn send(core: Arc<Core>, id: u64, member: Member, vote: RaftVote) -> Answer {
    let (matched, committed) = progress(&core, id);
    let patience = core.heard.patience_with(id);
    let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    let lead = Lead { vote, matched, committed, patience_ms };
    let (sent, within) = (Instant::now(), core.heard.weather().message_max(id));
    let request = Request::Heartbeat { lead: Some(lead) };
    match core.client.call(id, &member, request, within).await {
        Ok(Response::Heartbeat(condition)) => {
            core.heard.weather().answered(id, sent, condition);
            if condition.vote > vote {
                return Answer::LaterVote;
            }
            core.heard.contact().acknowledged(vote.leader_id.term, id, sent);
        }
        Err(CallError::Refused { refusal: Refusal::Failed(_), .. }) => {
            core.heard.weather().refused(id);
        }
        _ => {}
    }
    Answer::Nothing
}

/// What a member has acknowledged, and what is committed.
fn progress(core: &Core, id: u64) -> (Option<RaftLogId>, Option<RaftLogId>) {
    core.metrics(|now| (now.replication.as_ref().and_then(|all| *all.get(&id)?), now.last_applied))
}
