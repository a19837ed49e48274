//! Short slices that alternate: what moves with the machine moves both sides of a ratio.

use std::fmt::Write;

use crate::Result;
use crate::bench::Bench;
use crate::catalog::Finding;
use crate::load::{Load, Outcome};
use crate::process::Process;
use crate::stats::Spread;

/// Who uses more of a core cannot do more.
const BUSY: f64 = 0.92;

/// How often rounds are drawn again, to see how far a figure depends on which there were.
const RESAMPLES: usize = 1_000;

/// One load on one server, for a moment.
pub(crate) struct Slice {
    pub(crate) outcome: Outcome,
    /// Processor time of the server for each request, in microseconds.
    pub(crate) cpu_us: f64,
}

impl Slice {
    /// Whether the server could have done more.
    fn waits_for_generator(&self) -> bool {
        let server_busy = self.cpu_us * self.outcome.per_second / 1e6;
        self.outcome.busy > BUSY && server_busy < BUSY
    }
}

/// What two servers are compared by.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// Requests a second.
    Rate,
    /// Processor time for each request.
    Cpu,
    /// What a request costs the other for each that costs this one: like a rate, more is better.
    CpuAsRate,
    /// Latency at the median.
    P50,
    /// Latency that one in a hundred exceeds.
    P99,
}

/// One side of a comparison: makes a slice.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> Result<Slice>;

/// Loads a service, which consists of these processes.
///
/// # Errors
/// When the load breaks off, or a request was answered with an error.
pub(crate) fn slice(bench: &Bench, service: &[&Process], load: &Load) -> Result<Slice> {
    let before = cpu_ns(service)?;
    let outcome = bench.load(load)?;
    let used = cpu_ns(service)? - before;
    Ok(Slice { cpu_us: used as f64 / 1e3 / outcome.answered.max(1) as f64, outcome })
}

fn cpu_ns(service: &[&Process]) -> Result<u64> {
    service.iter().map(|process| process.cpu_ns()).sum()
}

/// Rounds in which every side has one slice, in an order of its own in each.
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

/// Two loads on two services, compared.
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
    /// What rounds come to: ratios within each, and their median; tails are compared as `of_calm` does.
    pub(crate) fn finding(self, rounds: &[[Slice; 2]]) -> Finding {
        let side = |side: usize| self.show(rounds.iter().map(|round| &round[side]));
        let figure = match self {
            Measure::P99 => self.of_calm(rounds),
            _ => self.of_rounds(rounds),
        };
        Finding { ours: side(0), reference: side(1), figure }
    }

    fn of_rounds(self, rounds: &[[Slice; 2]]) -> Spread {
        let ratios = rounds.iter().map(|[ours, theirs]| match self {
            Measure::CpuAsRate => self.of(theirs) / self.of(ours),
            _ => self.of(ours) / self.of(theirs),
        });
        Spread::of(ratios)
    }

    /// The ratio of the lower quartiles, and how it moves when rounds are drawn again. What a machine's
    /// other work adds to a tail makes it up to thirty times as long in one slice and not in the next,
    /// on either side; it never makes one shorter.
    fn of_calm(self, rounds: &[[Slice; 2]]) -> Spread {
        let calm = |side: usize, drawn: &[usize]| {
            Spread::of(drawn.iter().map(|&round| self.of(&rounds[round][side]))).q1
        };
        let ratios = (0..RESAMPLES).map(|_| {
            let drawn: Vec<usize> =
                rounds.iter().map(|_| rand::random::<usize>() % rounds.len()).collect();
            calm(0, &drawn) / calm(1, &drawn)
        });
        let all: Vec<usize> = (0..rounds.len()).collect();
        Spread { median: calm(0, &all) / calm(1, &all), ..Spread::of(ratios) }
    }

    /// One side's figures, each the median of its own.
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
            if matches!(self, Measure::P99) {
                let calm = Spread::of(slices.clone().map(|slice| slice.outcome.p99)).q1;
                let _ = write!(shown, " (p99 of the calm quarter: {calm:.0})");
            }
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

/// A number as people read it, in three or four digits.
pub(crate) fn thousands(number: f64) -> String {
    match number {
        0.0..1e4 => format!("{number:.0}"),
        1e4..1e6 => format!("{:.0}k", number / 1e3),
        _ => format!("{:.2}M", number / 1e6),
    }
}
