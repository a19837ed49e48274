//! One tag's double buffer: ids rise, for any grabs and any takers.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use mintleaf_core::limits::{ID_END, STEP_MAX};
use mintleaf_core::segment::{Segment, SegmentBuffer};
use mintleaf_core::steps::Steps;
use mintleaf_fuzz::near;

/// A buffer, and what the log has given it.
struct Tag {
    buffer: SegmentBuffer,
    step: u32,
    now_ms: u64,
    /// The first id that no grab has reserved.
    max_id: u64,
    /// The first id above all that were given.
    above_last: u64,
    held: u64,
    asked: Option<u32>,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let _ = play(&mut input);
});

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let step = step(input)?;
    let max_id = near(input, &[1, 1 << 31, ID_END - 1000])?.clamp(1, ID_END);
    let buffer = SegmentBuffer::new(Steps::from(step));
    let mut tag = Tag { buffer, step, now_ms: 0, max_id, above_last: 0, held: 0, asked: None };
    while !input.is_empty() {
        tag.act(input)?;
        assert_eq!(tag.buffer.remaining(), tag.held);
        assert_eq!(tag.buffer.grab_in_flight(), tag.asked.is_some());
    }
    Ok(())
}

fn step(input: &mut Unstructured<'_>) -> Result<u32> {
    let step = near(input, &[1, 1000, u64::from(STEP_MAX)])?;
    Ok(u32::try_from(step.clamp(1, u64::from(STEP_MAX))).unwrap_or(STEP_MAX))
}

impl Tag {
    fn act(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=6)? {
            0 | 1 => self.take_one(),
            2 => self.take(near(input, &[1, 100, self.held])?),
            3 => self.begin(near(input, &[0, 1000, u64::MAX])?),
            4 => self.end(input.arbitrary()?, input.arbitrary()?),
            5 => self.now_ms = near(input, &[self.now_ms, self.now_ms.saturating_add(900_000)])?,
            _ => self.step = step(input)?,
        }
        Ok(())
    }

    fn take_one(&mut self) {
        let now_ms = self.now_ms;
        let id = self.buffer.take_one(|| now_ms);
        assert_eq!(id.is_some(), self.held > 0);
        if let Some(id) = id {
            self.given(id, id + 1);
        }
    }

    fn take(&mut self, count: u64) {
        let now_ms = self.now_ms;
        let ranges = self.buffer.take(count, || now_ms);
        assert_eq!(ranges.is_some(), self.held >= count);
        let before = self.held;
        for range in ranges.iter().flatten() {
            self.given(range.start, range.end);
        }
        assert!(ranges.is_none() || before - self.held == count);
    }

    fn given(&mut self, start: u64, end: u64) {
        assert!(self.above_last <= start && start < end && end <= self.max_id);
        self.above_last = end;
        self.held -= end - start;
    }

    fn begin(&mut self, demand: u64) {
        if self.asked.is_none() {
            let size = self.buffer.begin_grab(self.now_ms, Steps::from(self.step), demand);
            assert!((self.step..=STEP_MAX).contains(&size));
            self.asked = Some(size);
        }
    }

    /// The log returns as many ids as were asked for, or fewer at the end of all ids. They lie above those that
    /// other nodes took since.
    fn end(&mut self, others: u16, fails: bool) {
        let Some(size) = self.asked.take() else { return };
        let start = self.max_id.saturating_add(u64::from(others)).min(ID_END);
        let end = start.saturating_add(u64::from(size)).min(ID_END);
        self.max_id = end;
        if fails || start == end {
            return self.buffer.grab_failed();
        }
        self.buffer.install(Segment { start, end }, Steps::from(self.step), self.now_ms);
        self.held += end - start;
    }
}
