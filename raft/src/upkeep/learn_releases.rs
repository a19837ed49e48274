//! Asks the other members what they run, so that every node can show it.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::membership::ask_release;

/// Time between two rounds of asking.
const LEARN_INTERVAL: Duration = Duration::from_secs(2);

/// Keeps asking the other members what they run, for as long as the node does.
pub(crate) async fn learn_releases(core: Arc<Core>) {
    loop {
        let others = core.others();
        for (id, member) in &others {
            // A member that does not answer is shown with its last answer.
            let _ = ask_release(&core, *id, member).await;
        }
        core.releases.keep_only(&others);
        tokio::time::sleep(LEARN_INTERVAL).await;
    }
}
