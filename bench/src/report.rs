//! The table, as Markdown.

use std::fmt;

use crate::catalog::{Finding, Row};
use crate::conditions::Conditions;

/// A table, built row by row.
pub(crate) struct Report {
    conditions: Conditions,
    lines: Vec<Line>,
}

/// A row of the table.
pub(crate) struct Line {
    row: &'static Row,
    result: Result,
}

enum Result {
    Measured(Finding),
    Skipped(String),
    Failed(String),
}

impl Line {
    pub(crate) fn measured(row: &'static Row, finding: Finding) -> Self {
        Self { row, result: Result::Measured(finding) }
    }

    /// A row that was skipped because the machine lacks something.
    pub(crate) fn skipped(row: &'static Row, lacks: String) -> Self {
        Self { row, result: Result::Skipped(lacks) }
    }

    pub(crate) fn failed(row: &'static Row, why: String) -> Self {
        Self { row, result: Result::Failed(why) }
    }

    /// The finding, the reference, the figure.
    fn cells(&self) -> [String; 3] {
        match &self.result {
            Result::Measured(Finding { ours, reference, figure }) => {
                let unit = self.row.goal.map_or("", |goal| goal.unit());
                [ours.clone(), reference.clone(), format!("**{figure}**{unit}")]
            }
            Result::Skipped(why) => [format!("skipped: {why}"), String::new(), String::new()],
            Result::Failed(why) => {
                let why = why.replace('|', "/").replace(['\r', '\n'], " ");
                [format!("**FAILED**: {why}"), String::new(), String::new()]
            }
        }
    }

    /// The bounds, and which of them are missed.
    fn bounds(&self) -> [String; 2] {
        let Some(goal) = self.row.goal else { return Default::default() };
        [goal.at_least, goal.aim].map(|bound| {
            let mark = match &self.result {
                Result::Measured(finding) if goal.met(finding.figure.median, bound) => " ✓",
                Result::Measured(_) => " **missed**",
                Result::Skipped(_) | Result::Failed(_) => "",
            };
            goal.show(bound) + mark
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([ours, reference, figure], [at_least, aim]) = (self.cells(), self.bounds());
        let Row { id, work, .. } = self.row;
        write!(f, "| `{id}` {work} | {ours} | {reference} | {figure} | {at_least} | {aim} |")
    }
}

impl Report {
    pub(crate) fn new(conditions: Conditions) -> Self {
        Self { conditions, lines: Vec::new() }
    }

    pub(crate) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Whether no row failed. A row that was skipped or that misses its bounds has not failed.
    pub(crate) fn is_whole(&self) -> bool {
        !self.lines.iter().any(|line| matches!(line.result, Result::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.conditions)?;
        writeln!(
            f,
            "| work | Mintleaf | reference | ratio: median [quartiles] | at least | aim |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- |")?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
