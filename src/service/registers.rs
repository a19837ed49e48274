//! Registers: numbers without a gap, each given to a key for good.
//!
//! The log gives a key its number in one command, which changes nothing when it is applied again. So a node that does
//! not learn the outcome asks again, and so may the caller, with the same key. A key in this node's copy has its number
//! for good, because the copy holds only what is committed; such a key needs no trip through the log.

use std::sync::Arc;

use mintleaf_core::limits::PERIOD_SKEW_MS;
use mintleaf_core::shape::id_text::IdText;
use mintleaf_core::shape::{Giver, Line, PeriodNumber, Shape};
use mintleaf_core::state::{Command, RegisterEntry, Response};
use mintleaf_core::tag::BizTag;
use tokio::time::Instant;

use super::error::Error;
use super::grabs::Refused;
use super::ids::IdService;
use super::leader::keys::KeyName;
use super::local::lines::Lines;
use super::log_access::{Consistency, refresh};
use super::source::Source;
use crate::limits::GRAB_MAX;
use crate::metrics::Mode;

/// The number of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registered {
    /// The number.
    pub number: u64,
    /// The period that it belongs to, if the register has periods.
    pub period: Option<PeriodNumber>,
    /// The number as the tag's format writes it.
    pub text: String,
    /// Whether the tag has a format.
    pub is_formatted: bool,
    /// Whether this call gave the number to the key.
    pub is_new: bool,
}

/// One page of a register.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegisterPage {
    /// The keys, in the order of their numbers.
    pub entries: Vec<RegisterEntry>,
    /// The next page begins after this number; `None` on the last page.
    pub next: Option<u64>,
}

impl IdService {
    /// The number of a key: the one that it has, or the next one, which the key then keeps.
    ///
    /// # Errors
    /// [`Error::UnknownTag`], [`Error::NotFound`] if the tag is not a register; for a key without a number
    /// [`Error::Frozen`], [`Error::OverRateLimit`], [`Error::TooManyKeys`], [`Error::Exhausted`];
    /// [`Error::Unavailable`] without a quorum: the key may have got a number, which the next call returns;
    /// [`Error::Overloaded`].
    pub async fn register(&self, of: KeyName) -> Result<Registered, Error> {
        let deadline = self.replica.deadline(GRAB_MAX);
        for attempt in 0..2 {
            // As for ids: after this barrier the node knows every earlier deletion.
            if attempt > 0 {
                self.replica.read_barrier(deadline).await?;
            }
            let lines = self.register_lines(&of.tag, deadline).await?;
            if let Some(found) = self.found(&of, lines.shape()) {
                return Ok(found);
            }
            if let Err(refused) = self.admit_key(&lines) {
                // The copy may be behind: the key may already have a number, which the caller must get.
                self.replica.read_barrier(deadline).await?;
                return self.found(&of, lines.shape()).ok_or(refused);
            }
            if let Some(registered) = self.give_number(&of, &lines, deadline).await? {
                return Ok(registered);
            }
        }
        Err(Error::UnknownTag)
    }

    /// The number of a key that has one.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::NotFound`] if the tag is not a register, or the key has no number;
    /// [`Error::Unavailable`].
    pub async fn registered(
        &self,
        of: &KeyName,
        consistency: Consistency,
    ) -> Result<Registered, Error> {
        let shape = self.register_shape(&of.tag, consistency).await?;
        self.found(of, &shape)
            .ok_or_else(|| Error::NotFound { detail: "the key has no number".to_owned() })
    }

    /// The keys whose numbers are above `after`, up to `limit`, in the order of their numbers: of one period, by
    /// default the latest one with a number, if the register has periods.
    ///
    /// # Errors
    /// [`Error::UnknownTag`]; [`Error::NotFound`] if the tag is not a register; [`Error::InvalidArgument`] for a period
    /// that it cannot have; [`Error::Unavailable`].
    pub async fn register_page(
        &self,
        tag: &BizTag,
        period: Option<PeriodNumber>,
        (after, limit): (u64, usize),
        consistency: Consistency,
    ) -> Result<RegisterPage, Error> {
        let shape = self.register_shape(tag, consistency).await?;
        if let Some(number) = period {
            let has_it = shape.period.as_ref().is_some_and(|its| its.length.has_number(number));
            if !has_it {
                return Err(Error::invalid("period", "period is none that the register has"));
            }
        }
        let mut entries: Vec<RegisterEntry> = self.replica.read(|state| {
            let entries = state.registered_after(tag.as_str(), period, after);
            entries.into_iter().flatten().take(limit + 1).collect()
        });
        let has_next = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().map(|last| last.number).filter(|_| has_next);
        Ok(RegisterPage { entries, next })
    }

