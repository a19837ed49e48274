//! How members tell each other's stores from older copies of them, for as long as they run.
//!
//! A member that comes back as an older copy of itself has forgotten what it acknowledged. Its peers
//! have seen a start of its store that the copy never made, and the copy finds that out from whoever
//! tells it. So a member that was started anew is told what was last seen of it before its votes and
//! entries count, and vouches that this was one of its own. And so that an image of a running process
//! is an older copy too, a store's start ends every minute; the next one is shown to the other members.

use std::sync::Arc;
use std::time::Duration;

use crate::node::Inner;
use crate::transport::Request;

/// How long a member has to take notice.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

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
        let request = || Request::Vouch { seen: inner.local.start() };
        for (id, member) in others {
            // Who cannot be reached sees the next one.
            let _ = inner.client.call(id, &member, request(), NOTICE_TIMEOUT).await;
        }
    }
}
