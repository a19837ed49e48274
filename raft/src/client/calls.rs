//! Calls to members and to nodes that are not members yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_codec as codec;
use tokio::time::Instant;

use crate::identity::NodeIdentity;
use crate::message::{
    Answer, Destination, Frame, Handshake, Header, Incarnation, Origin, Refusal, Request, Response,
};
use crate::peers::PeerObservations;
use crate::transport::{PROTOCOL, Target, Transport, TransportError};
use crate::types::Member;

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request was not sent, or not completely: it had no effect at the other end.
    #[error("cannot reach {address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// The request was sent but not answered: it may have had its effect.
    #[error("no answer from {address}: {reason}")]
    Lost { address: String, reason: String },
    /// The other end refused the request; nothing happened.
    #[error("refused by {address}: {refusal}")]
    Refused { address: String, refusal: Refusal },
    /// The answer came from an incarnation or a store that no longer counts. The request may have had its effect.
    #[error("the answer of {address} does not count: {refusal}")]
    Discounted { address: String, refusal: Refusal },
}

/// Sends requests to peers, and records who answered.
pub(crate) struct Client {
    identity: Arc<NodeIdentity>,
    heard: Arc<PeerObservations>,
    transport: Arc<dyn Transport>,
    /// The founders' addresses, as the operator gave them.
    listed: BTreeMap<u64, String>,
}

impl Client {
    pub(crate) fn new(
        identity: Arc<NodeIdentity>,
        heard: Arc<PeerObservations>,
        transport: Arc<dyn Transport>,
        listed: BTreeMap<u64, String>,
    ) -> Self {
        Self { identity, heard, transport, listed }
    }

    /// Calls a member of this node's cluster. No other process at its address is accepted in its place.
    pub(crate) async fn call(
        &self,
        node_id: u64,
        member: &Member,
        request: Request,
        within: Duration,
    ) -> Result<Response, CallError> {
        let Some(cluster) = self.identity.cluster() else {
            let reason = "this node belongs to no cluster yet".to_owned();
            return Err(CallError::Unreachable { address: member.raft.clone(), reason });
        };
        self.call_in(cluster, node_id, member, request, within).await
    }

    /// Calls a member of a cluster that this node may not belong to yet.
    pub(crate) async fn call_in(
        &self,
        cluster: u128,
        node_id: u64,
        member: &Member,
        request: Request,
        within: Duration,
    ) -> Result<Response, CallError> {
        let header = self.header(cluster, node_id, member);
        let told = header.to.incarnation_seen;
        let frame = Frame { header: Some(header), request };
        let at = |address| Target { address, node_id: Some(node_id) };
        let mut address = &member.raft;
        let sent = Instant::now();
        let mut answer = self.send(at(address), &frame, within).await;
        if let Ok(Answer { from, .. }) = &answer
            && header.to.is(from)
            && frame.request.is_answered_from_memory()
        {
            self.heard.weather().measured(node_id, sent.elapsed());
        }
        if missed(&answer, &header.to)
            && let Some(listed) = self.listed.get(&node_id).filter(|listed| *listed != address)
        {
            // The whole cluster may have moved, and members may even have swapped addresses. Then only the operator's
            // list is up to date.
            address = listed;
            answer = self.send(at(address), &frame, within).await;
        }
        if let Err(CallError::Unreachable { .. }) = answer {
            self.heard.reachability().refused(node_id);
        }
        if let Ok(Answer { from, result: Err(Refusal::Restarted { seen }), .. }) = &answer
            && header.to.is(from)
            && !self.identity.is_contradicted(*seen, from).await
        {
            let request = Request::ConfirmIncarnation { seen: *seen };
            self.send(at(address), &Frame { header: Some(header), request }, within).await?;
            answer = self.send(at(address), &frame, within).await;
        }
        let waits = !frame.request.is_answered_from_memory();
        self.conclude(address, &header, told, answer?, waits).await
    }

    fn header(&self, cluster: u128, node_id: u64, member: &Member) -> Header {
        let to = self.identity.destination(node_id, member);
        let (clock_ms, median_ms) = (self.heard.own_ms(), self.heard.median_as_leader_ms());
        Header { cluster, from: self.identity.origin(), to, clock_ms, median_ms }
    }

    /// Sends a handshake to any node at an address, or to the one that must listen there. The answer of a stranger
    /// never stops this node.
    pub(crate) async fn handshake(
        &self,
        target: Target<'_>,
        handshake: Handshake,
        within: Duration,
    ) -> Result<(Origin, Response), CallError> {
        let frame = Frame { header: None, request: Request::Handshake(handshake) };
        let answer = self.send(target, &frame, within).await?;
        let address = target.address.to_owned();
        match answer.result {
            Ok(response) => Ok((answer.from, response)),
            Err(refusal) => Err(CallError::Refused { address, refusal }),
        }
    }

