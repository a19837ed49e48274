//! The most ids that a grab of a tag reserves, of the few tags that have such a bound. It stands beside the tag's entry,
//! so that tags without one take neither memory nor other bytes than they always did.

use serde::{Deserialize, Serialize};

use super::shared_table::Named;
use crate::tag::BizTag;

/// The bound of an existing tag. A tombstone has none.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct StepBound {
    pub(super) tag: BizTag,
    /// At least the tag's step, at most [`STEP_MAX`](crate::limits::STEP_MAX).
    pub(super) step_max: u32,
}

impl Named for StepBound {
    fn name(&self) -> &str {
        self.tag.as_str()
    }
}
