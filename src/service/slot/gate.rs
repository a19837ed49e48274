//! Whether the ids of a tag that a node holds may be handed out.

/// Whether ids may be handed out. As long as the gate is open, no call for ids looks any further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gate {
    /// All that are held.
    Open,
    /// As far as the rate limit goes.
    Limited,
    /// None, while the tag is frozen. What is held stays.
    Frozen,
    /// None, because the tag is gone; for good.
    Closed,
}

impl Gate {
    /// Whether there is a use for more ids.
    pub(super) fn lets_grab(self) -> bool {
        matches!(self, Self::Open | Self::Limited)
    }
}
