//! Short slices that alternate between two servers. A machine that slows down slows both sides of a ratio.

use std::fmt::Write;

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::histogram::Histogram;
use crate::load::{Buckets, Load, Outcome};
use crate::process::Process;
use crate::stats::Spread;

/// A process that uses more than this share of a core has no capacity left.
const BUSY: f64 = 0.92;

/// How often rounds are resampled, to see how much a figure depends on single rounds.
const RESAMPLES: usize = 1_000;

/// One load on one server, for a short time.
pub(crate) struct Slice {
    pub(crate) outcome: Outcome,
    /// Processor time of the server for each request, in microseconds.
    pub(crate) cpu_us: f64,
}

impl Slice {
    /// Whether the server could have answered more requests.
    fn waits_for_generator(&self) -> bool {
        let server_busy = self.cpu_us * self.outcome.per_second / 1e6;
        self.outcome.busy > BUSY && server_busy < BUSY
    }
}

/// The figure that compares two servers.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// Requests a second.
    Rate,
    /// Processor time for each request.
    Cpu,
    /// The other side's processor time for each request, divided by this side's. As with a rate, more is better.
    CpuAsRate,
    /// Latency at the median.
    P50,
    /// The latency that one request in a hundred exceeds.
    P99,
}

/// One side of a comparison: a function that measures a slice.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> Result<Slice>;

/// Loads a service that consists of these processes.
///
/// # Errors
/// When the load breaks off, or a request was answered with an error.
pub(crate) fn slice(bench: &Bench, service: &[&Process], load: &Load) -> Result<Slice> {
    let servers = service.iter().map(|process| process.pid()).collect();
    let outcome = bench.load(&Load { servers, ..load.clone() })?;
    let cpu_us = outcome.servers_ns as f64 / 1e3 / outcome.answered.max(1) as f64;
    Ok(Slice { outcome, cpu_us })
}

/// Measures rounds. In each, every side has one slice; the order is random.
pub(crate) fn alternate(bench: &Bench, [ours, theirs]: [Side<'_>; 2]) -> Result<Vec<[Slice; 2]>> {
    let mut rounds = Vec::new();
    for _ in 0..bench.options.rounds() {
        rounds.push(if rand::random() {
            let first = ours()?;
            [first, theirs()?]
        } else {
            let first = theirs()?;
            [ours()?, first]
        });
    }
    Ok(rounds)
}

/// Compares two loads on two services.
pub(crate) fn compare(
    bench: &Bench,
    by: Measure,
    ours: (&[&Process], &Load),
    theirs: (&[&Process], &Load),
) -> Result<Finding> {
    let mut sides = [ours, theirs].map(|(service, load)| move || slice(bench, service, load));
    let [ours, theirs] = &mut sides;
    Ok(by.finding(&alternate(bench, [ours, theirs])?))
}

impl Measure {
    /// The finding of some rounds: the ratio within each, and their median. Tails are compared as in `of_calm`.
    pub(crate) fn finding(self, rounds: &[[Slice; 2]]) -> Finding {
        let side = |side: usize| self.show(rounds.iter().map(|round| &round[side]));
        let figure = match self {
            Measure::P99 => self.of_calm(rounds),
            _ => self.of_rounds(rounds),
        };
        let [mut ours, mut reference] = [side(0), side(1)];
        if matches!(self, Measure::P99) {
            let all: Vec<usize> = (0..rounds.len()).collect();
            let calm = |side| Windows::of(rounds, side).calm_p99(&all);
            let _ = write!(ours, ", p99 of the calm halves {:.0} µs", calm(0));
            let _ = write!(reference, ", p99 of the calm halves {:.0} µs", calm(1));
        }
        Finding { ours, reference, figure }
    }

    fn of_rounds(self, rounds: &[[Slice; 2]]) -> Spread {
        let ratios = rounds.iter().map(|[ours, theirs]| match self {
            Measure::CpuAsRate => self.of(theirs) / self.of(ours),
            _ => self.of(ours) / self.of(theirs),
        });
        Spread::of(ratios)
    }

    /// The ratio between the tails of both sides' calm halves, and its spread when the rounds are resampled.
    fn of_calm(self, rounds: &[[Slice; 2]]) -> Spread {
        let sides = [0, 1].map(|side| Windows::of(rounds, side));
        let ratio = |drawn: &[usize]| sides[0].calm_p99(drawn) / sides[1].calm_p99(drawn);
        let redrawn = (0..RESAMPLES).map(|_| {
            let drawn = rounds.iter().map(|_| rand::random::<usize>() % rounds.len());
            ratio(&drawn.collect::<Vec<usize>>())
        });
        let all: Vec<usize> = (0..rounds.len()).collect();
        Spread { median: ratio(&all), ..Spread::of(redrawn) }
    }

    /// The figures of one side, each the median of all rounds.
    fn show<'a>(self, slices: impl Iterator<Item = &'a Slice> + Clone) -> String {
        let median = |of: fn(&Slice) -> f64| Spread::of(slices.clone().map(of)).median;
        let mut shown = format!("{}/s", thousands(median(|slice| slice.outcome.per_second)));
        if matches!(self, Measure::P50 | Measure::P99) {
            let quantiles = [
                median(|slice| slice.outcome.p50),
                median(|slice| slice.outcome.p99),
                median(|slice| slice.outcome.p999),
            ];
            let [p50, p99, p999] = quantiles.map(f64::round);
            let _ = write!(shown, ", p50 {p50} p99 {p99} p99.9 {p999} µs");
        }
        if let cpu_us @ 0.01.. = median(|slice| slice.cpu_us) {
            let _ = write!(shown, ", {cpu_us:.2} µs CPU");
        }
        let waiting = slices.clone().filter(|slice| slice.waits_for_generator()).count();
        if matches!(self, Measure::Rate) && 2 * waiting > slices.count() {
            shown += ", all that the generator can do";
        }
        shown
    }

    fn of(self, slice: &Slice) -> f64 {
        match self {
            Measure::Rate => slice.outcome.per_second,
            Measure::Cpu | Measure::CpuAsRate => slice.cpu_us,
            Measure::P50 => slice.outcome.p50,
            Measure::P99 => slice.outcome.p99,
        }
    }
}

