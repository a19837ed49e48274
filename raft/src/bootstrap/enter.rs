//! Entering a cluster as the options say.

use std::sync::Arc;

use super::{founders, join};
use crate::core::Core;
use crate::error::NodeError;

/// Makes this new node a member, as its options say. Returns once it is one.
pub(crate) async fn enter_cluster(core: Arc<Core>) -> Result<(), NodeError> {
    match &core.options.join {
        Some(seed) => join::join(&core, seed).await,
        None => founders::found(&core).await,
    }
}