    /// Judges who answered, and what the answer means here. If `waits` is set, the answer counts only once the
    /// incarnation that gave it is on disk.
    async fn conclude(
        &self,
        address: &str,
        header: &Header,
        told: Option<Incarnation>,
        answer: Answer,
        waits: bool,
    ) -> Result<Response, CallError> {
        let Answer { from, clock_ms, result } = answer;
        let address = address.to_owned();
        if header.to.is(&from) {
            self.heard.reachability().answered(from.node_id);
            // The clock of a stranger must not be taken for a member's.
            self.heard.clocks().read(from.node_id, clock_ms);
        }
        let response = match result {
            Ok(response) => response,
            Err(refusal) => {
                if self.is_from_a_member(header, &from) && self.ends_this_node(&refusal, &from) {
                    let why = format!("refused by node {} at {address}: {refusal}", from.node_id);
                    self.identity.stop_as_refused(&refusal, why).await;
                }
                return Err(CallError::Refused { address, refusal });
            }
        };
        self.check_answer(header, told, from, waits)
            .await
            .map_err(|refusal| CallError::Discounted { address, refusal })?;
        Ok(response)
    }

    /// Whether a member's refusal ends this node. Doubt about its data does so at once. Its removal from the
    /// membership is not for one member alone to declare.
    fn ends_this_node(&self, refusal: &Refusal, from: &Origin) -> bool {
        match refusal {
            Refusal::Removed { members_index } | Refusal::Replaced { members_index } => {
                self.identity.believes_removal(from, *members_index)
            }
            refusal => refusal.is_fatal(),
        }
    }

    /// Whether the answer came from the very store that the membership names, in reply to a message of this node's
    /// own cluster. Only such an answer may stop this node. A stranger at the address knows nothing of this node, no
    /// matter what it claims.
    fn is_from_a_member(&self, header: &Header, from: &Origin) -> bool {
        let ours = self.identity.cluster() == Some(header.cluster);
        let named = self.identity.knows(from.node_id, from.store);
        ours && named && header.to.is(from)
    }

    // An answer from an older copy of a peer's store must not count either.
    async fn check_answer(
        &self,
        header: &Header,
        told: Option<Incarnation>,
        from: Origin,
        waits: bool,
    ) -> Result<(), Refusal> {
        if !header.to.is(&from) {
            return Err(Refusal::WrongStore);
        }
        match waits {
            true => self.identity.record_incarnation(told, &from).await,
            false => self.identity.note_incarnation(told, &from).map(drop),
        }
    }

    async fn send(
        &self,
        target: Target<'_>,
        frame: &Frame,
        within: Duration,
    ) -> Result<Answer, CallError> {
        let address = || target.address.to_owned();
        let lost = |reason: String| CallError::Lost { address: address(), reason };
        let answer = tokio::time::timeout(within, self.carry(target, frame));
        answer.await.map_err(|_| lost(format!("timed out after {within:?}")))?
    }

    /// Carries a frame to the target and its answer back. An answer in the name of a node other than the proven one
    /// counts as lost.
    async fn carry(&self, target: Target<'_>, frame: &Frame) -> Result<Answer, CallError> {
        let answer = self.transport.call(target, codec::encode(PROTOCOL, frame)).await;
        let address = target.address.to_owned();
        let reply = answer.map_err(|error| match error {
            TransportError::Unreachable(reason) => {
                CallError::Unreachable { address: address.clone(), reason }
            }
            TransportError::Lost(reason) => CallError::Lost { address: address.clone(), reason },
            TransportError::Refused(why) => {
                CallError::Refused { address: address.clone(), refusal: Refusal::Failed(why) }
            }
        })?;
        let lost = |reason| CallError::Lost { address, reason };
        let answer: Answer = match codec::decode(&reply.bytes) {
            Ok((_, answer)) => answer,
            Err(error) => return Err(lost(error.to_string())),
        };
        if !reply.from.may_speak_for(answer.from.node_id, answer.from.store) {
            return Err(lost(
                "another node answered than the one that has proved itself".to_owned(),
            ));
        }
        Ok(answer)
    }
}

/// Whether the intended member does not listen at the address, even if another process does. The request then had no
/// effect on it.
fn missed(answer: &Result<Answer, CallError>, to: &Destination) -> bool {
    match answer {
        Ok(answer) => answer.result.is_err() && !to.is(&answer.from),
        Err(error) => matches!(error, CallError::Unreachable { .. }),
    }
}