    /// The number of a key that has one in this node's copy.
    fn found(&self, of: &KeyName, shape: &Shape) -> Option<Registered> {
        let found = self.replica.read(|state| state.registered(of.tag.as_str(), &of.key))?;
        let text = IdText::new(shape, found.period);
        Some(Registered::of(found.number, &text, false))
    }

    /// Whether a key may get a number, as far as this node's copy and the tag's guard show.
    fn admit_key(&self, lines: &Lines) -> Result<(), Error> {
        let keys_max = self.register_keys_max;
        if self.replica.read(|state| state.register_keys()) >= keys_max {
            return Err(Error::TooManyKeys { keys_max });
        }
        lines.admit(1)
    }

    /// Lets the log give the key a number, or find the one that it has. Returns `None` if the tag is gone.
    async fn give_number(
        &self,
        of: &KeyName,
        lines: &Lines,
        deadline: Instant,
    ) -> Result<Option<Registered>, Error> {
        // As for strict tags: the register may have left the period that the cluster's clock shows here.
        for ahead_ms in [0, PERIOD_SKEW_MS] {
            let at_ms = self.line_time_ms(lines)?.saturating_add(ahead_ms);
            let Some(line) = lines.line_at(at_ms)? else { return Ok(None) };
            let command = Command::Register {
                tag: of.tag.clone(),
                key: of.key.clone(),
                line: line.line(),
                keys_max: self.register_keys_max,
            };
            let responses = self.replica.propose_all(&[command], deadline).await?;
            match responses.into_iter().next() {
                Some(Response::Registered { number, period, is_new }) => {
                    if is_new {
                        lines.count_taken(1);
                        self.metrics.ids_handed_out(Mode::Register, 1);
                    }
                    let text = match line.period() == period {
                        true => Arc::clone(line.text()),
                        false => Arc::new(IdText::new(lines.shape(), period)),
                    };
                    return Ok(Some(Registered::of(number, &text, is_new)));
                }
                Some(Response::UnknownTag | Response::OtherShape) => return Ok(None),
                Some(Response::PeriodOver { .. }) if line.line() != Line::Whole => {}
                Some(Response::PeriodOver { .. }) => return Err(Refused::PeriodOver.into()),
                Some(Response::PeriodClosed) => return Err(Refused::PeriodClosed.into()),
                Some(Response::Frozen) => return Err(Error::Frozen),
                Some(Response::Exhausted) => return Err(Error::Exhausted),
                Some(Response::TooManyKeys) => {
                    return Err(Error::TooManyKeys { keys_max: self.register_keys_max });
                }
                Some(other) => self.replica.mixed_up("a key of a register", &other),
                None => {}
            }
        }
        Err(Refused::PeriodOver.into())
    }

    async fn register_shape(
        &self,
        tag: &BizTag,
        consistency: Consistency,
    ) -> Result<Arc<Shape>, Error> {
        refresh(&self.replica, consistency).await?;
        let row = self.row(tag).ok_or(Error::UnknownTag)?;
        let shape = row.shape.filter(|shape| shape.giver().records_keys());
        shape.ok_or_else(|| is_no_register(tag))
    }

    /// The register with this name, once this node's copy is fresh enough to know it.
    async fn register_lines(&self, tag: &BizTag, deadline: Instant) -> Result<Arc<Lines>, Error> {
        if let Some(known) = self.known_register(tag) {
            return known;
        }
        // Another node may have created it a moment ago.
        self.replica.read_barrier(deadline).await?;
        self.known_register(tag).unwrap_or(Err(Error::UnknownTag))
    }

    /// The register with this name; `None` if this node's copy does not show the tag.
    fn known_register(&self, tag: &BizTag) -> Option<Result<Arc<Lines>, Error>> {
        let source = match self.table.get(tag.as_str()) {
            Some(source) => Ok(source),
            None => {
                let row = self.row(tag)?;
                match row.giver() {
                    Giver::Log => self.put(&row, None),
                    Giver::AnyNode | Giver::Leader | Giver::LeaderByKey => Err(is_no_register(tag)),
                }
            }
        };
        Some(source.and_then(|source| match source {
            Source::Register(lines) => Ok(lines),
            Source::Plain(_) | Source::Trend(_) | Source::Strict(_) | Source::Keys(_) => {
                Err(is_no_register(tag))
            }
        }))
    }
}

impl Registered {
    fn of(number: u64, id_text: &IdText, is_new: bool) -> Self {
        let (mut text, period) = (Vec::new(), id_text.period());
        id_text.append(number, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        Self { number, period, text, is_formatted: id_text.is_formatted(), is_new }
    }
}

fn is_no_register(tag: &BizTag) -> Error {
    Error::NotFound { detail: format!("the tag {tag} is not a register, so it numbers no keys") }
}
