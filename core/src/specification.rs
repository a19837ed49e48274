//! What a cluster may do with its number lines, in steps as small as a command: the specification that models and
//! simulated clusters are held to. For tests only.
//!
//! A worker id is a line of milliseconds. A *grant* is an interval of a line under a name of its own: a window of a node,
//! or the lease of a program. [`Lines::step`] takes a step that the protocol allows and refuses every other one. It says
//! what is allowed and computes nothing: no code of the state or of a generator is in it.
//!
//! - Its own model (`specification/tests.rs`) searches all that it allows within small bounds: no number has two users.
//! - The models of windows and of leases (`state/tests`) run the product's rules in the worst of worlds. Each of their
//!   steps must be one of these.
//! - The simulation (`tests/simulation/oracle`) replays here what its clusters do, with every seed.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// All lines of one kind, by their names `L`, and their grants, by the grants' names `G`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lines<L, G> {
    lines: BTreeMap<L, Line<G>>,
    /// No grant begins below it.
    floor: u64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Line<G> {
    /// The first number that no grant may have used.
    mark: u64,
    /// Whether the last grant's holder may move its end, which is the mark.
    is_held: bool,
    /// By their first numbers.
    grants: BTreeMap<u64, Grant<G>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Grant<G> {
    name: G,
    /// One past what its holder may ever have used.
    end: u64,
    /// Where it begins since its holder last lifted it. A number below may still come to light: it was used before.
    start: u64,
    /// One past the highest number that its holder is known to have used.
    used: u64,
}

/// A step of a cluster.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Step<L, G> {
    /// Numbers are granted; or once more, exactly as they were, because a command came twice.
    Grant {
        /// The line.
        line: L,
        /// The name of the grant.
        grant: G,
        /// Its numbers.
        numbers: Range<u64>,
    },
    /// A grant is extended, and has these numbers now.
    Extend {
        /// The line.
        line: L,
        /// The name of the grant.
        grant: G,
        /// Its numbers.
        numbers: Range<u64>,
    },
    /// A holder says that it will use nothing below a number any more; its grant has these numbers now.
    Lift {
        /// The line.
        line: L,
        /// The name of the grant.
        grant: G,
        /// Its numbers.
        numbers: Range<u64>,
    },
    /// A holder gives back what it has not used and never will.
    GiveBack {
        /// The line.
        line: L,
        /// The name of the grant.
        grant: G,
        /// The first number of that.
        unused_from: u64,
    },
    /// It comes to light that a holder has used numbers, now or earlier.
    Use {
        /// The line.
        line: L,
        /// The name of the grant.
        grant: G,
        /// The numbers.
        numbers: Range<u64>,
    },
    /// No grant begins below this number from now on.
    Floor(u64),
    /// A new cluster is made of an older copy, which may lack any grant. The holder of one may go on in it below this
    /// number. The new cluster knows no earlier grant and no earlier floor.
    Restore(u64),
}

/// Why a step is not allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// A grant without numbers.
    Empty,
    /// It begins below the mark of its line.
    BelowMark,
    /// It begins below the floor.
    BelowFloor,
    /// The grant is not the last of its line, or was given back.
    NotHolder,
    /// The grant would lose numbers that only its holder can give back.
    Shrinks,
    /// The holder has used numbers that it gives back.
    Used,
    /// The numbers are not the grant's.
    Outside,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Empty => "a grant without numbers",
            Self::BelowMark => "it begins below the mark",
            Self::BelowFloor => "it begins below the floor",
            Self::NotHolder => "a stranger",
            Self::Shrinks => "the grant would lose numbers",
            Self::Used => "used numbers are given back",
            Self::Outside => "outside of the grant",
        })
    }
}

impl<L, G> Default for Lines<L, G> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), floor: 0 }
    }
}

impl<G> Default for Line<G> {
    fn default() -> Self {
        Self { mark: 0, is_held: false, grants: BTreeMap::new() }
    }
}

