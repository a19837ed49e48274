//! The figures that rows should reach.

/// The bounds of a figure.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    sense: Sense,
    /// A figure worse than this is a fault.
    pub(crate) at_least: f64,
    pub(crate) aim: f64,
    unit: &'static str,
}

#[derive(Clone, Copy)]
enum Sense {
    Above,
    Below,
}

impl Goal {
    pub(crate) const fn above(at_least: f64, aim: f64, unit: &'static str) -> Option<Self> {
        Some(Self { sense: Sense::Above, at_least, aim, unit })
    }

    pub(crate) const fn below(at_least: f64, aim: f64, unit: &'static str) -> Option<Self> {
        Some(Self { sense: Sense::Below, at_least, aim, unit })
    }

    /// Whether a figure reaches a bound.
    pub(crate) fn met(&self, figure: f64, bound: f64) -> bool {
        match self.sense {
            Sense::Above => figure >= bound,
            Sense::Below => figure <= bound,
        }
    }

    /// A bound as the table shows it.
    pub(crate) fn show(&self, bound: f64) -> String {
        let sign = match self.sense {
            Sense::Above => '≥',
            Sense::Below => '≤',
        };
        format!("{sign} {bound}{}", self.unit)
    }

    pub(crate) fn unit(&self) -> &'static str {
        self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_met_from_their_side() {
        let below = Goal::below(1.05, 0.95, " s").unwrap();
        assert!(below.met(1.05, below.at_least) && !below.met(1.0, below.aim));
        assert_eq!(below.show(below.at_least), "≤ 1.05 s");
        let above = Goal::above(6.0, 10.0, "").unwrap();
        assert!(above.met(6.0, above.at_least) && !above.met(9.9, above.aim));
    }
}
