//! What one node holds of one tag, for people who monitor it.

use mintleaf_core::segment::Outlook;

/// What one node holds of one tag, and how it is used, at one moment.
#[derive(Clone, Debug)]
pub struct SlotStatus {
    /// The segments.
    pub outlook: Outlook,
    /// How many ids are gone since this node first held any of the tag, including the skipped ones.
    pub handed_out: u64,
    /// How many callers wait.
    pub waiting: usize,
    /// Whether what is held may be handed out: the tag is not frozen.
    pub is_open: bool,
    /// Whether every id of the tag is reserved, so that no grab can bring more.
    pub exhausted: bool,
    /// The period that the ids are of, where there is one.
    pub period: Option<u32>,
}

impl SlotStatus {
    /// After how many seconds callers wait, if no grab brings more; 0 where some do already; `None` where ids are not
    /// used.
    pub fn waits_in_s(&self) -> Option<f64> {
        match self.waiting {
            0 => self.outlook.lasts_s().filter(|_| self.is_open),
            _ => Some(0.0),
        }
    }
}
