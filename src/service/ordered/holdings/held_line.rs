//! One line of what is held in strict order, and how many numbers its next grab reserves.

use mintleaf_core::limits::STEP_MAX;
use mintleaf_core::segment::SegmentBuffer;
use mintleaf_core::shape::Line;

/// Most numbers that a grab reserves beyond the tag's step and what requests wait for.
const SIZE_MAX: u32 = 1 << 18;
/// A grab so soon after the one before reserves twice as much, and one so late half as much. What is held is of no use
/// in an outage of the quorum, and the next leader wastes it: it has to last for some commits, and not longer.
const SOON_MS: u64 = 1_000;
const LATE_MS: u64 = 10_000;

/// One line that this process holds something of, or waits for.
pub(super) struct HeldLine {
    pub(super) line: Line,
    /// The tag's step, as the last grab found it.
    pub(super) step: u32,
    /// How many numbers the last grab reserved beyond what requests waited for, and when.
    size: u32,
    grabbed_ms: Option<u64>,
    /// The numbers that are held; `None` of a section, whose numbers are held by keys.
    pub(super) buffer: Option<SegmentBuffer>,
    /// The grab in flight.
    pub(super) grab: Option<u64>,
    /// Whether an interval of it was ever held.
    pub(super) opened: bool,
    /// How many numbers were ever held.
    pub(super) installed: u64,
    /// Whether every number of the line is reserved.
    pub(super) exhausted: bool,
}

impl HeldLine {
    pub(super) fn new(line: Line) -> Self {
        let is_section = matches!(line, Line::Section(_));
        // A grab of one is raised to the tag's step by the log.
        let buffer = (!is_section).then(|| SegmentBuffer::new(1));
        Self {
            line,
            step: 1,
            size: 1,
            grabbed_ms: None,
            buffer,
            grab: None,
            opened: false,
            installed: 0,
            exhausted: false,
        }
    }

    /// The size of a grab that begins now, while requests wait for `demand` numbers of the line.
    pub(super) fn begin_grab(&mut self, demand: u64, now_ms: u64) -> u32 {
        let wanted = u32::try_from(demand).unwrap_or(u32::MAX).min(STEP_MAX);
        let since_ms = self.grabbed_ms.map(|at| now_ms.saturating_sub(at));
        self.size = match since_ms {
            Some(..SOON_MS) => self.size.saturating_mul(2),
            Some(LATE_MS..) => self.size / 2,
            _ => self.size,
        };
        self.size = self.size.clamp(self.step, SIZE_MAX.max(self.step));
        self.grabbed_ms = Some(now_ms);
        match &mut self.buffer {
            Some(buffer) => {
                let size = buffer.begin_grab(now_ms, self.step, demand);
                size.min(self.size.max(wanted))
            }
            None => wanted,
        }
    }
}