impl<L: Clone + Ord, G: Clone + Ord> Lines<L, G> {
    /// Takes a step.
    ///
    /// # Errors
    /// The step is not allowed. It leaves everything as it was.
    pub fn step(&mut self, step: Step<L, G>) -> Result<(), Refusal> {
        match step {
            Step::Grant { line, grant, numbers } => self.grant(line, grant, numbers),
            Step::Extend { line, grant, numbers } => {
                require(numbers.start >= self.floor, Refusal::BelowFloor)?;
                let (mark, held) = self.held(&line, &grant)?;
                let extends = numbers.start == held.start && numbers.end >= *mark;
                require(extends, Refusal::Shrinks)?;
                (*mark, held.end) = (numbers.end, numbers.end);
                Ok(())
            }
            Step::Lift { line, grant, numbers } => {
                let (mark, held) = self.held(&line, &grant)?;
                require(held.start <= numbers.start && numbers.end == *mark, Refusal::Shrinks)?;
                held.start = numbers.start;
                Ok(())
            }
            Step::GiveBack { line, grant, unused_from } => {
                let (mark, held) = self.held(&line, &grant)?;
                let end = unused_from.clamp(held.start, held.end);
                require(held.used <= end, Refusal::Used)?;
                (*mark, held.end) = (end, end);
                let line = self.lines.entry(line).or_default();
                line.is_held = false;
                line.grants.retain(|first, grant| *first < grant.end);
                Ok(())
            }
            Step::Use { line, grant, numbers } => {
                let line = self.lines.get_mut(&line).ok_or(Refusal::Outside)?;
                let below = line.grants.range_mut(..=numbers.start).next_back();
                let held = below.map(|(_, held)| held).filter(|held| held.name == grant);
                let held = held.filter(|held| numbers.end <= held.end).ok_or(Refusal::Outside)?;
                held.used = held.used.max(numbers.end);
                Ok(())
            }
            Step::Floor(floor) => {
                require(floor >= self.floor, Refusal::BelowFloor)?;
                self.floor = floor;
                Ok(())
            }
            Step::Restore(floor) => self.restore(floor),
        }
    }

    fn grant(&mut self, line: L, grant: G, numbers: Range<u64>) -> Result<(), Refusal> {
        require(!numbers.is_empty(), Refusal::Empty)?;
        let known = self.lines.entry(line).or_default();
        let is_same = known
            .holder()
            .is_some_and(|held| held.name == grant && (held.start..held.end) == numbers);
        if is_same {
            return Ok(());
        }
        require(numbers.start >= self.floor, Refusal::BelowFloor)?;
        require(numbers.start >= known.mark, Refusal::BelowMark)?;
        let Range { start, end } = numbers;
        (known.mark, known.is_held) = (end, true);
        known.grants.insert(start, Grant { name: grant, end, start, used: 0 });
        Ok(())
    }

    /// The mark of a line, and the grant that ends there, if this name holds it.
    fn held(&mut self, line: &L, grant: &G) -> Result<(&mut u64, &mut Grant<G>), Refusal> {
        let Line { mark, is_held, grants } = self.lines.get_mut(line).ok_or(Refusal::NotHolder)?;
        let last = grants.last_entry().filter(|_| *is_held).map(|last| last.into_mut());
        let held = last.filter(|held| held.name == *grant);
        Ok((mark, held.ok_or(Refusal::NotHolder)?))
    }

    fn restore(&mut self, floor: u64) -> Result<(), Refusal> {
        let mut grants = self.lines.values().flat_map(|line| line.grants.values());
        require(grants.all(|grant| grant.used <= floor), Refusal::Used)?;
        for line in self.lines.values_mut() {
            (line.mark, line.is_held) = (0, false);
            line.grants.retain(|first, grant| {
                grant.end = grant.end.min(floor);
                *first < grant.end
            });
        }
        self.floor = floor;
        Ok(())
    }

    /// The lines, each with its mark and the name of the grant that begins last.
    pub fn latest(&self) -> impl Iterator<Item = (&L, u64, &G)> {
        self.lines.iter().filter_map(|(name, line)| {
            let (_, latest) = line.grants.last_key_value()?;
            Some((name, line.mark, &latest.name))
        })
    }

    /// The name of the grant that has this number.
    pub fn holder(&self, line: &L, number: u64) -> Option<&G> {
        let below = self.lines.get(line)?.grants.range(..=number).next_back();
        below.map(|(_, held)| held).filter(|held| number < held.end).map(|held| &held.name)
    }
}

impl<G> Line<G> {
    /// The last grant, if its holder may move its end.
    fn holder(&self) -> Option<&Grant<G>> {
        self.grants.last_key_value().filter(|_| self.is_held).map(|(_, last)| last)
    }
}

fn require(holds: bool, refusal: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal) }
}

#[cfg(test)]
mod tests;
