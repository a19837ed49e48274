//! Medians and quartiles.

use std::fmt;

/// The middle half of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
}

impl Spread {
    /// The spread of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_unstable_by(f64::total_cmp);
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|share| quantile(&figures, share));
        Self { q1, median, q3 }
    }

    /// The spread of a figure that was measured once.
    pub(crate) fn once(figure: f64) -> Self {
        Self { q1: figure, median: figure, q3: figure }
    }
}

/// A quantile, interpolated between two figures.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() - 1) as f64 * share;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { q1, median, q3 } = self;
        if q1 == q3 {
            write!(f, "{median:.3}")
        } else {
            write!(f, "{median:.3} [{q1:.3}, {q3:.3}]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { q1: 1.75, median: 2.5, q3: 3.25 });
        assert_eq!(spread.to_string(), "2.500 [1.750, 3.250]");
        assert_eq!(Spread::of([7.0]).to_string(), "7.000");
    }
}
