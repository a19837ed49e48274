//! How members tell each other's stores from older copies of them, for as long as they run.
//!
//! A member that comes back as an older copy of itself has forgotten what it acknowledged. Its peers
//! have seen a start of its store that the copy never made, and the copy finds that out from whoever
//! tells it. So a member that was started anew is told what was last seen of it before it is heard.
//! And so that an image of a running process is an older copy too, a store's start ends every minute;
//! the next one is shown to the other members.

use std::sync::Arc;
use std::time::Duration;

use crate::guard::{Identity, Refusal};
use crate::node::Inner;
use crate::transport::Request;
use crate::types::Member;

/// How long a member has to confirm what was seen of it.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

impl Inner {
    /// Tells a member that was started anew what was last seen of its store; an error unless it
    /// answers to that.
    pub(crate) async fn ask_back(&self, from: &Identity) -> Result<(), Refusal> {
        let Some(member) = self.member(from.node_id).filter(|member| member.store == from.store)
        else {
            return Ok(());
        };
        let (client, node_id) = (Arc::clone(&self.client), from.node_id);
        // A task of its own: the request that waits for it may be given up long before a slow link
        // has brought the answer.
        let asked = self.runtime.spawn(async move {
            client.call(node_id, &member, Request::Confirm, CONFIRM_TIMEOUT).await
        });
        let failed = |why: String| Err(Refusal::Failed(why));
        match asked.await {
            Ok(Ok(_)) if !self.local.has_restarted(from) => Ok(()),
            Ok(Ok(_)) => failed("another start of its data directory answers by now".to_owned()),
            Ok(Err(error)) => failed(format!("cannot ask it what it is: {error}")),
            Err(error) => failed(error.to_string()),
        }
    }

    fn others(&self) -> Vec<(u64, Member)> {
        let members = self.local.members();
        let others = members.nodes().filter(|(_, member)| member.store != self.local.store());
        others.map(|(id, member)| (*id, member.clone())).collect()
    }
}

/// Begins a new start of this store every so often, and shows it to the other members.
pub(crate) async fn vouch(inner: Arc<Inner>) {
    loop {
        tokio::time::sleep(inner.options.tuning.start_max).await;
        let others = inner.others();
        if others.is_empty() {
            continue;
        }
        if inner.local.begin_start(0).await.is_err() {
            return; // The failed storage has stopped the node.
        }
        for (id, member) in others {
            // Who cannot be reached sees the next one.
            let _ = inner.client.call(id, &member, Request::Confirm, CONFIRM_TIMEOUT).await;
        }
    }
}
