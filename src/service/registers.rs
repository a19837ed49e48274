//! Registers: numbers without a gap, each given to a key for good.
//!
//! The log gives a key its number in one command, which changes nothing when it is applied again. So a node that does
//! not learn the outcome asks again, and so may the caller, with the same key. A key in this node's copy has its number
//! for good, because the copy holds only what is committed; such a key needs no trip through the log.

use std::slice;
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
use crate::limits::GRAB_MAX;
use crate::metrics::Mode;
use crate::replica::KEYS_MAX;

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

/// Keys of one register that are answered together.
struct Asked<'a> {
    tag: &'a BizTag,
    keys: &'a [Box<str>],
    /// The answer to each key, once there is one.
    answers: &'a mut [Option<Result<Registered, Error>>],
    deadline: Instant,
}

impl Asked<'_> {
    /// The places of the keys without an answer.
    fn unanswered(&self) -> Vec<usize> {
        (0..self.keys.len()).filter(|place| self.answers[*place].is_none()).collect()
    }

    fn refuse_rest(&mut self, why: &Error) {
        for answer in self.answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = Some(Err(why.clone()));
        }
    }
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
    pub async fn register(&self, KeyName { tag, key }: &KeyName) -> Result<Registered, Error> {
        let mut answers = self.register_all(tag, slice::from_ref(key)).await;
        answers.pop().unwrap_or(Err(Error::UnknownTag))
    }

    /// The numbers of keys of one register, in the order of the keys: each as if it was asked for once the key before it
    /// was answered. Up to [`KEYS_MAX`] new numbers share a commit.
    ///
    /// # Errors
    /// Of each key, those of [`register`](Self::register).
    pub async fn register_all(
        &self,
        tag: &BizTag,
        keys: &[Box<str>],
    ) -> Vec<Result<Registered, Error>> {
        let deadline = self.parts.replica.deadline(GRAB_MAX);
        let mut answers = vec![None; keys.len()];
        for (keys, answers) in keys.chunks(KEYS_MAX).zip(answers.chunks_mut(KEYS_MAX)) {
            let mut asked = Asked { tag, keys, answers, deadline };
            let error = self.register_together(&mut asked).await.err();
            asked.refuse_rest(&error.unwrap_or(Error::UnknownTag));
        }
        answers.into_iter().flatten().collect()
    }

    /// Answers the keys, except those whose register is gone.
    async fn register_together(&self, asked: &mut Asked<'_>) -> Result<(), Error> {
        for attempt in 0..2 {
            // As for ids: after this barrier the node knows every earlier deletion.
            if attempt > 0 {
                self.parts.replica.read_barrier(asked.deadline).await?;
            }
            let lines = self.register_lines(asked.tag, asked.deadline).await?;
            let (mut admitted, mut refused) = (Vec::new(), Vec::new());
            for place in asked.unanswered() {
                asked.answers[place] =
                    self.found(asked.tag, &asked.keys[place], lines.shape()).map(Ok);
                if asked.answers[place].is_none() {
                    match self.admit_key(&lines) {
                        Ok(()) => admitted.push(place),
                        Err(why) => refused.push((place, why)),
                    }
                }
            }
            if !refused.is_empty() {
                // The copy may be behind: the key may already have a number, which the caller must get.
                self.parts.replica.read_barrier(asked.deadline).await?;
            }
            for (place, why) in refused {
                let found = self.found(asked.tag, &asked.keys[place], lines.shape());
                asked.answers[place] = Some(found.ok_or(why));
            }
            self.give_numbers(asked, admitted, &lines).await?;
            if asked.unanswered().is_empty() {
                break;
            }
        }
        Ok(())
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
        self.found(&of.tag, &of.key, &shape)
            .ok_or_else(|| Error::NotFound("the key has no number".to_owned()))
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
        let mut entries: Vec<RegisterEntry> = self.parts.replica.read(|state| {
            let entries = state.registered_after(tag.as_str(), period, after);
            entries.into_iter().flatten().take(limit + 1).collect()
        });
        let has_next = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().map(|last| last.number).filter(|_| has_next);
        Ok(RegisterPage { entries, next })
    }

    /// The number of a key that has one in this node's copy.
    fn found(&self, tag: &BizTag, key: &str, shape: &Shape) -> Option<Registered> {
        let found = self.parts.replica.read(|state| state.registered(tag.as_str(), key))?;
        let text = IdText::new(shape, found.period);
        Some(Registered::of(found.number, &text, false))
    }

    /// Whether a key may get a number, as far as this node's copy and the tag's guard show.
    fn admit_key(&self, lines: &Lines) -> Result<(), Error> {
        let keys_max = self.parts.settings.register_keys_max;
        if self.parts.replica.read(|state| state.register_keys()) >= keys_max {
            return Err(Error::TooManyKeys { keys_max });
        }
        lines.admit(1)
    }

    /// Lets the log give the keys at these places their numbers, or find those that they have. Leaves them unanswered if
    /// the tag is gone.
    async fn give_numbers(
        &self,
        asked: &mut Asked<'_>,
        mut places: Vec<usize>,
        lines: &Lines,
    ) -> Result<(), Error> {
        // As for strict tags: the register may have left the period that the cluster's clock shows here.
        for ahead_ms in [0, PERIOD_SKEW_MS] {
            if places.is_empty() {
                return Ok(());
            }
            let at_ms = self.line_time_ms(lines)?.saturating_add(ahead_ms);
            let Some(line) = lines.line_at(at_ms)? else { return Ok(()) };
            let command = |place: &usize| Command::Register {
                tag: asked.tag.clone(),
                key: asked.keys[*place].clone(),
                line: line.line(),
                keys_max: self.parts.settings.register_keys_max,
            };
            let commands: Vec<_> = places.iter().map(command).collect();
            let responses = self.parts.replica.propose_all(&commands, asked.deadline).await?;
            let mut over = Vec::new();
            for (place, response) in places.into_iter().zip(responses) {
                asked.answers[place] = match response {
                    Response::Registered { number, period, is_new } => {
                        if is_new {
                            lines.count_taken(1);
                            self.parts.metrics.ids_handed_out(Mode::Register, 1);
                        }
                        let text = match line.period() == period {
                            true => Arc::clone(line.text()),
                            false => Arc::new(IdText::new(lines.shape(), period)),
                        };
                        Some(Ok(Registered::of(number, &text, is_new)))
                    }
                    Response::UnknownTag | Response::OtherShape => None,
                    Response::PeriodOver { .. } if line.line() != Line::Whole => {
                        over.push(place);
                        None
                    }
                    refusal => Some(Err(self.refused_by_log(&refusal))),
                };
            }
            places = over;
        }
        for place in places {
            asked.answers[place] = Some(Err(Refused::PeriodOver.into()));
        }
        Ok(())
    }

    /// Why the log gave a key no number.
    fn refused_by_log(&self, response: &Response) -> Error {
        match response {
            Response::PeriodOver { .. } => Refused::PeriodOver.into(),
            Response::PeriodClosed => Refused::PeriodClosed.into(),
            Response::Frozen => Error::Frozen,
            Response::Exhausted => Error::Exhausted,
            Response::TooManyKeys => {
                Error::TooManyKeys { keys_max: self.parts.settings.register_keys_max }
            }
            other => {
                self.parts.replica.mixed_up("a key of a register", other);
                Error::unavailable("the outcome is not known, and this node is stopping")
            }
        }
    }

    async fn register_shape(
        &self,
        tag: &BizTag,
        consistency: Consistency,
    ) -> Result<Arc<Shape>, Error> {
        refresh(&self.parts.replica, consistency).await?;
        let row = self.row(tag).ok_or(Error::UnknownTag)?;
        let shape = row.shape.filter(|shape| shape.giver().records_keys());
        shape.ok_or_else(|| is_no_register(tag))
    }

    /// The register with this name, once this node's copy is fresh enough to know it.
    async fn register_lines(&self, tag: &BizTag, deadline: Instant) -> Result<Arc<Lines>, Error> {
        let known = || self.known(tag, Giver::Log, is_no_register);
        if let Some(known) = known() {
            return known;
        }
        // Another node may have created it a moment ago.
        self.parts.replica.read_barrier(deadline).await?;
        known().unwrap_or(Err(Error::UnknownTag))
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
    Error::NotFound(format!("the tag {tag} is not a register, so it numbers no keys"))
}
