//! How nodes introduce themselves before they are members of one cluster.

use std::time::Duration;

use crate::client::CallError;
use crate::core::Core;
use crate::message::{AskerKnown, Handshake, HandshakeReply, Origin, Purpose, Refusal, Response};
use crate::transport::Target;
use crate::two_phase_commit::{Participant, check_lists};
use crate::types::Member;
use crate::types::bounds::check_address;

/// Timeout of a handshake: three round trips of half a second to open a connection, and one more.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Introduces this node to the node at an address, and returns who answered. `node_id` is the node that must listen
/// there, if known.
pub(crate) async fn send(
    core: &Core,
    node_id: Option<u64>,
    address: &str,
    purpose: Purpose,
) -> Result<(Origin, HandshakeReply), CallError> {
    let cluster = core.identity.cluster();
    let handshake = Handshake { from: core.identity.origin(), cluster, purpose };
    match core.client.handshake(Target { address, node_id }, handshake, HANDSHAKE_TIMEOUT).await? {
        (from, Response::Handshake(reply)) => {
            let sound = check_address(&reply.raft).and_then(|()| check_address(&reply.http));
            sound.map_err(|why| CallError::Refused {
                address: address.to_owned(),
                refusal: Refusal::Failed(why),
            })?;
            Ok((from, reply))
        }
        _ => Err(CallError::Lost {
            address: address.to_owned(),
            reason: "answered something other than what was asked".to_owned(),
        }),
    }
}

/// Judges and answers a handshake. The asker may belong to another cluster, so the answer only states what this node
/// knows, and no refusal may stop the asker.
pub(crate) fn answer(core: &Core, handshake: &Handshake) -> Result<HandshakeReply, Refusal> {
    let (ours, invited) = (core.cluster(), core.identity.bootstrap().invited());
    if let (Some(ours), Some(theirs)) = (ours.or(invited), handshake.cluster)
        && ours != theirs
    {
        return Err(Refusal::WrongCluster { ours });
    }
    match &handshake.purpose {
        Purpose::Found { founders } if ours.is_none() => {
            check_lists(&core.options.founders(), founders)?;
        }
        Purpose::Join if ours.is_none() => check_invited(core, handshake.cluster)?,
        Purpose::Found { .. } | Purpose::Join | Purpose::Vouch { .. } => {}
    }
    let Member { raft, http, .. } = core.myself();
    let Participant { prepared, ticket, .. } = core.identity.bootstrap().participant();
    let release = core.state.supports();
    let (node_id, store) = match handshake.purpose {
        Purpose::Vouch { node_id, store } => (node_id, store),
        _ => (handshake.from.node_id, handshake.from.store),
    };
    let asker = match core.member(node_id) {
        None => AskerKnown::No,
        Some(known) if known.store == store => AskerKnown::AsSuch,
        Some(_) => AskerKnown::Otherwise,
    };
    Ok(HandshakeReply { raft, http, cluster: ours, prepared, ticket, asker, release })
}

/// Refuses a cluster that wants to add this new node while it waits for another one. Otherwise a cluster that was
/// given a wrong address could take the node away from the founders that wait for it.
fn check_invited(core: &Core, cluster: Option<u128>) -> Result<(), Refusal> {
    if let Some(prepared) = core.identity.bootstrap().prepared() {
        return Err(prepared.refusal());
    }
    let waits_for_founders =
        core.options.join.is_none() && core.identity.bootstrap().invited() != cluster;
    if cluster.is_some() && waits_for_founders {
        let why = "it was started with --peers, to form a cluster; --join is for entering one";
        return Err(Refusal::Failed(why.to_owned()));
    }
    Ok(())
}
