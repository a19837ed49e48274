//! Taking ids of strict tags, on any node.

use mintleaf_core::limits::PERIOD_SKEW_MS;
use mintleaf_core::shape::Line;
use tokio::time::Instant;

use super::request::{Given, Refused, Request, Wanted};
use crate::service::error::Error;
use crate::service::ids::IdService;
use crate::service::shaped::{ShapedTag, TagLine};
use crate::service::slot::Arrangement;
use crate::service::taken::TakenIds;

impl IdService {
    /// The next `count` ids of a strict tag, of one line; `None` when the tag is gone, or this node knew another one of
    /// that name.
    pub(in crate::service) async fn take_ordered(
        &self,
        shaped: &ShapedTag,
        count: u64,
        arrangement: Arrangement,
        deadline: Instant,
    ) -> Result<Option<TakenIds>, Error> {
        shaped.admit(count)?;
        let began = Instant::now();
        // The tag may have left the period that the cluster's clock shows here, because the clock is late. So the
        // second attempt asks for the period that begins within the skew of clocks.
        for ahead_ms in [0, PERIOD_SKEW_MS] {
            let at_ms = self.line_time_ms(shaped)?.saturating_add(ahead_ms);
            let Some(line) = shaped.line_at(at_ms)? else { return Ok(None) };
            let contiguous = arrangement == Arrangement::Contiguous;
            let wanted = Wanted::Ids { line: line.line(), count, contiguous };
            let request = Request { tag: shaped.tag().clone(), wanted };
            let outcome = self.ordered.ask(vec![request], deadline).await?.pop();
            self.metrics.waited(began.elapsed().as_secs_f64());
            match outcome.unwrap_or(Err(Refused::Unavailable)) {
                Ok(Given::Ids { period, ranges }) if period == line.period() => {
                    return self.shown(shaped, &line, ranges).map(Some);
                }
                Ok(Given::Ids { period, ranges }) => {
                    let ahead_ms = self.line_time_ms(shaped)?.saturating_add(PERIOD_SKEW_MS);
                    let later = shaped.line_at(ahead_ms)?.filter(|line| line.period() == period);
                    let later = later.ok_or_else(|| Error::from(Refused::PeriodOver))?;
                    return self.shown(shaped, &later, ranges).map(Some);
                }
                Ok(_) => return Err(Refused::Unavailable.into()),
                Err(Refused::PeriodOver) if line.line() != Line::Whole => {}
                Err(Refused::UnknownTag | Refused::OtherShape) => return Ok(None),
                Err(why) => return Err(why.into()),
            }
        }
        Err(Refused::PeriodOver.into())
    }

    /// The ids, if their line is still served. What was taken is wasted otherwise.
    fn shown(
        &self,
        shaped: &ShapedTag,
        line: &TagLine,
        numbers: Vec<std::ops::Range<u64>>,
    ) -> Result<TakenIds, Error> {
        if !line.is_served_at(self.line_time_ms(shaped)?) {
            return Err(Refused::PeriodClosed.into());
        }
        Ok(TakenIds { numbers, text: Some(line.text().clone()) })
    }
}
