//! Every course of a few steps of a buffer.
//!
//! **Bound:** six steps out of eleven, after a first segment of three ids.

use super::*;

const STEPS_MAX: u32 = 6;
const STEPS: Steps = Steps { step: 2, step_max: None };

#[derive(Clone, Copy, Debug)]
enum Step {
    TakeOne,
    TakeSome(u64),
    Take(u64),
    TakeContiguous(u64),
    Begin,
    /// The grab in flight brings `ids` ids, which begin `gap` above all earlier ones.
    Install {
        gap: u64,
        ids: u64,
    },
    Fail,
    /// The floor rises to the cursor plus this.
    Rise(u64),
}

const ALL: [Step; 11] = [
    Step::TakeOne,
    Step::TakeSome(2),
    Step::Take(2),
    Step::Take(4),
    Step::TakeContiguous(3),
    Step::Begin,
    Step::Install { gap: 0, ids: 2 },
    Step::Install { gap: 1, ids: 1 },
    Step::Fail,
    Step::Rise(1),
    Step::Rise(4),
];

/// A buffer, and what it must do, by the ids that it was ever given.
struct Course {
    buffer: SegmentBuffer,
    /// The ids that were installed and neither taken nor skipped, ascending.
    held: VecDeque<u64>,
    end: u64,
    floor: u64,
    in_flight: bool,
}

impl Course {
    fn begin() -> Self {
        let mut buffer = SegmentBuffer::new(STEPS);
        buffer.begin_grab(0, STEPS, 0);
        buffer.install(Segment { start: 1, end: 4 }, STEPS, 0);
        Self { buffer, held: (1..4).collect(), end: 4, floor: 0, in_flight: false }
    }

    /// Takes a step; false if it cannot be taken now.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::TakeOne => {
                let taken = self.buffer.take_one(|| 0);
                assert_eq!(taken, self.held.pop_front());
            }
            Step::TakeSome(count) => {
                let taken: Vec<u64> =
                    self.buffer.take_some(count, || 0).into_iter().flatten().collect();
                assert_eq!(taken.is_empty(), self.held.is_empty());
                assert!(taken.len() as u64 <= count);
                let expected: Vec<u64> = self.held.drain(..taken.len()).collect();
                assert_eq!(taken, expected);
            }
            Step::Take(count) => {
                let taken = self.buffer.take(count, || 0);
                assert_eq!(taken.is_some(), self.held.len() as u64 >= count);
                let taken: Vec<u64> = taken.into_iter().flatten().flatten().collect();
                let expected: Vec<u64> = self.held.drain(..taken.len()).collect();
                assert_eq!(taken, expected);
            }
            Step::TakeContiguous(count) => {
                let at = first_run(self.held.make_contiguous(), count);
                let taken = self.buffer.take_contiguous(count, || 0);
                assert_eq!(taken.is_some(), at.is_some());
                if let Some((at, taken)) = at.zip(taken) {
                    let expected: Vec<u64> =
                        self.held.drain(..at + count as usize).skip(at).collect();
                    assert!(taken.eq(expected));
                }
            }
            Step::Begin if !self.in_flight => {
                assert!(self.buffer.begin_grab(0, STEPS, 0) >= STEPS.step);
                self.in_flight = true;
            }
            Step::Install { gap, ids } if self.in_flight => {
                let segment = Segment { start: self.end + gap, end: self.end + gap + ids };
                self.buffer.install(segment, STEPS, 0);
                let floor = self.floor;
                self.held.extend((segment.start..segment.end).filter(|id| *id >= floor));
                (self.end, self.in_flight) = (segment.end, false);
            }
            Step::Fail if self.in_flight => {
                self.buffer.grab_failed();
                self.in_flight = false;
            }
            Step::Rise(by) => {
                let next = self.held.front().copied().unwrap_or(self.end);
                self.floor = self.floor.max(next + by);
                self.buffer.rise_to(self.floor);
                let floor = self.floor;
                self.held.retain(|id| *id >= floor);
            }
            Step::Begin | Step::Install { .. } | Step::Fail => return false,
        }
        assert_eq!(self.buffer.remaining(), self.held.len() as u64);
        assert_eq!(self.buffer.grab_in_flight(), self.in_flight);
        true
    }
}

/// Takes every course that begins with these steps. Returns how many there are.
fn courses(begin: &mut Vec<Step>) -> u64 {
    let mut course = Course::begin();
    if !begin.iter().all(|step| course.step(*step)) {
        return 0;
    }
    if begin.len() as u32 == STEPS_MAX {
        return 1;
    }
    let mut count = 0;
    for step in ALL {
        begin.push(step);
        count += courses(begin);
        begin.pop();
    }
    count
}

#[test]
fn every_id_that_is_installed_comes_out_once_and_in_order_or_is_skipped_by_a_rule() {
    let courses = courses(&mut Vec::new());
    println!("{courses} courses of {STEPS_MAX} steps");
    assert!(courses > 40_000);
}
