//! How running members distinguish each other's stores from older copies of them.
//!
//! A member that comes back as an older copy of its store has forgotten what it acknowledged. Its peers have seen an
//! incarnation of the store that the copy never had, and the copy learns that from the first peer that names it. So a
//! restarted member gets the last incarnation that was seen of its store before its votes and entries count, and
//! confirms that its store had it. An image of a running process must be found out as well. So an incarnation
//! ends after a minute, and the next one is shown to the other members.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::message::Request;

/// Timeout for a member to take notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

/// Periodically begins a new incarnation of this store, and shows it to the other members.
pub(crate) async fn renew_incarnation(core: Arc<Core>) {
    loop {
        // Not later on a slow disk, though changes wait for these syncs: an image that is older than this would repeat ids.
        tokio::time::sleep(core.options.tuning.incarnation_max).await;
        let others = core.others();
        if others.is_empty() {
            continue;
        }
        if core.identity.begin_incarnation(0).await.is_err() {
            return; // The failed storage has stopped the node.
        }
        let request = || Request::ConfirmIncarnation { seen: core.identity.incarnation() };
        for (id, member) in others {
            // A member that cannot be reached sees the next incarnation.
            let _ = core.client.call(id, &member, request(), NOTICE_TIMEOUT).await;
        }
    }
}
