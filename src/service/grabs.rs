//! Grabs: the commands that reserve ids. They are proposed, read, counted and recorded alike for tags of every shape.

use std::ops::Range;
use std::sync::Arc;

use mintleaf_core::segment::Segment;
use mintleaf_core::shape::Line;
use mintleaf_core::state::{Command, Response};
use mintleaf_core::steps::Steps;
use mintleaf_core::tag::BizTag;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::error::Error;
use crate::limits::GRAB_MAX;
use crate::metrics::{GrabOutcome, Metrics};
use crate::replica::Replica;

/// Carries out the grabs of this node.
pub(super) struct Grabs {
    pub(super) replica: Arc<Replica>,
    pub(super) metrics: Arc<Metrics>,
}

/// Who proposes a grab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Proposer {
    /// This node's own, whichever node leads.
    AnyNode,
    /// The leader's: nothing is reserved once this node no longer leads.
    Leader,
}

/// The outcome of a grab: the segment and the tag's bounds of grabs, or why there is none. `None` where the fate of the
/// grab's entry is unknown.
pub(super) type Granted = Option<Result<(Segment, Steps), Refused>>;

/// Why a grab, or a request that the leader answers, got nothing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Refused {
    UnknownTag,
    /// The request does not fit the tag's shape.
    OtherShape,
    Exhausted,
    Frozen,
    /// The tag has gone on to a later period.
    PeriodOver,
    /// The period is not the present one.
    PeriodClosed,
    /// Too many requests wait already.
    Overloaded,
    /// Nothing could be confirmed or reserved in time.
    Unavailable,
}

impl Grabs {
    /// Proposes these grabs together and returns the outcome of each, in their order.
    pub(super) async fn carry_out(&self, grabs: &[Command], proposer: Proposer) -> Vec<Granted> {
        let began = Instant::now();
        // Callers wait for less long. On slow disks the segment arrives in time for the next ones.
        let deadline = began + self.replica.patience(GRAB_MAX);
        let answered = match proposer {
            Proposer::AnyNode => self.replica.propose_all(grabs, deadline).await,
            Proposer::Leader => self.replica.propose_as_leader(grabs, deadline).await,
        };
        let seconds = began.elapsed().as_secs_f64();
        let granted: Vec<Granted> = match answered {
            Ok(responses) => {
                let read = |response| self.read(response, proposer);
                responses.iter().map(read).collect()
            }
            Err(error) => {
                tracing::warn!(tags = grabs.len(), %error, "grab failed; handing out what is held");
                vec![None; grabs.len()]
            }
        };
        for (grab, granted) in grabs.iter().zip(&granted) {
            match (grab, granted) {
                (Command::Grab { tag, .. }, Some(Ok((segment, _)))) => {
                    record_grant(tag, Line::Whole, *segment);
                }
                (Command::GrabLine { tag, line, .. }, Some(Ok((segment, _)))) => {
                    record_grant(tag, *line, *segment);
                }
                _ => {}
            }
            self.metrics.grab_finished(outcome_of(*granted), seconds);
        }
        granted
    }

    fn read(&self, response: &Response, proposer: Proposer) -> Granted {
        if let Some((Range { start, end }, steps)) = response.segment() {
            return Some(Ok((Segment { start, end }, steps)));
        }
        Some(Err(match response {
            Response::UnknownTag => Refused::UnknownTag,
            Response::OtherShape => Refused::OtherShape,
            Response::Exhausted => Refused::Exhausted,
            Response::Frozen => Refused::Frozen,
            Response::PeriodOver { .. } => Refused::PeriodOver,
            Response::PeriodClosed => Refused::PeriodClosed,
            Response::OtherTerm if proposer == Proposer::Leader => return None,
            other => {
                self.replica.mixed_up("a grab", other);
                return None;
            }
        }))
    }
}

/// Logs a grant before any id of it is handed out, so that a reader of the log can check ids against the grants that it
/// has read.
pub(super) fn record_grant(tag: &BizTag, line: Line, Segment { start, end }: Segment) {
    let tag = tag.as_str();
    let period = match line {
        Line::Section(section) => {
            tracing::debug!(target: "mintleaf::grants", tag, section, start, end, "section granted");
            return;
        }
        Line::Period { number, .. } => Some(number.0),
        Line::Whole => None,
    };
    tracing::debug!(target: "mintleaf::grants", tag, period, start, end, "segment granted");
}

fn outcome_of(granted: Granted) -> GrabOutcome {
    match granted {
        Some(Ok(_)) => GrabOutcome::Granted,
        Some(Err(_)) => GrabOutcome::Rejected,
        None => GrabOutcome::Failed,
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::UnknownTag => Self::UnknownTag,
            Refused::Exhausted => Self::Exhausted,
            Refused::Frozen => Self::Frozen,
            Refused::Overloaded => Self::Overloaded,
            Refused::OtherShape => {
                Self::unavailable("this node's copy of the tag is behind: try again")
            }
            Refused::PeriodOver => Self::unavailable(
                "the tag is in a later period than the cluster's clock shows, and never goes back to an earlier one",
            ),
            Refused::PeriodClosed => Self::unavailable(
                "the clocks of the cluster do not agree on the present period: try again",
            ),
            Refused::Unavailable => {
                Self::unavailable("no leader with a quorum gave ids in strict order in time")
            }
        }
    }
}
