//! One line of what is held in strict order.

use mintleaf_core::limits::STEP_MAX;
use mintleaf_core::segment::SegmentBuffer;
use mintleaf_core::shape::Line;
use mintleaf_core::steps::Steps;

/// One line that this process holds something of, or waits for.
pub(super) struct HeldLine {
    pub(super) line: Line,
    /// The tag's bounds of grabs, as the last grab found them.
    pub(super) steps: Steps,
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
        let steps = Steps::from(1);
        let buffer = (!is_section).then(|| SegmentBuffer::led(steps));
        let (grab, opened, installed, exhausted) = (None, false, 0, false);
        Self { line, steps, buffer, grab, opened, installed, exhausted }
    }

    /// The size of a grab that begins now, while requests wait for `demand` numbers of the line.
    pub(super) fn begin_grab(&mut self, demand: u64, now_ms: u64) -> u32 {
        match &mut self.buffer {
            Some(buffer) => buffer.begin_grab(now_ms, self.steps, demand),
            None => u32::try_from(demand).unwrap_or(u32::MAX).min(STEP_MAX),
        }
    }
}
