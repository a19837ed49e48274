//! Leaders and candidates that this node's membership does not name.
//!
//! A leader may have joined while this node was away, and its messages claim that. But a message's claim about its
//! sender proves nothing: every node with a certificate could claim that it leads. So this node asks the nodes that
//! its membership names, and hears the sender once one of them has it as a member. A leader that this node has
//! followed is still heard in its term, because it may be committing its own removal (Raft paper, 6).

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bootstrap::handshake;
use crate::core::Core;
use crate::message::{AskerKnown, Origin, Purpose, Refusal, Request};
use crate::runtime::{SparseLines, to_completion};
use crate::types::RaftVote;

/// Log lines about nodes that no member has vouched for.
static UNVOUCHED: SparseLines = SparseLines::each_second();

/// The nodes that this node hears besides the members that it knows.
#[derive(Default)]
pub(super) struct Vouchers {
    heard: Mutex<Heard>,
    /// Held while members are asked, so that repeated messages ask only once.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Heard {
    /// The last leader that the membership named, and its vote as the leader.
    followed: Option<(u128, RaftVote)>,
    /// Stores that a member has vouched for, while the membership here had this log index.
    vouched: (Option<u64>, BTreeSet<u128>),
}

impl Vouchers {
    /// Refuses a leader or a candidate that is not a member, as far as this node can find out. If a node's membership
    /// does not name its own store, the node is still joining. It has no member to ask: it may hold an old snapshot
    /// none of whose members is left. It hears the cluster that it is bound to or was pointed to.
    pub(super) async fn check(
        self: &Arc<Self>,
        core: &Arc<Core>,
        from: &Origin,
        request: &Request,
    ) -> Result<(), Refusal> {
        let Some(vote) = claimed_vote(request) else { return Ok(()) };
        let Some(index) = core.identity.origin().members_index else { return Ok(()) };
        if core.identity.knows(from.node_id, from.store) {
            if let Claim::Leads(vote) = vote {
                self.follow(from.store, vote);
            }
            return Ok(());
        }
        if self.heard(from.store, index, vote) {
            return Ok(());
        }
        let (vouchers, core, from) = (Arc::clone(self), Arc::clone(core), *from);
        // The sender hangs up before the members have answered, and sends again.
        to_completion(async move { vouchers.ask(&core, &from, index).await }).await
    }

    fn follow(&self, store: u128, vote: RaftVote) {
        let mut heard = self.heard.lock();
        if heard.followed != Some((store, vote)) {
            heard.followed = Some((store, vote));
        }
    }

    fn heard(&self, store: u128, index: u64, claim: Claim) -> bool {
        let heard = self.heard.lock();
        let is_followed =
            matches!(claim, Claim::Leads(vote) if heard.followed == Some((store, vote)));
        let (vouched_at, vouched) = &heard.vouched;
        is_followed || *vouched_at == Some(index) && vouched.contains(&store)
    }

    /// Asks the members, one after the other, whether they have the sender as a member.
    async fn ask(&self, core: &Core, from: &Origin, index: u64) -> Result<(), Refusal> {
        let unknown =
            || Refusal::Failed("no member that this node knows has vouched for it".to_owned());
        let Ok(_one_at_a_time) = self.asking.try_lock() else { return Err(unknown()) };
        for (id, member) in core.others() {
            if id == from.node_id {
                continue;
            }
            let purpose = Purpose::Vouch { node_id: from.node_id, store: from.store };
            let answered = handshake::send(core, Some(id), &member.raft, purpose).await;
            let Ok((voucher, reply)) = answered else { continue };
            let is_ours = voucher.node_id == id && reply.cluster == core.identity.cluster();
            if is_ours && reply.asker == AskerKnown::AsSuch {
                let mut heard = self.heard.lock();
                if heard.vouched.0 != Some(index) {
                    heard.vouched = (Some(index), BTreeSet::new());
                }
                heard.vouched.1.insert(from.store);
                return Ok(());
            }
        }
        if let Some(others) = UNVOUCHED.take() {
            tracing::warn!(
                peer = from.node_id,
                others,
                "a node that no member knows says that it leads, or wants to"
            );
        }
        Err(unknown())
    }
}

/// What a message claims about its sender.
#[derive(Clone, Copy)]
enum Claim {
    /// A quorum has elected the sender, with this vote.
    Leads(RaftVote),
    /// The sender stands for election.
    Stands,
}

fn claimed_vote(request: &Request) -> Option<Claim> {
    match request {
        Request::Append(rpc) => Some(Claim::Leads(rpc.vote)),
        Request::Heartbeat { lead } => lead.map(|lead| Claim::Leads(lead.vote)),
        Request::Snapshot(rpc) => Some(Claim::Leads(rpc.vote)),
        Request::Vote { .. } | Request::PreVote { .. } => Some(Claim::Stands),
        _ => None,
    }
}
