//! How a new node joins a cluster through one of its members.

use std::time::Duration;

use tokio::time::Instant;

use super::handshake;
use super::waiting_log::WaitingLog;
use crate::core::Core;
use crate::error::{NodeError, StopReason};
use crate::message::{Change, MembershipError, Purpose, Request, Response};
use crate::types::Member;

/// Pause between two rounds of asking.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the member at `seed` to add this node. Returns once this node takes part.
pub(super) async fn join(core: &Core, seed: &str) -> Result<(), NodeError> {
    let mut waiting = WaitingLog::default();
    loop {
        if core.cluster().is_some() {
            return Ok(());
        }
        let waiting_for = match ask_to_join(core, seed).await {
            Ok(()) => "the leader's first message".to_owned(),
            Err(why) => why,
        };
        *core.waits_for.lock() = Some(waiting_for.clone());
        if waiting.is_told(&waiting_for, Instant::now()) {
            tracing::info!(%waiting_for, seed, "joining the cluster");
        }
        tokio::time::sleep(ROUND_INTERVAL).await;
    }
}

async fn ask_to_join(core: &Core, seed: &str) -> Result<(), String> {
    let (from, reply) = handshake::send(core, None, seed, Purpose::Join)
        .await
        .map_err(|error| error.to_string())?;
    let Some(cluster) = reply.cluster else {
        return Err(format!("{seed} belongs to no cluster itself yet"));
    };
    if let Some(prepared) = core.identity.bootstrap().prepared() {
        return Err(format!("this node cannot join: {}", prepared.refusal()));
    }
    core.identity.bootstrap().invite(Some(cluster));
    let seed_member = Member { raft: seed.to_owned(), http: String::new(), store: from.store };
    let Member { raft, http, store } = core.myself();
    let (id, release) = (core.identity.node_id(), Some(core.state.supports()));
    let add = Change::Add { id, raft, http, voter: false, store: Some(store), release };
    let change = Request::Change(add);
    let answer =
        core.client.call_in(cluster, from.node_id, &seed_member, change, JOIN_TIMEOUT).await;
    let stop = core.identity.stop_handle();
    match answer {
        Ok(Response::Changed(Ok(()))) => Ok(()),
        Ok(Response::Changed(Err(error @ MembershipError::Conflict(_)))) => {
            stop.stop(StopReason::operator(format!("cannot join: {error}")));
            Err(error.to_string())
        }
        Ok(Response::Changed(Err(MembershipError::Level(why)))) => {
            stop.stop_as_outdated(&format!("cannot join: {why}"));
            Err(why)
        }
        Ok(Response::Changed(Err(error))) => Err(error.to_string()),
        Ok(_) => Err("answered something other than what was asked".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