/// The open loops of one side, cut into windows: by window, then by round.
///
/// Other work on the machine makes tails up to thirty times as long. It comes in bursts, at any time, on either
/// side. A server's own delays come in the same window of every slice: a grab in the first, an election in the
/// seventh, heartbeats in all. So the calmer half of the rounds counts for each window, and all windows
/// together make one slice.
struct Windows<'a>(Vec<Vec<Window<'a>>>);

struct Window<'a> {
    p99: f64,
    times: &'a Buckets,
}

impl<'a> Windows<'a> {
    fn of(rounds: &'a [[Slice; 2]], side: usize) -> Self {
        let outcomes = || rounds.iter().map(|round| &round[side].outcome);
        let count = outcomes().map(|outcome| outcome.windows.len()).min().unwrap_or(0);
        let window = |at: usize| outcomes().map(move |outcome| Window::of(&outcome.windows[at]));
        Self((0..count).map(|at| window(at).collect()).collect())
    }

    /// The tail of the given rounds, in microseconds.
    fn calm_p99(&self, drawn: &[usize]) -> f64 {
        let mut calm = Histogram::default();
        for window in &self.0 {
            let mut rounds: Vec<&Window> = drawn.iter().map(|&round| &window[round]).collect();
            rounds.sort_unstable_by(|one, other| one.p99.total_cmp(&other.p99));
            for round in &rounds[..rounds.len().div_ceil(2)] {
                calm.add(round.times);
            }
        }
        calm.quantile_us(0.99)
    }
}

impl<'a> Window<'a> {
    fn of(times: &'a Buckets) -> Self {
        let mut histogram = Histogram::default();
        histogram.add(times);
        Self { p99: histogram.quantile_us(0.99), times }
    }
}

/// A number for people to read, in three or four digits.
pub(crate) fn thousands(number: f64) -> String {
    match number {
        0.0..1e4 => format!("{number:.0}"),
        1e4..1e6 => format!("{:.0}k", number / 1e3),
        _ => format!("{:.2}M", number / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of two windows. In each window all requests took the given time.
    fn slice_of(windows: [u64; 2]) -> Slice {
        let buckets = |nanos| {
            let mut histogram = Histogram::default();
            histogram.record(nanos, 100);
            histogram.buckets()
        };
        let outcome = Outcome { windows: windows.map(buckets).to_vec(), ..Outcome::default() };
        Slice { outcome, cpu_us: 0.0 }
    }

    #[test]
    fn what_comes_in_every_round_counts_and_what_comes_in_some_does_not() {
        let noisy = [[100, 5_000], [90_000, 5_000], [100, 70_000], [100, 5_000]];
        let rounds: Vec<[Slice; 2]> =
            noisy.iter().map(|&ours| [slice_of(ours), slice_of([100, 100])]).collect();
        let windows = Windows::of(&rounds, 0);
        assert!((4.9..5.1).contains(&windows.calm_p99(&[0, 1, 2, 3])));
        assert!(windows.calm_p99(&[1, 1, 1, 2]) > 80.0, "there is nothing calmer");
        let ratio = Measure::P99.finding(&rounds).figure.median;
        assert!((45.0..55.0).contains(&ratio), "{ratio}");
    }
}
