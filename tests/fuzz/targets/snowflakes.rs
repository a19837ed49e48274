//! The generator: ids rise and stay below the fences, for any windows and any clocks.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use mintleaf_core::snowflake::{Format, Generator, Layout, Window};
use mintleaf_fuzz::near;

const LAYOUTS: [&str; 5] = ["41+10+12", "41+5+5+12", "41+6+6", "39+0+1", "43+12+8"];
const AHEAD_MS_MAX: u64 = 60_000;

struct Process {
    format: Format,
    generator: Generator,
    /// Every window that it was given and has not released.
    windows: Vec<Window>,
    last: u64,
    clock_ms: u64,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let _ = play(&mut input);
});

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let layout: Layout = input.choose(&LAYOUTS)?.parse().expect("it is a layout");
    let epoch_ms = near(input, &[0, 1_288_834_974_657])? & ((1 << 41) - 1);
    let format = Format::new(layout, epoch_ms).expect("it is below the bound");
    let generator = Generator::new(format, AHEAD_MS_MAX, input.arbitrary()?);
    let (windows, clock_ms) = (Vec::new(), format.times_ms().start);
    let mut process = Process { format, generator, windows, last: 0, clock_ms };
    while !input.is_empty() {
        process.act(input)?;
    }
    Ok(())
}

impl Process {
    fn act(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=6)? {
            0 | 1 => {
                if let Ok(id) = self.generator.take_one(self.clock_ms) {
                    self.given(id, id + 1);
                }
            }
            2 => self.take(u64::from(input.arbitrary::<u16>()?)),
            3 => self.install(input)?,
            4 => self.give_up(input)?,
            _ => self.clock_ms = self.moment(input)?,
        }
        self.generator.remaining_ms(self.clock_ms);
        self.generator.out_of_reach(self.clock_ms);
        Ok(())
    }

    /// A time near a relevant one: the clock, the ends of a window, the ends of time.
    fn moment(&self, input: &mut Unstructured<'_>) -> Result<u64> {
        let times = self.format.times_ms();
        let reach_ms = self.clock_ms.saturating_add(AHEAD_MS_MAX);
        let mut marks = vec![self.clock_ms, reach_ms, times.start, times.end];
        marks.extend(self.windows.iter().flat_map(|window| [window.floor_ms, window.fence_ms]));
        near(input, &marks)
    }

    fn take(&mut self, count: u64) {
        let Ok(ranges) = self.generator.take(count, self.clock_ms) else { return };
        assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), count);
        for range in ranges {
            self.given(range.start, range.end);
        }
    }

    fn given(&mut self, start: u64, end: u64) {
        assert!(self.last < start && start < end && end <= 1 << 63);
        self.last = end - 1;
        let [first, last] = [start, end - 1].map(|id| self.format.decode(id).expect("it is an id"));
        assert_eq!((first.time_ms, first.worker_id), (last.time_ms, last.worker_id));
        let owned = self.windows.iter().any(|window| {
            window.worker_id == first.worker_id
                && (window.floor_ms..window.fence_ms).contains(&first.time_ms)
        });
        assert!(owned, "{first:?} is in no window of {:?}", self.windows);
        assert!(first.time_ms.saturating_sub(self.clock_ms) <= AHEAD_MS_MAX);
        assert!(first.time_ms >= self.clock_ms.min(self.format.times_ms().start));
    }

    /// The log gives the windows of a worker id in rising order, or extends one.
    fn install(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let worker_id = input.int_in_range(0..=3)?;
        let [one, other] = [self.moment(input)?, self.moment(input)?];
        let times = self.format.times_ms();
        let held = self.windows.iter().position(|window| window.worker_id == worker_id);
        let fence_ms = one.max(other).min(times.end);
        let mut window = Window { worker_id, floor_ms: one.min(other).max(times.start), fence_ms };
        if let Some(at) = held {
            let before = self.windows[at];
            let extends = input.arbitrary()?;
            window.floor_ms =
                if extends { before.floor_ms } else { window.floor_ms.max(before.fence_ms) };
            if extends && window.fence_ms < before.fence_ms {
                return Ok(());
            }
        }
        if worker_id >= self.format.layout().worker_ids() || window.floor_ms >= window.fence_ms {
            return Ok(());
        }
        self.generator.install(window);
        if let Some(at) = held {
            self.windows.remove(at);
        }
        self.windows.push(window);
        Ok(())
    }

    fn give_up(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let worker_id = input.int_in_range(0..=3)?;
        let held = self.windows.iter().position(|window| window.worker_id == worker_id);
        let unused_from_ms = self.generator.give_up(worker_id);
        assert_eq!(unused_from_ms.is_some(), held.is_some());
        let (Some(at), Some(unused_from_ms)) = (held, unused_from_ms) else { return Ok(()) };
        let window = self.windows.remove(at);
        assert!((window.floor_ms..=window.fence_ms).contains(&unused_from_ms));
        let last = self.format.decode(self.last).expect("it is an id");
        assert!(
            self.last == 0 || last.time_ms < unused_from_ms || unused_from_ms == window.fence_ms
        );
        Ok(())
    }
}
